"""Rotary position embedding (Su et al. 2021, arXiv 2104.09864), half-split layout as in Llama and Qwen."""

import torch
from torch import Tensor

from mercury_kernels.dispatch import use_triton


def rope_table(n_positions: int, head_dim: int, theta: float, device: torch.device | str = "cpu") -> Tensor:
    """[n_positions, 2, head_dim] f32: cosines and sines, each half repeated so that they multiply whole heads.

    The sine's first half is negated: rope() is then one product with the rolled head.
    """
    inverse = theta ** (-torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim)
    angle = torch.arange(n_positions, dtype=torch.float64)[:, None] * inverse
    cos, sin = angle.cos(), angle.sin()
    table = torch.stack([torch.cat([cos, cos], 1), torch.cat([-sin, sin], 1)], 1)
    return table.float().to(device)


def rope(x: Tensor, table: Tensor) -> Tensor:
    """x [R, heads, D], table [R, 2, D] (the rows' positions already chosen) -> rotated, in x's dtype.

    Queries and keys that lie side by side (a slice of one projection) are turned by one call, in place of two.
    """
    if use_triton(x):
        from mercury_kernels.triton import rope as kernels

        return kernels.rope(x, table)
    cos, sin = table[:, 0, None], table[:, 1, None]
    half = x.shape[-1] // 2
    return torch.addcmul(x * cos, torch.cat((x[..., half:], x[..., :half]), -1), sin.to(x.dtype)).to(x.dtype)


def reference_rope(x: Tensor, positions: Tensor, theta: float) -> Tensor:
    """x [R, heads, D], positions [R]: pairs (i, i + D/2) turned by position * theta^(-2i/D)."""
    d = x.shape[-1]
    angle = positions.double()[:, None] * theta ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)
    cos, sin = angle.cos()[:, None], angle.sin()[:, None]
    a, b = x.double()[..., : d // 2], x.double()[..., d // 2 :]
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1).to(x.dtype)
