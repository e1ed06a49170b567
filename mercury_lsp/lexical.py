"""Brackets, strings and comments by one pass of regular expressions: what is open where.

A parser judges whole texts; this answers what a half-written one needs: which brackets are open, which
closers close something outside, where a line ends that no bracket or string carries on. It is right for
ordinary code and may be wrong inside heredocs, nested template literals and text in HTML or JSX.
"""

import re
from dataclasses import dataclass, field
from functools import lru_cache

from mercury_lsp.languages import Grammar, grammar_of

_PAIR = {")": "(", "]": "[", "}": "{"}


@dataclass(frozen=True, slots=True)
class Closer:
    """A closer that closes nothing inside the scanned text. bracket: `)`, `]`, `}` or a string's end."""

    offset: int
    bracket: str


@dataclass(frozen=True, slots=True)
class Scan:
    """What a text opens and closes.

    open: the closers it still needs, innermost last. closers: those that close what stands before it.
    breaks: offsets of the newlines that end a logical line (no bracket or string of this text is open).
    string: the end of the string or comment the text stops inside, empty in code ("\\n" for a line comment).
    """

    open: tuple[str, ...]
    closers: tuple[Closer, ...]
    breaks: tuple[int, ...]
    string: str


@dataclass
class _State:
    stack: list[str] = field(default_factory=list[str])
    closers: list[Closer] = field(default_factory=list[Closer])
    breaks: list[int] = field(default_factory=list[int])

    def close(self, bracket: str, offset: int) -> None:
        """Close the innermost bracket of that kind; unfinished ones inside it are given up."""
        if bracket in self.stack:
            while self.stack.pop() != bracket:
                pass
        else:
            self.closers.append(Closer(offset, bracket))


@lru_cache(maxsize=64)
def _lexemes(language: str) -> tuple[re.Pattern[str], dict[str, tuple[str, bool]]]:
    grammar = grammar_of(language)
    ends = {opening: (end, multi) for opening, end, multi in (*grammar.block_comments, *grammar.strings)}
    quotes = sorted(ends, key=len, reverse=True)
    parts = [
        rf"(?P<skip>{grammar.skip})" if grammar.skip else "",
        rf"(?P<comment>{re.escape(grammar.line_comment)}[^\r\n]*)" if grammar.line_comment else "",
        f"(?P<string>{'|'.join(map(re.escape, quotes))})" if quotes else "",
        r"(?P<open>[(\[{])|(?P<close>[)\]}])" if grammar.brackets else "",
        r"(?P<newline>\r\n|\n|\r)",
    ]
    return re.compile("|".join(part for part in parts if part)), ends


@lru_cache(maxsize=256)
def _string_end(end: str, multi: bool) -> re.Pattern[str]:
    if end == "*/" or end == "-->":
        return re.compile(rf"(?P<end>{re.escape(end)})")
    return re.compile(rf"\\(?:\r\n|[\s\S])|(?P<end>{re.escape(end)})" + ("" if multi else r"|(?P<cut>[\r\n])"))


def multiline(end: str, grammar: Grammar) -> bool:
    """Whether the string or comment that ends with `end` may run over several lines."""
    return any(multi for _, close, multi in (*grammar.block_comments, *grammar.strings) if close == end)


def scan_before(text: str, language: str) -> Scan:
    """What is open at the end of `text`. All but its last line is remembered: typing costs one line."""
    cut = text.rfind("\n") + 1
    above = scan(text[:cut], language)
    return scan(text[cut:], language, above.string, above.open)


def scan_after(text: str, language: str, string: str) -> Scan:
    """What `text` closes of a place before it that is inside `string` (empty in code).

    A quote further down may open a string of its own instead of closing that one: then `text` is balanced
    when read as code, and is not when read as the rest of the string.
    """
    inside = scan(text, language, string)
    for opening, end, _ in grammar_of(language).block_comments:
        if string == end and (opener := text.find(opening)) >= 0 and opener < text.find(end):
            return scan(text, language)  # the next end belongs to another comment
    if string and inside.string:
        code = scan(text, language)
        return inside if code.string else code
    return inside


@lru_cache(maxsize=64)
def scan(text: str, language: str, string: str = "", stack: tuple[str, ...] = ()) -> Scan:
    """Scan `text`, which begins inside the string or comment that ends with `string`, or in code.

    stack: closers that brackets before `text` wait for and that count as opened by it.
    """
    pattern, ends = _lexemes(language)
    grammar = grammar_of(language)
    state = _State([*stack])
    position, outer = 0, bool(string)
    current, multi = string, bool(string) and multiline(string, grammar)
    while True:
        if current == "\n":  # the rest of a line comment
            stop = re.search(r"[\r\n]", text[position:])
            if stop is None:
                break
            position, current, outer = position + stop.start(), "", False
        elif current:
            found = _find_end(text, position, current, multi)
            if found is None:
                break
            end, position = found
            if outer and end == current:
                state.closers.append(Closer(position - len(current), current))
            current, outer = "", False
        match = pattern.search(text, position)
        if match is None:
            break
        kind, position = match.lastgroup, match.end()
        if kind == "comment":
            if position == len(text):
                current = "\n"
                break
        elif kind == "string":
            current, multi = ends[match.group()]
        elif kind == "open":
            state.stack.append(grammar.brackets[match.group()])
        elif kind == "close":
            state.close(match.group(), match.start())
        elif kind == "newline" and not state.stack and text[match.start() - 1 : match.start()] != "\\":
            state.breaks.append(match.start())
    return Scan(tuple(state.stack), tuple(state.closers), tuple(state.breaks), current)


def _find_end(text: str, position: int, end: str, multi: bool) -> tuple[str, int] | None:
    """(`end`, offset after it), or ("", offset of the newline that cuts the string off), or None."""
    for match in _string_end(end, multi).finditer(text, position):
        if match.lastgroup == "end":
            return end, match.end()
        if match.lastgroup == "cut":
            return "", match.start()
    return None


def needed(before: Scan, after: Scan) -> int:
    """How many closers of `before`'s open brackets and string `after` does not bring.

    A closer of `after` closes the innermost bracket of its kind; brackets inside that one are unfinished.
    """
    stack = [*before.open, *([before.string] if before.string not in ("", "\n") else [])]
    missing = 0
    for closer in after.closers:
        if closer.bracket not in stack:
            continue
        while stack.pop() != closer.bracket:
            missing += 1
    return missing + len(stack)
