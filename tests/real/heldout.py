"""Middles of held-out code, and how probable the model finds them. Knows nothing about what is expected."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mercury_model.denoiser import Scored, Session, perform
from mercury_model.draft import Request
from mercury_model.local import LocalInfiller
from mercury_model.prompt import prompt

FOLDER = Path(__file__).parents[1] / "data" / "heldout"
RECORD = FOLDER / "float32.json"
FILES = ("ledger.py", "scheduler.js", "inventory.rs")
N_MIDDLES = 24
LINES = 4
BEFORE, AFTER = 12, 6


@dataclass(frozen=True, slots=True)
class Middle:
    """LINES lines of a file, and the lines around them."""

    prefix: str
    text: str
    suffix: str


def middles(seed: int = 3) -> list[Middle]:
    """N_MIDDLES of them, the files in turn."""
    rng = random.Random(seed)
    found: list[Middle] = []
    for index in range(N_MIDDLES):
        lines = (FOLDER / FILES[index % len(FILES)]).read_text(encoding="utf-8").splitlines(keepends=True)
        at = rng.randrange(8, len(lines) - LINES - 2)
        before, after = lines[max(0, at - BEFORE) : at], lines[at + LINES : at + LINES + AFTER]
        found.append(Middle("".join(before), "".join(lines[at : at + LINES]), "".join(after)))
    return found


def context_of(model: LocalInfiller, ids: Sequence[int]) -> Session:
    """A session that has read `ids`."""
    session = model.denoiser.new_session()
    for ask in session.prefill(ids):
        perform(model.denoiser.transformer, [ask])
    return session


def scored(model: LocalInfiller, middle: Middle) -> Scored:
    """Causally, token by token: the middle's log probabilities and what the model would have written instead."""
    shown = prompt(model.denoiser.tokens, Request(middle.prefix, middle.suffix))
    assert not shown.healed, "a prefix of whole lines is not healed"
    targets = model.denoiser.tokens.encode(middle.text)
    return context_of(model, shown.ids[:-1]).score([shown.ids[-1], *targets[:-1]], targets)
