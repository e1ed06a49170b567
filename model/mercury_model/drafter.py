"""The light drafter: a few layers that fill a block of masked slots in one pass, reading the base's own KV cache.

After DFlash (2026, arXiv 2602.06036), where a drafter's keys and values are projected from the target's hidden
states. Here nothing is projected: each drafter layer attends to the keys and values that the base has already
written for one of its own layers, so the drafter has no cache, no prefill and no state. Its rows are the last known
token and masked slots, bidirectional inside the block; that token's embedding and the hidden state that predicted it
are part of every row. The output goes through a shortlist of the base's vocabulary rows.

Slots that are filled in one pass do not know of one another. So the *link*, a small gate over a slot's hidden
state and the token chosen for the slot before it, chooses among each slot's best candidates from left to right:
a few vector products in place of a pass.

This module knows nothing about checks, policies or training.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from mercury_kernels import (
    Dense,
    Weight,
    attention_bias,
    block_attention,
    int8_weight,
    linear,
    quantize_int8,
    rms_norm,
    rope,
    rope_table,
    swiglu,
)
from mercury_model.errors import CheckpointError
from mercury_model.policy import Proposals
from mercury_model.transformer import KVCache, Layer, Transformer

FORMAT = "mercury-drafter-1"
CANDIDATES = 32
"""Tokens per slot between which the link may choose."""


@dataclass(frozen=True, slots=True)
class Link:
    """silu(hidden @ of_hidden.T + norm(embedding of the token before) @ of_token.T) @ up.T is added to hidden.

    of_hidden, of_token [r, H], up [H, r].
    """

    of_hidden: Tensor
    of_token: Tensor
    up: Tensor


@dataclass(frozen=True, slots=True)
class DrafterWeights:
    """reads[i]: the base layer whose cache layer i attends to. slots [S, H]: what tells the rows apart.

    before, last [H, H]: for the hidden state that predicted the last known token, and for that token's embedding.
    shortlist i64 [n]: the vocabulary.
    """

    reads: tuple[int, ...]
    before: Weight
    last: Weight
    slots: Tensor
    layers: tuple[Layer, ...]
    norm: Tensor
    link: Link
    shortlist: Tensor


class Drafter:
    """Drafts behind the cache of `transformer`, whose untouched weights will check. n_slots: tokens per draft."""

    def __init__(self, weights: DrafterWeights, transformer: Transformer, name: str = "drafter") -> None:
        self.name = name
        self.weights = weights
        self.n_slots = weights.slots.shape[0]
        self._base = transformer
        config = transformer.config
        self._ones = torch.ones(config.hidden, dtype=transformer.dtype, device=transformer.device)
        self._rope = rope_table(4096, config.head_dim, config.rope_theta, transformer.device)
        rows = transformer.weights.embed[weights.shortlist.to(transformer.weights.embed.device)]
        self._rows = rows.to(transformer.device)
        if transformer.dtype == torch.float32:
            self._tile: Weight = int8_weight(*quantize_int8(rows))
        else:
            self._tile = Dense(self._rows.to(transformer.dtype))
        self._column = torch.full((config.vocab,), -1, dtype=torch.int64, device=transformer.device)
        self._column[weights.shortlist] = torch.arange(len(weights.shortlist), device=transformer.device)

    @torch.inference_mode()
    def draft(self, cache: KVCache, last: int, before: Tensor, first: Sequence[int] = ()) -> Proposals:
        """What the slots after the last known token probably hold: one proposal per slot.

        cache: the base's, holding everything before `last`, which stands at cache.length; rows behind its length
        are overwritten. before [H]: the base's final hidden state at the row that predicted `last`. first: if not
        empty, the only ids that the first slot may take.
        """
        hidden = self.hidden(cache, last, before)
        return self._choose(hidden, last, first)

    @torch.inference_mode()
    def hidden(self, cache: KVCache, last: int, before: Tensor) -> Tensor:
        """Final normed hidden states [S, H], before the link."""
        config, weights, start = self._base.config, self.weights, cache.length
        end = start + self.n_slots
        visible = torch.full((self.n_slots,), end, dtype=torch.int64, device=self._base.device)
        bias = attention_bias(visible, config.n_heads // config.n_kv_heads)
        cache.reserve(bias.shape[1])
        if end > self._rope.shape[0]:
            self._rope = rope_table(2 * end, config.head_dim, config.rope_theta, self._base.device)
        table = self._rope[start:end]
        known = linear(before[None].to(self._base.dtype), weights.before) + linear(self._unit(last), weights.last)
        x = weights.slots + known
        for layer, read in zip(weights.layers, weights.reads, strict=True):
            heads = linear(rms_norm(x, layer.attn_norm, config.rms_eps), layer.qkv)
            heads = heads.view(self.n_slots, -1, config.head_dim)
            n_qk = config.n_heads + config.n_kv_heads
            qk, v = rope(heads[:, :n_qk], table), heads[:, n_qk:]
            keys, values = cache.keys[read], cache.values[read]
            keys[:, start:end] = qk[:, config.n_heads :].transpose(0, 1)
            values[:, start:end] = v.transpose(0, 1)
            x = x + linear(block_attention(qk[:, : config.n_heads], keys, values, bias), layer.o)
            gate_up = linear(rms_norm(x, layer.mlp_norm, config.rms_eps), layer.gate_up)
            x = x + linear(swiglu(gate_up), layer.down)
        return rms_norm(x, weights.norm, config.rms_eps)

    def _unit(self, token: int) -> Tensor:
        """The token's embedding [1, H] with a root mean square of 1."""
        row = self._base.weights.embed[token][None].to(self._base.dtype)
        return rms_norm(row, self._ones, self._base.config.rms_eps)

    def _choose(self, hidden: Tensor, last: int, first: Sequence[int]) -> Proposals:
        link = self.weights.link
        logits = linear(hidden, self._tile).float()
        if first:
            allowed = self._column[torch.tensor(first, device=logits.device)]
            allowed = allowed[allowed >= 0]
            if len(allowed):
                logits[0] = torch.full_like(logits[0], float("-inf")).index_copy_(0, allowed, logits[0, allowed])
        total = logits.logsumexp(-1)
        best = logits.topk(min(CANDIDATES, logits.shape[1]), -1)
        rows = self._rows[best.indices].float()  # [S, n, H]
        entropy = total - (logits.softmax(-1) * logits.nan_to_num(neginf=0.0)).sum(-1)
        gate = hidden.float() @ link.of_hidden.T
        found = Proposals([], [], entropy.tolist(), [])
        token = last
        for slot in range(self.n_slots):
            said = link.of_token @ self._unit(token)[0].float()
            shift = link.up @ torch.nn.functional.silu(gate[slot] + said)
            scores = best.values[slot] + rows[slot] @ shift
            chosen = int(scores.argmax())
            p = scores.softmax(-1)
            token = int(self.weights.shortlist[best.indices[slot, chosen]])
            top = p.topk(min(2, len(p))).values
            found.token.append(token)
            found.confidence.append(float(p[chosen]))
            found.margin.append(float(top[0] - top[-1]))
        return found


def load_drafter(path: Path, transformer: Transformer) -> Drafter:
    """Read a drafter's safetensors file for the base that `transformer` holds. CheckpointError says what is wrong."""
    config, device = transformer.config, transformer.device
    try:
        with safe_open(path, framework="pt") as file:
            meta = file.metadata() or {}
            tensors: dict[str, Tensor] = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        if meta.get("format") != FORMAT:
            raise CheckpointError(f"{path.name}: not of the format {FORMAT}; reinstall mercury-lsp")
        reads = tuple(int(n) for n in json.loads(meta["reads"]))
        h, d = config.hidden, config.head_dim
        qkv, o = (config.n_heads + 2 * config.n_kv_heads) * d, config.n_heads * d
        f = tensors["layers.0.down.weight"].shape[1]
        rank = tensors["link.up"].shape[1]

        def get(name: str, *shape: int) -> Tensor:
            tensor = tensors[name]
            if shape and tuple(tensor.shape) != shape:
                raise CheckpointError(
                    f"{path.name}: {name} has shape {list(tensor.shape)}, expected {list(shape)}: "
                    "drafter and base do not match"
                )
            return tensor.to(device, transformer.dtype)

        def matrix(name: str, n_out: int, n_in: int, bias: Tensor | None = None) -> Weight:
            weight = tensors[f"{name}.weight"].to(device)
            if tuple(weight.shape) != (n_out, n_in):
                raise CheckpointError(f"{path.name}: {name} has shape {list(weight.shape)}: wrong base")
            scale = tensors[f"{name}.scale"].to(device)
            if transformer.dtype == torch.float32:
                return int8_weight(weight, scale, bias)
            return Dense((weight.float() * scale[:, None]).to(transformer.dtype), bias)

        layers = tuple(
            Layer(
                get(f"layers.{i}.attn_norm", h),
                matrix(f"layers.{i}.qkv", qkv, h, get(f"layers.{i}.qkv.bias", qkv)),
                matrix(f"layers.{i}.o", h, o),
                get(f"layers.{i}.mlp_norm", h),
                matrix(f"layers.{i}.gate_up", 2 * f, h),
                matrix(f"layers.{i}.down", h, f),
            )
            for i in range(len(reads))
        )
        of_hidden, of_token = (get(f"link.{name}", rank, h).float() for name in ("of_hidden", "of_token"))
        link = Link(of_hidden, of_token, get("link.up", h, rank).float())
        shortlist = tensors["shortlist"].to(device, torch.int64)
        weights = DrafterWeights(
            reads, matrix("before", h, h), matrix("last", h, h), get("slots"), layers, get("norm", h), link, shortlist
        )
    except (OSError, SafetensorError, KeyError, ValueError) as error:
        raise CheckpointError(f"{path.name}: the drafter cannot be read ({error}); reinstall mercury-lsp") from None
    return Drafter(weights, transformer, meta.get("name", path.stem))
