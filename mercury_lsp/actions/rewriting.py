"""Fills a hole, asks for one value, rewrites a region: what the model is asked and what becomes of its draft.

A task is a generator: it yields what to ask the model (`Ask`), is sent the last draft, and returns what to replace
(`Hunk`) or None. Whoever drives it runs the model: the server through its engine, the command line directly. Every
result parses no worse than before and touches nothing but its region; a result that is none is None, never an
error. This module knows nothing about editors, threads or the wire.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from mercury_lsp import filters, syntax
from mercury_lsp.actions import faults
from mercury_lsp.actions.places import Hole
from mercury_lsp.actions.remedies import Blank, Complaint
from mercury_lsp.actions.repair import Judge, Room, Work
from mercury_lsp.diffs import Hunk, apply, hunks
from mercury_lsp.edit import Edit, completion_edit
from mercury_lsp.lexical import scan
from mercury_lsp.region import Budget, EditRegion, completion_region, cut_windows, request_for
from mercury_lsp.text import Document, Span, indent_of, model_text
from mercury_model.draft import Draft, Infiller, Request

FILL_TOKENS = 192
VALUE_TOKENS = 24
MAX_REGION = 8_000  # characters: a larger region is not rewritten


@dataclass(frozen=True, slots=True)
class Wish:
    """What somebody wants done at `span` (empty: a cursor) of a document.

    complaint: the diagnostic to act upon. instruction: natural language. room: how much the model is shown.
    """

    document: Document
    span: Span
    instruction: str = ""
    complaint: Complaint | None = None
    room: Room = Budget.of


def drive(work: Work, model: Callable[[], Infiller], on_draft: Callable[[Draft], None] | None = None) -> Hunk | None:
    """Runs a task to its end in this thread; `model` is called when there is something to ask."""
    draft: Draft | None = None
    try:
        while True:
            ask = work.send(draft)
            infiller = model()
            request, draft = ask(infiller), None
            for draft in infiller(request) if request is not None else ():
                if on_draft is not None:
                    on_draft(draft)
    except StopIteration as end:
        return end.value


def edits(document: Document, hunk: Hunk) -> tuple[Edit, ...]:
    """The smallest edits of `document` that make the replacement, line ends as the document has them."""
    new_text = hunk.new_text.replace("\r\n", "\n").replace("\n", document.newline)
    return tuple(
        Edit(document.uri, document.version, part.span, part.new_text, valid=True)
        for part in hunks(hunk.span.of(document.text), new_text, hunk.span.start)
    )


# --- holes ---------------------------------------------------------------------------------------------------------


@dataclass
class _Opened:
    """What the building of a request finds out, for those who read the answer."""

    region: EditRegion | None = None


def fill(document: Document, at: Hole, room: Room) -> Work:
    """The code for a hole, by the same path as a completion."""
    variant, cursor = at.opened(document)
    opened = _Opened()
    draft = yield partial(_fill_request, variant, cursor, room, opened)
    if draft is None or opened.region is None:
        return None
    edit = completion_edit(opened.region, draft.text, confidence=draft.confidence)
    if edit is None:
        return None
    final = edit.apply(variant)
    tail = max(cursor + len(at.trail.replace("\n", document.newline)), edit.span.end)
    end = at.span.end + tail - (cursor + len(at.trail.replace("\n", document.newline)))
    hunk = Hunk(Span(at.span.start, end), final[at.span.start : len(final) - (len(variant.text) - tail)])
    return hunk if no_worse(document, hunk) else None


def _fill_request(document: Document, cursor: int, room: Room, opened: _Opened, infiller: Infiller) -> Request | None:
    opened.region = completion_region(document, cursor, room(infiller), infiller.count_tokens)
    return request_for(opened.region, max_tokens=FILL_TOKENS) if opened.region is not None else None


def value(document: Document, blank: Blank, room: Room) -> Work:
    """One expression for a hole inside a line: up to the comma or closer that ends it."""
    variant, cursor = blank.hole.opened(document)
    end = one_line if blank.line else one_value
    draft = yield partial(_value_request, variant, cursor, len(blank.hole.trail), end, room)
    text = draft.text if draft is not None else ""
    text = text[: end(text)].strip()
    if not text or "```" in text or filters.special(text):
        return None
    hunk = Hunk(blank.hole.span, variant.text[blank.hole.span.start : cursor] + text + blank.hole.trail)
    return hunk if hunk.new_text != hunk.span.of(document.text) and no_worse(document, hunk) else None


def _value_request(
    document: Document, cursor: int, n_trail: int, end: Callable[[str], int | None], room: Room, infiller: Infiller
) -> Request:
    gap = Span(cursor, cursor + n_trail)
    before, after = cut_windows(document, gap, room(infiller), infiller.count_tokens)
    return Request(
        prefix=model_text(before.of(document.text)),
        suffix=model_text(document.text[cursor : after.end]),
        document=document.uri,
        max_tokens=VALUE_TOKENS,
        end=end,
    )


def one_value(text: str) -> int | None:
    """Where an expression ends: before the comma, closer, colon or newline outside its own brackets.

    >>> one_value("f(a, b), c"), one_value("x"), one_value("dict[str, int]) -> y")
    (7, None, 14)
    """
    depth, quote = 0, ""
    for index, char in enumerate(text):
        if quote:
            quote = "" if char == quote and text[index - 1] != "\\" else quote
        elif char in "\"'`":
            quote = char
        elif char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
        if depth < 0 or (depth == 0 and not quote and char in ",;:=\n{" and text[:index].strip()):
            return index
    return None


def one_line(text: str) -> int | None:
    """Where the first line ends."""
    found = text.find("\n", len(text) - len(text.lstrip("\n")))
    return found if found >= 0 else None


def no_worse(document: Document, hunk: Hunk) -> bool:
    """Whether the document parses no worse after `hunk`; an unknown language cannot be judged and passes."""
    return Judge.of(document, hunk).keeps(hunk)


# --- rewrites --------------------------------------------------------------------------------------------------------


def rewrite(
    document: Document,
    span: Span,
    room: Room,
    *,
    instruction: str = "",
    doubted: Sequence[Span] = (),
    wrong: str = "",
    shrink: bool = False,
) -> Work:
    """The code of a region as the first canvas, the doubtful spans masked; without any, what the model doubts.

    wrong: a word that must not stand in the doubtful places any more. shrink: the result may be much shorter; else a
    "rewrite" that throws most of the region away is no answer (B2). With doubtful spans, changes of lines without
    any are left out.
    """
    original = span.of(document.text)
    if not original.strip() or len(original) > MAX_REGION:
        return None
    inside = tuple(
        (max(d.start, span.start) - span.start, min(d.end, span.end) - span.start)
        for d in doubted
        if d.start < span.end and d.end > span.start
    )
    draft = yield partial(_rewrite_request, document, span, inside, instruction, wrong, room)
    if draft is None:
        return None
    text = _clean(document, span, draft.text)
    if text is None:
        return None
    text = text.replace("\n", document.newline)
    if not shrink and len(text.split()) < 0.4 * len(original.split()) and len(original.split()) > 8:
        return None
    if _leaves(document, span, text):
        return None
    if len(inside) == 1 and not instruction and not _balanced(document, original, text, inside[0]):
        return None
    changes = hunks(original, text)
    if inside:
        changes = tuple(c for c in changes if any(_same_lines(original, c.span, d) for d in inside))
    hunk = Hunk(span, apply(original, changes))
    if not changes or not no_worse(document, hunk):
        return None
    return hunk


def _rewrite_request(
    document: Document,
    span: Span,
    inside: tuple[tuple[int, int], ...],
    instruction: str,
    wrong: str,
    room: Room,
    infiller: Infiller,
) -> Request:
    before, after = cut_windows(document, span, room(infiller), infiller.count_tokens)
    raw = span.of(document.text)
    original = model_text(raw)
    # a `\r\n` is one character for the model: what lies behind moves
    moved = tuple((len(model_text(raw[:a])), len(model_text(raw[:b]))) for a, b in inside)
    suffix = model_text(after.of(document.text))
    return Request(
        prefix=model_text(before.of(document.text)),
        suffix=suffix,
        document=document.uri,
        original=original,
        doubtful=moved,
        instruction=instruction,
        max_tokens=infiller.count_tokens(original) * 3 // 2 + 32,
        end=partial(repeats, suffix),
        judge=partial(objections, document, span, wrong),
    )


def repeats(suffix: str, text: str) -> int | None:
    """Where `text` begins to repeat the first line with something on it that follows the region."""
    following = next((line for line in suffix.split("\n", 50)[:50] if line.strip()), "")
    if not re.search(r"\w", following):
        return None
    at = text.find("\n" + following)
    return len(text[:at].rstrip()) if at >= 0 else None


def objections(document: Document, span: Span, wrong: str, text: str) -> list[tuple[int, int]]:
    """The spans of a finished text to think again about: syntax errors it adds, and the word that was wrong."""
    found = [(m.start(), m.end()) for m in re.finditer(rf"(?<!\w){re.escape(wrong)}(?!\w)", text)] if wrong else []
    area = syntax.window(document, span.start)
    old = faults.count(area.of(document.text), document.language)
    start, end = span.start - area.start, span.end - area.start
    whole = area.of(document.text)[:start] + text + area.of(document.text)[end:]
    new = syntax.errors(whole, document.language)
    if old is None or new is None or len(new) <= old.tree:
        return found
    for problem in new:
        a, b = max(problem.span.start, start), min(max(problem.span.end, problem.span.start + 1), start + len(text))
        if a < b:
            found.append((a - start, b - start))
    return sorted(found)


def _clean(document: Document, span: Span, text: str) -> str | None:
    """A draft of a region without what no code has: fences, special tokens, its first indentation twice."""
    empty = Span(span.start, span.start)
    region = EditRegion(document, span, span.start, "block", empty, Span(span.end, span.end))
    kept = filters.junk(region, model_text(text))
    if kept is None or not kept.strip():
        return None
    line = document.line_span(document.line_of(span.start))
    if not document.text[line.start : span.start].strip():
        kept = kept.lstrip()
    return kept.rstrip()


def _leaves(document: Document, span: Span, text: str) -> bool:
    """Whether a line of `text` begins left of all lines of the region: it would end the block that the region is in.

    The parser does not mind: a `return` at the margin parses.
    """
    top = document.line_span(document.line_of(span.start)).start
    width = document.indent.width
    least = min(indent_of(line, width) for line in document.text[top : span.end].splitlines() if line.strip())
    return any(line.strip() and indent_of(line, width) < least for line in text.splitlines()[1:])


def _balanced(document: Document, original: str, text: str, doubted: tuple[int, int]) -> bool:
    """Whether what stands in the place of the one doubtful span closes no more than it opens, and no line either.

    A draft that ends the statement and begins it anew may parse, and is none the better for it.
    """
    tail = len(original) - doubted[1]
    written = text[doubted[0] : len(text) - tail]
    old = original[doubted[0] : doubted[1]]
    if "\n" in written and "\n" not in old:
        return False
    found, was = scan(written, document.language), scan(old, document.language)
    return len(found.closers) <= len(was.closers) and len(found.open) <= len(was.open) and found.string == was.string


def _same_lines(text: str, span: Span, doubted: tuple[int, int]) -> bool:
    """Whether two spans of a text touch a common line."""
    first = text.count("\n", 0, span.start), text.count("\n", 0, span.end)
    other = text.count("\n", 0, doubted[0]), text.count("\n", 0, doubted[1])
    return first[0] <= other[1] and other[0] <= first[1]
