"""Several different texts for one region, the others in one batched run, the model's own first.

The first text is the model's own. The others leave it where the model was least sure, with its next best token
there, and go on greedily: they differ where it matters and none is noise. They are ranked by the judge's objections,
where there is a judge; among equals the model's own text comes first, the others by their likelihood per token (a
long text that copies the suffix is likely too, and wrong). This module knows nothing about how a text is filled.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from mercury_model.batch import Batch
from mercury_model.denoiser import BlockDenoiser
from mercury_model.draft import Draft, Request
from mercury_model.effort import DIALS
from mercury_model.filling import Run, draft_of, drive, from_slot
from mercury_model.prompt import prompt
from mercury_model.rounds import fill_judged


def infill_candidates(denoiser: BlockDenoiser, request: Request) -> Iterator[Draft]:
    """Drafts of all candidates (Draft.candidate counts from 0), then one finished draft per different text.

    The finished ones come best first. With request.candidates = 1 (an effort that draws several) only the best comes.
    """
    n = max(request.candidates, DIALS[request.effort].candidates)
    session = denoiser.session(request.document)
    own = Run(denoiser, request, session, prompt(denoiser.tokens, request))
    for draft in drive(own, fill_judged(own)):
        if not draft.done:
            yield draft
    runs = [own]
    batch = Batch(denoiser.transformer)
    for slot in _least_sure(own)[: n - 1]:
        run = from_slot(own, slot, frozenset((own.out[slot],)), session.fork())
        run.candidate = len(runs)
        runs.append(run)
        batch.add(run.candidate, fill_judged(run))
    while batch:
        for _, draft in batch.step():
            if not draft.done:
                yield draft
    ranked = sorted(runs, key=lambda run: (_objections(run), run is not own, -run.confidence))
    different: dict[str, Run] = {}
    for run in ranked:  # of equal texts the best one counts, at its own place
        different.setdefault(run.text, run)
    for run in list(different.values())[: max(request.candidates, 1)]:
        yield replace(draft_of(run, None), done=True)


def _least_sure(run: Run) -> list[int]:
    """Slots of the run, the least sure first; not those that only give back what was healed."""
    free = [i for i in range(len(run.out)) if run.shown(run.out[: i + 1])]
    return sorted(free, key=lambda i: run.log_p[i])


def _objections(run: Run) -> int:
    return len(run.request.judge(run.text)) if run.request.judge is not None else 0
