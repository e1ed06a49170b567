"""Attention by running softmax: few rows over a long KV cache, and whole sequences over themselves.

Specification: `mercury_kernels.attention.reference_block_attention` and `reference_bidirectional_attention`.
The mask is computed from one number per row or sequence, never read. Query heads that share a KV head are rows of one
tile, so each key is read once for all of them. The cache is cut into pieces of CHUNK keys (flash-decoding), counted
from its start; tile shapes are fixed. So a row's result depends neither on the other rows nor on the cache's capacity.
"""

import torch
import triton
import triton.language as tl

BLOCK_M = 32
"""Rows x heads per tile; below 64, so that sm_80 and sm_90 use the same matrix instruction for any row count."""
BLOCK_N = 64
CHUNK = 128
"""Keys per program: a cache of 1,024 and one block of 8 rows then give 2 KV heads x 2 tiles x 8 = 32 programs."""
BLOCK_M_FULL = 64
NEG = tl.constexpr(-1.0e30)
LOG2_E = 1.4426950408889634


@triton.jit
def attend(
    q, k_ptr, v_ptr, stride_k, stride_v, start, end, visible, scale,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Keys start..end-1 -> peak and sum of the exponentials (base 2) per row, and the weighted values."""
    d = tl.arange(0, D)
    peak = tl.full([BLOCK_M], NEG, tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    out = tl.zeros([BLOCK_M, D], tl.float32)
    for first in range(start, end, BLOCK_N):
        key = first + tl.arange(0, BLOCK_N)
        at = key.to(tl.int64)
        k = tl.load(k_ptr + at[None, :] * stride_k + d[:, None], mask=(key < end)[None, :], other=0.0)
        score = tl.dot(q, k, input_precision=PRECISION) * scale
        seen = key[None, :] < visible[:, None]
        score = tl.where(seen, score, NEG)
        new_peak = tl.maximum(peak, tl.max(score, 1))
        weight = tl.where(seen, tl.exp2(score - new_peak[:, None]), 0.0)
        keep = tl.exp2(peak - new_peak)
        total = total * keep + tl.sum(weight, 1)
        v = tl.load(v_ptr + at[:, None] * stride_v + d[None, :], mask=(key < end)[:, None], other=0.0)
        out = out * keep[:, None] + tl.dot(weight.to(v.dtype), v, input_precision=PRECISION)
        peak = new_peak
    return peak, total, out


@triton.jit(do_not_specialize=["R"])
def cache_kernel(
    q_ptr, k_ptr, v_ptr, visible_ptr, part_ptr, weight_ptr, R, C, q_row, q_head, k_head, k_row, v_head, v_row, scale,
    HQ: tl.constexpr, G: tl.constexpr, D: tl.constexpr, CHUNK: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    split, kv = tl.program_id(0), tl.program_id(1)
    m = tl.program_id(2) * BLOCK_M + tl.arange(0, BLOCK_M)
    row, head = m // G, kv * G + m % G
    inside = row < R
    visible = tl.minimum(tl.load(visible_ptr + row, mask=inside, other=0), C).to(tl.int32)
    start = split * CHUNK
    end = tl.minimum(tl.max(visible, 0), start + CHUNK)
    if start < end:
        d = tl.arange(0, D)
        source = q_ptr + row.to(tl.int64)[:, None] * q_row + head[:, None] * q_head + d[None, :]
        q = tl.load(source, mask=inside[:, None], other=0.0)
        peak, total, out = attend(
            q, k_ptr + kv.to(tl.int64) * k_head, v_ptr + kv.to(tl.int64) * v_head, k_row, v_row, start, end, visible,
            scale, D, BLOCK_M, BLOCK_N, PRECISION,
        )  # fmt: skip
        at = (split * R + row).to(tl.int64) * HQ + head
        some = total > 0
        safe = tl.where(some, total, 1.0)
        tl.store(part_ptr + at[:, None] * D + d[None, :], out / safe[:, None], mask=inside[:, None])
        tl.store(weight_ptr + at, tl.where(some, peak + tl.log2(safe), NEG), mask=inside)


@triton.jit
def combine_kernel(
    part_ptr, weight_ptr, visible_ptr, out_ptr, R, C, HQ: tl.constexpr, D: tl.constexpr, CHUNK: tl.constexpr
):
    row, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    d = tl.arange(0, D)
    peak = tl.full([1], NEG, tl.float32)
    total = tl.zeros([1], tl.float32)
    out = tl.zeros([D], tl.float32)
    visible = tl.minimum(tl.load(visible_ptr + row), C).to(tl.int32)
    for split in range(tl.cdiv(visible, CHUNK)):  # in order, and never a piece that the row does not see
        at = (split * R + row) * HQ + head
        weight = tl.load(weight_ptr + at)
        new_peak = tl.maximum(peak, weight)
        keep, share = tl.exp2(peak - new_peak), tl.exp2(weight - new_peak)
        out = out * keep + tl.load(part_ptr + at * D + d) * share
        total = total * keep + share
        peak = new_peak
    out = out / tl.where(total > 0, total, 1.0)
    tl.store(out_ptr + (row * HQ + head) * D + d, out)


@triton.jit
def full_kernel(
    q_ptr, k_ptr, v_ptr, length_ptr, out_ptr, L, q_seq, q_row, q_head, k_seq, k_row, k_head, v_seq, v_row, v_head,
    scale, HQ: tl.constexpr, G: tl.constexpr, D: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    seq, head = tl.program_id(2).to(tl.int64), tl.program_id(1)
    row = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    d = tl.arange(0, D)
    length = tl.minimum(tl.load(length_ptr + seq), L).to(tl.int32)
    visible = tl.where(row < length, length, 0)
    q = tl.load(
        q_ptr + seq * q_seq + row[:, None] * q_row + head * q_head + d[None, :], mask=(row < length)[:, None], other=0.0
    )
    _, total, out = attend(
        q, k_ptr + seq * k_seq + head // G * k_head, v_ptr + seq * v_seq + head // G * v_head, k_row, v_row,
        0, tl.max(visible, 0), visible, scale, D, BLOCK_M, BLOCK_N, PRECISION,
    )  # fmt: skip
    out = out / tl.where(total > 0, total, 1.0)[:, None]
    tl.store(out_ptr + ((seq * L + row[:, None]) * HQ + head) * D + d[None, :], out, mask=(row < L)[:, None])


def _check(D: int, n_heads: int, n_kv: int) -> None:
    if D not in (16, 32, 64, 128, 256):
        raise ValueError(f"attention heads of {D} elements: use 16, 32, 64, 128 or 256")
    if n_heads % n_kv:
        raise ValueError(f"{n_heads} query heads cannot share {n_kv} KV heads evenly")


def _dense(x):
    return x if x.stride(-1) == 1 else x.contiguous()


def block_attention(q, keys, values, visible):
    """q [R, Hq, D], keys and values [Hkv, C, D], visible integer [R] -> [R, Hq * D]; row i sees keys < visible[i].

    A row that sees nothing gives zeros.
    """
    (R, HQ, D), (n_kv, C, _) = q.shape, keys.shape
    _check(D, HQ, n_kv)
    q, keys, values = _dense(q), _dense(keys), _dense(values)
    out = torch.empty(R, HQ * D, dtype=q.dtype, device=q.device)
    if R == 0:
        return out
    splits = triton.cdiv(C, CHUNK)
    part = torch.empty(splits, R, HQ, D, dtype=torch.float32, device=q.device)
    weight = torch.empty(splits, R, HQ, dtype=torch.float32, device=q.device)
    group = HQ // n_kv
    cache_kernel[(splits, n_kv, triton.cdiv(R * group, BLOCK_M))](
        q, keys, values, visible, part, weight, R, C, q.stride(0), q.stride(1), keys.stride(0), keys.stride(1),
        values.stride(0), values.stride(1), LOG2_E / D**0.5, HQ=HQ, G=group, D=D, CHUNK=CHUNK, BLOCK_M=BLOCK_M,
        BLOCK_N=BLOCK_N, PRECISION="ieee" if q.dtype == torch.float32 else "tf32", num_warps=4, num_stages=2,
    )  # fmt: skip
    combine_kernel[(R, HQ)](part, weight, visible, out, R, C, HQ=HQ, D=D, CHUNK=CHUNK, num_warps=1)
    return out


def bidirectional_attention(q, k, v, lengths):
    """q [B, L, Hq, D], k and v [B, L, Hkv, D], lengths integer [B] -> [B, L, Hq, D]; rows beyond a length are zeros."""
    (B, L, HQ, D), n_kv = q.shape, k.shape[2]
    _check(D, HQ, n_kv)
    q, k, v = _dense(q), _dense(k), _dense(v)
    out = torch.empty(B, L, HQ, D, dtype=q.dtype, device=q.device)
    if B * L == 0:
        return out
    full_kernel[(triton.cdiv(L, BLOCK_M_FULL), HQ, B)](
        q, k, v, lengths, out, L, *q.stride()[:3], *k.stride()[:3], *v.stride()[:3], LOG2_E / D**0.5, HQ=HQ,
        G=HQ // n_kv, D=D, BLOCK_M=BLOCK_M_FULL, BLOCK_N=BLOCK_N if D <= 64 else BLOCK_N // 2,
        # heads of 128 with 64 keys a step spill on sm_80, with four warps as with eight
        PRECISION="ieee" if q.dtype == torch.float32 else "tf32", num_warps=4 if D <= 64 else 8, num_stages=2,
    )  # fmt: skip
    return out
