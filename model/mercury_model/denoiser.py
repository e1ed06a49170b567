"""The block denoiser: a causal context with an exact KV cache, and blocks denoised bidirectionally behind it.

A Session belongs to a document. Its cache holds the keys and values of `ids`, computed causally on the base
weights; blocks are drafted behind it without being kept, and checked or written causally. The logit shift is
undone here: row j of a block is the last known token or a slot before slot j, and what it predicts is slot j.

This module knows nothing about policies, ends of middles or text.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import torch
from torch import Tensor

from mercury_kernels import linear, log_likelihood, unmask
from mercury_model.graph import Steps
from mercury_model.policy import Proposals
from mercury_model.probe import Probe
from mercury_model.sessions import Sessions
from mercury_model.tokens import Tokens
from mercury_model.transformer import Rows, Transformer

PREFILL_ROWS = 256
"""Tokens per prefill pass: long enough for the matrix kernels, short enough to cancel between passes."""


@dataclass(frozen=True, slots=True)
class Choice:
    """How a token is chosen from its distribution; temperature 0 takes the most probable.

    first: if not empty, the only ids the first row may take (token healing). barred: ids it may not take.
    plain: every row takes its most probable token.
    """

    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    seed: int = 0
    first: tuple[int, ...] = ()
    barred: tuple[int, ...] = ()

    @property
    def plain(self) -> bool:
        return self.temperature <= 0 and not self.first and not self.barred


@dataclass(frozen=True, slots=True)
class Scored:
    """own_token, own_confidence: what the model would have written. log_p: of the targets, natural logarithms."""

    own_token: list[int]
    own_confidence: list[float]
    log_p: list[float]


@dataclass(frozen=True, slots=True)
class Ask:
    """A pass that is wanted: rows to run, and how to read their hidden states [r, H].

    alone: a quicker way to the same answer where no other pass is wanted with it; None from it: not this time.
    """

    rows: Rows
    read: Callable[[Tensor], Proposals | None]
    alone: Callable[[], Proposals | None] | None = None


Watch = Callable[[Tensor, Proposals], list[float]]
"""Hidden states [r, H] of a causal pass and what it proposes -> Proposals.ends."""


def perform(transformer: Transformer, asks: Sequence[Ask]) -> list[Proposals | None]:
    """All asks in one pass, answers in order. Each gets what it would get alone (see Transformer)."""
    if len(asks) == 1 and asks[0].alone is not None and (found := asks[0].alone()) is not None:
        return [found]
    order = sorted(range(len(asks)), key=lambda i: asks[i].rows.adapted)
    hidden = transformer.forward([asks[i].rows for i in order])
    answers: list[Proposals | None] = [None] * len(asks)
    for i, h in zip(order, hidden, strict=True):
        answers[i] = asks[i].read(h)
    return answers


class Session:
    """One document's cache. ids: the tokens whose keys and values are in it. steps: serve greedy passes, if given."""

    def __init__(self, transformer: Transformer, steps: Steps | None = None) -> None:
        self._transformer = transformer
        self._steps = steps
        self.cache = transformer.new_cache()
        self.ids: list[int] = []
        self._checked: list[int] = []
        self._ahead: tuple[list[int], Proposals, Tensor] | None = None

    def common(self, ids: Sequence[int]) -> int:
        """How many of the first `ids` are in the cache already."""
        n = 0
        for have, want in zip(self.ids, ids, strict=False):
            if have != want:
                break
            n += 1
        return n

    def prefill(self, ids: Sequence[int], then: Choice | None = None) -> Iterator[Ask]:
        """Passes that make the cache hold exactly `ids`, reusing the common beginning.

        then: where more than the last of `ids` is to be read, the last pass is answered by one proposal, the token
        behind them; otherwise there is no pass, and the last of `ids` is not read.
        """
        common = self.common(ids)
        if then is not None and common >= len(ids) - 1:
            ids, common = ids[:-1], min(common, len(ids) - 1)
        del self.ids[common:]
        self._ahead = None
        while len(self.ids) < len(ids):
            part = list(ids[len(self.ids) : len(self.ids) + PREFILL_ROWS])
            final = len(self.ids) + len(part) == len(ids)
            yield Ask(self._rows(part), lambda hidden, final=final: self._behind(hidden, then) if final else None)
            self.ids.extend(part)

    def _behind(self, hidden: Tensor, choice: Choice | None) -> Proposals | None:
        return None if choice is None else self._propose(hidden[-1:], choice)

    def draft(self, last: int, slots: Sequence[int], choice: Choice, *, to_check: bool = False) -> Ask:
        """One bidirectional pass of the adapted model over [last known token, slots]: a proposal per slot.

        Nothing is kept in the cache. The proposal for a slot that is shown has seen that slot's own token.
        to_check: a check of exactly these proposals comes next; where it can, it is run along.
        """
        ids = [last, *slots]
        rows = self._rows(ids, bidirectional=True, adapted=True)

        def alone() -> Proposals | None:
            assert self._steps is not None
            found = self._steps.run("round" if to_check else "draft", self.cache, rows.start, ids)
            if found is None:
                return None
            if to_check:
                # cloned: another session's step may come before the check is asked for
                self._ahead = ([last, *found[0].token], found[1], self._steps.hidden[: len(ids)].clone())
            return found[0]

        return Ask(rows, lambda hidden: self._propose(hidden[: len(slots)], choice), self._alone(choice, alone))

    def check(self, ids: Sequence[int], choice: Choice, watch: Watch | None = None) -> Ask:
        """One causal pass of the base over `ids`: what the model itself would write after each of them.

        Keys and values lie behind the cache's end; keep(n) adopts the first n rows. watch: sees the hidden states.
        """
        self._checked = ids = list(ids)
        ahead = self._ahead
        rows = self._rows(ids)

        def alone() -> Proposals | None:
            assert self._steps is not None
            if ahead is not None and ahead[0] == ids:
                return watched(ahead[2], ahead[1])
            found = self._steps.run("check", self.cache, rows.start, ids)
            return None if found is None else watched(self._steps.hidden[: len(ids)], found[0])

        def watched(hidden: Tensor, found: Proposals) -> Proposals:
            return found if watch is None else replace(found, ends=watch(hidden, found))

        return Ask(rows, lambda hidden: watched(hidden, self._propose(hidden, choice)), self._alone(choice, alone))

    def _alone(self, choice: Choice, answer: Callable[[], Proposals | None]) -> Callable[[], Proposals | None] | None:
        return answer if self._steps is not None and choice.plain else None

    def _propose(self, hidden: Tensor, choice: Choice) -> Proposals:
        if choice.first and set(choice.first) <= set(choice.barred):
            choice = replace(choice, barred=())  # what was healed has one continuation: it stays
        return propose(hidden, self._transformer, choice)

    def score(self, ids: Sequence[int], targets: Sequence[int]) -> Scored:
        """Causal passes of the base over `ids`: how probable targets[i] is behind them up to i. The cache stays."""
        own_token: list[int] = []
        own_confidence: list[float] = []
        log_p: list[float] = []
        base = len(self.ids)
        for at in range(0, len(ids), PREFILL_ROWS):
            part = list(ids[at : at + PREFILL_ROWS])
            hidden = self._transformer.forward([self._rows(part)])[0]
            self.ids.extend(part)
            want = torch.tensor(targets[at : at + PREFILL_ROWS], device=hidden.device)
            log_p += log_likelihood(hidden, self._transformer.weights.lm_head, want).tolist()
            own = self._propose(hidden, Choice())
            own_token += own.token
            own_confidence += own.confidence
        del self.ids[base:]
        return Scored(own_token, own_confidence, log_p)

    def keep(self, n: int) -> None:
        self.ids.extend(self._checked[:n])

    def fork(self) -> Session:
        """A session of its own with the same cache: what runs there leaves this one as it is."""
        twin = Session(self._transformer, self._steps)
        twin.ids = list(self.ids)
        twin.cache = self.cache.copy(len(self.ids))
        return twin

    def _rows(self, ids: Sequence[int], *, bidirectional: bool = False, adapted: bool = False) -> Rows:
        self._ahead = None  # another pass writes over its keys and values
        # on the host: where a step takes the pass over, nothing else goes to the device
        return Rows(torch.tensor(ids, dtype=torch.int64), self.cache, len(self.ids), bidirectional, adapted)


def propose(
    hidden: Tensor,
    transformer: Transformer,
    choice: Choice,
    banned: Sequence[int] = (),
    barred: Mapping[int, Collection[int]] = MappingProxyType({}),
) -> Proposals:
    """hidden [n, H] -> n proposals, none in `banned`, nor in barred[i]; the first of choice.first if there are any."""
    vocabulary = transformer.weights.lm_head
    n = len(hidden)
    refused = [sorted({*banned, *barred.get(i, ()), *(choice.barred if i == 0 else ())}) for i in range(n)]
    widest = max((len(ids) for ids in refused), default=0)
    padded = [ids + [-1] * (widest - len(ids)) for ids in refused]
    found = unmask(
        hidden,
        vocabulary,
        temperature=choice.temperature,
        top_p=choice.top_p,
        top_k=choice.top_k,
        seed=choice.seed,
        banned=torch.tensor(padded, dtype=torch.int64, device=hidden.device) if widest else None,
    )
    proposals = Proposals(
        found.token.tolist(), found.confidence.tolist(), found.entropy.tolist(), found.margin.tolist()
    )
    allowed = [token for token in choice.first if token not in refused[0]] if n else []
    if allowed:
        # a constraint on one row: its logits alone are small, so they are taken whole
        logits = torch.cat([linear(hidden[:1], tile) for tile in vocabulary], -1)[0].float()
        p = logits.softmax(-1)[torch.tensor(allowed, device=logits.device)]
        best = int(p.argmax())
        proposals.token[0], proposals.confidence[0] = allowed[best], float(p[best])
    return proposals


class BlockDenoiser:
    """Transformer, tokens and the documents' sessions.

    causal: a causal pass says what the model itself would write, so policies may check and texts may be scored.
    steps: what its sessions run greedy passes with, if given. probe: says where middles end, if given.
    short_drafts: rows cost time here, as on a CPU: draft and check only as many slots as are likely to be right.
    """

    causal = True

    def __init__(
        self,
        transformer: Transformer,
        tokens: Tokens,
        *,
        mask_id: int,
        block_size: int,
        steps: Steps | None = None,
        probe: Probe | None = None,
        short_drafts: bool = False,
    ) -> None:
        self.transformer = transformer
        self.short_drafts = short_drafts
        self.steps = steps
        self.probe = probe
        self.tokens = tokens
        self.mask_id = mask_id
        self.block_size = block_size
        self.sessions = Sessions(self.new_session)

    def session(self, document: str) -> Session:
        """The document's session; a nameless one is new each time."""
        return self.sessions.of(document)

    def new_session(self) -> Session:
        return Session(self.transformer, self.steps)
