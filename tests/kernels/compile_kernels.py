"""Compile every Triton kernel for GPUs that need not be there; print what the assembler says as JSON.

Run as a process of its own, without the interpreter: the public functions are called on CPU tensors of a real model's
shapes, and each launch is compiled (with the very arguments it would run with) instead of run.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.runtime.jit import JITFunction

from mercury_kernels.triton import attention, linear, norm, rope, swiglu, unmask

ARCHITECTURES = (80, 90)
TYPES = {
    torch.bfloat16: "*bf16", torch.float32: "*fp32", torch.int8: "*i8", torch.int32: "*i32", torch.int64: "*i64",
}  # fmt: skip
H, F, V, D, HQ, HKV = 896, 4864, 151_936, 64, 14, 2
launches = []


def record(kernel, *args, grid, warmup, **kwargs):
    """Stands in for JITFunction.run: notes the launch the way the runtime would specialise it."""
    names = kernel.arg_names
    values = dict(zip(names, args, strict=False)) | {k: v for k, v in kwargs.items() if k in names}
    signature, constants, attributes = {}, {}, {}
    for i, param in enumerate(kernel.params):
        value = values[param.name]
        if isinstance(value, torch.Tensor):
            signature[param.name] = TYPES[value.dtype]
            attributes[(i,)] = [["tt.divisibility", 16]]
        elif param.is_constexpr or (value == 1 and not isinstance(value, float) and not param.do_not_specialize):
            signature[param.name] = "constexpr"
            constants[param.name] = value
        elif isinstance(value, float):
            signature[param.name] = "fp32"
        else:
            signature[param.name] = "i32" if -(2**31) <= value < 2**31 else "i64"
            if value % 16 == 0 and not param.do_not_specialize:
                attributes[(i,)] = [["tt.divisibility", 16]]
    options = {k: v for k, v in kwargs.items() if k not in names}
    launches.append((kernel, signature, constants, attributes, options))


def call_everything() -> None:
    def rows(*shape: int) -> torch.Tensor:
        return torch.empty(shape, dtype=torch.bfloat16).requires_grad_()

    x, big = rows(32, H), rows(32, 2 * F)
    norm.rms_norm(x, rows(H), 1e-6).sum().backward()
    torch.cat(norm.add_rms_norm(x, rows(32, H), rows(H), 1e-6)).sum().backward()
    swiglu.swiglu(big).sum().backward()
    rope.rope(rows(32, HQ + HKV, D), torch.empty(32, 2, D)).sum().backward()
    with torch.no_grad():
        for weight in (torch.empty(H, F, dtype=torch.int8), rows(H, F)):
            scale = torch.empty(H) if weight.dtype == torch.int8 else None
            linear.linear(rows(32, F), weight, scale, None)
        linear.linear(x, torch.empty(2 * F, H, dtype=torch.int8), torch.empty(2 * F, H // 64), rows(2 * F))
        for d in (64, 128):
            cache = torch.empty(HKV, 1024, d, dtype=torch.bfloat16)
            attention.block_attention(rows(32, HQ, d), cache, cache, torch.ones(32, dtype=torch.int64))
            cache = torch.empty(2, 512, HKV, d, dtype=torch.bfloat16)
            attention.bidirectional_attention(rows(2, 512, HQ, d), cache, cache, torch.ones(2, dtype=torch.int64))
        dense = [(torch.empty(V, H, dtype=torch.bfloat16, device="cpu"), None)]
        banned = torch.full((32, 2), -1)
        unmask.unmask(x, dense)
        unmask.unmask(x, [(torch.empty(V, H, dtype=torch.int8), torch.empty(V))], banned=banned)
        unmask.unmask(x, dense, temperature=0.8, top_p=0.9, top_k=40, seed=7)


def compiled(kernel, signature, constants, attributes, options, architecture: int) -> dict[str, object]:
    source = ASTSource(kernel, signature=signature, constexprs=constants, attrs=attributes)
    out = triton.compile(source, target=GPUTarget("cuda", architecture, 32), options=options)
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        Path(file.name).write_bytes(out.asm["cubin"])
        tool = triton.knobs.nvidia.cuobjdump.path
        usage = subprocess.run([tool, "--dump-resource-usage", file.name], capture_output=True, text=True, check=True)
    words = dict(w.split(":") for w in usage.stdout.split() if w.count(":") == 1 and not w.endswith(":"))
    return {
        "kernel": f"{kernel.__module__.rsplit('.', 1)[-1]}.{kernel.__name__}",
        "architecture": architecture,
        "registers": int(words["REG"]),
        "spilled_bytes": int(words["STACK"]) + int(words["LOCAL"]),
        "shared_bytes": out.metadata.shared,
        "ptx_bytes": len(out.asm["ptx"]),
    }


def main() -> None:
    JITFunction.run = record
    call_everything()
    seen, table = set(), []
    for launch in launches:
        key = (launch[0].__module__, launch[0].__name__, *map(str, launch[1:]))
        if key not in seen:
            seen.add(key)
            table += [compiled(*launch, architecture) for architecture in ARCHITECTURES]
    json.dump(table, sys.stdout)


if __name__ == "__main__":
    main()
