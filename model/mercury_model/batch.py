"""Several runs share passes: each step runs what all of them want next in one pass.

A run's results are those it gets alone, bit for bit on the CPU, since a row's arithmetic does not depend on its
neighbours. Runs may join and leave between steps. This module knows nothing about what runs do with the answers, nor
about fairness: every run gets one pass a step.
"""

from __future__ import annotations

from collections.abc import Generator, Hashable

from mercury_model.denoiser import Ask, perform
from mercury_model.draft import Draft
from mercury_model.policy import Proposals
from mercury_model.transformer import Transformer

Steps = Generator[Draft | Ask, Proposals | None, None]
"""A run under way: yields Asks, to be answered by send(), and a Draft after each pass."""


class Batch:
    """Runs under way, by key. Truthy while there are any."""

    def __init__(self, transformer: Transformer) -> None:
        self._transformer = transformer
        self._steps: dict[Hashable, Steps] = {}
        self._asks: dict[Hashable, Ask] = {}

    def __len__(self) -> int:
        return len(self._steps)

    def add(self, key: Hashable, steps: Steps) -> None:
        """A run whose first pass is part of the next step. Runs must not share a session."""
        self._steps[key] = steps

    def remove(self, key: Hashable) -> None:
        """Drop a run; unknown keys are ignored."""
        self._asks.pop(key, None)
        steps = self._steps.pop(key, None)
        if steps is not None:
            steps.close()

    def step(self) -> list[tuple[Hashable, Draft]]:
        """One pass for all; the drafts that came of it, in the order of the runs."""
        answers: dict[Hashable, Proposals | None] = {}
        if self._asks:
            keys = list(self._asks)
            answers = dict(zip(keys, perform(self._transformer, list(self._asks.values())), strict=True))
            self._asks.clear()
        drafts: list[tuple[Hashable, Draft]] = []
        for key in list(self._steps):
            drafts += [(key, draft) for draft in self._advance(key, answers.get(key))]
        return drafts

    def _advance(self, key: Hashable, reply: Proposals | None) -> list[Draft]:
        """Send the answer in and go on to the run's next question, or its end."""
        drafts: list[Draft] = []
        while True:
            try:
                item = self._steps[key].send(reply)
            except StopIteration:
                del self._steps[key]
                return drafts
            reply = None
            if isinstance(item, Ask):
                self._asks[key] = item
                return drafts
            drafts.append(item)
