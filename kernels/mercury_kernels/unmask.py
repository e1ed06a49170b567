"""From hidden states to proposals: which token, how sure, for the open slots only.

The vocabulary is large (152k): the logits of all rows never exist at once; the reduction walks over tiles of the
vocabulary and keeps running maxima and sums. Of equal logits the lowest id wins. Sampling adds noise that depends on
(seed, row, id) alone, so a seed gives the same tokens on every device. This module knows nothing about masks,
canvases or policies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from mercury_kernels.dispatch import use_triton
from mercury_kernels.linear import Dense, Int8, Weight, linear
from mercury_kernels.noise import gumbel

TILE = 16384
"""Vocabulary rows per tile: 32 slots x 16384 x 4 bytes = 2 MB, the size of a level-2 cache."""
_BANNED = -1e30
"""The logit of a banned id: its exponential is 0, and where a whole tile is banned there is no infinity to make NaN."""


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
    if use_triton(hidden):
        from mercury_kernels.triton import unmask as kernels

        parts = [(t.weight, t.scale if isinstance(t, Int8) else None) for t in vocabulary]
        return Proposal(
            *kernels.unmask(hidden, parts, temperature=temperature, top_p=top_p, top_k=top_k, banned=banned, seed=seed)
        )
    if temperature > 0 and (top_p < 1 or top_k > 0):
        # row by row, so that only one row's logits exist at a time
        parts = []
        for row in range(hidden.shape[0]):
            logits = torch.cat([linear(hidden[row : row + 1], tile).float() for tile in vocabulary], -1)
            _ban(logits, None if banned is None else banned[row : row + 1], 0)
            parts.append(_propose(logits, row, temperature, top_p, top_k, seed))
        return _stack(parts)
    rows = torch.arange(hidden.shape[0], device=hidden.device)
    peak = hidden.new_full(rows.shape, _BANNED, dtype=torch.float32)
    second, score, chosen = peak.clone(), peak.clone(), peak.clone()
    token = torch.zeros_like(rows)
    total = torch.zeros_like(peak)
    weighted = torch.zeros_like(peak)
    start = 0
    for tile in vocabulary:
        logits = linear(hidden, tile).float()
        n = logits.shape[1]
        _ban(logits, banned, start)
        top, where, next_top = _top_two(logits)
        second = torch.maximum(torch.maximum(second, next_top), torch.minimum(peak, top))
        better = top > peak
        if temperature > 0:
            tried, where, _ = _top_two(logits.div(temperature).add_(gumbel(seed, rows, start, n)))
            better = tried > score
            score = torch.maximum(score, tried)
            chosen = torch.where(better, logits[rows, where], chosen)
        token = torch.where(better, where + start, token)
        new_peak = torch.maximum(peak, top)
        shifted = logits.sub_(new_peak[:, None])
        probability = shifted.exp()
        # the entropy needs sum(p * logit): carried relative to the running peak
        keep = (peak - new_peak).exp()
        weighted = (weighted + total * (peak - new_peak)) * keep + (probability * shifted).sum(-1)
        total = total * keep + probability.sum(-1)
        peak = new_peak
        start += n
    if temperature <= 0:
        chosen = peak
    log_total = total.log()
    return Proposal(
        token,
        (chosen - peak - log_total).exp(),
        log_total - weighted / total,
        (1 - (second - peak).exp()) / total,
    )


def reference_unmask(
    hidden: Tensor,
    weight: Tensor,
    *,
    temperature: float = 0.0,
    top_p: float = 1.0,
    top_k: int = 0,
    banned: Tensor | None = None,
    seed: int = 0,
) -> Proposal:
    """The specification: softmax over the whole vocabulary, row by row in float32. weight [V, H]."""
    logits = hidden.float() @ weight.float().T
    _ban(logits, banned, 0)
    return _stack([_propose(line[None], row, temperature, top_p, top_k, seed) for row, line in enumerate(logits)])


def _propose(logits: Tensor, row: int, temperature: float, top_p: float, top_k: int, seed: int) -> Proposal:
    """logits [1, V] of one row, all at once; `row` is its number in the call."""
    log_p = logits.log_softmax(-1)
    p = log_p.exp()
    entropy = -(p * log_p).sum(-1)
    top = p.topk(2, -1).values
    token = logits.argmax(-1)
    if temperature > 0:
        tempered = logits / temperature
        score = tempered + gumbel(seed, torch.tensor([row], device=logits.device), 0, logits.shape[1])
        if top_p < 1 or top_k > 0:
            order = tempered.softmax(-1).sort(-1, descending=True)
            keep = order.values.cumsum(-1) - order.values < top_p
            keep[:, 0] = True
            if top_k > 0:
                keep[:, top_k:] = False
            score = score.masked_fill(~torch.zeros_like(keep).scatter_(1, order.indices, keep), float("-inf"))
        token = score.argmax(-1)
    return Proposal(token, p.gather(1, token[:, None])[:, 0], entropy, top[:, 0] - top[:, 1])


def _stack(parts: Sequence[Proposal]) -> Proposal:
    if not parts:
        empty = torch.zeros(0)
        return Proposal(torch.zeros(0, dtype=torch.int64), empty, empty, empty)
    return Proposal(
        torch.cat([p.token for p in parts]),
        torch.cat([p.confidence for p in parts]),
        torch.cat([p.entropy for p in parts]),
        torch.cat([p.margin for p in parts]),
    )


def _top_two(logits: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """logits [R, n] -> largest, its first index, second largest; each [R].

    The maxima of groups of 128 first: a maximum without its index is 17 times faster than one with it, and than topk.
    """
    odd = -logits.shape[1] % 128
    grouped = torch.nn.functional.pad(logits, (0, odd), value=2 * _BANNED) if odd else logits
    grouped = grouped.view(logits.shape[0], grouped.shape[1] // 128, 128)
    peaks = grouped.amax(-1)
    top, group = peaks.max(-1)
    rows = torch.arange(logits.shape[0], device=logits.device)
    best = grouped[rows, group]
    within = best.argmax(-1)
    best[rows, within] = _BANNED
    peaks[rows, group] = best.amax(-1)
    return top, group * 128 + within, peaks.amax(-1)


def _ban(logits: Tensor, banned: Tensor | None, start: int) -> None:
    """Set the banned ids that fall into this tile to _BANNED, in place."""
    if banned is None:
        return
    local = banned - start
    row, column = ((local >= 0) & (local < logits.shape[1])).nonzero(as_tuple=True)
    logits[row, local[row, column]] = _BANNED
