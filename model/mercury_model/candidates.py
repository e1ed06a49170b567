"""Several different texts for one region, in one batched run, the most probable first.

The first text is the model's own. The others begin with its next best first tokens and go on greedily, so they differ
where it matters and none is noise. They are ranked by their own causal likelihood per token and, where there is a
judge, by its objections. This module knows nothing about how a text is filled.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from mercury_model.batch import Batch
from mercury_model.denoiser import BlockDenoiser, perform
from mercury_model.draft import Draft, Request
from mercury_model.effort import DIALS
from mercury_model.filling import Run, draft_of
from mercury_model.prompt import prompt
from mercury_model.rounds import fill_judged


def infill_candidates(denoiser: BlockDenoiser, request: Request) -> Iterator[Draft]:
    """Drafts of all candidates (Draft.candidate counts from 0), then one finished draft per different text.

    The finished ones come best first. With request.candidates = 1 (an effort that draws several) only the best comes.
    """
    n = max(request.candidates, DIALS[request.effort].candidates)
    session = denoiser.session(request.document)
    shown = prompt(denoiser.tokens, request)
    for ask in session.prefill(shown.ids[:-1]):
        perform(denoiser.transformer, [ask])
    runs: list[Run] = []
    batch = Batch(denoiser.transformer)
    barred: frozenset[int] = frozenset()
    for k in range(n):
        run = Run(denoiser, request, session if k == 0 else session.fork(), shown, barred, candidate=k)
        first = perform(denoiser.transformer, [run.session.check([shown.ids[-1]], run.choice())])[0]
        assert first is not None
        if denoiser.tokens.is_special(first.token[0]) and k:
            break
        barred |= {first.token[0]}
        runs.append(run)
        batch.add(k, fill_judged(run))
    while batch:
        for _, draft in batch.step():
            if not draft.done:
                yield draft
    ranked = sorted(runs, key=lambda run: (_objections(run), -run.confidence))
    different = list({run.text: run for run in reversed(ranked)}.values())[::-1]
    for run in different[: max(request.candidates, 1)]:
        yield replace(draft_of(run, None), done=True)


def _objections(run: Run) -> int:
    return len(run.request.judge(run.text)) if run.request.judge is not None else 0
