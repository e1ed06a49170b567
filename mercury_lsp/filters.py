"""The filters a model's text goes through before it may become an edit: pure functions in one ordered table.

Each takes the region and the text and returns the text to go on with, or None to offer nothing. They read
characters, lines and brackets only; whether the result parses is edit.py's business. Every filter is a no-op
for text that a careful person would have written.
"""

import re
from collections.abc import Callable

from mercury_lsp import syntax
from mercury_lsp.languages import grammar_of
from mercury_lsp.lexical import needed, scan, scan_after, scan_before
from mercury_lsp.region import EditRegion
from mercury_lsp.text import IndentStyle, indent_of, model_text
from mercury_lsp.units import block_floor

Filter = Callable[[EditRegion, str], str | None]

_SPECIAL = re.compile(
    r"<\|[A-Za-z_0-9]{2,40}\|>|<\uff5c[^<>\n]{1,40}\uff5c>|<(?:fim|FIM)_\w+>|\[/?(?:MASK|INST|SYS)\]"
    r"|<</?SYS>>|<mask(?:_\d+)?>|</?think>|<(?:NO_EDIT|NO_CHANGE|EDIT|INSERT)>|<file_sep>|<repo_name>"
    r"|<reponame>|<filename>|<(?:end|begin)of\w*>|\u2591|\x00"
)
_FENCE = re.compile(r"[ \t]*(```|~~~)[\w+-]*[ \t]*(?:\n|$)")


def special(text: str) -> bool:
    """Whether a special token, a mask or a chat marker stands in `text`."""
    return _SPECIAL.search(text) is not None


def newlines(region: EditRegion, text: str) -> str | None:
    """`\\n` only (D1): the editor writes them as the file has them. Lone surrogates become U+FFFD."""
    return model_text(text)


def junk(region: EditRegion, text: str) -> str | None:
    """B1, B2: no special token, mask, code fence or chat marker; the text ends where one stands."""
    fence = _FENCE.match(text.lstrip("\n"))
    in_code = "`" not in region.head
    if fence is not None and in_code:
        text = text.lstrip("\n")[fence.end() :]
        closing = text.find(fence.group(1))
        text = text[:closing].rstrip() if closing >= 0 else text
    elif in_code and (stray := re.search(r"(?m)^[ \t]*```", text)) is not None:
        text = text[: stray.start()].rstrip()
    special = _SPECIAL.search(text)
    if special is not None:
        text = text[: special.start()]
    return text or None


def unit(region: EditRegion, text: str) -> str | None:
    """The text ends where the unit at the cursor is complete; no closer or line that follows is repeated
    (A1, A4). Needed closers stay (A2), for they are counted against the brackets that are open."""
    before, after = region.around
    keep = syntax.complete_unit(before, text, after, region.document.language, region.kind, final=True)
    return (text if keep is None else text[:keep]) or None


def repeats_right(region: EditRegion, text: str) -> str | None:
    """A4: the end of the text does not repeat what stands right of the cursor or on the next line."""
    _, after = region.around
    right = after.split("\n", 1)[0] if region.kind == "rest" else ""
    for size in range(min(len(right), len(text)), 0, -1):
        if text.endswith(right[:size]) and right[:size].strip() and not _cuts_word(right, size):
            text = text[:-size]
            break
    following = [line.strip() for line in after.split("\n", 60)[1:60] if line.strip()][:1]
    head = region.head
    if following and len(following[0]) > 3 and re.search(r"\w", following[0]):
        whole = (head + text).strip()
        if "\n" not in text and whole == following[0] and text.strip():
            return None
    return text or None


def _cuts_word(right: str, size: int) -> bool:
    """Whether the first `size` characters of `right` end inside a word, or are less than a word."""
    return right[size - 1].isalnum() and (size < 2 or right[size : size + 1].isalnum())


def closers(region: EditRegion, text: str) -> str | None:
    """A1, A2, A5: the closers under the span stay: those the text does not bring are put behind it."""
    if not region.replaced.strip():
        return text
    return text.rstrip(" \t") + missing_closers(region, text)


def missing_closers(region: EditRegion, text: str) -> str:
    """What of the replaced closers must follow `text` so that none is lost."""
    language = region.document.language
    before, after = region.around
    outer = scan_before(before, language)
    replaced = region.replaced.rstrip()
    brought = "".join(closer.bracket for closer in scan(text, language, outer.string).closers)
    rest = replaced.lstrip()
    if outer.string and not brought and text.rstrip().endswith(rest):
        return ""  # prose in a comment or string closes its own brackets
    while brought and rest.startswith(brought[0]):
        rest, brought = rest[1:].lstrip(), brought[1:]
    if rest.startswith(">") and text.count(">") > text.count("<") + len(re.findall(r"[-=]>", text)):
        rest = rest.lstrip(">")
    if brought and rest and rest[0] in ")]}\"'`":
        # The text closes something else than the span does: only brackets that are open may be closed.
        open_here = needed(outer, scan_after(after, language, outer.string))
        rest = rest if open_here > len(brought) else "".join(c for c in rest if c in ":;,")
    if rest and all(char in ":;, \t" for char in rest) and text.rstrip().endswith(rest.strip()):
        return ""
    if "\n" in text and rest.startswith("}"):
        line = before[before.rfind("\n") + 1 :]
        return "\n" + line[: len(line) - len(line.lstrip())] + rest
    return rest


def copies(region: EditRegion, text: str) -> str | None:
    """B3: not the lines just above or just below once more."""
    before, after = region.around
    above = [line.strip() for line in before.split("\n")[:-1] if line.strip()][-30:]
    below = [line.strip() for line in after.split("\n", 60)[1:60] if line.strip()][:30]
    mine = [line.strip() for line in (region.head + text).split("\n") if line.strip()]
    if not re.search(r"\w", text) or not mine:
        return text
    n_words = sum(len(re.findall(r"\w+", line)) for line in mine)
    if len(mine) == 1:
        again = n_words >= 2 and (above[-1:] == mine or below[:1] == mine)
        return None if again else text
    for lines in (above, below):
        for start in range(len(lines) - len(mine) + 1):
            if lines[start : start + len(mine)] == mine and n_words >= 3:
                return None
    return text


def loops(region: EditRegion, text: str) -> str | None:
    """A text that repeats itself is cut after the first turn."""
    lines = text.split("\n")
    for size in (1, 2, 3, 4):
        for start in range(len(lines) - 3 * size + 1):
            turn = [line.rstrip() for line in lines[start : start + size]]
            again = [line.rstrip() for line in lines[start + size : start + 3 * size]]
            if again == turn * 2 and re.search(r"\w", "".join(turn)):
                return "\n".join(lines[: start + size])
    inline = re.search(r"(\S[^\n]{3,39}?)\1{5,}", text)
    if inline is not None and re.search(r"[A-Za-z]", inline.group(1)):
        return text[: inline.end(1)]
    return text


def indentation(region: EditRegion, text: str) -> str | None:
    """C1-C3: lines are indented in the file's way, keep their relation, and no stray space comes first."""
    style = region.style or region.document.indent
    head = region.head
    text = _first_line(region, text, style)
    lines = text.split("\n")
    if len(lines) == 1:
        return text
    base = indent_of(head, style.width)
    scale = _scale(region, lines, base, style)
    inside = _string_lines(region, text)
    done = [lines[0]]
    for index, line in enumerate(lines[1:], 1):
        body = line.lstrip(" \t")
        if not body or index in inside:
            done.append(line)
            continue
        lead = line[: len(line) - len(body)]
        columns = indent_of(lead, style.width)
        if scale and columns > base:
            columns = base + round((columns - base) * style.width / scale)
        done.append(_lead(columns, lead, style, region) + body)
    return "\n".join(done)


def _first_line(region: EditRegion, text: str, style: IndentStyle) -> str:
    """The text's own white space at its start, as far as the cursor's line does not have it already."""
    head = region.head
    lead = text[: len(text) - len(text.lstrip(" \t"))]
    if not lead or text[len(lead) : len(lead) + 1] in ("", "\n"):
        return text
    if head.strip():
        return text.lstrip(" \t") if head[-1].isspace() else text
    if syntax.scan_string(region.around[0], region.document.language):
        return text
    floor, own, opened = block_floor(region.around[0], region.document.language)
    wanted = floor + style.width if opened and floor >= 0 else own
    width = indent_of(head + lead, style.width)
    if opened and width == wanted and indent_of(head, style.width) < wanted:
        return _lead(width - indent_of(head, style.width), lead, style, region) + text[len(lead) :]
    if not head and len(lead) > 1 and lead.strip("\t") == "" and style.tabs:
        return text
    if not head and width % style.width == 0 and width > 0:
        return _lead(width, lead, style, region) + text[len(lead) :]
    return text[len(lead) :]


def _scale(region: EditRegion, lines: list[str], base: int, style: IndentStyle) -> int:
    """The step the text uses where it is not the style's: the indentation of lines that follow an opener."""
    language = region.document.language
    steps: set[int] = set()
    upper, column = region.head + lines[0], base
    for line in lines[1:]:
        if not line.strip():
            continue
        here = indent_of(line, style.width)
        if syntax.opens_block(upper, language) and here > column and "\t" not in line[: len(line) - len(line.lstrip())]:
            steps.add(here - column)
        upper, column = line, here
    return steps.pop() if len(steps) == 1 and steps != {style.width} else 0


def _string_lines(region: EditRegion, text: str) -> frozenset[int]:
    """Indices of the lines that begin inside a string of the text: their white space is data."""
    language = region.document.language
    if not any(opening in text for opening, _, multi in grammar_of(language).strings if multi):
        return frozenset()
    outer = scan_before(region.around[0], language)
    inside: set[int] = set()
    for match in re.finditer("\n", text):
        state = scan(text[: match.start() + 1], language, outer.string)
        if state.string not in ("", "\n", "*/"):
            inside.add(text.count("\n", 0, match.start() + 1))
    return frozenset(inside)


def _lead(columns: int, lead: str, style: IndentStyle, region: EditRegion) -> str:
    """White space of `columns` columns in the given style; up to one column beyond a tab stop is a slip."""
    if not style.tabs:
        return " " * columns
    if not region.document.indent.tabs and "\t" not in lead:
        return "\t" * (columns // style.width) + " " * (columns % style.width)
    if "\t" in lead:
        spaces = len(lead) - len(lead.rstrip(" "))
        return "\t" * lead.count("\t") + (" " * spaces if spaces > 1 else "")
    steps, left = divmod(columns, style.width)
    if left and columns % 2 == 0 and style.width == 4:
        steps, left = divmod(columns, 2)  # the text counts two columns a step where the file has tabs
    return "\t" * steps + (" " * left if left > 1 else "")


def trailing(region: EditRegion, text: str) -> str | None:
    """No white space at line ends, no empty lines at the end; white space alone is nothing."""
    inside = _string_lines(region, text)
    lines = text.split("\n")
    last = len(lines) - 1
    done = [
        line if index + 1 in inside or (index == last and region.kind == "rest") else line.rstrip()
        for index, line in enumerate(lines)
    ]
    text = "\n".join(done)
    text = text.rstrip("\n") if region.kind == "rest" else text.rstrip()
    return text if text.strip() else None


FILTERS: tuple[tuple[str, Filter], ...] = (
    ("newlines", newlines),
    ("junk", junk),
    ("loops", loops),
    ("unit", unit),
    ("repeats_right", repeats_right),
    ("copies", copies),
    ("indentation", indentation),
    ("trailing", trailing),
    ("closers", closers),
)
"""In this order: what is no code goes first, then what stands there already, then the form; closers last, so
that no filter can take away a closer that must stay."""
