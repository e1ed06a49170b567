"""block_attention and bidirectional_attention: Triton and the CPU path against the references."""

import pytest
import torch

from mercury_kernels import (
    attention_bias,
    bidirectional_attention,
    block_attention,
    reference_bidirectional_attention,
    reference_block_attention,
)

CACHES = [  # rows, query heads, KV heads, head size, capacity, what the rows see
    (1, 14, 2, 64, 512, [300]),
    (3, 4, 4, 128, 200, [1, 129, 200]),
    (8, 14, 2, 64, 512, [137] * 8),
    (9, 6, 1, 64, 130, list(range(120, 129))),
    (63, 2, 2, 64, 150, list(range(1, 64))),
    (65, 4, 2, 64, 256, [65] * 65),
]


def cache(place, rows, n_heads, n_kv, d, capacity, seen):
    """What lies behind the longest visible position was never written: NaN."""
    q = place.randn(rows, n_heads, d)
    keys, values = place.randn(n_kv, capacity, d, seed=1), place.randn(n_kv, capacity, d, seed=2)
    keys[:, max(seen) :] = values[:, max(seen) :] = float("nan")
    return q, keys, values, torch.tensor(seen, device=place.device)


@pytest.mark.parametrize("case", CACHES, ids=lambda c: "x".join(map(str, c[:5])))
def test_equals_its_reference(place, case):
    from mercury_kernels.triton import attention as kernels

    q, keys, values, visible = cache(place, *case)
    want = reference_block_attention(q, keys.nan_to_num(), values.nan_to_num(), visible)
    place.close("attention", kernels.block_attention(q, keys, values, visible), want)


@pytest.mark.slow
def test_one_thousand_rows_equal_the_reference(place):
    from mercury_kernels.triton import attention as kernels

    q, keys, values, visible = cache(place, 1000, 1, 1, 16, 200, [1 + i // 5 for i in range(1000)])
    place.close(
        "attention",
        kernels.block_attention(q, keys, values, visible),
        reference_block_attention(q, keys, values, visible),
    )


def test_a_row_depends_neither_on_the_others_nor_on_the_capacity(place):
    from mercury_kernels.triton import attention as kernels

    seen = [40, 300, 129, 511, 128, 1, 260]
    q, keys, values, visible = cache(place, 7, 14, 2, 64, 512, seen)
    longer = [torch.cat([t, t.new_full((2, 512, 64), float("nan"))], 1) for t in (keys, values)]
    together = kernels.block_attention(q, keys, values, visible)
    for i in range(7):
        assert torch.equal(together[i : i + 1], kernels.block_attention(q[i : i + 1], *longer, visible[i : i + 1])), i


def test_queries_are_read_out_of_a_fused_projection(place):
    from mercury_kernels.triton import attention as kernels

    q, keys, values, visible = cache(place, 3, 6, 2, 64, 100, [10, 20, 100])
    inside = place.randn(3, 9, 64, seed=7)[:, 1:7].copy_(q)
    assert torch.equal(
        kernels.block_attention(inside, keys, values, visible), kernels.block_attention(q, keys, values, visible)
    )


def test_a_row_that_sees_nothing_is_zero_and_no_rows_are_no_rows(place):
    from mercury_kernels.triton import attention as kernels

    q, keys, values, visible = cache(place, 2, 4, 2, 64, 64, [0, 5])
    out = kernels.block_attention(q, keys, values, visible)
    assert out[0].eq(0).all() and not out[1].isnan().any()
    assert kernels.block_attention(q[:0], keys, values, visible[:0]).shape == (0, 256)


@pytest.mark.parametrize(("heads", "d", "message"), [(4, 48, "16, 32, 64, 128 or 256"), (5, 64, "evenly")])
def test_shapes_that_the_kernel_cannot_take_are_refused(heads, d, message):
    from mercury_kernels.triton import attention as kernels

    with pytest.raises(ValueError, match=message):
        kernels.block_attention(torch.zeros(1, heads, d), *torch.zeros(2, 2, 8, d), torch.ones(1, dtype=torch.int64))


@pytest.mark.parametrize(
    ("length", "n_heads", "n_kv", "d", "lengths"),
    [(1, 2, 2, 64, [1]), (65, 4, 2, 64, [65, 0, 3, 64]), (63, 2, 1, 128, [63, 1]), (130, 1, 1, 64, [130, 129])],
)
def test_whole_sequences_equal_their_reference(place, length, n_heads, n_kv, d, lengths):
    from mercury_kernels.triton import attention as kernels

    batch = len(lengths)
    q = place.randn(batch, length, n_heads, d)
    k, v = place.randn(batch, length, n_kv, d, seed=1), place.randn(batch, length, n_kv, d, seed=2)
    counts = torch.tensor(lengths, device=place.device)
    want = reference_bidirectional_attention(q, k, v, counts)
    for b, n in enumerate(lengths):
        k[b, n:] = v[b, n:] = q[b, n:] = float("nan")
    place.close("attention", kernels.bidirectional_attention(q, k, v, counts), want)


@pytest.mark.parametrize("case", CACHES, ids=lambda c: "x".join(map(str, c[:5])))
def test_the_cpu_path_equals_the_reference(case):
    rows, n_heads, n_kv, d, _, seen = case
    visible = torch.tensor(seen)
    bias = attention_bias(visible, n_heads // n_kv)
    q, keys, values = torch.randn(rows, n_heads, d), *torch.randn(2, n_kv, bias.shape[1], d)
    want = reference_block_attention(q, keys, values, visible)
    torch.testing.assert_close(block_attention(q, keys, values, bias), want, rtol=1e-4, atol=1e-5)


def test_whole_sequences_on_the_cpu_equal_the_reference():
    q, k, v, lengths = torch.randn(3, 9, 4, 16), torch.randn(3, 9, 2, 16), torch.randn(3, 9, 2, 16), [9, 0, 4]
    counts = torch.tensor(lengths)
    torch.testing.assert_close(
        bidirectional_attention(q, k, v, counts), reference_bidirectional_attention(q, k, v, counts)
    )
