"""The canvas: the slots of the region being denoised, each masked, tentative or settled.

Values only: showing or hiding slots gives a new canvas. This module knows nothing about logits, caches or text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from mercury_model.draft import SlotState


@dataclass(frozen=True, slots=True)
class Canvas:
    """tokens[i] is meaningful where states[i] is not "masked". All sequences have the same length.

    fixed: slots that belong to the context and never change.
    """

    tokens: tuple[int, ...]
    states: tuple[SlotState, ...]
    confidence: tuple[float, ...]
    revised: tuple[bool, ...]
    fixed: tuple[bool, ...]

    @staticmethod
    def masked(n: int, mask_id: int) -> Canvas:
        return Canvas((mask_id,) * n, ("masked",) * n, (0.0,) * n, (False,) * n, (False,) * n)

    @staticmethod
    def seeded(guess: Sequence[int], n: int, mask_id: int) -> Canvas:
        """The first slots hold a guess (tentative), the rest are masked; n slots in all."""
        guess = guess[:n]
        rest = n - len(guess)
        return Canvas(
            (*guess, *(mask_id,) * rest),
            (*("tentative",) * len(guess), *("masked",) * rest),  # pyright: ignore[reportArgumentType]
            (0.0,) * n,
            (False,) * n,
            (False,) * n,
        )

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def n_open(self) -> int:
        return self.states.count("masked")

    def model_input(self, mask_id: int) -> list[int]:
        return [mask_id if s == "masked" else t for t, s in zip(self.tokens, self.states, strict=True)]

    def after(
        self, proposed: Sequence[int], confidence: Sequence[float], visible: Sequence[bool], mask_id: int
    ) -> Canvas:
        """The canvas after a step: `visible` slots show the proposed token, the others are masked.

        A slot that shows a different token than before is marked as revised. Fixed slots stay.
        """
        tokens, states = list(self.tokens), list(self.states)
        sure, revised = list(self.confidence), list(self.revised)
        for i, show in enumerate(visible):
            if self.fixed[i]:
                continue
            if not show:
                revised[i] = revised[i] or states[i] != "masked"
                tokens[i], states[i], sure[i] = mask_id, "masked", 0.0
                continue
            if states[i] != "masked" and tokens[i] != proposed[i]:
                revised[i] = True
            tokens[i], states[i], sure[i] = proposed[i], "tentative", confidence[i]
        return Canvas(tuple(tokens), tuple(states), tuple(sure), tuple(revised), self.fixed)

    def resized(self, growing: set[int], shrinking: set[int], mask_id: int) -> Canvas:
        """Masked slots in `growing` become two, those in `shrinking` vanish; the others keep their order.

        The canvas is built anew from left to right, so that no index moves while others are still to be applied.
        """
        source: list[int] = []
        for i in range(len(self)):
            if i in growing | shrinking:
                assert self.states[i] == "masked" and not self.fixed[i], "only open slots change the length"
            source += [] if i in shrinking else [i, i] if i in growing else [i]
        return Canvas(
            tuple(mask_id if self.states[i] == "masked" else self.tokens[i] for i in source),
            tuple(self.states[i] for i in source),
            tuple(self.confidence[i] for i in source),
            tuple(self.revised[i] for i in source),
            tuple(self.fixed[i] for i in source),
        )

    def settled(self) -> Canvas:
        return replace(self, states=tuple("settled" if s == "tentative" else s for s in self.states))
