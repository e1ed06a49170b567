"""Judge rounds: a text that the judge objects to is masked again where it objects, with the earlier choice barred.

For a causal block denoiser, masking a slot again means to write again from there: what stood before it stays (and
its keys stay in the cache), what stood behind it may be copied into the new rest. The slot chosen is the least sure one
under the objection. A round counts only if it strictly reduces the objections; the best text wins.

This module knows nothing about what a judge looks at (the server's is tree-sitter).
"""

from __future__ import annotations

from collections.abc import Sequence

from mercury_model.batch import Steps
from mercury_model.denoiser import Ask
from mercury_model.filling import Run, draft_of, fill, from_slot
from mercury_model.policy import Proposals

NEAR = 6
"""Slots before an objection that may be its cause: a parser notices a wrong token a little late."""


def fill_judged(run: Run) -> Steps:
    """Like fill, with up to the dial's rounds of second thoughts; only the last draft has done=True."""
    judge = run.request.judge
    if judge is None or run.dial.rounds == 0:
        yield from fill(run)
        return
    best = run
    yield from unfinished(fill(run))
    objections = judge(best.text)
    tried: dict[int, set[int]] = {}
    for _ in range(run.dial.rounds):
        if not objections or best.late() or best.ended == "deadline":
            break
        again = doubtful_slot(best, objections, tried)
        if again is None:
            break
        barred = tried.setdefault(again, set())
        barred.add(best.out[again])
        attempt = from_slot(best, again, frozenset(barred), best.session)
        yield from unfinished(fill(attempt))
        left = judge(attempt.text)
        if len(left) < len(objections):
            attempt.candidate, best, objections, tried = best.candidate, attempt, left, {}
        else:
            best.forwards, best.prefilled = attempt.forwards, attempt.prefilled
    yield draft_of(best, None)


def unfinished(steps: Steps) -> Steps:
    """The same steps without the last draft."""
    reply: Proposals | None = None
    try:
        while True:
            item = steps.send(reply)
            reply = None
            if isinstance(item, Ask):
                reply = yield item
            elif not item.done:
                yield item
    except StopIteration:
        return


def doubtful_slot(run: Run, objections: Sequence[tuple[int, int]], tried: dict[int, set[int]]) -> int | None:
    """The least sure token under the first objection, or a little before it; None if there is none left to try."""
    ends = _ends(run)
    start, end = objections[0]
    under = [i for i, e in enumerate(ends) if e > start and (i == 0 or ends[i - 1] < max(end, start + 1))]
    first = under[0] if under else len(ends)
    # first what lies under the objection, then what lies before it; what was tried once goes last
    slots = [i for i in range(max(0, first - NEAR), under[-1] + 1 if under else len(ends)) if len(tried.get(i, ())) < 2]
    return min(slots, key=lambda i: (len(tried.get(i, ())), i not in under, run.log_p[i]), default=None)


def _ends(run: Run) -> list[int]:
    """For each token, how many characters of the text there are behind it."""
    return [len(run.shown(run.out[: i + 1])) for i in range(len(run.out))]
