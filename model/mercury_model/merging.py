"""The model as it drafts: the mask adapter's products added into a copy of the layers' weights.

Drafted rows then cost what others cost: beside the weights the adapter takes a quarter of a pass on a CPU, and eleven
launches a layer of some fifteen on a GPU. The price is a second copy of the layers (0.36 GB in 8 bits, 0.7 GB in bf16).
The sum is rounded to the weights' own dtype or grid: drafts may differ by that, checks never do, for they run on the
base. This module knows nothing about which rows are drafted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import torch
from torch import Tensor

from mercury_kernels import Dense, Weight, int8_weight, quantize_int8
from mercury_kernels.linear import int8_parts
from mercury_model.adapter import AdapterLayer, Site
from mercury_model.transformer import Layer, Transformer

ROWS = 256
"""Rows of a matrix that are summed and rounded at a time: what stays in a core's cache meanwhile."""


def merged(transformer: Transformer, report: Callable[[str, float], None] | None = None) -> Transformer:
    """A transformer for drafted rows, with the embedding, norms and vocabulary of `transformer`; the same one without
    an adapter. report(message, fraction) shows progress."""
    adapter, weights = transformer.adapter, transformer.weights
    if adapter is None or not adapter.layers:
        return transformer

    def summed_layer(layer: Layer, patch: AdapterLayer) -> Layer:
        return replace(
            layer,
            qkv=summed(layer.qkv, patch.qkv),
            o=summed(layer.o, patch.o),
            gate_up=summed(layer.gate_up, patch.gate_up),
            down=summed(layer.down, patch.down),
        )

    layers: list[Layer] = []
    # packing a matrix keeps one core busy, whatever number of threads the library has
    with ThreadPoolExecutor(torch.get_num_threads()) as pool:
        for n, layer in enumerate(pool.map(summed_layer, weights.layers, adapter.layers)):
            if report is not None:
                report("merging the adapter", (n + 1) / len(weights.layers))
            layers.append(layer)
    return Transformer(transformer.config, replace(weights, layers=tuple(layers)), replace(adapter, layers=()))


@torch.inference_mode()
def summed(weight: Weight, site: Site) -> Weight:
    """weight [N, K] plus the site's low-rank product, in the weight's own dtype or on a new grid of 8 bits."""
    ranks = [part.shape[0] for part in site.up]
    low = [(up.float().T, down.float()) for up, down in zip(site.up, site.down.split(ranks), strict=True)]
    if isinstance(weight, Dense):
        total = weight.weight.to(torch.float32, copy=True)
        _add(total, low)
        return Dense(total.to(weight.weight.dtype), weight.bias)
    integers, scale = int8_parts(weight)
    if scale.dim() == 2:
        raise ValueError("weights with a scale per group cannot be merged: keep the adapter beside them")
    pieces: list[tuple[Tensor, Tensor]] = []
    for at in range(0, len(integers), ROWS):
        rows = slice(at, at + ROWS)
        total = integers[rows].float() * scale[rows, None]
        _add(total, low, at)
        pieces.append(quantize_int8(total))
    return int8_weight(torch.cat([w for w, _ in pieces]), torch.cat([s for _, s in pieces]), weight.bias)


def _add(total: Tensor, low: Sequence[tuple[Tensor, Tensor]], at: int = 0) -> None:
    """Adds to total [r, K], a fused layer's rows from `at` on, its parts' products up [N, rank] x down [rank, K]."""
    begin = 0
    for up, down in low:
        first, last = max(begin, at), min(begin + len(up), at + len(total))
        if first < last:
            total[first - at : last - at].addmm_(up[first - begin : last - begin], down)
        begin += len(up)
