"""The mask adapter: low-rank additions to every linear layer, and the embedding of the mask token.

LoRA (Hu et al. 2021, arXiv 2106.09685): y += scale * B A x. The adapter is gated: the transformer lets it act on
the rows of a block that is being drafted, and on nothing else. This module knows nothing about which rows those
are, nor about base weights.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from mercury_model.errors import CheckpointError

MASK_ID = 151665
"""The vocabulary row that the embedded model's tokenizer leaves unused and the adapter takes for the mask."""

_SITES = {
    "qkv": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    "o": ("self_attn.o_proj",),
    "gate_up": ("mlp.gate_proj", "mlp.up_proj"),
    "down": ("mlp.down_proj",),
}


@dataclass(frozen=True, slots=True)
class Site:
    """The additions to one fused linear layer: down [n * rank, K], then for each of n parts up [rank, N_part]."""

    down: Tensor
    up: tuple[Tensor, ...]

    def add_to(self, y: Tensor, x: Tensor) -> None:
        """y [R, N] += up(down(x)), in place. x [R, K]."""
        z = x @ self.down.T
        row = column = 0
        for part in self.up:
            rank, width = part.shape
            y[:, column : column + width].addmm_(z[:, row : row + rank], part)
            row, column = row + rank, column + width


@dataclass(frozen=True, slots=True)
class AdapterLayer:
    qkv: Site
    o: Site
    gate_up: Site
    down: Site


@dataclass(frozen=True, slots=True)
class Adapter:
    """layers: one per transformer layer; none where the weights already have them in. mask_embedding [H].

    name: for people and logs.
    """

    name: str
    mask_id: int
    mask_embedding: Tensor
    layers: tuple[AdapterLayer, ...]


def load_adapter(path: Path, n_layers: int, hidden: int, dtype: torch.dtype, device: torch.device) -> Adapter:
    """Read the adapter's safetensors file.

    Tensors: model.layers.N.<module>.lora_A.weight [rank, in], .lora_B.weight [out, rank], mask_embedding [H].
    Metadata: scale, name; `base` must name the base the adapter was trained on. CheckpointError names what does
    not fit.
    """
    try:
        with safe_open(path, framework="pt") as file:
            meta = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
    except (OSError, SafetensorError) as error:
        raise CheckpointError(
            f"{path.name}: the mask adapter cannot be read ({error}); reinstall mercury-lsp"
        ) from None
    try:
        scale = float(meta.get("scale", "2.0"))
    except ValueError:
        scale = math.nan
    if not math.isfinite(scale):
        raise CheckpointError(f"{path.name}: the scale {meta['scale']!r} is no number; reinstall mercury-lsp")
    taken: set[str] = set()

    def take(name: str, columns: int | None = None, n_axes: int = 2) -> Tensor:
        if name not in tensors:
            raise CheckpointError(f"{path.name}: tensor {name} is missing: adapter and base do not match")
        taken.add(name)
        tensor = tensors[name]
        if tensor.ndim != n_axes or (columns is not None and tensor.shape[-1] != columns):
            wanted = ["..", str(columns or "..")][-n_axes:]
            raise CheckpointError(
                f"{path.name}: tensor {name} has shape {list(tensor.shape)}, expected [{', '.join(wanted)}]"
            )
        return tensor.to(device, torch.float32)

    def site(layer: int, modules: tuple[str, ...]) -> Site:
        names = [f"model.layers.{layer}.{module}" for module in modules]
        first = take(f"{names[0]}.lora_A.weight")
        downs = [take(f"{name}.lora_A.weight", first.shape[1]) for name in names]
        ups = [take(f"{name}.lora_B.weight", down.shape[0]) for name, down in zip(names, downs, strict=True)]
        up = [part.T.contiguous() * scale for part in ups]
        return Site(torch.cat(downs).to(dtype), tuple(part.to(dtype) for part in up))

    layers = tuple(
        AdapterLayer(**{name: site(layer, modules) for name, modules in _SITES.items()}) for layer in range(n_layers)
    )
    adapter = Adapter(meta.get("name", path.stem), MASK_ID, take("mask_embedding", hidden, 1), layers)
    if extra := sorted(set(tensors) - taken):
        raise CheckpointError(f"{path.name}: {len(extra)} tensors too many, the first {extra[0]}: wrong base")
    return adapter


def describe(path: Path) -> dict[str, str]:
    """The metadata of an adapter file, for doctor and the model card; empty if it has none or cannot be read."""
    try:
        with safe_open(path, framework="pt") as file:
            return {key: str(value) for key, value in (file.metadata() or {}).items()}
    except (OSError, SafetensorError, json.JSONDecodeError):
        return {}
