"""infill: the whole public face of the model.

Iterating over the drafts is streaming, stopping is cancelling. No callbacks into the caller but the request's own
pure functions, no threads, no asyncio. This module knows nothing about tensors, documents or editors.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from mercury_model.canvas import Canvas
from mercury_model.denoiser import BlockDenoiser, Choice, Session
from mercury_model.draft import Draft, Effort, Ended, Request, Slot
from mercury_model.policy import Policy, Proposals, policy_named
from mercury_model.prompt import prompt
from mercury_model.refine import refine

PASSES: dict[Effort, int] = {"instant": 1, "low": 1, "medium": 1, "high": 2}
"""Draft passes over a block before the causal check."""
MAX_PASSES = 8
"""Passes over a block for policies that are not checked; the last one shows everything."""
WRITTEN_ANYWAY = 0.1
"""Probability booked for a token that an unchecked policy shows against the causal model's choice."""


@dataclass
class _Run:
    """What a request has produced so far."""

    denoiser: BlockDenoiser
    request: Request
    policy: Policy
    session: Session
    healed: str
    started: float = field(default_factory=time.monotonic)
    out: list[int] = field(default_factory=list[int])
    log_p: list[float] = field(default_factory=list[float])
    forwards: int = 0
    prefilled: int = 0
    prefill_ms: float = 0.0

    def choice(self) -> Choice:
        """Greedy or sampled; the first token of all must begin with what was healed."""
        request = self.request
        first = () if self.out or not self.healed else tuple(self.denoiser.tokens.starting_with(self.healed))
        seed = request.seed * 1_000_003 + self.forwards
        return Choice(request.temperature, request.top_p, request.top_k, seed, first)

    def text(self, ids: Sequence[int]) -> str:
        return self.denoiser.tokens.decode(ids)[len(self.healed) :]


def infill(denoiser: BlockDenoiser, request: Request) -> Iterator[Draft]:
    """Fill the middle between request.prefix and request.suffix; one Draft per pass, the last has done=True.

    RequestError for an unknown policy. With policy "check" and temperature 0 the text is the text of one-at-a-time
    greedy decoding of the same weights.
    """
    shown = prompt(denoiser.tokens, request)
    run = _Run(denoiser, request, policy_named(request.policy), denoiser.session(request.document), shown.healed)
    for n in run.session.prefill(shown.ids[:-1]):
        run.prefilled += n
        run.prefill_ms = 1000 * (time.monotonic() - run.started)
        yield _draft(run, None)
    last = shown.ids[-1]
    guess = denoiser.tokens.encode(shown.healed + request.guess) if request.guess else []
    ended: Ended = ""
    text = ""
    while not ended:
        if request.deadline is not None and time.monotonic() >= request.deadline:
            ended = "deadline"
            break
        canvas = _first_canvas(run, guess[len(run.out) :])
        for step in _denoise(run, last, canvas):
            canvas = step
            yield _draft(run, canvas)
        block = [t for t, s in zip(canvas.tokens, canvas.states, strict=True) if s != "masked"]
        for token, confidence in _causal(run, last, block)[: request.max_tokens - len(run.out)]:
            if denoiser.tokens.is_special(token):
                ended = "end"
                break
            run.out.append(token)
            run.log_p.append(math.log(max(confidence, 1e-9)))
            text = run.text(run.out)
            # asked after every token, so that the text does not depend on how many were accepted at once
            if request.end is not None and (keep := request.end(text)) is not None:
                text, ended = text[:keep], "rule"
                break
        if not ended and len(run.out) >= request.max_tokens:
            ended = "length"
        if run.out:
            last = run.out[-1]
        if guess[: len(run.out)] != run.out:
            guess = []
        yield _draft(run, None, text=text, ended=ended)
    if ended == "deadline":
        yield _draft(run, None, text=text, ended=ended)


def _first_canvas(run: _Run, guess: Sequence[int]) -> Canvas:
    """A block of slots: the guess where there is one, masks elsewhere. A check gives one token more than it has."""
    if run.policy.visible is None:
        return Canvas.masked(0, run.denoiser.mask_id)
    more = int(run.policy.causal == "check")
    n_slots = min(run.denoiser.block_size, run.request.max_tokens - len(run.out)) - more
    return Canvas.seeded(guess, n_slots, run.denoiser.mask_id)


def _denoise(run: _Run, last: int, canvas: Canvas) -> Iterator[Canvas]:
    """Denoise the block pass by pass until no slot is masked."""
    if run.policy.visible is None:
        return
    limit = PASSES[run.request.effort] if run.policy.causal == "check" else MAX_PASSES
    mask_id = run.denoiser.mask_id

    def propose(canvas: Canvas, may_grow: bool) -> Proposals:
        del may_grow  # a block has its size
        run.forwards += 1
        return run.session.draft(last, canvas.model_input(mask_id), run.choice())

    yield from refine(canvas, propose, run.policy, limit, mask_id)


def _causal(run: _Run, last: int, block: list[int]) -> list[tuple[int, float]]:
    """The causal pass over a finished block: the accepted tokens with their probabilities; the cache advances."""
    proposals = run.session.check([last, *block], run.choice())
    run.forwards += 1
    own = list(zip(proposals.token, proposals.confidence, strict=True))
    n = 0
    if run.policy.causal == "write":
        # the last token of the block is the next block's first row: its keys are written then
        run.session.keep(len(block))
        return [(t, own[i][1] if own[i][0] == t else WRITTEN_ANYWAY) for i, t in enumerate(block)]
    while n < len(block) and block[n] == own[n][0]:
        n += 1
    run.session.keep(n + 1)
    return own[: n + 1]


def _draft(run: _Run, canvas: Canvas | None, *, text: str | None = None, ended: Ended = "") -> Draft:
    pieces = run.denoiser.tokens
    slots = [Slot(pieces.decode([t]), "settled", math.exp(p)) for t, p in zip(run.out, run.log_p, strict=True)]
    shown, n_open = run.out, 0
    if canvas is not None:
        seen = [t for t, s in zip(canvas.tokens, canvas.states, strict=True) if s != "masked"]
        shown, n_open = [*run.out, *seen], canvas.n_open
        slots += [
            Slot("" if s == "masked" else pieces.decode([t]), s, c, r)
            for t, s, c, r in zip(canvas.tokens, canvas.states, canvas.confidence, canvas.revised, strict=True)
        ]
    total = 1000 * (time.monotonic() - run.started)
    visible = text if text is not None else run.text(shown)
    return Draft(
        text=visible,
        slots=tuple(slots),
        settled=min(len(run.text(run.out)), len(visible)),
        confidence=math.exp(sum(run.log_p) / len(run.log_p)) if run.log_p else 0.0,
        n_open=n_open,
        n_tokens=len(shown),
        forwards=float(run.forwards),
        prefilled=run.prefilled,
        done=bool(ended),
        ended=ended,
        ms={"prefill": run.prefill_ms, "decode": total - run.prefill_ms, "total": total},
    )
