"""A mixture of experts in place of a layer's one feed-forward network (Shazeer et al. 2017, arXiv 1701.06538), routed
as in Qwen3-MoE: softmax over all experts, the best few of them, their shares optionally made to sum to one.

A row's result does not depend on which other rows run with it. This module knows nothing about layers or files.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mercury_kernels import Weight, linear, swiglu


@dataclass(frozen=True, slots=True)
class Experts:
    """router [E, H]. gate_up: E weights [2F, H], gate above up; down: E weights [H, F]. per_token: experts per row."""

    router: Weight
    gate_up: tuple[Weight, ...]
    down: tuple[Weight, ...]
    per_token: int
    normalised: bool


def mixture(x: Tensor, experts: Experts) -> Tensor:
    """x [R, H] -> [R, H]: the asked experts' answers, weighted by the router's shares."""
    share = linear(x, experts.router).float().softmax(-1)  # [R, E]
    share, asked = share.topk(experts.per_token, -1)
    if experts.normalised:
        share = share / share.sum(-1, keepdim=True)
    out = torch.zeros_like(x)
    for expert in asked.unique().tolist():
        row, choice = (asked == expert).nonzero(as_tuple=True)
        answer = linear(swiglu(linear(x[row], experts.gate_up[expert])), experts.down[expert])
        out.index_add_(0, row, (answer.float() * share[row, choice, None]).to(x.dtype))
    return out
