"""silu(gate) * up in one pass over [R, 2F], forward and backward.

Specification: `mercury_kernels.swiglu.reference_swiglu`. The backward pass computes the sigmoid again
instead of keeping it: one exponential is cheaper than F more elements of memory traffic.
"""

import torch
import triton
import triton.language as tl

BLOCK = 1024
"""Elements a program handles; 8 a thread fills the load units and leaves registers free."""


@triton.jit
def forward_kernel(x_ptr, y_ptr, F, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    col = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = col < F
    gate = tl.load(x_ptr + row * 2 * F + col, mask=inside, other=0.0).to(tl.float32)
    up = tl.load(x_ptr + row * 2 * F + F + col, mask=inside, other=0.0).to(tl.float32)
    tl.store(y_ptr + row * F + col, gate * tl.sigmoid(gate) * up, mask=inside)


@triton.jit
def backward_kernel(x_ptr, dy_ptr, dx_ptr, F, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    col = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = col < F
    gate = tl.load(x_ptr + row * 2 * F + col, mask=inside, other=0.0).to(tl.float32)
    up = tl.load(x_ptr + row * 2 * F + F + col, mask=inside, other=0.0).to(tl.float32)
    dy = tl.load(dy_ptr + row * F + col, mask=inside, other=0.0).to(tl.float32)
    sigmoid = tl.sigmoid(gate)
    silu = gate * sigmoid
    tl.store(dx_ptr + row * 2 * F + col, dy * up * sigmoid * (1.0 + gate - silu), mask=inside)
    tl.store(dx_ptr + row * 2 * F + F + col, dy * silu, mask=inside)


class _SwiGlu(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        R, F = x.shape[0], x.shape[1] // 2
        y = torch.empty(R, F, dtype=x.dtype, device=x.device)
        if R:
            forward_kernel[(R, triton.cdiv(F, BLOCK))](x, y, F, BLOCK=BLOCK)
        ctx.save_for_backward(x)
        return y

    @staticmethod
    def backward(ctx, dy):
        (x,) = ctx.saved_tensors
        R, F = dy.shape
        dx = torch.empty_like(x)
        if R:
            backward_kernel[(R, triton.cdiv(F, BLOCK))](x, dy.contiguous(), dx, F, BLOCK=BLOCK)
        return dx


def swiglu(gate_up):
    """gate_up [..., 2F], gate first -> [..., F]."""
    F2 = gate_up.shape[-1]
    return _SwiGlu.apply(gate_up.reshape(-1, F2).contiguous()).view(*gate_up.shape[:-1], F2 // 2)
