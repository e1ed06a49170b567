"""From hidden states to proposals: which token, how sure, for the open slots only.

The vocabulary is large (152k): the logits of all rows never exist at once; the reduction walks over tiles of the
vocabulary and keeps running maxima and sums. This module knows nothing about masks, canvases or policies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from mercury_kernels.linear import Dense, Int8, Weight, linear

TILE = 16384
"""Vocabulary rows per tile: 32 slots x 16384 x 4 bytes = 2 MB, the size of a level-2 cache."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """One proposal per row. token i64 [R]; confidence, entropy (nats), margin (top-1 minus top-2) f32 [R].

    confidence is the probability of `token` under the untempered softmax.
    """

    token: Tensor
    confidence: Tensor
    entropy: Tensor
    margin: Tensor

    def __len__(self) -> int:
        return self.token.shape[0]


def tiles(weight: Weight, tile: int = TILE) -> tuple[Weight, ...]:
    """Views of a dense vocabulary matrix [V, H], tile by tile. 8-bit tiles are packed by the loader."""
    assert isinstance(weight, Dense)
    return tuple(Dense(part) for part in weight.weight.split(tile))


def unmask(
    hidden: Tensor,
    vocabulary: Sequence[Weight],
    *,
    temperature: float = 0.0,
    top_p: float = 1.0,
    top_k: int = 0,
    banned: Tensor | None = None,
    seed: int = 0,
) -> Proposal:
    """hidden [R, H], vocabulary: tiles of the output matrix in order -> Proposal.

    temperature 0 takes the most probable token; otherwise one token is sampled by Gumbel noise from `seed`
    among the top_k and the top_p nucleus (its cut found as a probability threshold). banned: i64 [R, n] ids never
    proposed, padded with -1. R = 0 gives an empty Proposal.
    """
    if temperature > 0 and (top_p < 1 or top_k > 0):
        return _unmask_nucleus(hidden, vocabulary, temperature, top_p, top_k, banned, seed)
    rows = hidden.shape[0]
    best = hidden.new_full((rows,), float("-inf"), dtype=torch.float32)
    second, peak, chosen_logit = best.clone(), best.clone(), best.clone()
    token = torch.zeros(rows, dtype=torch.int64, device=hidden.device)
    total = torch.zeros_like(best)
    weighted = torch.zeros_like(best)
    score_best = best.clone()
    generator = _generator(seed, hidden.device) if temperature > 0 else None
    start = 0
    for tile in vocabulary:
        logits = linear(hidden, tile).float()
        _ban(logits, banned, start)
        top = logits.topk(2, -1)
        new_peak = torch.maximum(peak, top.values[:, 0])
        shifted = logits - new_peak[:, None]
        probs = shifted.exp()
        keep = (peak - new_peak).exp()
        # entropy needs sum(p * logit): carried relative to the running peak
        weighted = (weighted + total * (peak - new_peak).nan_to_num_(nan=0.0, neginf=0.0)) * keep
        weighted += (probs * shifted.nan_to_num_(neginf=0.0)).sum(-1)
        total = total * keep + probs.sum(-1)
        peak = new_peak
        second = torch.maximum(torch.maximum(second, top.values[:, 1]), torch.minimum(best, top.values[:, 0]))
        better = top.values[:, 0] > best
        best = torch.where(better, top.values[:, 0], best)
        if generator is None:
            token = torch.where(better, top.indices[:, 0] + start, token)
        else:
            noise = torch.empty_like(logits).exponential_(generator=generator).log_().neg_()
            score, index = (logits / temperature + noise).max(-1)
            sampled = score > score_best
            score_best = torch.where(sampled, score, score_best)
            token = torch.where(sampled, index + start, token)
            chosen_logit = torch.where(sampled, logits.gather(1, index[:, None])[:, 0], chosen_logit)
        start += logits.shape[1]
    if generator is None:
        chosen_logit = best
    log_total = total.log()
    return Proposal(
        token,
        (chosen_logit - peak - log_total).exp(),
        log_total - weighted / total,
        ((best - peak).exp() - (second - peak).exp()) / total,
    )


def reference_unmask(hidden: Tensor, weight: Tensor, banned: Tensor | None = None) -> Proposal:
    """The specification without sampling: softmax over the whole vocabulary. weight [V, H]."""
    logits = hidden.float() @ weight.float().T
    _ban(logits, banned, 0)
    log_p = logits.log_softmax(-1)
    p = log_p.exp()
    top = p.topk(2, -1)
    entropy = -(p * log_p.nan_to_num(neginf=0.0)).sum(-1)
    return Proposal(top.indices[:, 0], top.values[:, 0], entropy, top.values[:, 0] - top.values[:, 1])


def _unmask_nucleus(
    hidden: Tensor,
    vocabulary: Sequence[Weight],
    temperature: float,
    top_p: float,
    top_k: int,
    banned: Tensor | None,
    seed: int,
) -> Proposal:
    """Sampling with a cut: row by row, so that only one row's logits exist at a time."""
    generator = _generator(seed, hidden.device)
    parts: list[Proposal] = []
    for i in range(hidden.shape[0]):
        logits = torch.cat([linear(hidden[i : i + 1], tile).float() for tile in vocabulary], -1)
        _ban(logits, None if banned is None else banned[i : i + 1], 0)
        log_p = logits.log_softmax(-1)
        tempered = (logits / temperature).softmax(-1)
        order = tempered.sort(-1, descending=True)
        keep = order.values.cumsum(-1) - order.values < top_p
        if top_k > 0:
            keep[:, top_k:] = False
        noise = torch.empty_like(order.values).exponential_(generator=generator)
        pick = torch.where(keep, order.values / noise, -1.0).argmax(-1, keepdim=True)
        token = order.indices.gather(1, pick)
        p = log_p.exp()
        top = p.topk(2, -1).values
        entropy = -(p * log_p.nan_to_num(neginf=0.0)).sum(-1)
        parts.append(Proposal(token[:, 0], p.gather(1, token)[:, 0], entropy, top[:, 0] - top[:, 1]))
    return Proposal(
        torch.cat([p.token for p in parts]),
        torch.cat([p.confidence for p in parts]),
        torch.cat([p.entropy for p in parts]),
        torch.cat([p.margin for p in parts]),
    )


def _ban(logits: Tensor, banned: Tensor | None, start: int) -> None:
    """Set the banned ids that fall into this tile to -inf, in place."""
    if banned is None:
        return
    local = banned - start
    row, column = ((local >= 0) & (local < logits.shape[1])).nonzero(as_tuple=True)
    logits[row, local[row, column]] = float("-inf")


def _generator(seed: int, device: torch.device) -> torch.Generator:
    generator = torch.Generator(device=device)
    generator.manual_seed(seed)
    return generator


__all__ = ["TILE", "Int8", "Proposal", "reference_unmask", "tiles", "unmask"]
