"""Linear layers over dense or 8-bit weights.

linear(x, weight) is the only entry the model uses; it never knows which arithmetic ran. This module knows
nothing about layers, adapters or checkpoints.

8 bits on the CPU. Weights are symmetric per output channel and limited to 7 bits (INT8_LIMIT), so that the
16-bit accumulation of AVX2 machines cannot saturate. Activations have outliers, and a scale shared between the
rows of a call would make a row's result depend on its neighbours: then a causal check of several drafted tokens
would no longer equal one-at-a-time decoding. So each row is divided by its own absolute maximum and quantised on
a fixed grid (2/255, zero point 128), and the result is multiplied back. The integer sums are exact, hence a row's
result is the same, bit for bit, whatever rows run with it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mercury_kernels.dispatch import needs_gradient, use_triton

INT8_LIMIT = 63
_ACTIVATION_SCALE = 2 / 255
_ACTIVATION_ZERO = 128


@dataclass(frozen=True, slots=True)
class Dense:
    """weight [N, K] in a floating dtype, bias [N] or None."""

    weight: Tensor
    bias: Tensor | None = None

    @property
    def n_out(self) -> int:
        return self.weight.shape[0]


@dataclass(frozen=True, slots=True)
class Int8:
    """8-bit weight, per-output-channel scale.

    packed: the library's own layout on the CPU (an opaque object), else None.
    weight [N, K] int8 and scale [N] or [N, K / group] f32: kept where the packed form does not hold them (GPU),
    else None.
    """

    n_out: int
    bias: Tensor | None = None
    packed: object | None = None
    weight: Tensor | None = None
    scale: Tensor | None = None


Weight = Dense | Int8


def quantize_int8(weight: Tensor, limit: int = INT8_LIMIT) -> tuple[Tensor, Tensor]:
    """weight [N, K] float -> (int8 [N, K], scale [N] f32), symmetric per output channel."""
    weight = weight.float()
    scale = weight.abs().amax(1).clamp_min(1e-12) / limit
    return (weight / scale[:, None]).round_().clamp_(-limit, limit).to(torch.int8), scale


def int8_weight(weight: Tensor, scale: Tensor, bias: Tensor | None = None) -> Int8:
    """Prepare an int8 weight [N, K] with scale [N] for linear() on the device the tensors are on."""
    if weight.is_cuda:
        return Int8(weight.shape[0], bias, None, weight, scale)
    torch.backends.quantized.engine = "fbgemm"
    zero = torch.zeros(weight.shape[0], dtype=torch.int64)
    quantized = torch._make_per_channel_quantized_tensor(weight, scale.double(), zero, 0)  # pyright: ignore[reportPrivateUsage, reportPrivateImportUsage]
    return Int8(weight.shape[0], bias, torch.ops.quantized.linear_prepack(quantized, None))


def int8_parts(weight: Int8) -> tuple[Tensor, Tensor]:
    """What an 8-bit weight was made of: int8 [N, K] and scale [N] or [N, K / group] f32."""
    if weight.packed is None:
        assert weight.weight is not None and weight.scale is not None
        return weight.weight, weight.scale
    quantized = torch.ops.quantized.linear_unpack(weight.packed)[0]
    return quantized.int_repr(), quantized.q_per_channel_scales().float()


def linear(x: Tensor, weight: Weight) -> Tensor:
    """x [R, K] -> [R, N] in x's dtype.

    On a GPU both kinds of weight go through one kernel, whose result for a row does not depend on the other rows;
    dense weights that take part in training go through the library, which knows their gradient.
    """
    if isinstance(weight, Dense):
        if use_triton(x) and not needs_gradient(x, weight.weight, weight.bias):
            from mercury_kernels.triton import linear as kernels

            return kernels.linear(x, weight.weight, None, weight.bias)
        return torch.nn.functional.linear(x, weight.weight, weight.bias)
    return linear_w8(x, weight)


def linear_w8(x: Tensor, weight: Int8) -> Tensor:
    """x [R, K] times an 8-bit weight; see the module docstring for the arithmetic on the CPU."""
    if weight.packed is None:
        assert weight.weight is not None and weight.scale is not None
        if use_triton(x) and not needs_gradient(x):
            from mercury_kernels.triton import linear as kernels

            return kernels.linear(x, weight.weight, weight.scale, weight.bias)
        return reference_linear_w8(x, weight.weight, weight.scale, weight.bias)
    peak = x.abs().amax(1, keepdim=True).clamp_min_(1e-12)
    y = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32(
        x / peak, _ACTIVATION_SCALE, _ACTIVATION_ZERO, weight.packed
    )
    y *= peak
    if weight.bias is not None:
        y += weight.bias
    return y


def reference_linear_w8(x: Tensor, weight: Tensor, scale: Tensor, bias: Tensor | None = None) -> Tensor:
    """The specification: weight-only dequantisation. x [R, K], weight int8 [N, K], scale [N] or [N, K / group]."""
    if scale.dim() == 2:
        group = weight.shape[1] // scale.shape[1]
        y = torch.nn.functional.linear(x, weight.to(x.dtype) * scale.to(x.dtype).repeat_interleave(group, 1))
        return y if bias is None else y + bias.to(x.dtype)
    y = torch.nn.functional.linear(x, weight.to(x.dtype)) * scale.to(x.dtype)
    return y if bias is None else y + bias.to(x.dtype)


def reference_linear_w8a8(x: Tensor, weight: Tensor, scale: Tensor, bias: Tensor | None = None) -> Tensor:
    """The specification of the CPU path: rows quantised by their own peak, exact integer sums."""
    peak = x.abs().amax(1, keepdim=True).clamp_min(1e-12)
    grid = (x / peak / _ACTIVATION_SCALE).round().clamp(-128, 127)
    y = (grid.double() @ weight.double().T * scale.double() * _ACTIVATION_SCALE).float() * peak
    return y if bias is None else y + bias
