"""The model as it drafts: the mask adapter's products added into a copy of the layers' weights.

Drafted rows then cost what others cost: beside the weights the adapter takes a quarter of a pass on a CPU, and eleven
launches a layer of some fifteen on a GPU. The price is a second copy of the layers (0.36 GB in 8 bits, 0.7 GB in bf16).
The sum is rounded to the weights' own dtype or grid: drafts may differ by that, checks never do, for they run on the
base. This module knows nothing about which rows are drafted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch

from mercury_kernels import Dense, Weight, int8_weight, quantize_int8
from mercury_kernels.linear import dequantized
from mercury_model.adapter import Site
from mercury_model.transformer import Layer, Transformer


def merged(transformer: Transformer, report: Callable[[str, float], None] | None = None) -> Transformer:
    """A transformer for drafted rows, with the embedding, norms and vocabulary of `transformer`; the same one without
    an adapter. report(message, fraction) shows progress."""
    adapter, weights = transformer.adapter, transformer.weights
    if adapter is None or not adapter.layers:
        return transformer
    layers: list[Layer] = []
    for n, (layer, patch) in enumerate(zip(weights.layers, adapter.layers, strict=True)):
        if report is not None:
            report("merging the adapter", n / len(weights.layers))
        layers.append(
            replace(
                layer,
                qkv=_sum(layer.qkv, patch.qkv),
                o=_sum(layer.o, patch.o),
                gate_up=_sum(layer.gate_up, patch.gate_up),
                down=_sum(layer.down, patch.down),
            )
        )
    return Transformer(transformer.config, replace(weights, layers=tuple(layers)), replace(adapter, layers=()))


@torch.inference_mode()
def _sum(weight: Weight, site: Site) -> Weight:
    total = dequantized(weight)
    row = 0
    for up, down in zip(site.up, site.down.split([part.shape[0] for part in site.up]), strict=True):
        total[row : row + up.shape[1]].addmm_(up.float().T, down.float())
        row += up.shape[1]
    if isinstance(weight, Dense):
        return Dense(total.to(weight.weight.dtype), weight.bias)
    return int8_weight(*quantize_int8(total), weight.bias)
