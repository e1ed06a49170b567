"""swiglu: Triton and the CPU path against the reference, forward and backward."""

import pytest
import torch

from mercury_kernels import reference_swiglu, swiglu


@pytest.mark.parametrize(
    "shape",
    [(1, 128), (3, 2 * 1025), (63, 66), (65, 2 * 4864), (0, 64), pytest.param((1000, 30), marks=pytest.mark.slow)],
)
def test_equals_its_reference(place, shape):
    from mercury_kernels.triton import swiglu as kernels

    x = place.randn(*shape) * 3
    place.close("swiglu", kernels.swiglu(x), reference_swiglu(x))


@pytest.mark.parametrize("shape", [(1, 128), (65, 2 * 1030)])
def test_gradients_equal_those_of_the_reference(place, shape):
    from mercury_kernels.triton import swiglu as kernels

    place.same_gradients(kernels.swiglu, reference_swiglu, {"gate_up": place.randn(*shape, grad=True)})


@pytest.mark.parametrize("grad", [False, True])
def test_the_cpu_path_equals_the_reference_and_leaves_its_input_alone(grad):
    x = torch.randn(5, 44, requires_grad=grad)
    before = x.detach().clone()
    torch.testing.assert_close(swiglu(x), reference_swiglu(x))
    assert torch.equal(x.detach(), before)
