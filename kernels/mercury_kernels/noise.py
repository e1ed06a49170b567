"""Gumbel noise that is a function of (seed, row, id): the same on every device and for every tiling.

A generator's stream depends on the device and on the order in which numbers are drawn, so a sampled completion could
not be repeated elsewhere. A counter that is mixed (the "lowbias32" constants of C. Wellons' hash prospector) can.
Not for cryptography. 23 bits of each hash are used: they survive the conversion to float32, and 0 and 1 cannot occur.
"""

import torch
from torch import Tensor

MIX_1, MIX_2, GOLDEN = 0x7FEB352D, 0x846CA68B, 0x9E3779B9


def gumbel(seed: int, rows: Tensor, start: int, n: int) -> Tensor:
    """rows integer [R], ids start..start+n-1 -> f32 [R, n]: -log(-log(u)), u uniform in (0, 1)."""
    key = _mix(rows.to(torch.int32) * signed(GOLDEN) + signed(fold_seed(seed)))[:, None]
    ids = torch.arange(start, start + n, device=rows.device, dtype=torch.int32)[None]
    bits = _shift(_mix(_mix(ids + key) ^ key), 9)
    return ((bits.float() + 0.5) * 2.0**-23).log_().neg_().log_().neg_()


def fold_seed(seed: int) -> int:
    """Any integer -> 32 bits."""
    seed &= 0xFFFFFFFFFFFFFFFF
    return (seed ^ (seed >> 32)) & 0xFFFFFFFF


def _mix(x: Tensor) -> Tensor:
    """32-bit finaliser. torch multiplies int32 modulo 2**32, which is what an unsigned product does."""
    x = (x ^ _shift(x, 16)) * MIX_1
    x = (x ^ _shift(x, 15)) * signed(MIX_2)
    return x ^ _shift(x, 16)


def _shift(x: Tensor, bits: int) -> Tensor:
    """Logical shift to the right of int32: torch's own copies the sign."""
    return (x >> bits) & ((1 << (32 - bits)) - 1)


def signed(x: int) -> int:
    """The int32 with the same 32 bits."""
    return x - (1 << 32) if x >= 1 << 31 else x
