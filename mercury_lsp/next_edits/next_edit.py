"""The next edit: what follows from what the user has just changed, or nothing.

Three steps. (1) Rules find what the recent edits ask for elsewhere (edit_patterns, call_patterns, loop_patterns); the
line at the cursor may itself be unfinished, or hold a slip of the finger. (2) The model weighs each against leaving the
code as it is, with the recent edits and both sides in view, chooses between variants, and writes what the rules leave
open. (3) Syntax has the last word. Nothing is proposed that undoes what the user did, changes white space alone,
throws code away, repeats what stands beside it, or was turned down before. Without a reason there is no edit.

Values in, values out: a task in the manner of rewriting.py. This module knows nothing about editors or the wire.
"""

import re
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from mercury_lsp.actions.repair import Ask, Judge, Work
from mercury_lsp.actions.rewriting import drive, one_value
from mercury_lsp.diffs import Hunk, apply
from mercury_lsp.edit import completion_edit
from mercury_lsp.next_edits.call_patterns import arguments, asynchronous
from mercury_lsp.next_edits.changes import MAX_CHANGES, Change, View
from mercury_lsp.next_edits.edit_patterns import HOLE, Candidate, inserted_lines, parts, renames, repeated_lines
from mercury_lsp.next_edits.loop_patterns import loops, positions
from mercury_lsp.next_edits.unfinished import Unfinished, slip_at, unfinished_at
from mercury_lsp.region import Budget, completion_region, cut_windows, request_for
from mercury_lsp.text import Document, Span, model_text
from mercury_model.draft import Draft, Infiller, Request, Scorer, Snippet

BUDGET = Budget(192, 96)
"""Tokens before and behind the place. Fixed: what is proposed must not depend on how fast a machine is."""
HISTORY_CHARS = 600
SHOWN_CHANGES = 4
TAIL_LINES = 3
"""Lines behind an edit by which it is weighed too."""
MAX_PLACES = 3
"""Places that are weighed; two passes each, and one more for each further variant."""
LINE_TOKENS = 40
MAX_LINES = 6
SURE = 0.5
"""Confidence of a text of the model's own, without which it is not shown."""
SURE_OF_COMMENT = 0.3
"""The same for a comment: it can be worded in many ways, none of which is very probable, and it breaks nothing."""
WORTH = 3.0
"""Nats by which a text of the model's own must beat leaving the line as it is, where the line might be finished."""

PATTERNS: tuple[Callable[[View], Iterator[Candidate]], ...] = (
    asynchronous,
    loops,
    positions,
    arguments,
    renames,
    inserted_lines,
    repeated_lines,
)
"""The likeliest first: of two edits of one place the earlier row's is weighed first."""


@dataclass(frozen=True, slots=True)
class Situation:
    """What is known when the next edit is asked for.

    changes: the recent edits of all files, oldest first. path: of the document, as the model is to see it. rejected:
    what was turned down, as (old text, new text).
    """

    document: Document
    cursor: int
    changes: tuple[Change, ...] = ()
    path: str = ""
    rejected: frozenset[tuple[str, str]] = frozenset()


def next_edit(given: Situation) -> Work:
    """The task: yields what to ask the model, returns what to replace, or None. See rewriting.py."""
    document = given.document
    plain = Document(document.uri, document.version, document.language, model_text(document.text))
    if len(plain.text) != len(document.text):  # `\r\n`: found in plain text, brought back by line and column
        moved = _Situation(plain, _moved(document, plain, given.cursor), given.changes, given.path, given.rejected)
        hunk = yield from _search(moved)
        if hunk is None:
            return None
        span = Span(_moved(plain, document, hunk.span.start), _moved(plain, document, hunk.span.end))
        return Hunk(span, hunk.new_text.replace("\n", document.newline))
    return (yield from _search(_Situation(plain, given.cursor, given.changes, given.path, given.rejected)))


def _moved(one: Document, other: Document, at: int) -> int:
    line = one.line_of(at)
    return other.line_span(line).start + at - one.line_span(line).start


@dataclass(frozen=True)
class _Situation(Situation):
    """One whose line ends are all `\\n`."""


def _search(given: _Situation) -> Work:
    view = View(given.document, given.cursor, given.changes)
    slip = slip_at(view)
    if slip is not None and _allowed(given, slip, undoing=True):
        return slip
    weighed = 0
    for variants in _grouped(_candidates(view)):
        fit: list[Hunk] = []
        for candidate in variants:
            hunk = yield from _filled(given, candidate)
            if hunk is not None and _allowed(given, hunk):
                fit.append(hunk)
        if not fit:
            continue
        best = yield from _weigh(given, fit, variants[0].need)
        if best is not None:
            return best
        weighed += 1
        if weighed == MAX_PLACES:
            break
    return (yield from _part(given, view)) or (yield from _finished(given, view))


def _candidates(view: View) -> Iterator[Candidate]:
    if view.changes:
        for pattern in PATTERNS:
            yield from pattern(view)


def _grouped(found: Iterator[Candidate]) -> Iterator[list[Candidate]]:
    """Neighbours of one group together, all others alone; the same edit only once."""
    seen: set[tuple[Hunk, ...]] = set()
    pending: list[Candidate] = []
    for candidate in found:
        if candidate.hunks in seen:
            continue
        seen.add(candidate.hunks)
        if pending and not (candidate.group and candidate.group == pending[-1].group):
            yield pending
            pending = []
        pending.append(candidate)
    if pending:
        yield pending


def joined(document: Document, hunks: Sequence[Hunk]) -> Hunk:
    """Several hunks as one, with what stands between them."""
    span = Span(hunks[0].span.start, hunks[-1].span.end)
    inner = tuple(Hunk(Span(h.span.start - span.start, h.span.end - span.start), h.new_text) for h in hunks)
    return Hunk(span, apply(span.of(document.text), inner))


# --- what may be shown -----------------------------------------------------------------------------------------------


def _allowed(given: _Situation, hunk: Hunk, *, undoing: bool = False) -> bool:
    """Whether an edit may be shown at all, however likely it is."""
    document = given.document
    old, new = hunk.span.of(document.text), hunk.new_text
    if old.split() == new.split() or (old, new) in given.rejected:
        return False
    if len(old.split()) > 8 and len(new.split()) < 0.4 * len(old.split()):
        return False
    if not undoing and _undoes(given, hunk):
        return False
    return Judge.of(document, hunk).keeps(hunk)


def _undoes(given: _Situation, hunk: Hunk) -> bool:
    """Whether the lines after the edit are again what a recent edit changed, or bring a line back that it took out."""
    document = given.document
    first, last = document.line_of(hunk.span.start), document.line_of(hunk.span.end)
    top, bottom = document.line_span(first).start, document.line_span(last).end
    before = document.text[top:bottom].split("\n")
    after = (document.text[top : hunk.span.start] + hunk.new_text + document.text[hunk.span.end : bottom]).split("\n")
    appeared = {n.strip() for n in after if n not in before and n.strip()}
    gone = {n.strip() for n in before if n not in after and n.strip()}
    for change in given.changes:
        old, new = ({n.strip() for n in text.split("\n") if n.strip()} for text in (change.old, change.new))
        if appeared & (old - new) and gone & (new - old):
            return True
    return False


# --- the model's word ------------------------------------------------------------------------------------------------


def history(changes: Sequence[Change]) -> tuple[Snippet, ...]:
    """The newest edits as diffs without context, for the model's eyes; what is too long is left out."""
    shown: list[Snippet] = []
    room = HISTORY_CHARS
    for change in reversed(changes[-SHOWN_CHANGES:]):
        text = "".join(f"-{n}\n" for n in change.old.split("\n") if change.old)
        text += "".join(f"+{n}\n" for n in change.new.split("\n") if change.new)
        room -= len(text)
        if room < 0:
            break
        shown.insert(0, Snippet(f"{change.path}.diff", model_text(text)))
    return tuple(shown)


def _request(given: _Situation, hole: Span, infiller: Infiller, **fields: object) -> Request:
    text = given.document.text
    before, after = cut_windows(given.document, hole, BUDGET, infiller.count_tokens)
    common: dict[str, object] = {
        "prefix": before.of(text),
        "suffix": after.of(text),
        "document": given.document.uri + "#next",
        "path": given.path,
        "context": history(given.changes),
    }
    return Request(**(common | fields))  # type: ignore[arg-type]


@dataclass
class _Gains:
    """Nats that each edit gains over leaving the code as it is; None where nobody could say."""

    values: list[float] | None = field(default=None)


def _weigh(given: _Situation, hunks: Sequence[Hunk], need: float) -> Work:
    """The best of the edits, if it makes the code more probable by `need`; without a judge only what is evident."""
    gains = _Gains()
    yield partial(_ask_gains, given, hunks, gains)
    if gains.values is None:
        return hunks[0] if need < 0 else None
    best = max(range(len(hunks)), key=gains.values.__getitem__)
    return hunks[best] if gains.values[best] >= need else None


def _ask_gains(given: _Situation, hunks: Sequence[Hunk], gains: _Gains, infiller: Infiller) -> None:
    if not isinstance(infiller, Scorer):
        return
    document = given.document
    first = document.line_of(min(h.span.start for h in hunks))
    last = document.line_of(max(h.span.end for h in hunks)) + TAIL_LINES
    area = Span(document.line_span(first).start, document.line_span(last, keepend=True).end)
    after = [
        document.text[area.start : h.span.start] + h.new_text + document.text[h.span.end : area.end] for h in hunks
    ]
    found = infiller.log_likelihood(_request(given, area, infiller), [area.of(document.text), *after])
    if found is not None:
        gains.values = [value - found[0] for value in found[1:]]


def _filled(given: _Situation, candidate: Candidate) -> Generator[Ask, Draft | None, Hunk | None]:
    """The candidate as one hunk; what it leaves open is written by the model, and must be sure."""
    hunk = joined(given.document, candidate.hunks)
    at = hunk.new_text.find(HOLE)
    if at < 0:
        return hunk
    cursor = hunk.span.start + at
    variant = given.document.apply(hunk.span, hunk.new_text.replace(HOLE, ""), None)
    opened = _Situation(variant, cursor, given.changes, given.path)
    draft = yield partial(_value_request, opened)
    text = draft.text[: one_value(draft.text)].strip() if draft is not None else ""
    if draft is None or not text or "\n" in text or draft.confidence < SURE:
        return None
    return Hunk(hunk.span, hunk.new_text.replace(HOLE, text))


def _value_request(given: _Situation, infiller: Infiller) -> Request:
    hole = Span(given.cursor, given.cursor)
    return _request(given, hole, infiller, max_tokens=12, end=one_value)


def _part(given: _Situation, view: View) -> Work:
    """One word of a name was changed: the name, where it is still being typed, and the same word in its body."""
    plain = next(parts(view), None)
    if plain is None:
        return None
    found = [plain]
    rest = yield from _rest_of_word(given, view)
    if rest:
        found = [*parts(view, rest), plain]
    fit = [hunk for c in found if _allowed(given, hunk := joined(given.document, c.hunks))]
    return (yield from _weigh(given, fit, plain.need)) if fit else None


def _rest_of_word(given: _Situation, view: View) -> Generator[Ask, Draft | None, str]:
    """The word at the cursor as the model would go on with it; empty if it is whole."""
    word = next((m for m in re.finditer(r"\w+", view.text) if m.start() <= view.cursor <= m.end()), None)
    if word is None:
        return ""
    hole = Span(word.end(), word.end())
    draft = yield lambda infiller: _request(given, hole, infiller, max_tokens=6, end=_word_end)
    rest = draft.text[: _word_end(draft.text)] if draft is not None and draft.confidence >= SURE else ""
    return word.group() + rest if rest else ""


def _word_end(text: str) -> int | None:
    found = re.search(r"\W", text)
    return found.start() if found is not None else None


# --- the rest of a line ----------------------------------------------------------------------------------------------


def _finished(given: _Situation, view: View) -> Work:
    """The rest of an unfinished line."""
    gap = unfinished_at(view)
    if gap is None:
        return None
    region = completion_region(gap.variant, gap.cursor, BUDGET, len)
    if region is None:
        return None
    draft = yield partial(_line_request, given, gap)
    if draft is None or draft.confidence < (SURE_OF_COMMENT if gap.lead else SURE):
        return None
    lines = draft.text.split("\n")[: MAX_LINES if region.kind == "block" else 1]
    edit = completion_edit(region, "\n".join(lines), confidence=draft.confidence)
    if edit is None or not re.search(r"\w", edit.new_text):
        return None
    shift = len(gap.variant.text) - len(given.document.text)
    end = max(edit.span.end, gap.cursor) - shift
    start = gap.cursor - len(gap.lead)
    hunk = Hunk(Span(start, end), gap.lead + gap.variant.text[gap.cursor : edit.span.start] + edit.new_text)
    if not _allowed(given, hunk):
        return None
    if gap.certain:
        judge = Judge.of(given.document, hunk)
        mends = judge.base is None or (judge.after(hunk) or 0) < max(judge.base.total, 1)
        return hunk if mends else None
    return (yield from _weigh(given, [hunk], WORTH))


def _line_request(given: _Situation, gap: Unfinished, infiller: Infiller) -> Request | None:
    region = completion_region(gap.variant, gap.cursor, BUDGET, infiller.count_tokens)
    if region is None:
        return None
    return request_for(
        region,
        max_tokens=LINE_TOKENS,
        document=given.document.uri + "#next",
        path=given.path,
        context=history(given.changes),
    )


# --- for the evaluation ----------------------------------------------------------------------------------------------


class Edited(Protocol):
    @property
    def path(self) -> str: ...
    @property
    def old(self) -> str: ...
    @property
    def new(self) -> str: ...


class Asked(Protocol):
    """A scenario: row 1-based, col 0-based, history oldest first."""

    @property
    def path(self) -> str: ...
    @property
    def language(self) -> str: ...
    @property
    def buffer(self) -> str: ...
    @property
    def row(self) -> int: ...
    @property
    def col(self) -> int: ...
    @property
    def history(self) -> Sequence[Edited]: ...
    @property
    def modified(self) -> bool: ...


def predict(infiller: Infiller, scenario: Asked) -> str | None:
    """The whole buffer after the predicted edit, None for silence."""
    if not scenario.modified:
        return None
    document = Document(f"eval:///{scenario.path}", 1, scenario.language, scenario.buffer)
    line = document.line_span(scenario.row - 1)
    cursor = min(line.start + scenario.col, line.end)
    changes = tuple(Change(e.path, e.old, e.new) for e in scenario.history)[-MAX_CHANGES:]
    hunk = drive(next_edit(Situation(document, cursor, changes, scenario.path)), lambda: infiller)
    return apply(document.text, (hunk,)) if hunk is not None else None
