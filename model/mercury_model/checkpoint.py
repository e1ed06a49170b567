"""Read the device's own format (written by convert.py) into Weights.

The file is memory-mapped: the embedding is used where it lies, 8-bit matrices are repacked once for the library's
kernels, 16- and 32-bit ones stay mapped on the CPU and are copied to a GPU. This module knows nothing about where
files come from, nor about adapters and tokens.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from mercury_kernels import Dense, Weight, int8_weight
from mercury_kernels.unmask import TILE
from mercury_model.config import Config
from mercury_model.errors import CheckpointError
from mercury_model.transformer import Layer, Weights

FORMAT = "mercury-1"


def read_checkpoint(
    path: Path, device: torch.device, report: Callable[[str, float], None] | None = None
) -> tuple[Config, Weights]:
    """CheckpointError names what is missing or misshapen; report(message, fraction) shows progress."""
    try:
        # Two mappings: whatever keeps a tensor of the first one alive would keep all its pages resident (490 MB of
        # 8-bit matrices that were repacked). Only the embedding stays mapped, and of it the rows that occur.
        with (
            safe_open(path, framework="pt", device=str(device)) as file,
            safe_open(path, framework="pt", device=str(device)) as kept,
        ):
            meta = file.metadata() or {}
            if meta.get("format") != FORMAT:
                raise CheckpointError(f"{path}: not of the format {FORMAT}; run mercury-lsp model pull")
            config = Config(**json.loads(meta["config"]))
            present = set(file.keys())

            def need(name: str) -> None:
                if name not in present:
                    raise CheckpointError(f"{path}: tensor {name} is missing; run mercury-lsp model pull")

            def get(name: str, *shape: int) -> Tensor:
                need(name)
                tensor: Tensor = (kept if name == "embed.weight" else file).get_tensor(name)
                if tuple(tensor.shape) != shape:
                    raise CheckpointError(f"{path}: {name} has shape {list(tensor.shape)}, expected {list(shape)}")
                return tensor.clone() if len(shape) == 1 else tensor

            def matrix(name: str, n_out: int, n_in: int, bias: Tensor | None = None) -> Weight:
                weight = get(f"{name}.weight", n_out, n_in)
                if weight.dtype != torch.int8:
                    return Dense(weight, None if bias is None else bias.to(weight.dtype))
                return int8_weight(weight, get(f"{name}.scale", n_out), bias)

            h, f, d = config.hidden, config.intermediate, config.head_dim
            q, kv = config.n_heads * d, config.n_kv_heads * d
            compute = torch.float32 if "lm_head.scale" in present else None

            def layer(n: int) -> Layer:
                at = f"layers.{n}."
                qkv = matrix(at + "qkv", q + 2 * kv, h, get(at + "qkv.bias", q + 2 * kv))
                o, down = matrix(at + "o", h, q), matrix(at + "down", h, f)
                gate_up = matrix(at + "gate_up", 2 * f, h)
                dtype = compute or (o.weight.dtype if isinstance(o, Dense) else torch.float32)
                attn_norm, mlp_norm = get(at + "attn_norm", h).to(dtype), get(at + "mlp_norm", h).to(dtype)
                return Layer(attn_norm, qkv, o, mlp_norm, gate_up, down)

            for n in range(config.n_layers):  # before any work is planned: a damaged header may speak of billions
                if f"layers.{n}.qkv.weight" not in present:
                    raise CheckpointError(
                        f"{path}: tensor layers.{n}.qkv.weight is missing; run mercury-lsp model pull"
                    )
            layers: list[Layer] = []
            # packing a matrix keeps one core busy, whatever number of threads the library has
            with ThreadPoolExecutor(torch.get_num_threads()) as pool:
                for n, found in enumerate(pool.map(layer, range(config.n_layers))):
                    if report is not None:
                        report("loading weights", n / (config.n_layers + 4))
                    layers.append(found)
            if report is not None:
                report("loading weights", config.n_layers / (config.n_layers + 4))
            weights = Weights(
                get("embed.weight", config.vocab, h),
                tuple(layers),
                get("norm", h).to(layers[0].attn_norm.dtype),
                _vocabulary(get, present, config),
            )
    except (OSError, SafetensorError, ValueError, LookupError, TypeError, RuntimeError, AttributeError) as error:
        raise CheckpointError(f"{path}: cannot be read ({error}); run mercury-lsp model verify") from error
    return config, weights


def _vocabulary(get: Callable[..., Tensor], present: set[str], config: Config) -> tuple[Weight, ...]:
    weight = get("lm_head.weight", config.vocab, config.hidden)
    if weight.dtype != torch.int8:
        return tuple(Dense(part) for part in weight.split(TILE))
    scale = get("lm_head.scale", config.vocab)
    return tuple(int8_weight(w, s) for w, s in zip(weight.split(TILE), scale.split(TILE), strict=True))
