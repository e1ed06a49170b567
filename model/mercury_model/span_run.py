"""What a request to the bidirectional kind has going: the checkpoint as infill sees it, the passes run, the drafts.

This module knows nothing about tensors, caches, documents or editors, nor about the order in which things are done.
"""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol

from mercury_model.canvas import Canvas
from mercury_model.denoiser import Choice
from mercury_model.draft import Draft, Ended, Request, Slot
from mercury_model.effort import DIALS
from mercury_model.length import first_step_confidence
from mercury_model.policy import Policy, Proposals

Barred = Mapping[int, Collection[int]]
"""Slot -> ids it may not take."""
NONE: Barred = MappingProxyType({})


class SpanTokens(Protocol):
    def encode(self, text: str, /) -> list[int]: ...
    def decode(self, ids: Sequence[int], /) -> str: ...
    def is_special(self, token: int, /) -> bool: ...
    def healing(self, ids: Sequence[int], text: str, /) -> str: ...
    def starting_with(self, text: str, /) -> list[int]: ...
    def count(self, text: str, /) -> int: ...


class SpanSession(Protocol):
    """What one document's denoiser can do; prefilled counts tokens run outside the canvas since `open`."""

    prefilled: int

    def open(self, prefix: Sequence[int], suffix: Sequence[int], /) -> None:
        """Set what stands around the canvas."""
        ...

    def step(self, slots: Sequence[int], choice: Choice, banned: Sequence[int], barred: Barred = NONE, /) -> Proposals:
        """One pass; a proposal for each slot i, none of them in `banned` or barred[i]."""
        ...


class SpanModel(Protocol):
    """A bidirectional checkpoint as infill sees it. Tests plug a scripted one in here.

    bos, eos: put around the prompt if the checkpoint wants them. never: ids that are no answer for a slot.
    start_slots: the canvas' first length.
    """

    tokens: SpanTokens
    mask_id: int
    expand_id: int | None
    delete_id: int | None
    bos: tuple[int, ...]
    eos: tuple[int, ...]
    never: tuple[int, ...]
    start_slots: int

    def session(self, document: str, /) -> SpanSession: ...

    def length_bias(self, n: int, /) -> float:
        """First-step confidence of n masked slots with nothing around them."""
        ...


@dataclass
class SpanRun:
    """One request under way.

    healed: text taken back from the prefix, which the first slot begins with (it takes one of `first`).
    barred: slot -> ids it may not take. most: slots the canvas may have.
    """

    model: SpanModel
    request: Request
    policy: Policy
    session: SpanSession
    healed: str
    first: tuple[int, ...]
    started: float = field(default_factory=time.monotonic)
    forwards: int = 0
    late: bool = False
    candidate: int = 0
    barred: dict[int, set[int]] = field(default_factory=dict[int, set[int]])

    def __post_init__(self) -> None:
        self.dial = DIALS[self.request.effort]
        self.most = max(self.request.max_tokens, 1)
        self._asked: dict[str, int | None] = {}

    def hurry(self) -> bool:
        self.late = self.request.deadline is not None and time.monotonic() >= self.request.deadline
        return self.late

    def propose(self, canvas: Canvas, may_grow: bool) -> Proposals:
        model, request = self.model, self.request
        first: tuple[int, ...] = ()
        if self.first and len(canvas):
            # the first slot must begin with what was healed, or make room for it
            first = (*self.first, model.expand_id) if may_grow and model.expand_id is not None else self.first
        seed = request.seed * 1_000_003 + self.forwards
        choice = Choice(request.temperature, request.top_p, request.top_k, seed, first)
        banned = (*model.never, model.mask_id)
        if model.expand_id is not None and not may_grow:
            banned += (model.expand_id,)
        self.forwards += 1
        return self.session.step(canvas.model_input(model.mask_id), choice, banned, self.barred)

    def score(self, n: int) -> float:
        proposals = self.propose(Canvas.masked(n, self.model.mask_id), False)
        return first_step_confidence(proposals, self.model.tokens.is_special) - self.model.length_bias(n)

    def cut(self, canvas: Canvas) -> str | None:
        """The text up to its end, if the slots shown without a gap from the left are complete by the request's rule.

        The rule is asked after every token, once per text, so the end does not depend on the order tokens appear in.
        """
        rule = self.request.end
        if rule is None:
            return None
        ids: list[int] = []
        for token, state in zip(canvas.tokens, canvas.states, strict=True):
            if state == "masked":
                return None
            ids.append(token)
            text = text_of(self, ids)
            if text not in self._asked:
                self._asked[text] = rule(text)
            if (keep := self._asked[text]) is not None:
                return text[:keep]
        return None

    def finish(self, canvas: Canvas) -> Draft:
        """The last draft of a canvas."""
        canvas = canvas.settled()
        if (keep := self.cut(canvas)) is not None:
            return draft_of(self, canvas, text=keep, ended="rule")
        return draft_of(
            self, canvas, ended="deadline" if self.late else "length" if len(canvas) >= self.most else "end"
        )


def text_of(run: SpanRun, ids: Sequence[int]) -> str:
    return run.model.tokens.decode(ids)[len(run.healed) :]


def draft_of(run: SpanRun, canvas: Canvas, *, text: str | None = None, ended: Ended = "") -> Draft:
    decode = run.model.tokens.decode
    shown = [i for i, state in enumerate(canvas.states) if state != "masked"]
    if text is not None:
        whole = text
    elif canvas.states[:1] == ("masked",):  # what was healed stands in the first slot
        whole = decode([canvas.tokens[i] for i in shown])
    else:
        whole = text_of(run, [canvas.tokens[i] for i in shown])
    settled = len(whole) if ended else 0
    if not ended and not run.policy.revises:
        gap = canvas.states.index("masked") if canvas.n_open else len(canvas)
        # a character that is not complete before the gap may come out otherwise
        settled = min(len(text_of(run, canvas.tokens[:gap])), len(whole))
    log_p = [math.log(max(canvas.confidence[i], 1e-9)) for i in shown]
    total = 1000 * (time.monotonic() - run.started)
    return Draft(
        text=whole,
        slots=tuple(
            Slot("" if s == "masked" else decode([t]), s, c, r)
            for t, s, c, r in zip(canvas.tokens, canvas.states, canvas.confidence, canvas.revised, strict=True)
        ),
        settled=settled,
        confidence=math.exp(sum(log_p) / len(log_p)) if log_p else 0.0,
        n_open=0 if ended else canvas.n_open,
        n_tokens=len(shown),
        forwards=float(run.forwards),
        prefilled=run.session.prefilled,
        done=bool(ended),
        ended=ended,
        candidate=run.candidate,
        ms={"prefill": 0.0, "decode": total, "total": total},
    )
