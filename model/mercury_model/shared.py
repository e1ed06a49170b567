"""Passes for many requests at once: what may share a pass does, the rest gets one pass each in turn.

Fillings of a block denoiser share (see batch.py); rewrites and runs of several candidates bring batches of their own.
One run's error ends that run and no other. This module knows nothing about who asks, nor when.
"""

from __future__ import annotations

from collections.abc import Generator, Hashable, Iterator
from dataclasses import replace

from mercury_model.batch import Batch, Steps
from mercury_model.denoiser import Ask, BlockDenoiser
from mercury_model.draft import AUTO, Draft, Request
from mercury_model.effort import DIALS
from mercury_model.filling import Run
from mercury_model.infill import default_policy, infill
from mercury_model.policy import Proposals
from mercury_model.prompt import prompt
from mercury_model.rounds import fill_judged
from mercury_model.span_denoiser import SpanDenoiser

Event = Draft | Exception | None
"""A draft, the error that ended a run, or its end."""


class SharedPasses:
    """Runs under way, by key. Requests that run together need document names of their own."""

    def __init__(self, denoiser: BlockDenoiser | SpanDenoiser) -> None:
        self._denoiser = denoiser
        self._batch = Batch(denoiser.transformer)
        self._alone: dict[Hashable, Iterator[Draft]] = {}
        self._shared: set[Hashable] = set()
        self._errors: dict[Hashable, Exception] = {}

    def add(self, key: Hashable, request: Request, /) -> None:
        """RequestError for a request that cannot be served."""
        denoiser = self._denoiser
        several = max(request.candidates, DIALS[request.effort].candidates) > 1
        if request.original is not None or several or not (isinstance(denoiser, BlockDenoiser) and denoiser.causal):
            self._alone[key] = infill(denoiser, request)
            return
        if request.policy == AUTO:
            request = replace(request, policy=default_policy(denoiser))
        run = Run(denoiser, request, denoiser.session(request.document), prompt(denoiser.tokens, request))
        self._shared.add(key)
        self._batch.add(key, self._guarded(key, fill_judged(run)))

    def remove(self, key: Hashable, /) -> None:
        self._shared.discard(key)
        self._batch.remove(key)
        alone = self._alone.pop(key, None)
        if isinstance(alone, Generator):
            alone.close()

    def step(self) -> list[tuple[Hashable, Event]]:
        """One pass for every run; the last event of a run is an error or None."""
        events: list[tuple[Hashable, Event]] = []
        for key, draft in self._batch.step():
            events.append((key, draft))
            if draft.done:
                self._shared.discard(key)
                events.append((key, None))
        for key, error in self._errors.items():
            self._shared.discard(key)
            events.append((key, error))
        self._errors.clear()
        for key, run in list(self._alone.items()):
            try:
                event: Event = next(run, None)
            except Exception as error:
                event = error
            if not isinstance(event, Draft):
                del self._alone[key]
            events.append((key, event))
        return events

    def _guarded(self, key: Hashable, steps: Steps) -> Generator[Draft | Ask, Proposals | None, None]:
        try:
            yield from steps
        except Exception as error:
            self._errors[key] = error
