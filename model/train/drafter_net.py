"""The drafter of mercury_model/drafter.py as it is trained: all blocks of a sequence at once, with gradients.

Begins where it says what the base said before: the hidden state that predicted the last known token passes through,
every layer adds nothing. Where the layers look (queries, keys, values) and what they compute (the feed-forward units
with the largest weights) is copied from the base layers whose caches they read; only their outputs begin at zero.
This module knows nothing about losses or data.
"""

import json
from pathlib import Path

import torch
from blocks import anchored_attention
from frozen import Context
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn.functional import linear, rms_norm, silu

from mercury_kernels import quantize_int8, rope, rope_table, swiglu
from mercury_kernels.linear import Dense
from mercury_model.config import Config
from mercury_model.drafter import FORMAT
from mercury_model.transformer import Weights

MATRICES = ("qkv", "o", "gate_up", "down")


class DrafterLayer(nn.Module):
    """One layer's parameters, by the names of the file."""

    def __init__(self, config: Config, n_units: int) -> None:
        super().__init__()
        h, d = config.hidden, config.head_dim
        n_qkv = (config.n_heads + 2 * config.n_kv_heads) * d
        self.attn_norm = nn.Parameter(torch.ones(h))
        self.qkv = nn.Parameter(torch.randn(n_qkv, h) * h**-0.5)
        self.qkv_bias = nn.Parameter(torch.zeros(n_qkv))
        self.o = nn.Parameter(torch.randn(h, config.n_heads * d) * h**-0.5)
        self.mlp_norm = nn.Parameter(torch.ones(h))
        self.gate_up = nn.Parameter(torch.randn(2 * n_units, h) * h**-0.5)
        self.down = nn.Parameter(torch.randn(h, n_units) * n_units**-0.5)


class DrafterNet(nn.Module):
    """reads: base layers whose caches the layers attend to. n_units: feed-forward width. rank: of the link."""

    def __init__(self, config: Config, reads: tuple[int, ...], n_units: int, n_slots: int, rank: int) -> None:
        super().__init__()
        h = config.hidden
        self.config, self.reads, self.n_slots = config, reads, n_slots
        self.before = nn.Parameter(torch.eye(h))
        self.last = nn.Parameter(torch.eye(h) * 0.3)
        self.slots = nn.Parameter(torch.randn(n_slots, h) * 0.02)
        self.layers = nn.ModuleList(DrafterLayer(config, n_units) for _ in reads)
        # far below the base's own (about 5): what is said at first should not be said with certainty
        self.norm = nn.Parameter(torch.full((h,), 1.5))
        self.of_hidden = nn.Parameter(torch.randn(rank, h) * h**-0.5)
        self.of_token = nn.Parameter(torch.randn(rank, h) * h**-0.5)
        self.up = nn.Parameter(torch.zeros(h, rank))

    def forward(self, context: Context, places: Tensor, embed: Tensor) -> Tensor:
        """Hidden states [A, S, H] of the blocks at `places` [A]; embed [V, H]."""
        config = self.config
        length = context.ids.shape[0]
        hidden = torch.arange(length, device=places.device)[None] >= places[:, None]
        positions = places[:, None] + torch.arange(self.n_slots, device=places.device)
        table = rope_table(length + self.n_slots, config.head_dim, config.rope_theta, places.device)
        table = table[positions.flatten()]
        last = _unit(embed[context.ids[places]], config)
        x = linear(context.hidden[places - 1].float(), self.before) + linear(last, self.last)
        x = self.slots + x[:, None]
        n_qk = config.n_heads + config.n_kv_heads
        for layer, read in zip(self.layers, self.reads, strict=True):
            heads = linear(_norm(x, layer.attn_norm, config), layer.qkv, layer.qkv_bias)
            heads = heads.view(-1, n_qk + config.n_kv_heads, config.head_dim)
            qk, v = rope(heads[:, :n_qk].float(), table).to(heads.dtype), heads[:, n_qk:]
            blocks = [
                part.reshape(len(places), self.n_slots, -1, config.head_dim)
                for part in (qk[:, : config.n_heads], qk[:, config.n_heads :], v)
            ]
            mixed = anchored_attention(*blocks, context.keys[read], context.values[read], hidden)
            x = x + linear(mixed, layer.o)
            x = x + linear(swiglu(linear(_norm(x, layer.mlp_norm, config), layer.gate_up)), layer.down)
        return _norm(x, self.norm, config)

    def linked(self, hidden: Tensor, before: Tensor) -> Tensor:
        """hidden [R, H] told which token stands before each row's slot; before [R, H]: those tokens' embeddings."""
        gate = linear(hidden, self.of_hidden) + linear(_unit(before, self.config), self.of_token)
        return hidden + linear(silu(gate), self.up)


def _unit(x: Tensor, config: Config) -> Tensor:
    return rms_norm(x.float(), x.shape[-1:], eps=config.rms_eps)


def _norm(x: Tensor, weight: Tensor, config: Config) -> Tensor:
    return rms_norm(x.float(), weight.shape, weight, config.rms_eps)


@torch.no_grad()
def thin_copy(net: DrafterNet, base: Weights) -> None:
    """Begin with what the layers of the dense weights `base` look at and compute, and outputs of zero."""
    for layer, read in zip(net.layers, net.reads, strict=True):
        source = base.layers[read]
        qkv, gate_up, down = source.qkv, source.gate_up, source.down
        assert isinstance(qkv, Dense) and isinstance(gate_up, Dense) and isinstance(down, Dense), "a dense base"
        layer.attn_norm.copy_(source.attn_norm)
        layer.qkv.copy_(qkv.weight)
        if qkv.bias is not None:
            layer.qkv_bias.copy_(qkv.bias)
        layer.mlp_norm.copy_(source.mlp_norm)
        gate, up = gate_up.weight.float().chunk(2)
        size = gate.norm(dim=1) * up.norm(dim=1) * down.weight.float().norm(dim=0)
        kept = size.topk(layer.down.shape[1]).indices.sort().values
        layer.gate_up.copy_(torch.cat([gate[kept], up[kept]]))
        layer.o.zero_()
        layer.down.zero_()


@torch.no_grad()
def export(net: DrafterNet, shortlist: Tensor, path: Path, notes: dict[str, str]) -> None:
    """Write the drafter's file: matrices in 8 bits, the rest in bf16."""
    tensors: dict[str, Tensor] = {"shortlist": shortlist.to("cpu", torch.int32)}

    def matrix(name: str, weight: Tensor) -> None:
        tensors[f"{name}.weight"], tensors[f"{name}.scale"] = quantize_int8(weight.cpu())

    def plain(name: str, tensor: Tensor) -> None:
        tensors[name] = tensor.detach().to("cpu", torch.bfloat16).contiguous()

    matrix("before", net.before)
    matrix("last", net.last)
    for name in ("slots", "norm"):
        plain(name, getattr(net, name))
    for name in ("of_hidden", "of_token", "up"):
        plain(f"link.{name}", getattr(net, name))
    for i, layer in enumerate(net.layers):
        for name in MATRICES:
            matrix(f"layers.{i}.{name}", getattr(layer, name))
        for name in ("attn_norm", "mlp_norm"):
            plain(f"layers.{i}.{name}", getattr(layer, name))
        plain(f"layers.{i}.qkv.bias", layer.qkv_bias)
    save_file(tensors, path, {"format": FORMAT, "reads": json.dumps(list(net.reads)), **notes})
