"""Sampling noise: a function of (seed, row, id) alone, with the right distribution."""

import pytest
import torch

from mercury_kernels import Dense, gumbel, tiles, unmask


def test_it_depends_on_seed_row_and_id_alone():
    whole = gumbel(7, torch.arange(5), 0, 300)
    assert torch.equal(gumbel(7, torch.tensor([3]), 100, 50), whole[3:4, 100:150])
    assert not torch.equal(gumbel(8, torch.arange(5), 0, 300), whole)
    assert not torch.equal(whole[0], whole[1])
    assert torch.isfinite(gumbel(-1, torch.arange(3), 0, 100_000)).all()


def test_high_bits_of_the_seed_count():
    assert not torch.equal(gumbel(2**32, torch.arange(2), 0, 9), gumbel(2**33, torch.arange(2), 0, 9))


@pytest.mark.parametrize("axis", ["rows", "ids", "seeds"])
def test_it_is_gumbel_distributed_along_every_counter(axis):
    n = 100_000
    if axis == "rows":
        x = gumbel(1, torch.arange(n), 5, 1)
    elif axis == "ids":
        x = gumbel(1, torch.tensor([2]), 0, n)
    else:
        x = torch.cat([gumbel(seed, torch.tensor([2]), 3, 1) for seed in range(2000)])
    uniform = torch.exp(-torch.exp(-x.flatten().double())).sort().values
    expected = (torch.arange(uniform.numel(), dtype=torch.float64) + 0.5) / uniform.numel()
    # Kolmogorov's bound at one in a million
    assert (uniform - expected).abs().max() < 2.7 / uniform.numel() ** 0.5


def test_neighbouring_rows_and_ids_are_uncorrelated():
    x = gumbel(3, torch.arange(400), 0, 400).double()
    x = (x - x.mean()) / x.std()
    for a, b in ((x[1:], x[:-1]), (x[:, 1:], x[:, :-1]), (x[1:, 1:], x[:-1, :-1])):
        assert (a * b).mean().abs() < 5 / 400


def test_sampled_tokens_follow_the_tempered_softmax():
    logits = torch.tensor([2.0, 1.0, 0.0, -1.0, 1.5])
    rows = 20_000
    got = unmask(torch.ones(rows, 1), tiles(Dense(logits[:, None]), 2), temperature=0.5, seed=4)
    share = got.token.bincount(minlength=5) / rows
    torch.testing.assert_close(share, (logits / 0.5).softmax(0), rtol=0, atol=5 * 0.5 / rows**0.5)
