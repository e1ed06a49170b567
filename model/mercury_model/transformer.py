"""One transformer with flags for every checkpoint family; one pass over any number of sequences.

A pass takes Rows: for each sequence the tokens to run, where they stand, what they may see and whether the mask
adapter acts on them. Linear layers run once over the rows of all sequences; attention runs per sequence. Since a
row's arithmetic does not depend on its neighbours (mercury_kernels), a batched pass gives each sequence exactly
what it would get alone.

This module knows nothing about masks, prompts, policies or files.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from mercury_kernels import (
    CACHE_STEP,
    Weight,
    add_rms_norm,
    attention_bias,
    block_attention,
    linear,
    rms_norm,
    rope,
    rope_table,
    swiglu,
)
from mercury_model.adapter import Adapter, Site
from mercury_model.config import Config
from mercury_model.experts import Experts, mixture


@dataclass(frozen=True, slots=True)
class Layer:
    """Weights of one layer; q, k, v stand above one another in qkv, gate above up in gate_up.

    experts: what a mixture adds; gate_up and down, which every row goes through, may then have no columns (F = 0).
    """

    attn_norm: Tensor
    qkv: Weight
    o: Weight
    mlp_norm: Tensor
    gate_up: Weight
    down: Weight
    q_norm: Tensor | None = None
    k_norm: Tensor | None = None
    experts: Experts | None = None


@dataclass(frozen=True, slots=True)
class Weights:
    """embed [V, H]; lm_head: tiles of the output matrix in order."""

    embed: Tensor
    layers: tuple[Layer, ...]
    norm: Tensor
    lm_head: tuple[Weight, ...]


class KVCache:
    """Keys and values of one sequence: [n_layers, n_kv_heads, capacity, head_dim], rows 0..length-1 in use.

    Rows behind the length may hold a draft's keys and values; they are finite, so they can be read masked.
    reached: rows that were ever reserved; what lies behind them is of no use.
    """

    def __init__(self, config: Config, dtype: torch.dtype, device: torch.device) -> None:
        self.length = self.reached = 0
        shape = (config.n_layers, config.n_kv_heads, 0, config.head_dim)
        self.keys = torch.zeros(shape, dtype=dtype, device=device)
        self.values = torch.zeros(shape, dtype=dtype, device=device)

    @property
    def n_bytes(self) -> int:
        """What it takes, or would take by itself where its rows lie in memory that caches share (move_into)."""
        n_layers, n_kv_heads, capacity, head_dim = self.keys.shape
        rows = min(capacity, _whole_steps(self.reached))
        return 2 * n_layers * n_kv_heads * rows * head_dim * self.keys.element_size()

    @torch.inference_mode()
    def gather(self, order: Sequence[int]) -> None:
        """Row i becomes what row order[i] was; what lies behind them is no longer of use."""
        index = torch.tensor(order, dtype=torch.int64, device=self.keys.device)
        self.keys[:, :, : len(order)] = self.keys[:, :, index]
        self.values[:, :, : len(order)] = self.values[:, :, index]

    def copy(self, length: int) -> KVCache:
        """A cache of its own with the first `length` rows of this one."""
        twin = object.__new__(KVCache)
        twin.length = self.length
        twin.reached = n = min(self.keys.shape[2], _whole_steps(length))
        twin.keys, twin.values = self.keys[:, :, :n].clone(), self.values[:, :, :n].clone()
        return twin

    def reserve(self, length: int) -> None:
        """Make room for `length` rows; grows in steps of CACHE_STEP, keeps what is there."""
        self.reached = max(self.reached, length)
        have = self.keys.shape[2]
        if length <= have:
            return
        capacity = _whole_steps(length)
        for name in ("keys", "values"):
            old: Tensor = getattr(self, name)
            new = old.new_zeros((*old.shape[:2], capacity, old.shape[3]))
            new[:, :, :have] = old
            setattr(self, name, new)

    @torch.inference_mode()
    def move_into(self, keys: Tensor, values: Tensor) -> None:
        """From now on the rows lie in this memory, shaped as keys and values are; those it has no room for are lost."""
        n = min(self.keys.shape[2], keys.shape[2], _whole_steps(self.reached))
        keys[:, :, :n] = self.keys[:, :, :n]
        values[:, :, :n] = self.values[:, :, :n]
        self.keys, self.values = keys, values

    def move_out(self) -> None:
        """Into memory of its own again."""
        own = self.copy(self.reached)
        self.keys, self.values = own.keys, own.values


@dataclass(frozen=True, slots=True)
class Rows:
    """One sequence's share of a pass.

    ids [r] i64, on any device; the first stands at position `start`, which is also its row in the cache.
    bidirectional: each row sees all rows of this share (and the cache before it); otherwise causal.
    adapted: the mask adapter acts on these rows.
    block: if not 0, each row sees its own block of that many cache rows to its end and all before it (block-causal).
    positions [r] i64: where the rows stand, if not at their cache rows; the keys' order in the cache is free then.
    """

    ids: Tensor
    cache: KVCache
    start: int
    bidirectional: bool = False
    adapted: bool = False
    block: int = 0
    positions: Tensor | None = None


Attend = Callable[[int, Tensor, Tensor], Tensor]
"""(layer, queries and keys side by side [r, n_heads + n_kv_heads, D], values [r, n_kv_heads, D]) -> [r, n_heads * D].

Keeps the keys and values, then attends.
"""


class Transformer:
    """Weights in, hidden states out. device and dtype are those of the weights.

    drafting: what adapted rows go through, if not this one: the adapter merged into a copy of the weights.
    """

    def __init__(self, config: Config, weights: Weights, adapter: Adapter | None = None) -> None:
        self.config = config
        self.weights = weights
        self.adapter = adapter
        self.drafting = self
        self.device = weights.norm.device
        self.dtype = weights.norm.dtype
        self._rope = rope_table(4096, config.head_dim, config.rope_theta, self.device)

    def new_cache(self) -> KVCache:
        return KVCache(self.config, self.dtype, self.device)

    @torch.inference_mode()
    def forward(self, batch: Sequence[Rows]) -> list[Tensor]:
        """Final normed hidden states [r, H] of each share, in order.

        Keys and values are written into the caches at start..start+r-1; lengths stay as they are: the caller
        says which rows are kept. Adapted shares must stand together.
        """
        if self.drafting is not self and any(share.adapted for share in batch):
            drafted = iter(self.drafting.forward([share for share in batch if share.adapted]))
            others = [share for share in batch if not share.adapted]
            own = iter(self.forward(others) if others else ())
            return [next(drafted if share.adapted else own) for share in batch]
        n_groups = self.config.n_heads // self.config.n_kv_heads
        counts = [share.ids.shape[0] for share in batch]
        ends = [share.start + n for share, n in zip(batch, counts, strict=True)]
        adapted = _adapted_rows(batch, counts) if self.adapter is not None else None
        places = [
            torch.arange(s.start, e) if s.positions is None else s.positions.cpu()
            for s, e in zip(batch, ends, strict=True)
        ]
        positions = torch.cat(places)
        biases: list[Tensor] = []
        for share, end in zip(batch, ends, strict=True):
            bias = attention_bias(_visible(share, end, self.device), n_groups, end)
            share.cache.reserve(bias.shape[1])
            biases.append(bias)
        table = self.turns(int(positions.max()) + 1 if len(positions) else 0)[positions.to(self.device)]
        ids = torch.cat([share.ids for share in batch]).to(self.device)

        def attend(index: int, qk: Tensor, v: Tensor) -> Tensor:
            return self._attend(index, batch, counts, qk, v, biases)

        return list(self.layers(self.embed(ids, adapted), table, adapted, attend).split(counts))

    def embed(self, ids: Tensor, adapted: slice | None) -> Tensor:
        """ids [r] -> [r, H]; among the `adapted` rows the mask is the adapter's."""
        x = self.weights.embed[ids].to(self.dtype)
        if self.adapter is not None and adapted is not None:
            mine = ids[adapted] == self.adapter.mask_id
            x[adapted] = torch.where(mine[:, None], self.adapter.mask_embedding.to(self.dtype), x[adapted])
        return x

    def layers(self, x: Tensor, table: Tensor, adapted: slice | None, attend: Attend) -> Tensor:
        """x [r, H], table [r, 2, D]: the rows' turns -> final normed hidden states [r, H].

        Waits for the device nowhere, and no shape depends on data but in mixtures: a CUDA graph can hold it.
        """
        config, weights = self.config, self.weights
        patches = self.adapter.layers if self.adapter is not None and adapted is not None else ()
        norms = [*(layer.attn_norm for layer in weights.layers[1:]), weights.norm]
        h = rms_norm(x, weights.layers[0].attn_norm, config.rms_eps)
        for index, (layer, next_norm) in enumerate(zip(weights.layers, norms, strict=True)):
            patch = patches[index] if patches else None
            qkv = _linear(h, layer.qkv, patch and patch.qkv, adapted)
            heads = qkv.view(x.shape[0], -1, config.head_dim)
            n_qk = config.n_heads + config.n_kv_heads
            qk, v = heads[:, :n_qk], heads[:, n_qk:]
            if layer.q_norm is not None and layer.k_norm is not None:
                qk = torch.cat(
                    (
                        rms_norm(qk[:, : config.n_heads], layer.q_norm, config.rms_eps),
                        rms_norm(qk[:, config.n_heads :], layer.k_norm, config.rms_eps),
                    ),
                    1,
                )
            mixed = attend(index, rope(qk, table), v)
            h, x = add_rms_norm(_linear(mixed, layer.o, patch and patch.o, adapted), x, layer.mlp_norm, config.rms_eps)
            if layer.experts is not None:
                x = x + mixture(h, layer.experts)
                if not layer.gate_up.n_out:
                    h = rms_norm(x, next_norm, config.rms_eps)
                    continue
            gated = swiglu(_linear(h, layer.gate_up, patch and patch.gate_up, adapted))
            h, x = add_rms_norm(_linear(gated, layer.down, patch and patch.down, adapted), x, next_norm, config.rms_eps)
        return h

    @torch.inference_mode()
    def move(self, cache: KVCache, rows: slice, by: Tensor) -> None:
        """Turn the keys of these cache rows as if each stood `by` [r] i64 positions further on (or back), in place.

        Rotary positions add up, so this is exact but for the rounding of the cache's dtype.
        """
        table = self.turns(int(by.abs().max()) + 1)[by.abs().to(self.device)]  # [r, 2, D]
        table = torch.stack((table[:, 0], table[:, 1] * by.sign().to(self.device)[:, None]), 1)
        keys = cache.keys[:, :, rows]  # [n_layers, n_kv_heads, r, D]
        flat = keys.permute(2, 0, 1, 3).reshape(keys.shape[2], -1, keys.shape[3])
        turned = rope(flat.float(), table).to(keys.dtype)
        cache.keys[:, :, rows] = turned.view(keys.shape[2], *keys.shape[:2], keys.shape[3]).permute(1, 2, 0, 3)

    def _attend(
        self, index: int, batch: Sequence[Rows], counts: list[int], qk: Tensor, v: Tensor, biases: list[Tensor]
    ) -> Tensor:
        n_heads = self.config.n_heads
        mixed: list[Tensor] = []
        row = 0
        for share, n, bias in zip(batch, counts, biases, strict=True):
            keys, values = share.cache.keys[index], share.cache.values[index]
            keys[:, share.start : share.start + n] = qk[row : row + n, n_heads:].transpose(0, 1)
            values[:, share.start : share.start + n] = v[row : row + n].transpose(0, 1)
            mixed.append(block_attention(qk[row : row + n, :n_heads], keys, values, bias))
            row += n
        return mixed[0] if len(mixed) == 1 else torch.cat(mixed)

    def turns(self, n: int) -> Tensor:
        """The rotary table of at least n positions, [.., 2, D]; the same tensor until more are asked for."""
        if n > self._rope.shape[0]:
            self._rope = rope_table(2 * n, self.config.head_dim, self.config.rope_theta, self.device)
        return self._rope


def _visible(share: Rows, end: int, device: torch.device) -> Tensor:
    if share.bidirectional:
        return torch.full((end - share.start,), end, device=device)
    causal = torch.arange(share.start + 1, end + 1, device=device)
    if not share.block:
        return causal
    return ((causal + share.block - 1) // share.block * share.block).clamp_max(end)


def _whole_steps(length: int) -> int:
    return -(-length // CACHE_STEP) * CACHE_STEP


def _adapted_rows(batch: Sequence[Rows], counts: list[int]) -> slice | None:
    starts = [sum(counts[:i]) for i in range(len(counts))]
    mine = [i for i, share in enumerate(batch) if share.adapted]
    if not mine:
        return None
    assert mine == list(range(mine[0], mine[-1] + 1)), "adapted shares must stand together"
    return slice(starts[mine[0]], starts[mine[-1]] + counts[mine[-1]])


def _linear(x: Tensor, weight: Weight, site: Site | None, adapted: slice | None) -> Tensor:
    y = linear(x, weight)
    if site is not None and adapted is not None:
        site.add_to(y[adapted], x[adapted])
    return y
