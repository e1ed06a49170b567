"""rope: Triton and the CPU path against the reference; the backward pass is the opposite turn."""

import pytest
import torch

from mercury_kernels import reference_rope, rope, rope_table

THETA = 1e6


@pytest.mark.parametrize(
    ("rows", "heads", "d"),
    [(1, 16, 64), (3, 5, 128), (65, 16, 64), (0, 3, 64), pytest.param(1000, 1, 64, marks=pytest.mark.slow)],
)
def test_equals_its_reference(place, rows, heads, d):
    from mercury_kernels.triton import rope as kernels

    positions = torch.arange(7, 7 + rows)
    table = rope_table(2000, d, THETA)[positions].to(place.device)
    x = place.randn(rows, heads, d)
    place.close("rope", kernels.rope(x, table), reference_rope(x.cpu(), positions, THETA).to(place.device))


def test_reads_heads_out_of_a_fused_projection(place):
    from mercury_kernels.triton import rope as kernels

    x = place.randn(6, 9, 64)
    table = rope_table(6, 64, THETA, place.device)
    assert torch.equal(kernels.rope(x[:, 2:7], table), kernels.rope(x[:, 2:7].contiguous(), table))


def test_gradients_equal_those_of_the_reference(place):
    from mercury_kernels.triton import rope as kernels

    positions = torch.arange(40, 73)
    table = rope_table(80, 64, THETA)[positions].to(place.device)
    place.same_gradients(
        lambda x: kernels.rope(x, table),
        lambda x: reference_rope(x.cpu(), positions, THETA).to(place.device),
        {"x": place.randn(33, 3, 64, grad=True)},
    )


def test_the_cpu_path_equals_the_reference():
    x, positions = torch.randn(5, 3, 64), torch.tensor([0, 1, 900, 2, 31])
    torch.testing.assert_close(
        rope(x, rope_table(1000, 64, THETA)[positions]), reference_rope(x, positions, THETA), atol=1e-4, rtol=1e-4
    )
