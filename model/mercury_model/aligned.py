"""The block kind of other publishers: the context, too, was trained in blocks, each seeing itself whole.

Blocks stand at multiples of the block size, the prompt's last, unfinished one included: its tokens and the first
slots are denoised together. Keys and values are kept of finished blocks only, and those are exact. There is no causal
pass: such checkpoints cannot say what they would have written token by token.

This module knows nothing about policies, ends of middles or text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from mercury_model.denoiser import PREFILL_ROWS, Ask, BlockDenoiser, Choice, Scored, Session, Watch, propose
from mercury_model.errors import RequestError
from mercury_model.policy import Proposals
from mercury_model.tokens import Tokens
from mercury_model.transformer import Rows, Transformer


class AlignedSession(Session):
    """ids: tokens of finished blocks, which the cache holds; what comes after them is run again in every pass."""

    def __init__(self, transformer: Transformer, *, block: int, shift: int, never: tuple[int, ...]) -> None:
        super().__init__(transformer)
        self._block, self._shift, self._never = block, shift, never
        self._tail: list[int] = []

    def prefill(self, ids: Sequence[int], then: Choice | None = None) -> Iterator[Ask]:
        """Passes that make the cache hold the finished blocks of `ids`, reusing the common beginning.

        then: never given, for nothing here says what comes behind a token.
        """
        del self.ids[self.common(ids) // self._block * self._block :]
        whole = len(ids) // self._block * self._block
        self._tail = list(ids[whole:])
        rows = max(PREFILL_ROWS // self._block, 1) * self._block
        while len(self.ids) < whole:
            part = list(ids[len(self.ids) : min(len(self.ids) + rows, whole)])
            yield Ask(self._blocks(part), lambda hidden: None)
            self.ids.extend(part)

    def draft(self, last: int, slots: Sequence[int], choice: Choice, *, to_check: bool = False) -> Ask:
        """One pass over the unfinished block and the slots: a proposal per slot. Nothing is kept."""
        return self._about_slots([*self._tail, last, *slots], len(slots), choice)

    def check(self, ids: Sequence[int], choice: Choice, watch: Watch | None = None) -> Ask:
        """One pass over the last known token and the finished slots behind it; keep(n) adopts the first n of them.

        watch: never given, for these checkpoints end their texts themselves.
        """
        self._checked = [*self._tail, *ids]
        return self._about_slots(self._checked, len(ids) - 1, choice)

    def score(self, ids: Sequence[int], targets: Sequence[int]) -> Scored:
        raise RequestError("this checkpoint cannot find doubtful code by itself: point at it, or give an instruction")

    def keep(self, n: int) -> None:
        known = self._checked[: len(self._tail) + n]
        whole = (len(self.ids) + len(known)) // self._block * self._block - len(self.ids)
        self.ids.extend(known[:whole])
        self._tail = known[whole:]

    def _about_slots(self, ids: Sequence[int], n: int, choice: Choice) -> Ask:
        first = len(ids) - n - self._shift

        def read(hidden: Tensor) -> Proposals:
            return propose(hidden[first : first + n], self._transformer, choice, self._never)

        return Ask(self._blocks(ids), read)

    def fork(self) -> Session:
        twin = AlignedSession(self._transformer, block=self._block, shift=self._shift, never=self._never)
        twin.ids, twin.cache = list(self.ids), self.cache.copy(len(self.ids))
        return twin

    def _blocks(self, ids: Sequence[int]) -> Rows:
        tensor = torch.tensor(ids, dtype=torch.int64, device=self._transformer.device)
        return Rows(tensor, self.cache, len(self.ids), block=self._block)


class AlignedDenoiser(BlockDenoiser):
    """never: ids that are no answer for a slot."""

    causal = False

    def __init__(
        self,
        transformer: Transformer,
        tokens: Tokens,
        *,
        mask_id: int,
        block_size: int,
        shift: int,
        never: tuple[int, ...] = (),
    ) -> None:
        super().__init__(transformer, tokens, mask_id=mask_id, block_size=block_size)
        self._shift = shift
        self._never = (*never, mask_id)

    def new_session(self) -> Session:
        return AlignedSession(self.transformer, block=self.block_size, shift=self._shift, never=self._never)
