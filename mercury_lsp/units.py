"""Where a unit of code is complete: the rules that end a middle, without a parser.

Half-written text rarely parses, so these rules read indentation, brackets and strings only (lexical.py).
"""

import re
from typing import Literal

from mercury_lsp.languages import grammar_of
from mercury_lsp.lexical import Scan, needed, scan, scan_after, scan_before
from mercury_lsp.text import indent_of

Kind = Literal["line", "block", "rest"]


def opens_block(line: str, language: str) -> bool:
    """Whether a line of code ends by opening a block (`{`, a compound statement's `:`, `then` ...)."""
    grammar = grammar_of(language)
    code = line.rstrip()
    if grammar.line_comment and grammar.line_comment in code and not code.endswith(("'", '"')):
        code = re.sub(rf"(^|\s){re.escape(grammar.line_comment)}.*$", "", code).rstrip()
    if grammar.colon and code.endswith(":"):
        found = scan(code[:-1], language)
        first = re.match(r"\s*(async\s+)?(\w+|\))", code)
        return not found.open and first is not None and first.group(2) in _COMPOUND
    return any(
        code.endswith(opener) and (not opener[-1].isalpha() or re.search(rf"(^|[\s;]){opener.strip()}$", code))
        for opener in grammar.openers
    )


def ends_docstring(line: str, language: str) -> bool:
    """Whether a line ends with what closes a docstring, so that code goes on below it."""
    return grammar_of(language).colon and line.rstrip().endswith(('"""', "'''"))


_COMPOUND = frozenset(
    ("if", "elif", "else", "for", "while", "try", "except", "finally", "with", "def", "class", "match", "case", ")")
)


def complete_unit(before: str, text: str, after: str, language: str, kind: Kind, *, final: bool = False) -> int | None:
    """How many characters of `text` to keep if the unit at the cursor is complete in it, else None.

    before, after: what stands left and right of the middle (`\\n` line ends); after begins at the line end for
    kinds "line" and "block", at the cursor for "rest". final: no more text will come.

    | kind  | complete at |
    |-------|-------------|
    | line  | the first newline that no bracket or string of the middle (or one opened just before it) carries on |
    | block | the last line deeper than the line that opened the block, with the closer that `after` lacks; an
              empty line followed by no deeper one, where the block was not opened just before |
    | rest  | a newline, or where it begins to repeat what stands right of the cursor |
    | all   | before a closer that already stands in `after`; before following lines that it begins to repeat |
    """
    outer = scan_before(before, language)
    inner = scan(text, language, outer.string)
    allowed = needed(outer, scan_after(after, language, outer.string))
    ends = [_unit_end(before, text, after, language, kind, outer, inner, allowed)]
    if len(inner.closers) > allowed:
        ends.append(len(text[: inner.closers[allowed].offset].rstrip(" \t\n" if kind == "block" else " \t")))
    ends.append(repeat_start(before, text, after, language, kind, final=final))
    found = [end for end in ends if end is not None]
    return min(found) if found else None


def _unit_end(
    before: str, text: str, after: str, language: str, kind: Kind, outer: Scan, inner: Scan, allowed: int
) -> int | None:
    if kind == "block" and outer.string in ("", "\n"):
        return _block_end(before, text, after, language, inner, allowed)
    head = before[before.rfind("\n") + 1 :].rstrip()
    opened = kind == "line" and head.endswith(("(", "[", "{")) and not outer.string
    for stop in inner.breaks:
        carried = opened and not any(closer.offset < stop for closer in inner.closers)
        if not (carried and not text[:stop].strip(" \t") and allowed) and not (carried and "\n" in text[:stop]):
            return stop
    if kind == "line" and outer.string:
        stop = text.find("\n")
        return stop if stop >= 0 else None
    return None


def _block_end(before: str, text: str, after: str, language: str, inner: Scan, allowed: int) -> int | None:
    grammar = grammar_of(language)
    floor, own, opened = block_floor(before, language)
    starts = [0, *(stop + 1 for stop in inner.breaks)]
    kept = 0  # end of the last line of code that belongs to the unit
    for start, stop in zip(starts, [*inner.breaks, len(text)], strict=True):
        line, complete = text[start:stop], stop < len(text)
        if not line.strip():
            continue
        indent = indent_of(line)
        gap = start > 0 and kept > 0 and not text[kept:start].strip() and text.count("\n", kept, start) > 1
        if start > 0 and gap and not opened and indent <= own:
            return kept
        if start > 0 and indent <= floor:
            word = re.match(r"\s*(\w+|[)\]}])", line)
            closes = word is not None and (word.group(1) in grammar.ends or word.group(1) in ")]}")
            first = closes and any(start <= closer.offset < stop for closer in inner.closers[:allowed])
            if not (first or (closes and word is not None and word.group(1).isalpha() and opened)):
                return kept
            if not _same_line(line, after):
                return stop if complete else None
            return kept
        kept = start + len(line.rstrip())
        if start > 0 and any(start <= closer.offset < stop for closer in inner.closers[:allowed]) and complete:
            return stop
    return None


def block_floor(before: str, language: str) -> tuple[int, int, bool]:
    """(indentation of the line that opened the block at the end of `before`, of its own lines, just opened).

    The first is -1 at the top level of a file.
    """
    lines = before.split("\n")
    head = lines[-1]
    if head.strip() and not ends_docstring(head, language):
        return indent_of(head), indent_of(head) + 1, True
    own = indent_of(head)
    opened = False
    for n_back, line in enumerate(line for line in reversed(lines[:-1]) if line.strip()):
        if n_back == 0:
            opened = opens_block(line, language)
            if opened and own <= indent_of(line):
                return indent_of(line), indent_of(line) + 1, True
        if indent_of(line) < own:
            return indent_of(line), own, opened and n_back == 0
    return (own - 1 if own else -1), own, opened


def _same_line(line: str, after: str) -> bool:
    following = next((other for other in after.split("\n", 50)[:50] if other.strip()), "")
    return line.rstrip() == following.rstrip()


def repeat_start(before: str, text: str, after: str, language: str, kind: Kind, *, final: bool = False) -> int | None:
    """Offset in `text` where it begins to repeat what follows it in `after`, or None.

    Whole lines are compared with the next non-blank lines of `after`; lines of closers only are left to the
    count of brackets. For kind "rest" also the text right of the cursor is looked for.
    """
    if kind == "rest":
        rest = after.split("\n", 1)[0].rstrip()
        core = rest.lstrip()
        at = _find_right(text, core, language) if core and (len(core) >= 2 or final) else None
        if at is not None:
            return len(text[:at].rstrip()) if rest[:1].isspace() else at
    following = [line.rstrip() for line in after.split("\n", 60)[1:60] if line.strip()][:3]
    if not following:
        return None
    start = 0
    lines = text.split("\n")
    blank_head = not before[before.rfind("\n") + 1 :].strip()
    for index, line in enumerate(lines):
        complete = index + 1 < len(lines) or final
        same = line.rstrip() == following[0] or (index == 0 and blank_head and line.strip() == following[0].strip())
        if complete and same and (index > 0 or blank_head) and re.search(r"\w", line):
            return len(text[:start].rstrip())
        start += len(line) + 1
    return None


def _find_right(text: str, right: str, language: str) -> int | None:
    """Where `text`, outside brackets of its own, begins with the first tokens of `right`; None if nowhere."""
    probe = re.match(r".{4}\w*", right)
    wanted = probe.group() if probe is not None else right
    border = r"(?<!\w)" if wanted[0].isalnum() else ""
    for found in re.finditer(border + re.escape(wanted), text):
        if not scan(text[: found.start()], language).open:
            return found.start()
    return None
