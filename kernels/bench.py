"""One table: op x shape x dtype: the plain reference, the reference under torch.compile, and what the model calls.

    python kernels/bench.py [--json] [--only OP] [--quick]

On a GPU `ours` is the Triton kernel; times are medians of device events around a replayed CUDA graph, after the level-2
cache was overwritten; `share` is the part reached of a ceiling measured in the same run: a copy's bandwidth, or a large
matrix product's speed. torch.compile takes seconds a row, so one number of rows per op goes through it.
Without a GPU the same rows run on the CPU by wall clock, without torch.compile (it wants a C++ compiler) and `share`.
It knows nothing about models: shapes are those of the embedded one (hidden 896, 14:2 heads of 64, vocabulary 151,936).
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent))
import mercury_kernels as mk

H, F, V, D, HQ, HKV = 896, 4864, 151_936, 64, 14, 2
THETA, EPS = 1e6, 1e-6
Call = Callable[[], object]


@dataclass(frozen=True)
class Row:
    """One line of the table. n_bytes, n_flops: what must at least be moved and computed.

    graph: a CUDA graph can hold it (no size depends on the data).
    """

    op: str
    shape: str
    reference: Call
    ours: Call
    n_bytes: float
    n_flops: float
    graph: bool = True


class Maker:
    def __init__(self, device: str, dtype: torch.dtype, vocab: int) -> None:
        self.device, self.dtype, self.vocab = device, dtype, vocab
        self.size = torch.finfo(dtype).bits // 8
        torch.manual_seed(0)

    def randn(self, *shape: int) -> torch.Tensor:
        return torch.randn(*shape, device=self.device, dtype=torch.float32).to(self.dtype)


def norm_rows(m: Maker, n: int) -> Iterator[Row]:
    x, residual, weight = m.randn(n, H), m.randn(n, H), m.randn(H)
    yield Row(
        "rms_norm", f"{n}x{H}", lambda: mk.reference_rms_norm(x, weight, EPS), lambda: mk.rms_norm(x, weight, EPS),
        2 * n * H * m.size, 0,
    )  # fmt: skip
    yield Row(
        "add_rms_norm", f"{n}x{H}", lambda: mk.reference_add_rms_norm(x, residual, weight, EPS),
        lambda: mk.add_rms_norm(x, residual, weight, EPS), 4 * n * H * m.size, 0,
    )  # fmt: skip


def rope_rows(m: Maker, n: int) -> Iterator[Row]:
    x, table = m.randn(n, HQ + HKV, D), mk.rope_table(n, D, THETA, m.device)
    cos, sin = (table[:, i, None].to(m.dtype) for i in (0, 1))

    def reference() -> torch.Tensor:  # the specification computes its angles in float64, each time
        return x * cos + torch.cat((x[..., D // 2 :], x[..., : D // 2]), -1) * sin

    n_bytes = 2 * n * (HQ + HKV) * D * m.size + n * 2 * D * 4
    yield Row("rope", f"{n}x{HQ + HKV}x{D}", reference, lambda: mk.rope(x, table), n_bytes, 0)


def swiglu_rows(m: Maker, n: int) -> Iterator[Row]:
    x = m.randn(n, 2 * F)
    yield Row("swiglu", f"{n}x{2 * F}", lambda: mk.reference_swiglu(x), lambda: mk.swiglu(x), 3 * n * F * m.size, 0)


def linear_rows(m: Maker, n: int) -> Iterator[Row]:
    for n_out, n_in in ((2 * F, H), (H, F), (H, H)):
        x, dense = m.randn(n, n_in), m.randn(n_out, n_in) / n_in**0.5
        flops = 2.0 * n * n_out * n_in
        weight = mk.Dense(dense)
        yield Row(
            "linear", f"{n}x{n_in}->{n_out}", lambda x=x, w=dense: torch.nn.functional.linear(x, w),
            lambda x=x, w=weight: mk.linear(x, w), (n_out * n_in + n * (n_in + n_out)) * m.size, flops,
        )  # fmt: skip
        whole, scale = mk.quantize_int8(dense)
        packed = mk.int8_weight(whole, scale)
        yield Row(
            "linear_w8", f"{n}x{n_in}->{n_out}", lambda x=x, w=whole, s=scale: mk.reference_linear_w8(x, w, s),
            lambda x=x, w=packed: mk.linear_w8(x, w), n_out * n_in + n * (n_in + n_out) * m.size, flops,
        )  # fmt: skip


def attention_rows(m: Maker, n: int) -> Iterator[Row]:
    for length in (512, 4096):
        q, keys, values = m.randn(n, HQ, D), m.randn(HKV, length, D), m.randn(HKV, length, D)
        visible = torch.full((n,), length, device=m.device)
        bias = mk.attention_bias(visible, HQ // HKV)
        yield Row(
            "block_attention", f"{n}x{HQ}:{HKV}x{D} cache {length}",
            lambda q=q, k=keys, v=values, s=visible: mk.reference_block_attention(q, k, v, s),
            lambda q=q, k=keys, v=values, b=bias: mk.block_attention(q, k, v, b),
            (2 * HKV * length * D + 2 * n * HQ * D) * m.size, 4.0 * n * HQ * length * D,
        )  # fmt: skip


def sequence_rows(m: Maker, n: int) -> Iterator[Row]:
    batch = 4
    q, k, v = (m.randn(batch, n, heads, D) for heads in (HQ, HKV, HKV))
    lengths = torch.full((batch,), n, device=m.device)

    def reference() -> torch.Tensor:  # the specification goes sequence by sequence, and waits for the device
        scores = torch.einsum("blhgd,bmhd->bhglm", q.view(batch, n, HKV, -1, D), k).float() / D**0.5
        return torch.einsum("bhglm,bmhd->blhgd", scores.softmax(-1).to(m.dtype), v)

    yield Row(
        "bidirectional_attention", f"{batch}x{n}x{HQ}:{HKV}x{D}", reference,
        lambda: mk.bidirectional_attention(q, k, v, lengths),
        2 * batch * n * (HQ + HKV) * D * m.size, 4.0 * batch * HQ * n * n * D,
    )  # fmt: skip


def unmask_rows(m: Maker, n: int) -> Iterator[Row]:
    hidden, weight = m.randn(n, H), m.randn(m.vocab, H) / H**0.5
    vocabulary = mk.tiles(mk.Dense(weight))

    def reference(temperature: float) -> torch.Tensor:
        """What a plain decoder does: all logits, their softmax, the statistics."""
        p = (hidden @ weight.T).float().softmax(-1)
        top = p.topk(2, -1)
        entropy = -(p * p.clamp_min(1e-30).log()).sum(-1)
        token = top.indices[:, 0] if temperature == 0 else (p / torch.empty_like(p).exponential_()).argmax(-1)
        return torch.stack([token.float(), top.values[:, 0], entropy, top.values[:, 0] - top.values[:, 1]])

    for name, temperature in (("unmask", 0.0), ("unmask sampled", 1.0)):
        yield Row(
            name, f"{n}x{H} of {m.vocab}", lambda t=temperature: reference(t),
            lambda t=temperature: mk.unmask(hidden, vocabulary, temperature=t),
            (m.vocab + n) * H * m.size, 2.0 * n * m.vocab * H,
        )  # fmt: skip


def loss_rows(m: Maker, n: int) -> Iterator[Row]:
    hidden, weight = m.randn(n, H).requires_grad_(), m.randn(m.vocab, H) / H**0.5
    targets = torch.arange(n, device=m.device) * 7 % m.vocab

    def both(loss: Callable[..., torch.Tensor]) -> Call:
        return lambda: torch.autograd.grad(loss(hidden, weight, targets), hidden)

    yield Row(
        "masked_cross_entropy, both ways", f"{n}x{H} of {m.vocab}", both(mk.reference_masked_cross_entropy),
        both(mk.masked_cross_entropy), 3 * m.vocab * H * m.size, 6.0 * n * m.vocab * H, graph=False,
    )  # fmt: skip


TABLE: dict[str, tuple[Callable[[Maker, int], Iterator[Row]], tuple[int, ...]]] = {
    "norm": (norm_rows, (1, 32, 1000)),
    "rope": (rope_rows, (1, 32, 1000)),
    "swiglu": (swiglu_rows, (1, 32, 1000)),
    "linear": (linear_rows, (1, 8, 32, 64)),
    "attention": (attention_rows, (1, 8, 32)),
    "sequences": (sequence_rows, (256, 1024)),
    "unmask": (unmask_rows, (1, 8, 32, 256)),
    "loss": (loss_rows, (256,)),
}


COMPILED = (32, 256)
"""Numbers of rows at which torch.compile is measured too."""


def milliseconds(call: Call, device: str, repeats: int, graph: bool = True) -> float:
    """Median of `repeats` runs after a warm one; on a GPU each begins with a cold level-2 cache."""
    call()
    if device == "cpu":
        times: list[float] = []
        for _ in range(repeats):
            start = time.perf_counter()
            call()
            times.append((time.perf_counter() - start) * 1e3)
        return statistics.median(times)
    for _ in range(3):
        call()
    if graph:  # the model replays graphs, so the time in which the host launches is not a kernel's
        recorded = torch.cuda.CUDAGraph()
        with torch.cuda.graph(recorded):
            call()
        call = recorded.replay
    flush = torch.empty(256 * 2**20, dtype=torch.int8, device=device)
    events = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(repeats)]
    for start_event, end_event in events:
        flush.zero_()
        start_event.record()
        call()
        end_event.record()
    torch.cuda.synchronize()
    return statistics.median(a.elapsed_time(b) for a, b in events)


def ceilings(device: str, dtype: torch.dtype, repeats: int) -> tuple[float, float]:
    """Measured bytes per second of a copy (read and write counted) and operations per second of a large product."""
    n, side = (2**30, 8192) if device != "cpu" else (2**26, 1024)
    source = torch.empty(n, dtype=torch.int8, device=device)
    target = torch.empty_like(source)
    a = torch.ones(side, side, device=device, dtype=dtype)
    copy = milliseconds(lambda: target.copy_(source), device, repeats)
    product = milliseconds(lambda: a @ a, device, repeats)
    return 2 * n / copy * 1e3, 2.0 * side**3 / product * 1e3


def measure(
    row: Row, device: str, dtype: torch.dtype, ceiling: tuple[float, float], repeats: int, compiled: bool
) -> dict[str, object]:
    line: dict[str, object] = {"op": row.op, "shape": row.shape, "dtype": str(dtype).removeprefix("torch.")}
    line["reference_ms"] = milliseconds(row.reference, device, repeats, row.graph)
    if compiled:
        torch.compiler.reset()
        line["compiled_ms"] = milliseconds(torch.compile(row.reference, dynamic=False), device, repeats, row.graph)
    ours = milliseconds(row.ours, device, repeats, row.graph)
    line["ours_ms"] = ours
    line["gb_per_s"] = row.n_bytes / ours / 1e6
    line["tflop_per_s"] = row.n_flops / ours / 1e9
    if device != "cpu":  # the nearer of the two ceilings is the one that binds
        line["share"] = max(row.n_bytes / ceiling[0], row.n_flops / ceiling[1]) / ours * 1e3
    return line


COLUMNS = ("op", "shape", "dtype", "reference_ms", "compiled_ms", "ours_ms", "gb_per_s", "tflop_per_s", "share")


def text(lines: list[dict[str, object]]) -> str:
    names = [c for c in COLUMNS if any(c in line for line in lines)]
    cells = [names] + [
        [f"{v:.3f}" if isinstance(v := line.get(c, ""), float) else str(v) for c in names] for line in lines
    ]
    widths = [max(len(row[i]) for row in cells) for i in range(len(names))]
    return "\n".join("  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in cells)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one object instead of a table")
    parser.add_argument("--only", choices=TABLE, action="append", help="only this group (may be repeated)")
    parser.add_argument("--quick", action="store_true", help="few repeats and a small vocabulary: does it run at all")
    chosen = parser.parse_args(arguments)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    repeats = 2 if chosen.quick else 50 if device == "cuda" else 10
    maker = Maker(device, dtype, 4096 if chosen.quick else V)
    ceiling = ceilings(device, dtype, repeats)
    lines: list[dict[str, object]] = []
    for name in chosen.only or TABLE:
        make_rows, counts = TABLE[name]
        for n in counts[:1] if chosen.quick else counts:
            for row in make_rows(maker, n):
                compiled = device != "cpu" and n in COMPILED
                lines.append(measure(row, device, dtype, ceiling, repeats, compiled))
                if not chosen.json:
                    print(text(lines[-1:]).splitlines()[-1], file=sys.stderr)
    report = {
        "device": torch.cuda.get_device_name() if device == "cuda" else f"cpu, {torch.get_num_threads()} threads",
        "torch": torch.__version__,
        "copy_gb_per_s": ceiling[0] / 1e9,
        "product_tflop_per_s": ceiling[1] / 1e12,
        "rows": lines,
    }
    print(json.dumps(report) if chosen.json else text(lines))


if __name__ == "__main__":
    main()
