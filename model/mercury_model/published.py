"""Read a published checkpoint (safetensors, in one file or sharded) into Weights, tensor by tensor.

At no time is there a second whole copy of the weights in memory: a tensor is read, turned into what the device
computes with, and let go. Strict: every tensor that the family has must be there with its shape, and no other. This
module knows nothing about where folders come from, nor about tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from mercury_kernels import Dense, Weight, int8_weight, quantize_int8
from mercury_kernels.unmask import TILE
from mercury_model.errors import CheckpointError
from mercury_model.experts import Experts
from mercury_model.families import Mixture, Published
from mercury_model.tokens import read_json
from mercury_model.transformer import Layer, Weights

INDEX = "model.safetensors.index.json"
DTYPES = {"float32": torch.float32, "bf16": torch.bfloat16, "int8": torch.float32}
"""What norms, activations and caches are computed in, by kind of weights."""

_IGNORED = (".rotary_emb.inv_freq", ".masked_bias", ".attn.bias")
"""Buffers that some publishers save and that follow from the configuration."""


class _Files:
    """The tensors of all shards by name; counts what was taken."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder = folder
        self._where: dict[str, Any] = {}
        self._taken: set[str] = set()
        for path in _shards(folder):
            file = stack.enter_context(safe_open(path, framework="pt"))
            self._where.update(dict.fromkeys(file.keys(), file))

    def has(self, name: str) -> bool:
        return name in self._where

    def get(self, name: str, *shape: int, rows: slice | None = None) -> Tensor:
        """The tensor, or some of its rows. CheckpointError if it is missing or misshapen."""
        if name not in self._where:
            raise CheckpointError(f"{self.folder}: tensor {name} is missing; fetch the whole checkpoint")
        self._taken.add(name)
        view = self._where[name].get_slice(name)
        if (found := tuple(view.get_shape())) != shape:
            raise CheckpointError(f"{self.folder}: tensor {name} has shape {list(found)}, expected {list(shape)}")
        tensor: Tensor = self._where[name].get_tensor(name) if rows is None else view[rows]
        if not tensor.is_floating_point():
            raise CheckpointError(f"{self.folder}: tensor {name} holds {tensor.dtype}, expected floating-point numbers")
        return tensor

    def forgive(self, name: str) -> None:
        """It may be there and is not needed."""
        self._taken.add(name)

    def refuse_extra(self) -> None:
        extra = sorted(n for n in self._where if n not in self._taken and not n.endswith(_IGNORED))
        if extra:
            raise CheckpointError(
                f"{self.folder}: tensor {extra[0]} is not of this family ({len(extra)} too many); "
                "config.json and weights do not belong together"
            )


def _shards(folder: Path) -> list[Path]:
    if (folder / INDEX).exists():
        names = read_json(folder / INDEX).get("weight_map", {}).values()
        paths = [folder / str(name) for name in sorted(set(names))]
    else:
        paths = sorted(folder.glob("*.safetensors"))
    missing = [p.name for p in paths if not p.is_file()]
    if missing or not paths:
        what = missing[0] if missing else "*.safetensors file"
        raise CheckpointError(f"{folder}: there is no {what}; fetch the whole checkpoint")
    return paths


def read_published(
    folder: Path,
    published: Published,
    device: torch.device,
    dtype: str,
    report: Callable[[str, float], None] | None = None,
) -> Weights:
    """dtype: "float32", "bf16" or "int8". CheckpointError names the tensor that is missing, misshapen or too much."""
    try:
        with ExitStack() as stack:
            return _Reader(_Files(folder, stack), published, device, dtype).weights(report)
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{folder}: the weights cannot be read ({error}); fetch them again") from error


class _Reader:
    def __init__(self, files: _Files, published: Published, device: torch.device, dtype: str) -> None:
        self.files, self.published, self.device = files, published, device
        self.dtype, self.int8 = DTYPES[dtype], dtype == "int8"

    def weights(self, report: Callable[[str, float], None] | None) -> Weights:
        config, layout = self.published.config, self.published.family.layout
        layers: list[Layer] = []
        for n in range(config.n_layers):
            if report is not None:
                report("loading weights", n / (config.n_layers + 2))
            layers.append(self.layer(n))
        embed = self.files.get(f"{layout.embed}.weight", config.vocab, config.hidden)
        # rows of an embedding are only looked up: they stay as small as they were published
        embed = embed.to(self.device) if self.int8 else embed.to(self.device, self.dtype)
        if self.published.tied:
            self.files.forgive(f"{layout.lm_head}.weight")
            head = self.tiles(embed, None)
        else:
            head = self.tiles(None, f"{layout.lm_head}.weight")
        norm = self.vector(f"{layout.norm}.weight", config.hidden)
        self.files.refuse_extra()
        return Weights(embed, tuple(layers), norm, head)

    def layer(self, n: int) -> Layer:
        config, layout, said = self.published.config, self.published.family.layout, self.published
        at = layout.layer.format(n=n)
        mixture = said.mixture if said.mixture is not None and n in said.mixture.layers else None
        h, f, d = config.hidden, config.intermediate, config.head_dim
        q, kv = config.n_heads * d, config.n_kv_heads * d
        qk_norm = said.family.qk_norm
        return Layer(
            attn_norm=self.vector(f"{at}{layout.attn_norm}.weight", h),
            qkv=self.matrix([(at + layout.q, q), (at + layout.k, kv), (at + layout.v, kv)], h, said.qkv_bias),
            o=self.matrix([(at + layout.o, h)], q, said.o_bias),
            mlp_norm=self.vector(f"{at}{layout.mlp_norm}.weight", h),
            gate_up=self.nothing(0, h) if mixture else self.matrix([(at + layout.gate, f), (at + layout.up, f)], h),
            down=self.nothing(h, 0) if mixture else self.matrix([(at + layout.down, h)], f),
            q_norm=self.vector(f"{at}{layout.q_norm}.weight", d) if qk_norm else None,
            k_norm=self.vector(f"{at}{layout.k_norm}.weight", d) if qk_norm else None,
            experts=self.experts(at, mixture) if mixture else None,
        )

    def experts(self, at: str, mixture: Mixture) -> Experts:
        """Within an expert the names are the last parts of the dense network's: gate_proj, up_proj, down_proj."""
        layout, h, f = self.published.family.layout, self.published.config.hidden, mixture.width
        gate, up, down = (name.rpartition(".")[2] for name in (layout.gate, layout.up, layout.down))
        folders = [at + layout.experts.format(e=e) for e in range(mixture.n_experts)]
        # the choice of experts is a comparison of near-equals: the router keeps its precision
        router = self.files.get(f"{at}{layout.router}.weight", mixture.n_experts, h).to(self.device, self.dtype)
        return Experts(
            Dense(router),
            tuple(self.matrix([(of + gate, f), (of + up, f)], h) for of in folders),
            tuple(self.matrix([(of + down, h)], f) for of in folders),
            mixture.per_token,
            mixture.normalised,
        )

    def nothing(self, n_out: int, n_in: int) -> Dense:
        return Dense(torch.empty((n_out, n_in), dtype=self.dtype, device=self.device))

    def vector(self, name: str, n: int) -> Tensor:
        return self.files.get(name, n).to(self.device, self.dtype)

    def matrix(self, parts: Sequence[tuple[str, int]], n_in: int, bias: bool = False) -> Weight:
        """Parts stand above one another: (name, rows) each."""
        added = torch.cat([self.vector(f"{name}.bias", n) for name, n in parts]) if bias else None
        if self.int8:
            pairs = [quantize_int8(self.files.get(f"{name}.weight", n, n_in).to(self.device)) for name, n in parts]
            whole, scale = (torch.cat([p[0] for p in pairs]), torch.cat([p[1] for p in pairs]))
            return int8_weight(whole, scale, added)
        if len(parts) == 1:
            name, n = parts[0]
            return Dense(self.files.get(f"{name}.weight", n, n_in).to(self.device, self.dtype), added)
        whole = torch.empty((sum(n for _, n in parts), n_in), dtype=self.dtype, device=self.device)
        row = 0
        for name, n in parts:
            whole[row : row + n] = self.files.get(f"{name}.weight", n, n_in)
            row += n
        return Dense(whole, added)

    def tiles(self, embed: Tensor | None, name: str | None) -> tuple[Weight, ...]:
        """The output matrix in tiles of TILE rows; `embed` itself where it is tied and dense."""
        config = self.published.config
        if not self.int8:
            whole = embed
            if name is not None:
                whole = self.files.get(name, config.vocab, config.hidden).to(self.device, self.dtype)
            assert whole is not None
            return tuple(Dense(part) for part in whole.split(TILE))
        head: list[Weight] = []
        for start in range(0, config.vocab, TILE):
            rows = slice(start, min(start + TILE, config.vocab))
            part = embed[rows] if name is None and embed is not None else None
            if part is None:
                assert name is not None
                part = self.files.get(name, config.vocab, config.hidden, rows=rows).to(self.device)
            head.append(int8_weight(*quantize_int8(part)))
        return tuple(head)
