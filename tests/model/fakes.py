"""Scripted denoisers: what is above the tensors, tested without weights.

Token ids: 0 mask, 1 expand, 2 delete (also the end of the text), from 10 on one id per piece of the answer. Every
piece is another token, so a shown token says which place of the answer it stands for.
"""

import random
from collections.abc import Sequence

from mercury_model.canvas import Canvas
from mercury_model.denoiser import Choice
from mercury_model.policy import Proposals
from mercury_model.span_run import NONE, Barred

MASK, EXPAND, DELETE, FIRST = 0, 1, 2, 10


class PieceTokens:
    """One token per piece; other text is one token per character."""

    def __init__(self, pieces: Sequence[str]) -> None:
        self.pieces = list(pieces)

    def encode(self, text: str) -> list[int]:
        return [1000 + ord(c) for c in text]

    def decode(self, ids: Sequence[int]) -> str:
        return "".join(
            self.pieces[i - FIRST] if FIRST <= i < FIRST + len(self.pieces) else chr(i - 1000) if i >= 1000 else ""
            for i in ids
        )

    def is_special(self, token: int) -> bool:
        return token < FIRST

    def healing(self, ids: Sequence[int], text: str) -> str:
        return ""

    def starting_with(self, text: str) -> list[int]:
        return []

    def count(self, text: str) -> int:
        return len(text)


class ScriptedSpan:
    """A bidirectional checkpoint that knows its answer and how it lies on any canvas.

    resizing: it has expand and delete tokens; otherwise its first-step confidence peaks at the right length, under a
    liking for long canvases that length_bias() reports. Where a run of masked slots is too short or too long, the
    slots that expand or vanish are drawn at random; the confidences are, too.
    wrong: slot -> a token it takes instead of the right one until that token is barred there.
    """

    def __init__(self, pieces: Sequence[str], *, start: int, resizing: bool, seed: int = 0) -> None:
        self.tokens = PieceTokens(pieces)
        self.mask_id = MASK
        self.expand_id, self.delete_id = (EXPAND, DELETE) if resizing else (None, None)
        self.bos: tuple[int, ...] = (3,)
        self.eos: tuple[int, ...] = (DELETE,)
        self.never: tuple[int, ...] = ()
        self.start_slots = start
        self.random = random.Random(seed)
        self.prefilled = 0
        self.opened: list[tuple[list[int], list[int]]] = []
        self.canvases: list[list[int]] = []
        self.barred: list[dict[int, set[int]]] = []
        self.wrong: dict[int, int] = {}

    def session(self, document: str) -> "ScriptedSpan":
        return self

    def open(self, prefix: Sequence[int], suffix: Sequence[int]) -> None:
        self.opened.append((list(prefix), list(suffix)))

    def length_bias(self, n: int) -> float:
        return 0.3 * n / (n + 20)

    def step(self, slots: Sequence[int], choice: Choice, banned: Sequence[int], barred: Barred = NONE) -> Proposals:
        self.canvases.append(list(slots))
        self.barred.append({i: set(ids) for i, ids in barred.items()})
        answer = [FIRST + i for i in range(len(self.tokens.pieces))]
        token: list[int] = []
        place = 0
        run = 0
        for slot in [*slots, None]:
            if slot == MASK:
                run += 1
                continue
            following = len(answer) if slot is None else slot - FIRST
            if following >= len(answer) and slot is not None:  # a mistaken token stands where the right one would
                following = place + run
            token += self._fill(answer[place:following], run, EXPAND not in banned)
            run = 0
            if slot is not None:
                token.append(slot)
                place = following + 1
        n = len(slots)
        for i, mistaken in self.wrong.items():
            if i < n and slots[i] == MASK and mistaken not in barred.get(i, ()):
                token[i] = mistaken
        if self.expand_id is None and all(s == MASK for s in slots):
            sure = 0.6 * 0.98 ** abs(n - len(answer)) + self.length_bias(n)
            confidence = [sure] * n
        else:
            confidence = [self.random.uniform(0.3, 1.0) for _ in range(n)]
        return Proposals(token, confidence, [1 - c for c in confidence], [c / 2 for c in confidence])

    def _fill(self, wanted: list[int], n: int, may_expand: bool) -> list[int]:
        """What a run of n masked slots is proposed to become: the wanted tokens, with expansions or deletions."""
        if n > len(wanted):
            gone = set(self.random.sample(range(n), n - len(wanted))) if self.delete_id is not None else set[int]()
            rest = iter(wanted)
            return [DELETE if i in gone else next(rest, FIRST) for i in range(n)]
        growing = set(self.random.sample(range(n), min(n, len(wanted) - n)))
        if self.expand_id is None or not may_expand:
            growing = set()
        token: list[int] = []
        place = 0
        for i in range(n):
            token.append(EXPAND if i in growing else wanted[place])
            place += 2 if i in growing else 1
        return token


def scripted(n: int, seed: int) -> Proposals:
    """Random proposals for n slots, some of them almost certain, as a peaked model's would be."""
    rng = random.Random(seed)
    confidence = [rng.choice((rng.random(), 0.9 + 0.1 * rng.random())) for _ in range(n)]
    return Proposals(
        [rng.randrange(FIRST, FIRST + 5) for _ in range(n)],
        confidence,
        [rng.random() * 3 * (1 - c) for c in confidence],
        [rng.random() * c for c in confidence],
    )


def text_slots(canvas: Canvas) -> list[int]:
    return [t for t, s in zip(canvas.tokens, canvas.states, strict=True) if s != "masked"]
