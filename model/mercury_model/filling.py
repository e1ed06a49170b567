"""Fill a middle with the block kind of denoiser: draft a block, judge it causally, go on behind what was kept.

This module knows nothing about judges, rewriting or how many candidates are wanted.
"""

from __future__ import annotations

import math
import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace

from mercury_model.batch import Batch, Steps
from mercury_model.canvas import Canvas
from mercury_model.denoiser import Ask, BlockDenoiser, Choice, Session
from mercury_model.draft import Draft, Ended, Request, Slot
from mercury_model.effort import DIALS, Dial
from mercury_model.policy import Policy, Proposals, policy_named
from mercury_model.probe import Watching
from mercury_model.prompt import Prompt
from mercury_model.refine import Want, refining
from mercury_model.seeds import Seeds

GUESSED_SLOTS = 15
"""Slots of a block that is a guess: checking 16 rows costs 1.5 times what 8 cost."""
FEW_SLOTS = 3
"""Slots of a draft that follows one of which nothing was right."""
WORTH_CHECKING = 0.08
"""A drafted slot is checked if all up to it are right with about this probability: a row costs a twentieth of a pass,
and a token that is accepted saves half of one."""
WRITTEN_ANYWAY = 0.1
"""Probability booked for a token that an unchecked policy shows against the causal model's choice."""


@dataclass
class Run:
    """One filling under way: what was asked, what was written, what it cost.

    watched: the end probe, where the denoiser has one, says where the middle ends. slots: of the next draft, where
    drafts are short.
    out, log_p: tokens written and their log probabilities. start: how many of them were given, not written here.
    barred: ids that the first token written may not be. hints: token sequences to copy from, besides the prompt.
    """

    denoiser: BlockDenoiser
    request: Request
    session: Session
    prompt: Prompt
    barred: frozenset[int] = frozenset()
    out: list[int] = field(default_factory=list[int])
    log_p: list[float] = field(default_factory=list[float])
    forwards: int = 0
    prefilled: int = 0
    copied: int = 0
    text: str = ""
    ended: Ended = ""
    candidate: int = 0
    hints: tuple[tuple[int, ...], ...] = ()
    watched: bool = True
    slots: int = FEW_SLOTS
    began: float = field(default_factory=time.monotonic)
    prefill_ms: float = 0.0

    def __post_init__(self) -> None:
        self.policy: Policy = policy_named(self.request.policy)
        self.dial: Dial = DIALS[self.request.effort]
        self.start = len(self.out)
        self.text = self.shown(self.out)
        probe = self.denoiser.probe
        # a conversation has no suffix that its end could be seen by
        watch = self.watched and probe is not None and not self.request.messages
        self.watch = Watching(probe, self.denoiser.tokens, self.request.suffix) if probe and watch else None

    def choice(self) -> Choice:
        """Greedy or sampled; the first token of all begins with what was healed, the first one here is not barred."""
        request = self.request
        first = () if self.out or not self.prompt.healed else self.denoiser.tokens.starting_with(self.prompt.healed)
        barred = self.barred if len(self.out) == self.start else frozenset[int]()
        seed = request.seed * 1_000_003 + self.forwards
        return Choice(request.temperature, request.top_p, request.top_k, seed, tuple(first), tuple(barred))

    def shown(self, ids: Sequence[int]) -> str:
        return self.denoiser.tokens.decode(ids)[len(self.prompt.healed) :]

    @property
    def confidence(self) -> float:
        """Geometric mean of the written tokens' probabilities."""
        return math.exp(sum(self.log_p) / len(self.log_p)) if self.log_p else 0.0

    def late(self) -> bool:
        return self.request.deadline is not None and time.monotonic() >= self.request.deadline


def drive(run: Run, steps: Steps) -> Iterator[Draft]:
    """Run the steps alone, pass by pass. Stopping the iteration stops them."""
    batch = Batch(run.denoiser.transformer)
    batch.add(0, steps)
    while batch:
        for _, draft in batch.step():
            yield draft


def fill(run: Run) -> Steps:
    """Write until the middle ends; a Draft per pass. Afterwards run.text, run.out and run.ended hold the result."""
    request = run.request
    ids = [*run.prompt.ids, *run.out]
    # where a pass reads the context anyway, it says the first token besides
    ahead = run.policy.causal == "check" and run.watch is None
    for ask in run.session.prefill(ids, run.choice()) if ahead else run.session.prefill(ids[:-1]):
        first = yield ask
        run.prefilled += ask.rows.ids.shape[0]
        run.prefill_ms = 1000 * (time.monotonic() - run.began)
        if first is not None:
            _write(run, list(zip(first.token, first.confidence, strict=True)), False)
        if not run.ended:
            yield draft_of(run, None)
    last = run.out[-1] if run.out else ids[-1]
    guess = run.denoiser.tokens.encode(run.prompt.healed + request.guess) if request.guess else []
    copying = run.dial.copies and request.copies
    seeds = Seeds([run.prompt.ids, *run.hints]) if copying else None
    useless = False
    while not run.ended:
        if run.late():
            run.ended = "deadline"
            break
        if guess[: len(run.out)] != run.out:
            guess = []
        copied = _guess(run, guess, None if useless else seeds)
        canvas = _first_canvas(run, copied)
        canvas = yield from _denoise(run, last, canvas)
        block = [t for t, s in zip(canvas.tokens, canvas.states, strict=True) if s != "masked"]
        if not copied and run.denoiser.short_drafts and run.policy.causal == "check":
            block = block[: _worth_checking(canvas.confidence)]
        accepted, over = yield from _causal(run, last, block)
        # a copy of which nothing was right is not tried twice in a row
        useless = bool(copied) and len(accepted) <= 1
        if copied:
            run.copied += max(0, len(accepted) - 1)
        else:
            run.slots = max(FEW_SLOTS, len(accepted) + 1)
        _write(run, accepted, over)
        last = run.out[-1] if run.out else last
        if not run.ended:
            yield draft_of(run, None)
    yield draft_of(run, None)


def from_slot(run: Run, slot: int, barred: frozenset[int], session: Session) -> Run:
    """A run that goes on behind the first `slot` tokens of this one, whose next token is none of `barred`."""
    return Run(
        run.denoiser,
        replace(run.request, guess=""),
        session,
        run.prompt,
        barred,
        out=run.out[:slot],
        log_p=run.log_p[:slot],
        forwards=run.forwards,
        prefilled=run.prefilled,
        copied=run.copied,
        began=run.began,
        prefill_ms=run.prefill_ms,
        hints=(*run.hints, tuple(run.out)),
        watched=run.watched,
    )


def _write(run: Run, accepted: Sequence[tuple[int, float]], over: bool) -> None:
    """Append accepted tokens up to the middle's end. over: the end probe says that it is behind the last of them.

    The rule of the end is asked after every token, so that the text does not depend on how many come at once.
    """
    request, room = run.request, run.request.max_tokens - len(run.out)
    for token, probability in accepted[:room]:
        if run.denoiser.tokens.is_special(token):
            run.ended = "end"
            return
        run.out.append(token)
        run.log_p.append(math.log(max(probability, 1e-9)))
        run.text = run.shown(run.out)
        if request.end is not None and (keep := request.end(run.text)) is not None:
            run.text, run.ended = run.text[:keep], "rule"
            return
    if over and run.watch and len(accepted) <= room:
        run.text, run.ended = run.watch.kept(run.text, run.out[-1]), "end"
    elif len(run.out) >= request.max_tokens:
        run.ended = "length"


def _guess(run: Run, guess: Sequence[int], seeds: Seeds | None) -> list[int]:
    """Tokens to check instead of a draft: the caller's guess, or a copy from the prompt."""
    if run.policy.causal != "check" or run.policy.visible is None:
        return []
    room = min(run.request.max_tokens - len(run.out) - 1, GUESSED_SLOTS)
    if rest := list(guess[len(run.out) : len(run.out) + room]):
        return rest
    return seeds.guess([*run.prompt.ids[-8:], *run.out], room) if seeds is not None else []


def _first_canvas(run: Run, guess: Sequence[int]) -> Canvas:
    """A block of slots. Where there is a guess the block is the guess alone: it needs no draft, only its check.

    A check gives one token more than the block has slots.
    """
    mask_id = run.denoiser.mask_id
    if run.policy.visible is None:
        return Canvas.masked(0, mask_id)
    if guess:
        return Canvas.seeded(guess, len(guess), mask_id)
    checked = run.policy.causal == "check"
    size = (
        min(run.denoiser.block_size, run.slots + 1)
        if checked and run.denoiser.short_drafts
        else run.denoiser.block_size
    )
    return Canvas.masked(min(size, run.request.max_tokens - len(run.out)) - int(checked), mask_id)


def _worth_checking(confidence: Sequence[float]) -> int:
    """Slots whose draft is likely enough to be right up to there; one at least."""
    n, together = 0, 1.0
    for p in confidence:
        together *= p
        if n and together < WORTH_CHECKING:
            break
        n += 1
    return n


def _denoise(run: Run, last: int, canvas: Canvas) -> Generator[Draft | Ask, Proposals | None, Canvas]:
    """Denoise the block pass by pass until no slot is masked; returns the last canvas."""
    if run.policy.visible is None or not canvas.n_open:
        return canvas
    limit = run.dial.drafts if run.policy.causal == "check" else run.dial.steps
    mask_id = run.denoiser.mask_id
    steps = refining(canvas, run.policy, limit, mask_id, hurry=run.late)
    to_check = run.policy.causal == "check" and limit == 1 and canvas.n_open == len(canvas)
    for item in steps:
        while isinstance(item, Want):
            run.forwards += 1
            slots = item.canvas.model_input(mask_id)
            proposals = yield run.session.draft(last, slots, run.choice(), to_check=to_check)
            assert proposals is not None
            item = steps.send(proposals)
        canvas = item
        yield draft_of(run, canvas)
    return canvas


def _causal(
    run: Run, last: int, block: list[int]
) -> Generator[Draft | Ask, Proposals | None, tuple[list[tuple[int, float]], bool]]:
    """The causal pass over a finished block: the accepted tokens with their probabilities, and whether the probe says
    that the middle ends with them; the cache advances."""
    watch = run.watch
    proposals = yield run.session.check([last, *block], run.choice(), watch.over([last, *block]) if watch else None)
    assert proposals is not None
    run.forwards += 1
    own = list(zip(proposals.token, proposals.confidence, strict=True))
    if run.policy.causal == "write":
        # the last token of the block is the next block's first row: its keys are written then
        run.session.keep(len(block))
        accepted = [(t, own[i][1] if own[i][0] == t else WRITTEN_ANYWAY) for i, t in enumerate(block)]
        known = len(block)
    else:
        known = 0
        while known < len(block) and block[known] == own[known][0]:
            known += 1
        run.session.keep(known + 1)
        accepted = own[: known + 1]
    if watch is None:
        return accepted, False
    # row i is about the token before accepted[i]; where that only gives back what was healed, nothing is written yet
    first = next((i for i in range(known + 1) if run.shown([*run.out, *block[:i]])), known + 1)
    final = watch.final(proposals.ends[: known + 1], first)
    return (accepted, False) if final is None else (accepted[:final], True)


def draft_of(run: Run, canvas: Canvas | None) -> Draft:
    """What people may see of the run: after it has ended, its final text."""
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
    total = 1000 * (time.monotonic() - run.began)
    text = run.text if canvas is None else run.shown(shown)
    if canvas is not None and not run.out and canvas.states[:1] == ("masked",):
        text = pieces.decode(shown)  # what was healed stands in the first slot, which is not shown yet
    return Draft(
        text=text,
        slots=tuple(slots),
        settled=len(run.text),
        confidence=run.confidence,
        n_open=n_open,
        n_tokens=len(shown),
        forwards=float(run.forwards),
        prefilled=run.prefilled,
        copied=run.copied,
        done=bool(run.ended),
        ended=run.ended,
        candidate=run.candidate,
        ms={"prefill": run.prefill_ms, "decode": total - run.prefill_ms, "total": total},
    )
