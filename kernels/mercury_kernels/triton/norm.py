"""RMS normalisation with an optional residual add, one row per program, forward and backward.

Specification: `mercury_kernels.norm.reference_rms_norm`. It knows nothing about layers.
The row lives in registers, so each element is read once and written once; statistics are fp32.
"""

import torch
import triton
import triton.language as tl

MAX_WIDTH = 16384
"""Widest row that stays in registers without spills at 16 warps."""
BACKWARD_PROGRAMS = 128
"""Row groups of the backward pass: about one per multiprocessor, each sums its part of the weight's gradient."""


@triton.jit
def forward_kernel(
    x_ptr, residual_ptr, weight_ptr, y_ptr, sum_ptr, rstd_ptr, H, eps,
    HAS_RESIDUAL: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    col = tl.arange(0, BLOCK)
    inside = col < H
    x = tl.load(x_ptr + row * H + col, mask=inside, other=0.0)
    if HAS_RESIDUAL:
        # rounded to the storage type before it is normalised, as the separate addition would
        x = (x.to(tl.float32) + tl.load(residual_ptr + row * H + col, mask=inside, other=0.0)).to(x.dtype)
        tl.store(sum_ptr + row * H + col, x, mask=inside)
    x = x.to(tl.float32)
    rstd = 1.0 / tl.sqrt(tl.sum(x * x, axis=0) / H + eps)
    weight = tl.load(weight_ptr + col, mask=inside, other=0.0).to(tl.float32)
    tl.store(y_ptr + row * H + col, x * rstd * weight, mask=inside)
    tl.store(rstd_ptr + row, rstd)


@triton.jit(do_not_specialize=["R"])
def backward_kernel(
    x_ptr, weight_ptr, rstd_ptr, dy_ptr, dsum_ptr, dx_ptr, dweight_ptr, R, H, ROWS,
    HAS_DSUM: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    group = tl.program_id(0).to(tl.int64)
    col = tl.arange(0, BLOCK)
    inside = col < H
    weight = tl.load(weight_ptr + col, mask=inside, other=0.0).to(tl.float32)
    dweight = tl.zeros([BLOCK], tl.float32)
    for row in range(group * ROWS, tl.minimum(R, (group + 1) * ROWS)):
        x = tl.load(x_ptr + row * H + col, mask=inside, other=0.0).to(tl.float32)
        dy = tl.load(dy_ptr + row * H + col, mask=inside, other=0.0).to(tl.float32)
        rstd = tl.load(rstd_ptr + row)
        normed = x * rstd
        dweight += dy * normed
        dy *= weight
        dx = rstd * (dy - normed * (tl.sum(dy * normed, axis=0) / H))
        if HAS_DSUM:
            dx += tl.load(dsum_ptr + row * H + col, mask=inside, other=0.0).to(tl.float32)
        tl.store(dx_ptr + row * H + col, dx, mask=inside)
    tl.store(dweight_ptr + group * H + col, dweight, mask=inside)


def _launch(H: int) -> dict[str, int]:
    block = triton.next_power_of_2(H)
    return {"BLOCK": block, "num_warps": min(16, max(1, block // 512))}


class _RmsNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, eps, residual):
        R, H = x.shape
        y = torch.empty_like(x)
        total = torch.empty_like(x) if residual is not None else x
        rstd = torch.empty(R, dtype=torch.float32, device=x.device)
        if R:
            forward_kernel[(R,)](
                x, x if residual is None else residual, weight, y, total, rstd, H, eps,
                HAS_RESIDUAL=residual is not None, **_launch(H),
            )  # fmt: skip
        ctx.save_for_backward(total, weight, rstd)
        ctx.has_residual = residual is not None
        return (y, total) if residual is not None else y

    @staticmethod
    def backward(ctx, dy, dsum=None):
        total, weight, rstd = ctx.saved_tensors
        R, H = total.shape
        rows = max(1, triton.cdiv(R, BACKWARD_PROGRAMS))
        groups = triton.cdiv(R, rows)
        dx = torch.empty_like(total)
        partial = torch.empty(groups, H, dtype=torch.float32, device=dx.device)
        if R:
            backward_kernel[(groups,)](
                total, weight, rstd, dy.contiguous(), dx if dsum is None else dsum.contiguous(),
                dx, partial, R, H, rows, HAS_DSUM=dsum is not None, **_launch(H),
            )  # fmt: skip
        return dx, partial.sum(0).to(weight.dtype), None, dx if ctx.has_residual else None


def _flat(x, H):
    if H > MAX_WIDTH:
        raise ValueError(f"rms_norm takes rows of at most {MAX_WIDTH} elements, got {H}")
    return x.reshape(-1, H).contiguous()


def rms_norm(x, weight, eps):
    """x [..., H], weight [H] -> normed [..., H]."""
    return _RmsNorm.apply(_flat(x, x.shape[-1]), weight, eps, None).view(x.shape)


def add_rms_norm(x, residual, weight, eps):
    """x and residual [..., H], weight [H] -> (normed sum, sum), each [..., H]."""
    normed, total = _RmsNorm.apply(_flat(x, x.shape[-1]), weight, eps, _flat(residual, x.shape[-1]))
    return normed.view(x.shape), total.view(x.shape)
