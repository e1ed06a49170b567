"""Attention of a few query rows over a long KV cache.

Cache layout: keys and values [kv_heads, capacity, D], rows 0..length-1 in use; capacity is a multiple of
CACHE_STEP and what lies beyond the length is finite. Appending writes in place.

Visibility is one number per query row: row i sees cache positions < visible[i]. That covers causal rows
(visible = position + 1), a bidirectional block appended to the cache (visible = end of the block, for all its
rows) and full bidirectional attention. This module knows nothing about positions, layers or rotary embedding.

On the CPU the arithmetic of a row is the same, bit for bit, whatever rows run with it and however long the cache
is: the library's kernel walks the keys in steps of 512, so the cache is always read up to a multiple of 512
(masked), and it takes the query rows in blocks of 32, of which a broken one (one to three rows left over, or fewer than
twelve in all, by measurement) is summed in another order: so the rows, all heads of a KV head together, are padded to
whole blocks. Without these two rules one row in five differs in its last bits, and after 8-bit rounding that turns
near-ties. tests/kernels/test_rows.py holds them.
"""

import torch
from torch import Tensor

from mercury_kernels.dispatch import needs_gradient, use_triton

CACHE_STEP = 512
_ROW_STEP = 32


def attention_bias(visible: Tensor, n_groups: int, length: int | None = None) -> Tensor:
    """visible [R] (int64) -> additive mask for block_attention, shared by all layers of a pass.

    [n_groups * R rounded up to whole blocks of rows, L] f32 with L the largest visible length rounded up to CACHE_STEP;
    rows are repeated for each query head that shares a KV head (n_groups of them). On a GPU the mask is computed where
    it is needed: the value then is `visible` itself, int64, shown as [R, L] without taking memory. Callers read
    shape[1] alone.
    length: the largest of `visible` where the caller knows it, which spares a wait for the device.
    """
    rows = visible.shape[0]
    length = -(-(int(visible.max()) if length is None else length) // CACHE_STEP) * CACHE_STEP
    if use_triton(visible):
        return visible[:, None].expand(rows, length)
    hidden = torch.arange(length, device=visible.device)[None] >= visible[:, None]
    bias = torch.zeros(-(-n_groups * rows // _ROW_STEP) * _ROW_STEP, length, device=visible.device)
    bias[: n_groups * rows].view(n_groups, rows, length).masked_fill_(hidden, float("-inf"))
    return bias


def block_attention(q: Tensor, keys: Tensor, values: Tensor, bias: Tensor) -> Tensor:
    """q [R, Hq, D], keys and values [Hkv, C, D] (C at least bias' length) -> [R, Hq * D].

    Query head h reads KV head h // (Hq / Hkv). bias: from attention_bias. Scale 1/sqrt(D).
    """
    n_rows, n_heads, d = q.shape
    n_kv, length = keys.shape[0], bias.shape[1]
    if not bias.is_floating_point():
        visible, keys, values = bias[:, 0], keys[:, :length], values[:, :length]
        if needs_gradient(q, keys, values):
            return reference_block_attention(q, keys, values, visible)
        from mercury_kernels.triton import attention as kernels

        return kernels.block_attention(q, keys, values, visible)
    # query heads that share a KV head become rows of one product
    n_folded = n_heads // n_kv * n_rows
    folded = q.new_zeros(1, n_kv, bias.shape[0], d)
    folded[0, :, :n_folded] = q.transpose(0, 1).reshape(n_kv, n_folded, d)
    out = torch.nn.functional.scaled_dot_product_attention(
        folded, keys[None, :, :length], values[None, :, :length], bias.to(q.dtype)
    )
    return out[0, :, :n_folded].reshape(n_heads, n_rows, d).transpose(0, 1).reshape(n_rows, n_heads * d)


def reference_block_attention(q: Tensor, keys: Tensor, values: Tensor, visible: Tensor) -> Tensor:
    """The specification, in float32: row i attends to cache positions < visible[i]."""
    n_rows, n_heads, d = q.shape
    group = n_heads // keys.shape[0]
    k = keys.float().repeat_interleave(group, 0)
    v = values.float().repeat_interleave(group, 0)
    scores = torch.einsum("rhd,hcd->hrc", q.float(), k) / d**0.5
    hidden = torch.arange(keys.shape[1], device=q.device)[None] >= visible[:, None]
    weights = scores.masked_fill(hidden[None], float("-inf")).softmax(-1)
    return torch.einsum("hrc,hcd->rhd", weights, v).reshape(n_rows, n_heads * d).to(q.dtype)


def bidirectional_attention(q: Tensor, k: Tensor, v: Tensor, lengths: Tensor) -> Tensor:
    """q [B, L, Hq, D], k and v [B, L, Hkv, D], lengths i64 [B] -> [B, L, Hq, D].

    Every row of a sequence sees its first lengths[b] rows; rows from lengths[b] on are zeros. Scale 1/sqrt(D).
    """
    if use_triton(q) and not needs_gradient(q, k, v):
        from mercury_kernels.triton import attention as kernels

        return kernels.bidirectional_attention(q, k, v, lengths)
    valid = torch.arange(q.shape[1], device=q.device)[None] < lengths[:, None]
    # an empty sequence would leave a row without any key, and 0/0 in the library
    seen = valid[:, None, None, :] | ~valid[:, None, :, None]
    out = torch.nn.functional.scaled_dot_product_attention(
        q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), seen, enable_gqa=q.shape[2] != k.shape[2]
    )
    return out.transpose(1, 2) * valid[:, :, None, None]


def reference_bidirectional_attention(q: Tensor, k: Tensor, v: Tensor, lengths: Tensor) -> Tensor:
    """The specification: sequence by sequence, in float32."""
    out = torch.zeros_like(q)
    for b, length in enumerate(lengths.tolist()):
        if length:
            seen = lengths.new_full((length,), length)
            rows = reference_block_attention(q[b, :length], k[b].transpose(0, 1), v[b].transpose(0, 1), seen)
            out[b, :length] = rows.view(length, *q.shape[2:])
    return out
