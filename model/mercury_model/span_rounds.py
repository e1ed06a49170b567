"""Second thoughts of the bidirectional kind: judge rounds and further candidates.

Both mask some slots of a finished canvas again, with the earlier choice barred there, and denoise them with everything
else in view and in place. This module knows nothing about what a judge looks at (the server's is tree-sitter).
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace

from mercury_model.canvas import Canvas
from mercury_model.draft import Draft
from mercury_model.policy import DOUBT
from mercury_model.refine import refine
from mercury_model.span_run import SpanRun, draft_of, text_of


def judged(run: SpanRun, canvas: Canvas) -> Generator[Draft, None, Canvas]:
    """Mask again what the judge objects to; a round counts only if it leaves fewer objections."""
    judge = run.request.judge
    if judge is None:
        return canvas
    objections = judge(text_of(run, canvas.tokens))
    for _ in range(run.dial.rounds):
        again = _under(run, canvas, objections)
        if not objections or not again or run.late:
            break
        for i in again:
            run.barred.setdefault(i, set()).add(canvas.tokens[i])
        attempt = yield from _denoised_again(run, canvas, again)
        left = judge(text_of(run, attempt.tokens))
        if len(left) < len(objections):
            canvas, objections = attempt, left
    run.barred.clear()
    return canvas


def candidates(run: SpanRun, canvas: Canvas) -> Iterator[Draft]:
    """Drafts of further texts; then one finished draft per different text, fewest objections and most probable first.

    Each further text leaves the first one where it was least sure: that slot's choice is barred, and what else was
    doubtful is denoised again with it. As many finished drafts come as the request asks for.
    """
    first = run.candidate
    found = [(canvas, first)]
    free = [i for i, fixed in enumerate(canvas.fixed) if not fixed]
    least_sure = sorted(free, key=lambda i: canvas.confidence[i])
    for slot in least_sure[: max(run.request.candidates, run.dial.candidates) - 1]:
        if run.hurry():
            break
        run.candidate += 1
        run.barred = {slot: {canvas.tokens[slot]}}
        again = {slot, *(i for i in free if canvas.confidence[i] < DOUBT)}
        other = yield from _denoised_again(run, canvas, again)
        found.append((other, run.candidate))
    run.barred = {}
    ranked = sorted(found, key=lambda pair: (_objections(run, pair[0]), -_sureness(run, pair[0])))
    texts: dict[str, tuple[Canvas, int]] = {}
    for pair in ranked:
        texts.setdefault(text_of(run, pair[0].tokens), pair)
    for best, number in list(texts.values())[: max(run.request.candidates, 1)]:
        run.candidate = number
        yield run.finish(best)


def _denoised_again(run: SpanRun, canvas: Canvas, again: set[int]) -> Generator[Draft, None, Canvas]:
    """The canvas with these slots masked and filled anew; all others are fixed meanwhile, and so is the length."""
    mask_id = run.model.mask_id
    n = len(canvas)
    attempt = Canvas(
        tuple(mask_id if i in again else t for i, t in enumerate(canvas.tokens)),
        tuple("masked" if i in again else "settled" for i in range(n)),
        tuple(0.0 if i in again else c for i, c in enumerate(canvas.confidence)),
        tuple(i in again or r for i, r in enumerate(canvas.revised)),
        tuple(i not in again for i in range(n)),
    )
    for step in refine(attempt, run.propose, run.policy, run.dial.span_steps, mask_id, hurry=run.hurry):
        attempt = step
        if attempt.n_open:
            yield draft_of(run, attempt)
    return replace(attempt, fixed=canvas.fixed)


def _under(run: SpanRun, canvas: Canvas, spans: Sequence[tuple[int, int]]) -> set[int]:
    """Slots under these characters of the text that may change; an empty span means the character behind it."""
    decode = run.model.tokens.decode
    ends = [len(decode(canvas.tokens[: i + 1])) - len(run.healed) for i in range(len(canvas))]
    found: set[int] = set()
    for start, stop in spans:
        start = min(start, max(ends, default=0) - 1)
        stop = max(stop, start + 1)
        found |= {i for i, end in enumerate(ends) if end > start and (i == 0 or ends[i - 1] < stop)}
    return {i for i in found if not canvas.fixed[i]}


def _objections(run: SpanRun, canvas: Canvas) -> int:
    return len(run.request.judge(text_of(run, canvas.tokens))) if run.request.judge is not None else 0


def _sureness(run: SpanRun, canvas: Canvas) -> float:
    return draft_of(run, canvas).confidence
