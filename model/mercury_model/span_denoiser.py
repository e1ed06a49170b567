"""The bidirectional denoiser: prefix, canvas and suffix under full attention, the canvas somewhere in the middle.

Exact denoising runs the whole sequence in every pass. Between such passes a session may run the canvas alone: the keys
and values of prefix and suffix are kept from the last whole pass (the dual cache of Fast-dLLM, Wu et al. 2025, arXiv
2505.22618), and when the canvas grows or the user types, kept keys are turned to their new places and only new tokens
are run. That is an approximation, since what stands around the canvas would have seen it change; `refresh_every` and
`reuse_tokens` bound how old it gets, and refresh_every=1 switches it off.

The logit shift is undone here: proposal i is about slot i. A shifted checkpoint predicts the first slot at the token
before it, so that token is run with the canvas in every pass, never kept.

This module knows nothing about policies, ends of middles or text.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from mercury_model.denoiser import Choice, propose
from mercury_model.length import first_step_confidence
from mercury_model.policy import Proposals
from mercury_model.sessions import Sessions
from mercury_model.span_run import NONE, Barred, SpanTokens
from mercury_model.transformer import Rows, Transformer

REFRESH_EVERY = 8
"""Every so many passes of a session run everything. Measured drift: see tests/model/test_bidirectional.py."""
REUSE_TOKENS = 64
"""Tokens around the canvas that may change before what was kept is computed anew."""


class SpanSession:
    """One document's prefix and suffix, and the keys and values kept of them.

    Cache rows 0..k-1 hold tokens around the canvas in any order (attention does not mind): `_prefix_row[i]` and
    `_suffix_row[j]` say where token i of the prefix and token j of the suffix are, `_position[row]` for which place the
    row's key is turned. The canvas is written behind them and overwritten by the next pass.
    """

    def __init__(self, transformer: Transformer, *, shift: int, refresh_every: int, reuse_tokens: int) -> None:
        self._transformer = transformer
        self._shift, self._refresh_every, self._reuse_tokens = shift, refresh_every, reuse_tokens
        self.cache = transformer.new_cache()
        self.prefilled = 0
        self._prefix: list[int] = []
        self._suffix: list[int] = []
        self._prefix_row: dict[int, int] = {}
        self._suffix_row: dict[int, int] = {}
        self._position: list[int] = []
        self._passes = 0
        self._changed = 0

    def open(self, prefix: Sequence[int], suffix: Sequence[int]) -> None:
        """Set what stands around the canvas; what is kept of the tokens common with before stays of use."""
        self.prefilled = 0
        prefix, suffix = list(prefix), list(suffix)
        front = _common(self._prefix, prefix)
        head, tail = _common(self._suffix, suffix), _common(self._suffix[::-1], suffix[::-1])
        # typing over what follows drops the suffix's head, a moving window its tail
        offset, kept = (0, range(head)) if head >= tail else (len(self._suffix) - len(suffix), range(-tail, 0))
        kept_suffix = {j % len(suffix): self._suffix_row.get(j % len(suffix) + offset) for j in kept} if suffix else {}
        kept_prefix = {i: self._prefix_row.get(i) for i in range(min(front, len(prefix) - self._shift))}
        self._changed += len(prefix) - front + len(self._prefix) - front
        self._changed += len(suffix) + len(self._suffix) - 2 * max(head, tail)
        self._prefix, self._suffix = prefix, suffix
        self._prefix_row = {i: row for i, row in kept_prefix.items() if row is not None}
        self._suffix_row = {j: row for j, row in kept_suffix.items() if row is not None}
        if self._changed > self._reuse_tokens or not (self._prefix_row or self._suffix_row):
            self._forget()
        elif len(self._prefix_row) + len(self._suffix_row) < len(self._position):
            self._compact()

    def step(self, slots: Sequence[int], choice: Choice, banned: Sequence[int], barred: Barred = NONE) -> Proposals:
        """One pass; a proposal for each slot i, none of them in `banned` or barred[i]."""
        return propose(self._hidden(slots), self._transformer, choice, banned, barred)

    def _hidden(self, slots: Sequence[int]) -> Tensor:
        """[n, H]: row i predicts slot i."""
        if self._passes >= self._refresh_every:
            self._forget()
        self._passes += 1
        n, p = len(slots), len(self._prefix)
        before = min(self._shift, p)
        self._turn(n)
        new_suffix = [j for j in range(len(self._suffix)) if j not in self._suffix_row]
        new_prefix = [i for i in range(p - before) if i not in self._prefix_row]
        around = [self._suffix[j] for j in new_suffix] + [self._prefix[i] for i in new_prefix]
        places = [p + n + j for j in new_suffix] + new_prefix
        start = len(self._position)
        ids = [*around, *self._prefix[p - before :], *slots]
        positions = [*places, *range(p - before, p + n)]
        device = self._transformer.device
        rows = Rows(
            torch.tensor(ids, dtype=torch.int64, device=device),
            self.cache,
            start,
            bidirectional=True,
            positions=torch.tensor(positions, dtype=torch.int64),
        )
        hidden = self._transformer.forward([rows])[0][len(around) :]
        self._suffix_row |= {j: row for row, j in enumerate(new_suffix, start)}
        self._prefix_row |= {i: row for row, i in enumerate(new_prefix, start + len(new_suffix))}
        self._position += places
        self.prefilled += len(around)
        if not self._shift:
            return hidden
        # with nothing before it, the first slot is read off its own row, as the publishers do
        return hidden[:n] if before else torch.cat([hidden[:1], hidden[: n - 1]])

    def _turn(self, n: int) -> None:
        """Turn kept keys to where their tokens stand around n slots."""
        if not self._position:
            return
        want = list(self._position)
        for i, row in self._prefix_row.items():
            want[row] = i
        for j, row in self._suffix_row.items():
            want[row] = len(self._prefix) + n + j
        by = torch.tensor(want) - torch.tensor(self._position)
        if bool(by.any()):
            self._transformer.move(self.cache, slice(0, len(want)), by)
            self._position = want

    def _compact(self) -> None:
        """Close the gaps that dropped tokens left."""
        order = [*self._suffix_row.values(), *self._prefix_row.values()]
        self.cache.gather(order)
        self._position = [self._position[row] for row in order]
        self._suffix_row = {j: row for row, j in enumerate(self._suffix_row)}
        self._prefix_row = {i: row for row, i in enumerate(self._prefix_row, len(self._suffix_row))}

    def _forget(self) -> None:
        """The next pass runs everything."""
        self._prefix_row, self._suffix_row, self._position = {}, {}, []
        self._passes = self._changed = 0


def _common(a: Sequence[int], b: Sequence[int]) -> int:
    n = 0
    for x, y in zip(a, b, strict=False):
        if x != y:
            break
        n += 1
    return n


class SpanDenoiser:
    """Transformer, tokens and the documents' sessions."""

    def __init__(
        self,
        transformer: Transformer,
        tokens: SpanTokens,
        *,
        mask_id: int,
        shift: int,
        expand_id: int | None = None,
        delete_id: int | None = None,
        bos: tuple[int, ...] = (),
        eos: tuple[int, ...] = (),
        never: tuple[int, ...] = (),
        start_slots: int = 16,
        refresh_every: int = REFRESH_EVERY,
        reuse_tokens: int = REUSE_TOKENS,
    ) -> None:
        self.transformer = transformer
        self.tokens = tokens
        self.mask_id, self.expand_id, self.delete_id = mask_id, expand_id, delete_id
        self.shift = shift
        self.bos, self.eos, self.never = bos, eos, never
        self.start_slots = start_slots
        self.refresh_every, self.reuse_tokens = refresh_every, reuse_tokens
        self.sessions = Sessions(self._new)
        self._bias: dict[int, float] = {}

    def session(self, document: str) -> SpanSession:
        """The document's session; a nameless one is new each time."""
        return self.sessions.of(document)

    def length_bias(self, n: int) -> float:
        """First-step confidence of n masked slots with nothing around them; computed once for each n."""
        if n not in self._bias:
            session = self._new()
            session.open(self.bos, self.eos)
            proposals = session.step([self.mask_id] * n, Choice(), (*self.never, self.mask_id))
            self._bias[n] = first_step_confidence(proposals, self.tokens.is_special)
        return self._bias[n]

    def _new(self) -> SpanSession:
        return SpanSession(
            self.transformer, shift=self.shift, refresh_every=self.refresh_every, reuse_tokens=self.reuse_tokens
        )
