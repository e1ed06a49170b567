"""rms_norm and add_rms_norm: Triton against the reference, forward and backward, and the CPU path."""

import pytest
import torch

from mercury_kernels import add_rms_norm, reference_add_rms_norm, reference_rms_norm, rms_norm

EPS = 1e-6
SHAPES = [(1, 64), (3, 100), (63, 896), (65, 33), (0, 64)]


@pytest.mark.parametrize("shape", [*SHAPES, pytest.param((1000, 40), marks=pytest.mark.slow)])
def test_equals_its_reference(place, shape):
    from mercury_kernels.triton import norm

    x, weight = place.randn(*shape), place.randn(shape[1], seed=1)
    place.close("rms_norm", norm.rms_norm(x, weight, EPS), reference_rms_norm(x, weight, EPS))


def test_keeps_leading_dimensions_and_reads_strided_heads(place):
    from mercury_kernels.triton import norm

    x, weight = place.randn(5, 7, 64)[:, 2:5], place.randn(64, seed=1)
    place.close("rms_norm", norm.rms_norm(x, weight, EPS), reference_rms_norm(x, weight, EPS))


@pytest.mark.parametrize("shape", SHAPES)
def test_adding_the_residual_equals_its_reference(place, shape):
    from mercury_kernels.triton import norm

    x, residual, weight = place.randn(*shape), place.randn(*shape, seed=2), place.randn(shape[1], seed=1)
    got, want = (f(x, residual, weight, EPS) for f in (norm.add_rms_norm, reference_add_rms_norm))
    place.close("normed", got[0], want[0])
    place.close("sum", got[1], want[1])


@pytest.mark.parametrize("rows", [1, 3, 129])
def test_gradients_equal_those_of_the_reference(place, rows):
    from mercury_kernels.triton import norm

    inputs = {"x": place.randn(rows, 72, grad=True), "weight": place.randn(72, seed=1, grad=True)}
    place.same_gradients(lambda x, w: norm.rms_norm(x, w, EPS), lambda x, w: reference_rms_norm(x, w, EPS), inputs)


def test_gradients_flow_through_both_results_of_add_rms_norm(place):
    from mercury_kernels.triton import norm

    inputs = {
        "x": place.randn(65, 72, grad=True),
        "residual": place.randn(65, 72, seed=2, grad=True),
        "weight": place.randn(72, seed=1, grad=True),
    }
    place.same_gradients(
        lambda *a: torch.cat(norm.add_rms_norm(*a, EPS)), lambda *a: torch.cat(reference_add_rms_norm(*a, EPS)), inputs
    )


def test_a_row_does_not_depend_on_the_others(place):
    from mercury_kernels.triton import norm

    x, weight = place.randn(9, 896), place.randn(896, seed=1)
    assert torch.equal(norm.rms_norm(x, weight, EPS)[4:5], norm.rms_norm(x[4:5], weight, EPS))


def test_a_row_too_wide_is_refused():
    from mercury_kernels.triton import norm

    with pytest.raises(ValueError, match="at most 16384"):
        norm.rms_norm(torch.zeros(1, 16385), torch.zeros(16385), EPS)


def test_the_cpu_path_equals_the_reference():
    x, residual, weight = torch.randn(17, 96), torch.randn(17, 96), torch.randn(96)
    torch.testing.assert_close(rms_norm(x, weight, EPS), reference_rms_norm(x, weight, EPS))
    torch.testing.assert_close(add_rms_norm(x, residual, weight, EPS), reference_add_rms_norm(x, residual, weight, EPS))
