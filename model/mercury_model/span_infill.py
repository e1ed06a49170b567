"""infill for the bidirectional kind: the canvas stands between prefix and suffix and is denoised in place.

How many slots it has is the checkpoint's own decision where it has expand and delete tokens, otherwise that of a
search over a few lengths. This module knows nothing about tensors, caches, documents or editors.
"""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Protocol

from mercury_model.canvas import Canvas
from mercury_model.denoiser import Choice
from mercury_model.draft import Draft, Ended, Request, Slot
from mercury_model.effort import DIALS
from mercury_model.length import first_step_confidence, search_length
from mercury_model.policy import DOUBT, Policy, Proposals, policy_without_check
from mercury_model.refine import Resizing, refine

Barred = Mapping[int, Collection[int]]
"""Slot -> ids it may not take."""
NONE: Barred = MappingProxyType({})

_HASH_COMMENTS = (".py", ".pyi", ".sh", ".bash", ".rb", ".yaml", ".yml", ".toml")


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
class _Run:
    model: SpanModel
    request: Request
    policy: Policy
    session: SpanSession
    healed: str
    first: tuple[int, ...]
    started: float = field(default_factory=time.monotonic)
    forwards: int = 0
    late: bool = False
    barred: dict[int, set[int]] = field(default_factory=dict[int, set[int]])

    def __post_init__(self) -> None:
        self.dial = DIALS[self.request.effort]

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


def infill_span(model: SpanModel, request: Request) -> Iterator[Draft]:
    """Fill the middle between request.prefix and request.suffix; one Draft per pass, the last has done=True.

    RequestError for an unknown policy, or one that needs a causal check. The suffix is never changed nor cut.
    """
    policy = policy_without_check(request.policy, "bidirectional")
    run = _open(model, request, policy)
    most = max(request.max_tokens, 1)
    canvas = Canvas.masked(min(max(model.start_slots, 1), most), model.mask_id)
    if request.original:
        canvas = _rewrite(run, request.original)
        most += len(canvas)
        yield _draft(run, canvas)
    elif model.expand_id is None:
        for n in search_length(run.score, len(canvas), most, run.dial.probes):
            canvas = Canvas.masked(n, model.mask_id)
            yield _draft(run, canvas)
            if run.hurry():
                break
    resizing = Resizing(model.expand_id, model.delete_id, most)
    cut = _Cut(run)
    for step in refine(
        canvas, run.propose, policy, run.dial.span_steps, model.mask_id, resizing=resizing, hurry=run.hurry
    ):
        canvas = step
        if not policy.revises and (keep := cut.of(canvas)) is not None:
            yield _draft(run, canvas, text=keep, ended="rule")
            return
        if canvas.n_open:
            yield _draft(run, canvas)
    if not run.late:
        canvas = yield from _judged(run, canvas)
    canvas = canvas.settled()
    if (keep := cut.of(canvas)) is not None:
        yield _draft(run, canvas, text=keep, ended="rule")
        return
    yield _draft(run, canvas, ended="deadline" if run.late else "length" if len(canvas) >= most else "end")


def _open(model: SpanModel, request: Request, policy: Policy) -> _Run:
    tokens = model.tokens
    healed = tokens.healing(tokens.encode(request.prefix), request.prefix)
    first = tuple(tokens.starting_with(healed)) if healed and not request.original else ()
    prefix = request.prefix[: -len(healed)] if first else request.prefix
    shown = [*model.bos]
    for snippet in request.context:
        mark = "#" if snippet.path.endswith(_HASH_COMMENTS) else "//"
        shown += tokens.encode(f"{mark} {snippet.path}\n{snippet.text}\n\n")
    session = model.session(request.document)
    session.open([*shown, *tokens.encode(prefix)], [*tokens.encode(request.suffix), *model.eos])
    return _Run(model, request, policy, session, healed if first else "", first)


def _rewrite(run: _Run, original: str) -> Canvas:
    """The user's own code with only the doubtful slots masked; the others are fixed and cost no step."""
    tokens, mask_id = run.model.tokens, run.model.mask_id
    ids = tokens.encode(original)
    if run.request.doubtful:
        ends = [len(tokens.decode(ids[: i + 1])) for i in range(len(ids))]
        starts = [0, *ends[:-1]]
        doubtful = [
            any(s < stop and start < e for start, stop in run.request.doubtful)
            for s, e in zip(starts, ends, strict=True)
        ]
    else:
        n = len(ids)
        sure: tuple[float, ...] = (1.0,) * n
        shown = Canvas(tuple(ids), ("tentative",) * n, sure, (False,) * n, (False,) * n)
        found = run.propose(shown, False)
        doubtful = [t != own and c >= DOUBT for t, own, c in zip(found.token, ids, found.confidence, strict=True)]
    return Canvas(
        tuple(mask_id if d else t for t, d in zip(ids, doubtful, strict=True)),
        tuple("masked" if d else "settled" for d in doubtful),
        tuple(0.0 if d else 1.0 for d in doubtful),
        (False,) * len(ids),
        tuple(not d for d in doubtful),
    )


def _judged(run: _Run, canvas: Canvas) -> Generator[Draft, None, Canvas]:
    """Mask again what the judge objects to, the earlier choices barred; a round counts if it leaves fewer objections.

    Everything else stays as it is meanwhile, and so does the length.
    """
    judge = run.request.judge
    if judge is None:
        return canvas
    objections = judge(_text(run, canvas.tokens))
    mask_id = run.model.mask_id
    for _ in range(run.dial.rounds):
        again = _under(run, canvas, objections)
        if not objections or not again:
            break
        for i in again:
            run.barred.setdefault(i, set()).add(canvas.tokens[i])
        attempt = Canvas(
            tuple(mask_id if i in again else t for i, t in enumerate(canvas.tokens)),
            tuple("masked" if i in again else "settled" for i in range(len(canvas))),
            tuple(0.0 if i in again else c for i, c in enumerate(canvas.confidence)),
            tuple(i in again or r for i, r in enumerate(canvas.revised)),
            tuple(i not in again for i in range(len(canvas))),
        )
        for step in refine(attempt, run.propose, run.policy, run.dial.span_steps, mask_id, hurry=run.hurry):
            attempt = step
            if attempt.n_open:
                yield _draft(run, attempt)
        left = judge(_text(run, attempt.tokens))
        if len(left) < len(objections):
            canvas, objections = replace(attempt, fixed=canvas.fixed), left
        if run.late:
            break
    run.barred.clear()
    return canvas


def _under(run: _Run, canvas: Canvas, spans: Sequence[tuple[int, int]]) -> set[int]:
    """Slots under these characters of the text that may change; an empty span means the character behind it."""
    decode = run.model.tokens.decode
    ends = [len(decode(canvas.tokens[: i + 1])) - len(run.healed) for i in range(len(canvas))]
    found: set[int] = set()
    for start, stop in spans:
        start = min(start, max(ends, default=0) - 1)
        stop = max(stop, start + 1)
        found |= {i for i, end in enumerate(ends) if end > start and (i == 0 or ends[i - 1] < stop)}
    return {i for i in found if not canvas.fixed[i]}


class _Cut:
    """Asks the request's rule of the end after every token, once per text, whatever order tokens appear in."""

    def __init__(self, run: _Run) -> None:
        self._run = run
        self._asked: dict[str, int | None] = {}

    def of(self, canvas: Canvas) -> str | None:
        """The text up to its end if the slots shown without a gap from the left are complete, else None."""
        rule = self._run.request.end
        if rule is None:
            return None
        ids: list[int] = []
        for token, state in zip(canvas.tokens, canvas.states, strict=True):
            if state == "masked":
                return None
            ids.append(token)
            text = _text(self._run, ids)
            if text not in self._asked:
                self._asked[text] = rule(text)
            if (keep := self._asked[text]) is not None:
                return text[:keep]
        return None


def _text(run: _Run, ids: Sequence[int]) -> str:
    return run.model.tokens.decode(ids)[len(run.healed) :]


def _draft(run: _Run, canvas: Canvas, *, text: str | None = None, ended: Ended = "") -> Draft:
    decode = run.model.tokens.decode
    shown = [i for i, state in enumerate(canvas.states) if state != "masked"]
    if text is not None:
        whole = text
    elif canvas.states[:1] == ("masked",):  # what was healed stands in the first slot
        whole = decode([canvas.tokens[i] for i in shown])
    else:
        whole = _text(run, [canvas.tokens[i] for i in shown])
    settled = len(whole) if ended else 0
    if not ended and not run.policy.revises:
        gap = canvas.states.index("masked") if canvas.n_open else len(canvas)
        # a character that is not complete before the gap may come out otherwise
        settled = min(len(_text(run, canvas.tokens[:gap])), len(whole))
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
        ms={"prefill": 0.0, "decode": total, "total": total},
    )
