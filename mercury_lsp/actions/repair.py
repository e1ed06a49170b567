"""Mends a syntax error with the smallest edit that the grammar accepts; the model decides between equals.

The candidates are single tokens: put in where the parser missed one, taken out, or replaced (a misspelled keyword, the
wrong closer), a line indented otherwise, a closer on a line of its own; and the model's own text for the faulty line.
They are ranked by the errors they leave, then by their size, then by how near they are to what the model would have
written there. What leaves as many errors as before is not offered. This module knows nothing about editors.
"""

import difflib
import re
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial

from mercury_lsp import syntax
from mercury_lsp.actions import faults
from mercury_lsp.diffs import Hunk, apply
from mercury_lsp.languages import grammar_of
from mercury_lsp.region import Budget, cut_windows
from mercury_lsp.text import Document, Span, indent_of, model_text
from mercury_model.draft import Draft, Infiller, Request

Ask = Callable[[Infiller], Request | None]
"""Builds a request when the model's turn comes; None when there is nothing to ask."""
Work = Generator[Ask, Draft | None, Hunk | None]
"""Yields what to ask the model, is sent the last draft (None if there is none), returns what to replace."""

Room = Callable[[Infiller], Budget]

SEARCH_SECONDS = 2.0
NEAR = 0.3  # costs that lie closer together than this are left to the model
SHORTLIST = 8
CHECKED = 12  # of the best candidates, parsed once more from nothing
PIECES = 3  # top-level pieces of a document that are looked at one by one before the whole is
UNUSUAL = 1.6  # a cost from which on the model is asked whether it knows better

_TOKEN = re.compile(r"\w+|[^\w\s]")
_INSERTS = {
    "python": (":", ")", "]", "}", '"', "'", ",", "=", "("),
    "rust": (";", ")", "]", "}", '"', ",", " {", ":", " =", " ->", " =>", "(", "&"),
    "go": (")", "]", "}", '"', ",", " {", " :=", " =", "("),
    "json": (",", '"', "}", "]", ":"),
    "css": (";", "}", ":", "{", ")"),
}
_INSERTS_ELSEWHERE = (")", "]", "}", ";", '"', "'", "`", ",", ":", " {", "(", " =", " =>")
_CLOSING = frozenset((")", "]", "}", '"', "'", "`"))
_OPENING = ('"', "'", "(", "[", "{")
_COMMENTED = {"python": ("#",), "bash": ("#",), "json": (), "html": ("<!--",)}
_SWAPS: dict[str, tuple[str, ...]] = {
    "=": ("==", ":"),
    ")": ("]", "}"),
    "]": (")", "}"),
    "}": (")", "]"),
    "(": ("[", "{"),
    "[": ("(", "{"),
    "{": ("(", "["),
    ";": (",", ":"),
    ":": ("=", ";"),
    ",": (".", ";", ":"),
    ".": (",",),
    "'": ('"',),
    '"': ("'",),
    "|": ("||",),
    "&": ("&&",),
}


@dataclass(frozen=True, slots=True)
class Candidate:
    """An edit of the document and what it costs: about 1 for one token."""

    hunk: Hunk
    cost: float


def repair(document: Document, near: Span | None = None, room: Room = Budget.of) -> Work:
    """The work that mends the syntax error at `near`, or the document's first one.

    room: how much of the document the model is shown.
    """
    here = faults.faults(document, near) if near is not None else ()
    found = here or faults.faults(document)
    if not found:
        return None
    place = near if near is not None and here else found[0]
    window = syntax.window(document, place.start)
    whole = Judge(document, window)
    for area in [*faults.faulty_pieces(document, window, place)[:PIECES], window]:
        judge = Judge(document, area)
        if judge.base is None or judge.base.total == 0:
            continue
        inside = near if near is not None and area.start <= near.start <= area.end else None
        lines = faults.suspects(document, area, inside)
        ranked = [c for c in search(document, lines, judge)[:CHECKED] if whole.mends(c.hunk, judge)]
        best = ranked[0] if ranked else None
        if best is not None and judge.left(best.hunk) == 0 and _clear(ranked, judge):
            return best.hunk
        line = document.line_of(best.hunk.span.start) if best is not None else lines[0]
        old = document.line_span(line)
        draft = yield partial(_line_request, document, old, room)
        if draft is not None and (text := _one_line(draft.text)).strip():
            lead = re.match(r"[ \t]*", old.of(document.text))
            text = (lead.group() if lead else "") + text.strip()
            ranked = _with_model(document, judge, ranked, old, text)
            ranked = [c for c in ranked if whole.mends(c.hunk, judge)]
        if ranked:
            return ranked[0].hunk
    return None


def choose(document: Document, found: list[Candidate], room: Room = Budget.of) -> Work:
    """The best of edits that all may be right: the cheapest that parses no worse; the model decides between equals."""
    found = [c for c in found if Judge.of(document, c.hunk).keeps(c.hunk)]
    found.sort(key=lambda c: c.cost)
    near = [c for c in found if c.cost - found[0].cost < NEAR][:SHORTLIST]
    if len(near) <= 1:
        return near[0].hunk if near else None
    line = document.line_span(document.line_of(near[0].hunk.span.start))
    draft = yield partial(_hole_request, document, near[0].hunk.span, room)
    if draft is None:
        return near[0].hunk
    written = _one_line(draft.text).strip()

    def likeness(candidate: Candidate) -> float:
        text = candidate.hunk.new_text.strip()
        return (text == re.split(r"\W", written + " ", maxsplit=1)[0]) + _alike(text, written) - candidate.cost

    return max((c for c in near if line.start <= c.hunk.span.start), key=likeness, default=near[0]).hunk


def search(document: Document, lines: tuple[int, ...], judge: "Judge") -> list[Candidate]:
    """The candidates that leave fewer errors than there are, best first."""
    stop = time.monotonic() + SEARCH_SECONDS
    good: dict[str, tuple[tuple[float, float], Candidate]] = {}
    for rank, line in enumerate(lines):
        for candidate in candidates(document, line):
            if time.monotonic() > stop:
                break
            left = judge.left(candidate.hunk)
            if left is None or judge.base is None or left >= judge.base.total:
                continue
            ranked = (left, candidate.cost + 0.02 * min(rank, 10))
            text = apply(document.text, (candidate.hunk,))  # `))` loses the same by losing either
            if text not in good or ranked < good[text][0]:
                good[text] = (ranked, Candidate(candidate.hunk, ranked[1]))
        whole = [key[1] for key, _ in good.values() if key[0] == 0]
        if whole and min(whole) <= (1.2 if rank < 5 else UNUSUAL) and rank >= 2:
            break
    return [candidate for _, candidate in sorted(good.values(), key=lambda item: item[0])]


def candidates(document: Document, line: int) -> Iterator[Candidate]:
    """Everything that is tried on one line, roughly from likely to unlikely."""
    span = document.line_span(line)
    text = span.of(document.text)
    language = syntax.language_of(document.language) or ""
    if text.strip().startswith(_COMMENTED.get(language, ("//", "/*", "*"))):
        return
    code = _code_end(text, language)
    tokens = [m for m in _TOKEN.finditer(text) if m.end() <= code]
    at = span.start
    for token in tokens:
        for word in _near_keywords(token.group(), language, document.text):
            yield Candidate(Hunk(Span(at + token.start(), at + token.end()), word), 0.8)
    inserts = _INSERTS.get(language, _INSERTS_ELSEWHERE)
    for insert in inserts if code else ():
        # a bracket or string is closed before what ends the statement, not behind it
        behind = 0.1 if insert in _CLOSING and text[code - 1] in ";,:{" else 0.0
        yield Candidate(Hunk(Span(at + code, at + code), insert), 1.0 + behind + _unlikely(insert))
    ends = [m.end() for m in tokens[:-1]] + [m.start() for m in tokens[:1]]
    for index, end in enumerate(ends):
        tail = text[end:code].strip()
        closing = bool(tail) and index < len(tokens) - 1 and re.fullmatch(r"[\s)\]}'\"`;,:{]*", tail) is not None
        for insert in inserts:
            cost = (1.05 if closing and insert in _CLOSING else 1.3) + _unlikely(insert)
            yield Candidate(Hunk(Span(at + end, at + end), insert), cost)
    for index, token in enumerate(tokens):
        where = Span(at + token.start(), at + token.end())
        if index and text[token.start() - 1] in " \t([{":
            for opener in _OPENING:
                yield Candidate(Hunk(Span(where.start, where.start), opener), 1.25 + _unlikely(opener))
        if not token.group()[0].isalnum() and token.group() != "_":
            twice = token.end() < code and text[token.end()] == token.group() and token.group() in "{}\"'[]"
            cost = 0.95 if twice else 1.1 if token.group() in ")]};,:" else 2.0
            yield Candidate(Hunk(_with_line(document, where), ""), cost)
            for other in _SWAPS.get(token.group(), ()):
                yield Candidate(Hunk(where, other), 1.15)
    yield from _indented(document, line)
    if "}" in grammar_of(document.language).brackets.values() and language != "python":
        yield from _closed(document, line)


def _unlikely(insert: str) -> float:
    """Openers and assignments are seldom what was forgotten, and a `}` stands on a line of its own."""
    return {"(": 0.4, "=": 0.4, ",": 0.1, ":=": 0.4, "&": 0.4, "{": 0.3, "}": 0.2}.get(insert.strip(), 0.0)


def _code_end(line: str, language: str) -> int:
    """Where a line's code ends, before a comment."""
    comment = grammar_of(language).line_comment
    found = re.search(rf"(?:^|\s){re.escape(comment)}", line) if comment else None
    if found is not None and line[: found.start()].count('"') % 2 == 0 and line[: found.start()].count("'") % 2 == 0:
        line = line[: found.start()]
    return len(line.rstrip())


@lru_cache
def _keywords(language: str) -> tuple[str, ...]:
    return tuple(word for word in syntax.anonymous_tokens(language) if re.fullmatch(r"[a-z]{2,}", word))


def _near_keywords(word: str, language: str, text: str) -> list[str]:
    """Keywords that `word` is a misspelling of; none if it is a name that the text uses elsewhere too."""
    if len(word) < 2 or not word[0].isalpha() or word in _keywords(language):
        return []
    if len(re.findall(rf"\b{re.escape(word)}\b", text)) > 1:
        return []
    near = [known for known in _keywords(language) if misspelled(word, known)]
    return sorted(near, key=lambda known: -difflib.SequenceMatcher(None, word.lower(), known).ratio())[:3]


def misspelled(word: str, known: str) -> bool:
    """Whether one slip (a letter too many, too few, wrong or swapped; two in a long word) leads from one to the other.

    >>> misspelled("fucntion", "function"), misspelled("retrun", "return"), misspelled("x", "if")
    (True, True, False)
    """
    word, known = word.lower(), known.lower()
    if word == known:
        return True
    return _slips(word, known) <= (1 if max(len(word), len(known)) < 8 else 2) and max(len(word), len(known)) > 2


def _slips(a: str, b: str) -> int:
    """Edit distance in which swapping two neighbours counts once."""
    rows = [list(range(len(b) + 1))]
    for i in range(1, len(a) + 1):
        row = [i]
        for j in range(1, len(b) + 1):
            best = min(rows[-1][j] + 1, row[-1] + 1, rows[-1][j - 1] + (a[i - 1] != b[j - 1]))
            if i > 1 and j > 1 and a[i - 2 : i] == b[j - 1] + b[j - 2]:
                best = min(best, rows[-2][j - 2] + 1)
            row.append(best)
        rows.append(row)
    return rows[-1][-1]


def _with_line(document: Document, token: Span) -> Span:
    """The token to take out; with its whole line where nothing else is on it."""
    line = document.line_of(token.start)
    if document.line_text(line).strip() == token.of(document.text):
        return document.line_span(line, keepend=True)
    return token


def _indented(document: Document, line: int) -> Iterator[Candidate]:
    """The line, or it and the lines below that are as deep, at the indentation of the line above, or a step from it."""
    if not grammar_of(document.language).colon:
        return
    text = document.line_text(line)
    above = next((n for n in range(line - 1, -1, -1) if document.line_text(n).strip()), None)
    if not text.strip() or above is None:
        return
    lead = re.match(r"[ \t]*", document.line_text(above))
    base = lead.group() if lead else ""
    unit = document.indent.unit
    own = re.match(r"[ \t]*", text)
    old = own.group() if own else ""
    below = line + 1
    while below < document.n_lines and document.line_text(below).strip():
        if indent_of(document.line_text(below)) < indent_of(text):
            break
        below += 1
    start = document.line_span(line).start
    for cost, wanted in ((1.15, base), (1.2, base + unit), (1.25, base.removesuffix(unit))):
        if wanted == old:
            continue
        yield Candidate(Hunk(Span(start, start + len(old)), wanted), cost)
        if below > line + 1:
            span = Span(start, document.line_span(below - 1).end)
            lines = re.split(r"(?<=\n)|(?<=\r)(?!\n)", span.of(document.text))
            moved = "".join(wanted + part.removeprefix(old) if part.startswith(old) else part for part in lines)
            yield Candidate(Hunk(span, moved), cost + 0.05)


def _closed(document: Document, line: int) -> Iterator[Candidate]:
    """A closer on a line of its own below the line."""
    span = document.line_span(line)
    text = span.of(document.text)
    if not text.strip():
        return
    unit = document.indent.unit
    lead = text[: len(text) - len(text.lstrip())]
    following = next((n for n in range(line + 1, document.n_lines) if document.line_text(n).strip()), None)
    after = document.line_text(following) if following is not None else ""
    deeper = indent_of(text) > indent_of(after) or following is None
    unclosed = faults.ends_unclosed(document, line)
    wanted = {lead.removesuffix(unit) if lead.endswith(unit) else lead}
    wanted |= {after[: len(after) - len(after.lstrip())]} if deeper else set()
    for indent in sorted(wanted):
        usual = deeper and len(indent) < len(lead)
        cost = 0.85 if unclosed and indent_of(indent) == indent_of(after) else 1.0 if usual else 1.5
        yield Candidate(Hunk(Span(span.end, span.end), document.newline + indent + "}"), cost)


class Judge:
    """Counts the errors that an edit would leave in the area."""

    def __init__(self, document: Document, area: Span) -> None:
        self.document, self.area = document, area
        self.text = area.of(document.text)
        self.base = faults.count(self.text, document.language)
        self._known: dict[Hunk, int | None] = {}

    @staticmethod
    def of(document: Document, hunk: Hunk) -> "Judge":
        """The judge of the surroundings of one edit."""
        return Judge(document, syntax.window(document, hunk.span.start))

    def mends(self, hunk: Hunk, near: "Judge") -> bool:
        """Whether `hunk` leaves fewer errors here; or no more here and none in the piece that `near` judges.

        Of two faults the parser may make as many errors as of one.
        """
        left = self.after(hunk)
        if left is None or self.base is None:
            return False
        return left < self.base.total or (left == self.base.total and near.left(hunk) == 0)

    def after(self, hunk: Hunk) -> int | None:
        """Errors after `hunk` in a text parsed from nothing: after an edit the parser may recover otherwise."""
        start, end = hunk.span.start - self.area.start, hunk.span.end - self.area.start
        if not 0 <= start <= end <= len(self.text):
            return None
        found = faults.count(self.text[:start] + hunk.new_text + self.text[end:], self.document.language)
        return found.total if found is not None else None

    def keeps(self, hunk: Hunk) -> bool:
        """Whether `hunk` leaves no more errors than there are; an unknown language cannot be judged and passes."""
        left = self.after(hunk)
        return self.base is None or (left is not None and left <= self.base.total)

    def left(self, hunk: Hunk) -> int | None:
        """Errors left in the area after `hunk`; None if it reaches out of it."""
        if hunk not in self._known:
            start, end = hunk.span.start - self.area.start, hunk.span.end - self.area.start
            inside = 0 <= start <= end <= len(self.text) and self.base is not None
            self._known[hunk] = self._count(start, end, hunk.new_text) if inside else None
        return self._known[hunk]

    def _count(self, start: int, end: int, new_text: str) -> int | None:
        tree = syntax.Replacement(self.text, Span(start, end), self.document.language).n_errors_with(new_text)
        if tree is None or self.base is None or (tree >= self.base.total and tree > 0):
            return tree
        if syntax.language_of(self.document.language) == "python" and self.base.refused:
            tree += int(faults.refusal(self.text[:start] + new_text + self.text[end:]) is not None)
        return tree


def _clear(ranked: list[Candidate], judge: Judge) -> bool:
    """Whether no other candidate comes near the best one."""
    if ranked[0].cost >= UNUSUAL:
        return False
    if len(ranked) == 1 or judge.left(ranked[1].hunk) != judge.left(ranked[0].hunk):
        return True
    return ranked[1].cost - ranked[0].cost >= NEAR


def _line_request(document: Document, line: Span, room: Room, infiller: Infiller) -> Request:
    """The faulty line as a hole, its old text as the guess."""
    text = document.text
    lead = len(line.of(text)) - len(line.of(text).lstrip())
    hole = Span(line.start + lead, line.end)
    before, after = cut_windows(document, hole, room(infiller), infiller.count_tokens)
    return Request(
        prefix=model_text(before.of(text)),
        suffix=model_text(after.of(text)),
        document=document.uri,
        guess=model_text(hole.of(text)),
        max_tokens=infiller.count_tokens(hole.of(text)) + 16,
        end=first_line,
    )


def _hole_request(document: Document, hole: Span, room: Room, infiller: Infiller) -> Request:
    """A few tokens of a line as a hole."""
    before, after = cut_windows(document, hole, room(infiller), infiller.count_tokens)
    return Request(
        prefix=model_text(before.of(document.text)),
        suffix=model_text(after.of(document.text)),
        document=document.uri,
        max_tokens=8,
        end=first_line,
    )


def first_line(text: str) -> int | None:
    """Where the first line of `text` with something on it ends, once it has ended."""
    start = len(text) - len(text.lstrip())
    end = text.find("\n", start)
    return end if end >= 0 else None


def _one_line(text: str) -> str:
    end = first_line(text)
    return text if end is None else text[:end]


def _with_model(document: Document, judge: Judge, ranked: list[Candidate], line: Span, text: str) -> list[Candidate]:
    """`ranked` with the model's own line, those near the best one ordered by how near they are to it."""
    written = Hunk(line, text)
    left = judge.left(written)
    pool = list(ranked)
    if left is not None and judge.base is not None and left < judge.base.total:
        pool.append(Candidate(written, 1.0 + 5 * (1 - _alike(line.of(document.text), text))))
    if not pool:
        return []
    fewest = min(judge.left(c.hunk) or 0 for c in pool)
    pool = sorted((c for c in pool if (judge.left(c.hunk) or 0) == fewest), key=lambda c: c.cost)
    near = [c for c in pool if c.cost - pool[0].cost < NEAR][:SHORTLIST]

    def likeness(candidate: Candidate) -> float:
        return _alike(_line_after(document, candidate.hunk, line), text) - 0.3 * candidate.cost

    return sorted(near, key=likeness, reverse=True)


def _line_after(document: Document, hunk: Hunk, line: Span) -> str:
    """What the lines of `line` and the hunk read after it."""
    start, end = min(line.start, hunk.span.start), max(line.end, hunk.span.end)
    return document.text[start : hunk.span.start] + hunk.new_text + document.text[hunk.span.end : end]


def _alike(one: str, other: str) -> float:
    return difflib.SequenceMatcher(None, one.strip(), other.strip(), autojunk=False).ratio()
