"""Root mean square normalisation (Zhang and Sennrich 2019, arXiv 1910.07467)."""

import torch
from torch import Tensor

from mercury_kernels.dispatch import use_triton


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """x [..., H] / rms(x) * weight [H], computed in x's dtype or float32, returned in x's dtype."""
    if use_triton(x):
        from mercury_kernels.triton import norm

        return norm.rms_norm(x, weight, eps)
    if x.is_cuda or x.requires_grad:
        return torch.nn.functional.rms_norm(x, weight.shape, weight, eps)
    # the library's CPU path is a chain of small kernels, twice as slow as these for a few rows
    scale = torch.linalg.vector_norm(x, dim=-1, keepdim=True, dtype=torch.float32)
    scale = scale.square_().div_(x.shape[-1]).add_(eps).rsqrt_()
    return (x * scale).to(x.dtype).mul_(weight)


def add_rms_norm(x: Tensor, residual: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """x and residual [..., H] -> (rms_norm(x + residual), x + residual): one pass over memory on a GPU."""
    if use_triton(x):
        from mercury_kernels.triton import norm

        return norm.add_rms_norm(x, residual, weight, eps)
    total = x + residual
    return rms_norm(total, weight, eps), total


def reference_rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """The specification, in float32."""
    y = x.float()
    y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + eps)
    return (y * weight.float()).to(x.dtype)


def reference_add_rms_norm(x: Tensor, residual: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """The specification: the sum is rounded to x's dtype before it is normalised."""
    total = x + residual
    return reference_rms_norm(total, weight, eps), total
