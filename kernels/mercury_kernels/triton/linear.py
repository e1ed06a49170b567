"""x times a dense or 8-bit weight for few rows: the weight is read once, at the speed of memory.

Specification: `mercury_kernels.linear.reference_linear_w8` (and torch's linear for dense weights). One tile shape
serves every number of rows and the split over K depends on the weight's shape alone, so a row's result is the same
whatever rows run with it: the library's matrix product picks another kernel, and another order of summation, for
every row count, and a causal check of several tokens would then differ from one-at-a-time decoding.
"""

import torch
import triton
import triton.language as tl

BLOCK_M = 32
"""Rows per tile. Not 64: from 64 rows on, sm_90 takes another matrix instruction, which sums in another order."""
BLOCK_N = 32
BLOCK_K = 128
PROGRAMS = 264
"""Programs that fill a large GPU (132 multiprocessors, two each); narrower weights are split over K to get there."""


@triton.jit(do_not_specialize=["R"])
def linear_kernel(
    x_ptr, weight_ptr, scale_ptr, bias_ptr, y_ptr, R, N, K, stride_x, stride_w, K_SPLIT, N_GROUPS,
    SCALE: tl.constexpr, HAS_BIAS: tl.constexpr, FINAL: tl.constexpr, GROUP: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    # rows vary fastest: the row tiles of one piece of weight run together and share it in the cache
    row = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    split = tl.program_id(2)
    k_tile = tl.arange(0, BLOCK_K)
    x_rows = x_ptr + row.to(tl.int64)[:, None] * stride_x
    w_rows = weight_ptr + n.to(tl.int64)[None, :] * stride_w
    total = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for start in range(split * K_SPLIT, tl.minimum(K, (split + 1) * K_SPLIT), BLOCK_K):
        k = start + k_tile
        x = tl.load(x_rows + k[None, :], mask=(row < R)[:, None] & (k < K)[None, :], other=0.0)
        w = tl.load(w_rows + k[:, None], mask=(n < N)[None, :] & (k < K)[:, None], other=0).to(x.dtype)
        part = tl.dot(x, w, input_precision=PRECISION)
        if SCALE == "group":
            part *= tl.load(scale_ptr + n * N_GROUPS + start // GROUP, mask=n < N, other=0.0)[None, :]
        total += part
    if SCALE == "row":
        total *= tl.load(scale_ptr + n, mask=n < N, other=0.0)[None, :]
    inside = (row < R)[:, None] & (n < N)[None, :]
    if FINAL and HAS_BIAS:
        total += tl.load(bias_ptr + n, mask=n < N, other=0.0).to(tl.float32)[None, :]
    tl.store(y_ptr + (split * R + row).to(tl.int64)[:, None] * N + n[None, :], total, mask=inside)


@triton.jit
def sum_splits_kernel(part_ptr, bias_ptr, y_ptr, SIZE, N, SPLITS, HAS_BIAS: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for split in range(SPLITS):  # in order: the sum does not depend on which program ended first
        total += tl.load(part_ptr + at + split * SIZE, mask=at < SIZE, other=0.0)
    if HAS_BIAS:
        total += tl.load(bias_ptr + at % N, mask=at < SIZE, other=0.0).to(tl.float32)
    tl.store(y_ptr + at, total, mask=at < SIZE)


def linear(x, weight, scale=None, bias=None):
    """x [R, K], weight [N, K] dense or int8, scale f32 [N] or [N, K / group], bias [N] -> [R, N] in x's dtype.

    group: 16, 32, 64 or a multiple of 128. Raises ValueError for others.
    """
    R, K = x.shape
    N = weight.shape[0]
    kind, group, n_groups, block_k = "none", K, 1, BLOCK_K
    if scale is not None:
        kind = "row" if scale.dim() == 1 else "group"
    if kind == "group":
        n_groups = scale.shape[1]
        group = K // n_groups
        if group * n_groups != K or not (group in (16, 32, 64) or group % BLOCK_K == 0):
            raise ValueError(f"weight groups of {K}/{n_groups} columns: use 16, 32, 64 or a multiple of {BLOCK_K}")
        block_k = min(BLOCK_K, group)
    x = x if x.stride(-1) == 1 else x.contiguous()
    weight = weight if weight.stride(-1) == 1 else weight.contiguous()
    y = torch.empty(R, N, dtype=x.dtype, device=x.device)
    if R == 0:
        return y
    tiles_n, tiles_k = triton.cdiv(N, BLOCK_N), triton.cdiv(K, block_k)
    wanted = max(1, min(PROGRAMS // tiles_n, tiles_k // 2))
    k_split = triton.cdiv(tiles_k, wanted) * block_k
    splits = triton.cdiv(K, k_split)
    part = y if splits == 1 else torch.empty(splits, R, N, dtype=torch.float32, device=x.device)
    linear_kernel[(triton.cdiv(R, BLOCK_M), tiles_n, splits)](
        x, weight, x if scale is None else scale.contiguous(), x if bias is None else bias, part, R, N, K,
        x.stride(0), weight.stride(0), k_split, n_groups, SCALE=kind, HAS_BIAS=bias is not None, FINAL=splits == 1,
        GROUP=group, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, BLOCK_K=block_k,
        PRECISION="ieee" if x.dtype == torch.float32 else "tf32", num_warps=4, num_stages=4,
    )  # fmt: skip
    if splits > 1:
        sum_splits_kernel[(triton.cdiv(R * N, 1024),)](
            part, x if bias is None else bias, y, R * N, N, splits, HAS_BIAS=bias is not None, BLOCK=1024
        )
    return y
