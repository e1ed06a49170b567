"""SwiGLU gate (Shazeer 2020, arXiv 2002.05202)."""

import torch
from torch import Tensor

from mercury_kernels.dispatch import use_triton


def swiglu(gate_up: Tensor) -> Tensor:
    """[R, 2F] (gate columns first) -> silu(gate) * up [R, F]."""
    if use_triton(gate_up):
        from mercury_kernels.triton import swiglu as kernels

        return kernels.swiglu(gate_up)
    gate, up = gate_up.chunk(2, -1)
    return torch.nn.functional.silu(gate).mul_(up) if not gate_up.requires_grad else torch.nn.functional.silu(gate) * up


def reference_swiglu(gate_up: Tensor) -> Tensor:
    gate, up = gate_up.float().chunk(2, -1)
    return (gate * torch.sigmoid(gate) * up).to(gate_up.dtype)
