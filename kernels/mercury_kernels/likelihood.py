"""How probable given tokens are, without the logits of the whole vocabulary at once."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from mercury_kernels.linear import Weight, linear


def log_likelihood(hidden: Tensor, vocabulary: Sequence[Weight], targets: Tensor) -> Tensor:
    """hidden [R, H], vocabulary tiles in order, targets i64 [R] -> log probability of each row's target, f32 [R]."""
    total = hidden.new_full((hidden.shape[0],), float("-inf"), dtype=torch.float32)
    chosen = total.clone()
    start = 0
    for tile in vocabulary:
        logits = linear(hidden, tile).float()
        total = torch.logaddexp(total, logits.logsumexp(-1))
        local = targets - start
        inside = (local >= 0) & (local < logits.shape[1])
        here = logits.gather(1, local.clamp(0, logits.shape[1] - 1)[:, None])[:, 0]
        chosen = torch.where(inside, here, chosen)
        start += logits.shape[1]
    return chosen - total


def reference_log_likelihood(hidden: Tensor, weight: Tensor, targets: Tensor) -> Tensor:
    """The specification: a row of the log softmax over the whole vocabulary. weight [V, H]."""
    return (hidden.float() @ weight.float().T).log_softmax(-1).gather(1, targets[:, None])[:, 0]
