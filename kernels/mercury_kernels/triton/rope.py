"""Rotary positions for all heads of a row at once (queries and keys together), forward and backward.

Specification: `mercury_kernels.rope.reference_rope`: halves, not interleaved pairs. The backward pass is the turn by
the opposite angle. Strided rows are read in place: the heads are usually a slice of one fused projection.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def rope_kernel(
    x_ptr, y_ptr, table_ptr, stride_row, stride_head,
    N: tl.constexpr, HALF: tl.constexpr, HEADS: tl.constexpr, COLS: tl.constexpr, INVERSE: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    head = tl.arange(0, HEADS)[:, None]
    col = tl.arange(0, COLS)[None, :]
    # the table's row: cosines twice, then the sines with the first half negated
    cos = tl.load(table_ptr + row * 4 * HALF + col, mask=col < HALF, other=0.0).to(tl.float32)
    sin = tl.load(table_ptr + row * 4 * HALF + 3 * HALF + col, mask=col < HALF, other=0.0).to(tl.float32)
    if INVERSE:
        sin = -sin
    inside = (head < N) & (col < HALF)
    source = x_ptr + row * stride_row + head * stride_head + col
    target = y_ptr + (row * N + head) * (2 * HALF) + col
    low = tl.load(source, mask=inside, other=0.0).to(tl.float32)
    high = tl.load(source + HALF, mask=inside, other=0.0).to(tl.float32)
    tl.store(target, low * cos - high * sin, mask=inside)
    tl.store(target + HALF, high * cos + low * sin, mask=inside)


def _rotate(x, table, inverse):
    R, N, D = x.shape
    x = x if x.stride(-1) == 1 else x.contiguous()
    y = torch.empty((R, N, D), dtype=x.dtype, device=x.device)
    if R:
        rope_kernel[(R,)](
            x, y, table, x.stride(0), x.stride(1), N=N, HALF=D // 2, HEADS=triton.next_power_of_2(N),
            COLS=triton.next_power_of_2(D // 2), INVERSE=inverse,
        )  # fmt: skip
    return y


class _Rope(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, table):
        ctx.save_for_backward(table)
        return _rotate(x, table, False)

    @staticmethod
    def backward(ctx, dy):
        return _rotate(dy, ctx.saved_tensors[0], True), None


def rope(x, table):
    """x [R, heads, D], table [R, 2, D] as `mercury_kernels.rope.rope_table` builds it -> rotated [R, heads, D]."""
    return _Rope.apply(x, table.contiguous())
