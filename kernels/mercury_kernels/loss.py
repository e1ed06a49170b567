"""Cross-entropy over masked slots, chunked over the vocabulary.

152k logits for each slot of a training batch are the largest tensor of a step by far. Here a chunk of the vocabulary's
logits exists at a time, in the forward pass and again, computed anew, in the backward pass. This module knows nothing
about masks' schedules or weights of noise levels: the caller sums what it wants.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

IGNORED = -100
CHUNK = 8192
"""Vocabulary rows per chunk: 512 slots x 8192 x 4 bytes = 16 MB, and products wide enough for full speed."""


def masked_cross_entropy(hidden: Tensor, weight: Tensor, targets: Tensor, chunk: int = CHUNK) -> Tensor:
    """Mean over the rows whose target is not -100 of -log softmax(hidden @ weight.T)[target], a float32 scalar, nats.

    hidden [R, H], weight [V, H], targets i64 [R]. Gradients for hidden and, if it requires one, weight; sums are
    float32. 0 if every row is ignored. ValueError for a target outside the vocabulary; on a GPU, where the test would
    wait for the device, such a target counts with the logit 0.
    """
    if targets.device.type == "cpu" and targets.numel():
        out = (targets != IGNORED) & ((targets < 0) | (targets >= weight.shape[0]))
        if bool(out.any()):
            raise ValueError(f"target {int(targets[out][0])} is not in the vocabulary of {weight.shape[0]}")
    open_rows = (targets != IGNORED).nonzero()[:, 0]
    if open_rows.numel() == 0:
        return (hidden[:0].sum() + weight[:0].sum()).float()
    loss: Tensor = _ChunkedCrossEntropy.apply(hidden[open_rows], weight, targets[open_rows], chunk)  # pyright: ignore[reportAssignmentType]
    return loss


def reference_masked_cross_entropy(hidden: Tensor, weight: Tensor, targets: Tensor) -> Tensor:
    """The specification: torch's cross-entropy over all logits, in float32."""
    logits = hidden.float() @ weight.float().T
    if bool((targets == IGNORED).all()):
        return logits.sum() * 0.0
    return torch.nn.functional.cross_entropy(logits, targets, ignore_index=IGNORED)


class _ChunkedCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, targets: Tensor, chunk: int) -> Tensor:
        rows = hidden.shape[0]
        peak = hidden.new_full((rows,), float("-inf"), dtype=torch.float32)
        total = torch.zeros_like(peak)
        target_logit = torch.zeros_like(peak)
        for start, part in _chunks(weight, chunk):
            logits = (hidden @ part.T).float()
            row, column = _inside(targets, start, part.shape[0])
            target_logit[row] = logits[row, column]
            new_peak = torch.maximum(peak, logits.amax(1))
            total = total * (peak - new_peak).exp_() + logits.sub_(new_peak[:, None]).exp_().sum(1)
            peak = new_peak
        log_total = peak + total.log()
        ctx.save_for_backward(hidden, weight, targets, log_total)
        ctx.chunk = chunk
        return (log_total - target_logit).mean()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        hidden, weight, targets, log_total = ctx.saved_tensors
        each = gradients[0] / hidden.shape[0]
        d_hidden = torch.zeros_like(hidden, dtype=torch.float32) if ctx.needs_input_grad[0] else None
        d_weight = torch.empty_like(weight) if ctx.needs_input_grad[1] else None
        for start, part in _chunks(weight, ctx.chunk):
            d_logits = (hidden @ part.T).float().sub_(log_total[:, None]).exp_()
            row, column = _inside(targets, start, part.shape[0])
            d_logits[row, column] -= 1
            d_logits = d_logits.mul_(each).to(weight.dtype)
            if d_hidden is not None:
                d_hidden += d_logits @ part
            if d_weight is not None:
                torch.mm(d_logits.T, hidden.to(weight.dtype), out=d_weight[start : start + part.shape[0]])
        return None if d_hidden is None else d_hidden.to(hidden.dtype), d_weight, None, None


def _chunks(weight: Tensor, chunk: int) -> list[tuple[int, Tensor]]:
    return [(start, weight[start : start + chunk]) for start in range(0, weight.shape[0], chunk)]


def _inside(targets: Tensor, start: int, n: int) -> tuple[Tensor, Tensor]:
    """Rows whose target is in this chunk, and its column there."""
    local = targets - start
    row = ((local >= 0) & (local < n)).nonzero()[:, 0]
    return row, local[row]
