"""On the CPU a row's result is the same, bit for bit, whatever rows run with it: the causal check relies on it."""

import pytest
import torch

import mercury_kernels as mk

N = 33
GENERATOR = torch.Generator().manual_seed(21)


def randn(*shape):
    return torch.randn(*shape, generator=GENERATOR)


WIDE, NORM, GATED, HEADS = randn(N, 896), randn(896), randn(N, 2 * 304), randn(N, 16, 64)
TABLE = mk.rope_table(100, 64, 1e6)[7 : 7 + N]
WHOLE, SCALE = mk.quantize_int8(randn(1000, 896))
TILES = tuple(mk.int8_weight(w, s) for w, s in zip(WHOLE.split(300), SCALE.split(300), strict=True))
KEYS, VALUES = randn(2, 1024, 64), randn(2, 1024, 64)
SEEN = torch.arange(380, 380 + N)


def attend(r):
    return mk.block_attention(HEADS[:r, :14], KEYS, VALUES, mk.attention_bias(SEEN[:r], 7))


def propose(r, **options):
    got = mk.unmask(WIDE[:r], TILES, **options)
    return torch.stack([got.token.double(), got.confidence.double(), got.entropy.double(), got.margin.double()], 1)


CALLS = {
    "rms_norm": lambda r: mk.rms_norm(WIDE[:r], NORM, 1e-6),
    "rope": lambda r: mk.rope(HEADS[:r], TABLE[:r]),
    "swiglu": lambda r: mk.swiglu(GATED[:r]),
    "linear_w8": lambda r: mk.linear(WIDE[:r], TILES[0]),
    "block_attention": attend,
    "unmask": propose,
    "unmask, sampled": lambda r: propose(r, temperature=0.9, seed=3),
    "unmask, cut": lambda r: propose(r, temperature=0.9, top_p=0.8, seed=3),
}


@pytest.mark.parametrize("name", CALLS)
def test_the_first_rows_are_the_same_alone(name):
    together = CALLS[name](N)
    for r in (1, 2, 3, 4, 5, 7, 8, 9, 13, 16, 17, 31, 32):
        assert torch.equal(CALLS[name](r), together[:r]), f"{r} rows"


def test_a_long_cache_gives_the_bits_that_a_short_one_gives():
    shorter = mk.block_attention(HEADS[:5, :14], KEYS[:, :512], VALUES[:, :512], mk.attention_bias(SEEN[:5], 7))
    assert torch.equal(shorter, attend(5))
    # a far-seeing neighbour makes the whole call read more of the cache
    seen = torch.cat([SEEN[:5], torch.tensor([1000])])
    longer = mk.block_attention(HEADS[:6, :14], KEYS, VALUES, mk.attention_bias(seen, 7))
    assert torch.equal(shorter, longer[:5])
