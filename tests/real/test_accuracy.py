"""8-bit arithmetic against 32-bit on held-out code, and the independence of rows on the real weights."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch

from mercury_model.denoiser import Scored
from mercury_model.local import LocalInfiller
from mercury_model.transformer import Rows
from tests.real.conftest import Loader
from tests.real.heldout import FOLDER, RECORD, middles, scored

pytestmark = pytest.mark.real
NATS = 0.03
"""Loss of 8 bits in causal cross-entropy, at most."""
AGREEMENT = 0.96
"""Share of places where both find the same token the most probable, at least."""
FEW = slice(0, None, 4)
FEW_AGREEMENT = 0.93
"""On 200 tokens instead of 800: three standard deviations lower."""


def compared(rows: list[Scored], record: list[dict[str, Any]]) -> tuple[float, float, float, int]:
    """(cross-entropy in nats of `rows`, of the record, share of equal tokens, number of tokens)."""
    n = sum(len(row.log_p) for row in rows)
    mine = -sum(sum(row.log_p) for row in rows) / n
    theirs = -sum(sum(row["log_p"]) for row in record) / n
    same = sum(
        a == b for row, old in zip(rows, record, strict=True) for a, b in zip(row.own_token, old["token"], strict=True)
    )
    print(f"{mine:.4f} nats, 32-bit {theirs:.4f}; {100 * same / n:.1f}% equal of {n} tokens")
    return mine, theirs, same / n, n


def record() -> list[dict[str, Any]]:
    return json.loads(RECORD.read_text(encoding="utf-8"))


@pytest.mark.timeout(900)
def test_8_bits_lose_little_on_some_heldout_code(model: LocalInfiller) -> None:
    mine, theirs, same, _ = compared([scored(model, middle) for middle in middles()[FEW]], record()[FEW])
    assert abs(mine - theirs) <= NATS
    assert same >= FEW_AGREEMENT


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_8_bits_lose_little_on_all_heldout_code(model: LocalInfiller) -> None:
    mine, theirs, same, n = compared([scored(model, middle) for middle in middles()], record())
    assert n > 500
    assert abs(mine - theirs) <= NATS
    assert same >= AGREEMENT


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_the_record_is_what_the_32_bit_weights_say(model_of: Loader) -> None:
    mine, theirs, same, _ = compared([scored(model_of("float32"), middle) for middle in middles()], record())
    assert abs(mine - theirs) < 0.001
    assert same > 0.995  # another machine's library may turn a tie


@pytest.mark.timeout(900)
@pytest.mark.parametrize("bidirectional", [False, True])
def test_a_row_is_the_same_bit_for_bit_whatever_runs_with_it(model: LocalInfiller, bidirectional: bool) -> None:
    """Causal rows one by one, in threes and in eights against forty at once; a bidirectional block alone against the
    same block behind other sequences of the pass."""
    transformer = model.denoiser.transformer
    ids = torch.tensor(model.denoiser.tokens.encode((FOLDER / "ledger.py").read_text(encoding="utf-8"))[:340])
    start = 300
    cache = transformer.new_cache()
    transformer.forward([Rows(ids[:start], cache, 0)])
    if bidirectional:
        other = transformer.new_cache()
        block = Rows(ids[start : start + 8], cache, start, bidirectional=True, adapted=True)
        alone = transformer.forward([block])[0]
        for n in (1, 3, 32):
            together = transformer.forward([Rows(ids[:n], other, 0), block])[1]
            assert torch.equal(alone, together), f"a block of 8 behind {n} rows of another sequence differs"
        return
    whole = transformer.forward([Rows(ids[start:], cache, start)])[0]
    for n in (1, 3, 8):
        for at in range(0, len(whole) - n + 1, n if n > 1 else 5):
            part = transformer.forward([Rows(ids[start + at : start + at + n], cache, start + at)])[0]
            assert torch.equal(part, whole[at : at + n]), f"rows {at} to {at + n} differ alone from among {len(whole)}"
