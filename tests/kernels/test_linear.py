"""linear over dense and 8-bit weights: Triton against the reference; the CPU's exact integer arithmetic."""

import pytest
import torch

from mercury_kernels import (
    Dense,
    int8_weight,
    linear,
    linear_w8,
    quantize_int8,
    reference_linear_w8,
    reference_linear_w8a8,
)

ROWS = [0, 1, 3, 63, 65]


def quantized(n, k, groups=None, seed=1):
    weight = torch.randn(n, k, generator=torch.Generator().manual_seed(seed))
    if groups is None:
        return quantize_int8(weight)
    whole, scale = quantize_int8(weight.reshape(n * groups, -1))
    return whole.reshape(n, k), scale.reshape(n, groups)


def scaled(place, y, k):
    """Sums of k products grow with its root; the tolerance is meant for numbers around one."""
    return y / k**0.5


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize(("n", "k"), [(33, 100), (70, 1300)])
@pytest.mark.parametrize("bias", [False, True])
def test_eight_bits_equal_their_reference(place, rows, n, k, bias):
    from mercury_kernels.triton import linear as kernels

    x, (weight, scale) = place.randn(rows, k), (t.to(place.device) for t in quantized(n, k))
    b = place.randn(n, seed=3) if bias else None
    want = reference_linear_w8(x.float(), weight, scale, b)
    place.close("linear_w8", scaled(place, kernels.linear(x, weight, scale, b), k), scaled(place, want, k))


@pytest.mark.parametrize("group", [32, 64, 128])
def test_a_scale_per_group_equals_its_reference(place, group):
    from mercury_kernels.triton import linear as kernels

    k = 5 * 128
    x, (weight, scale) = place.randn(3, k), (t.to(place.device) for t in quantized(40, k, k // group))
    want = reference_linear_w8(x.float(), weight, scale)
    place.close("linear_w8", scaled(place, kernels.linear(x, weight, scale), k), scaled(place, want, k))


@pytest.mark.parametrize("rows", ROWS)
def test_dense_weights_equal_the_library(place, rows):
    from mercury_kernels.triton import linear as kernels

    x, weight, bias = place.randn(rows, 1000), place.randn(65, 1000, seed=1), place.randn(65, seed=2)
    want = torch.nn.functional.linear(x.float(), weight.float(), bias.float())
    got = kernels.linear(x, weight, None, bias)
    place.close("linear", scaled(place, got, 1000), scaled(place, want, 1000))


@pytest.mark.parametrize("rows", [1, 8, 33])
def test_a_row_does_not_depend_on_the_others(place, rows):
    from mercury_kernels.triton import linear as kernels

    x, weight = place.randn(65, 1300), place.randn(70, 1300, seed=1)
    assert torch.equal(kernels.linear(x, weight)[:rows], kernels.linear(x[:rows], weight))


def test_groups_that_no_tile_fits_are_refused():
    from mercury_kernels.triton import linear as kernels

    with pytest.raises(ValueError, match="use 16, 32, 64"):
        kernels.linear(torch.zeros(1, 96), torch.zeros(4, 96, dtype=torch.int8), torch.zeros(4, 4))


@pytest.mark.parametrize("rows", [1, 7, 40])
def test_the_cpu_path_is_exact_integer_arithmetic(rows):
    weight, scale = quantized(50, 96)
    x, bias = torch.randn(rows, 96) * 20, torch.randn(50)
    got = linear_w8(x, int8_weight(weight, scale, bias))
    torch.testing.assert_close(got, reference_linear_w8a8(x, weight, scale, bias), rtol=1e-5, atol=1e-4)


def test_the_cpu_path_gives_a_row_the_same_bits_whatever_runs_with_it():
    weight = int8_weight(*quantized(50, 96))
    x = torch.randn(33, 96) * torch.logspace(-3, 3, 33)[:, None]
    together = linear(x, weight)
    assert all(torch.equal(together[i : i + 1], linear(x[i : i + 1], weight)) for i in range(33))


def test_dense_weights_keep_their_gradient():
    x, weight = torch.randn(4, 8, requires_grad=True), torch.randn(5, 8, requires_grad=True)
    linear(x, Dense(weight)).sum().backward()
    torch.testing.assert_close(weight.grad, x.detach().sum(0).expand(5, 8))
