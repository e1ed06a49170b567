"""Root mean square normalisation (Zhang and Sennrich 2019, arXiv 1910.07467)."""

import torch
from torch import Tensor


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """x [..., H] / rms(x) * weight [H], computed in x's dtype or float32, returned in x's dtype."""
    return torch.nn.functional.rms_norm(x, weight.shape, weight, eps)


def reference_rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    y = x.float()
    y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + eps)
    return (y * weight.float()).to(x.dtype)
