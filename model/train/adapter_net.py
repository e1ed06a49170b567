"""The mask adapter of mercury_model/adapter.py as it is trained: all blocks of a sequence at once, full depth.

The base's weights are frozen and dense; the context's keys and values come from the untouched base. So the adapter
learns to act where it will act: on the rows of a block. This module knows nothing about losses or data.
"""

from pathlib import Path

import torch
from blocks import anchored_attention
from frozen import Context
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn.functional import linear, rms_norm

from mercury_kernels import rope, rope_table, swiglu
from mercury_kernels.linear import Dense, Weight
from mercury_model.config import Config
from mercury_model.transformer import Weights

SCALE = 2.0


class Site(nn.Module):
    """The additions to one fused matrix: for each of its parts a pair A [rank, in], B [out, rank]; B starts at 0."""

    def __init__(self, n_in: int, widths: tuple[int, ...], rank: int) -> None:
        super().__init__()
        self.a = nn.ParameterList(nn.Parameter(torch.randn(rank, n_in) * n_in**-0.5) for _ in widths)
        self.b = nn.ParameterList(nn.Parameter(torch.zeros(width, rank)) for width in widths)

    def forward(self, x: Tensor, weight: Weight) -> Tensor:
        assert isinstance(weight, Dense), "a dense base is wanted"
        added = [linear(linear(x, a), b) for a, b in zip(self.a, self.b, strict=True)]
        return linear(x, weight.weight, weight.bias) + SCALE * torch.cat(added, -1)


SITES = {
    "qkv": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    "o": ("self_attn.o_proj",),
    "gate_up": ("mlp.gate_proj", "mlp.up_proj"),
    "down": ("mlp.down_proj",),
}


class AdapterNet(nn.Module):
    """layers[n][site]; mask_embedding [H]."""

    def __init__(self, config: Config, rank: int) -> None:
        super().__init__()
        h, f, q = config.hidden, config.intermediate, config.n_heads * config.head_dim
        kv = config.n_kv_heads * config.head_dim
        self.config = config
        self.mask_embedding = nn.Parameter(torch.randn(h) * 0.02)
        self.layers = nn.ModuleList(
            nn.ModuleDict(
                {
                    "qkv": Site(h, (q, kv, kv), rank),
                    "o": Site(q, (h,), rank),
                    "gate_up": Site(h, (f, f), rank),
                    "down": Site(f, (h,), rank),
                }
            )
            for _ in range(config.n_layers)
        )

    def forward(self, context: Context, places: Tensor, ids: Tensor, masked: Tensor, base: Weights) -> Tensor:
        """Final normed hidden states [A, R, H]. ids [A, R]: the last known token and the slots; masked [A, R] bool."""
        config = self.config
        n, n_rows = ids.shape
        length = context.ids.shape[0]
        hidden = torch.arange(length, device=ids.device)[None] >= places[:, None]
        positions = places[:, None] + torch.arange(n_rows, device=ids.device)
        table = rope_table(length + n_rows, config.head_dim, config.rope_theta, ids.device)[positions.flatten()]
        x = torch.where(masked[..., None], self.mask_embedding, base.embed[ids.masked_fill(masked, 0)].float())
        n_qk = config.n_heads + config.n_kv_heads
        for index, (layer, sites) in enumerate(zip(base.layers, self.layers, strict=True)):
            assert isinstance(sites, nn.ModuleDict)
            heads = sites["qkv"](_norm(x, layer.attn_norm, config), layer.qkv)
            heads = heads.view(n * n_rows, -1, config.head_dim)
            qk = rope(heads[:, :n_qk].float(), table).to(heads.dtype)
            parts = (qk[:, : config.n_heads], qk[:, config.n_heads :], heads[:, n_qk:])
            q, k, v = (part.reshape(n, n_rows, -1, config.head_dim) for part in parts)
            mixed = anchored_attention(q, k, v, context.keys[index], context.values[index], hidden)
            x = x + sites["o"](mixed, layer.o)
            gated = swiglu(sites["gate_up"](_norm(x, layer.mlp_norm, config), layer.gate_up))
            x = x + sites["down"](gated, layer.down)
        return _norm(x, base.norm, config)

    def named_pairs(self) -> dict[str, Tensor]:
        """Parameters by the names of the file."""
        found: dict[str, Tensor] = {"mask_embedding": self.mask_embedding}
        for n, sites in enumerate(self.layers):
            assert isinstance(sites, nn.ModuleDict)
            for site, modules in SITES.items():
                for i, module in enumerate(modules):
                    at = f"model.layers.{n}.{module}"
                    found[f"{at}.lora_A.weight"] = sites[site].a[i]
                    found[f"{at}.lora_B.weight"] = sites[site].b[i]
        return found


def _norm(x: Tensor, weight: Tensor, config: Config) -> Tensor:
    return rms_norm(x.float(), weight.shape, weight.float(), config.rms_eps)


@torch.no_grad()
def begin_from(net: AdapterNet, path: Path) -> None:
    """Begin from an adapter's file. Raises ValueError if it is of another shape."""
    with safe_open(path, framework="pt") as file:
        scale = float((file.metadata() or {}).get("scale", SCALE))
        for name, p in net.named_pairs().items():
            value: Tensor = file.get_tensor(name)
            if value.shape != p.shape:
                raise ValueError(f"{path}: {name} has shape {list(value.shape)}, expected {list(p.shape)}")
            p.copy_(value * (scale / SCALE) if name.endswith("lora_B.weight") else value)


@torch.no_grad()
def export(net: AdapterNet, path: Path, notes: dict[str, str]) -> None:
    """Write the adapter's file, in bf16."""
    tensors = {name: p.detach().to("cpu", torch.bfloat16).contiguous() for name, p in net.named_pairs().items()}
    save_file(tensors, path, {"scale": str(SCALE), **notes})
