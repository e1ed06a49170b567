"""Which implementation runs: Triton for CUDA tensors where triton is installed, torch otherwise.

Looked up at the first call, not at import: `import mercury_kernels` needs neither a GPU nor triton, and waits for
neither.
"""

from functools import cache
from importlib.util import find_spec

from torch import Tensor, is_grad_enabled


@cache
def has_triton() -> bool:
    return find_spec("triton") is not None


def use_triton(x: Tensor) -> bool:
    return x.is_cuda and has_triton()


def needs_gradient(*tensors: Tensor | None) -> bool:
    """For kernels without a backward pass: they would return a result that no gradient flows through."""
    return is_grad_enabled() and any(t is not None and t.requires_grad for t in tensors)
