"""Measures the embedded model on this machine and prints markdown tables; reads top to bottom.

    python model/measure.py                                  about three minutes on two quiet cores
    python model/measure.py --peer PYTHON --gguf FILE        beside llama-cpp-python of that interpreter
    python model/measure.py --only passes policies arithmetic peer

What it finds belongs into docs/log.md. It asserts nothing, and knows nothing about editors.
"""

import argparse
import itertools
import os
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

# as mercury_model.load has it; read when torch is loaded
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import torch
from torch import Tensor

from mercury_kernels import (
    Dense,
    Weight,
    attention_bias,
    block_attention,
    int8_weight,
    linear,
    quantize_int8,
    rms_norm,
    rope,
    rope_table,
    swiglu,
)
from mercury_kernels.unmask import TILE
from mercury_lsp.errors import FailureError
from mercury_lsp.evaluation.llama_cpp_peer import LlamaCpp
from mercury_model import EMBEDDED, Request, load, store
from mercury_model.checkpoint import read_checkpoint
from mercury_model.config import Config
from mercury_model.denoiser import Choice, Session, perform
from mercury_model.local import LocalInfiller, n_cores
from mercury_model.prompt import prompt
from mercury_model.tokens import Tokens
from mercury_model.transformer import Weights

ROOT = Path(__file__).parents[1]
SOURCES = ("ledger.py", "scheduler.js", "inventory.rs")
ROWS = (1, 8, 16, 32, 256)
CONTEXT = 384
REPEATS = 5
MAX_TOKENS = 32
N_PROMPTS = 6
N_MIDDLES = 8
GROUP = 64
"""Weights that share a scale in the 4-bit format."""


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    print(f"\n| {' | '.join(head)} |\n|{'---|' * len(head)}")
    for row in rows:
        print(f"| {' | '.join(map(str, row))} |", flush=True)


def median_ms(work: Callable[[], object], repeats: int = REPEATS) -> float:
    work()
    times: list[float] = []
    for _ in range(repeats):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return 1000 * statistics.median(times)


def texts() -> list[list[str]]:
    folder = ROOT / "tests" / "data" / "heldout"
    return [(folder / name).read_text(encoding="utf-8").splitlines(keepends=True) for name in SOURCES]


def holes(n: int) -> Iterator[tuple[str, str, str]]:
    """(prefix, middle of four lines, suffix), the files in turn, places evenly spread."""
    sources = texts()
    for index in range(n):
        lines = sources[index % len(sources)]
        at = 10 + (index // len(sources) * 23 + 7 * (index % 3)) % (len(lines) - 20)
        yield "".join(lines[max(0, at - 25) : at]), "".join(lines[at : at + 4]), "".join(lines[at + 4 : at + 20])


# --- the model as it runs -------------------------------------------------------------------------------------------


def passes(model: LocalInfiller, loading: float) -> None:
    """Prefill, and one causal pass with the choice of a token per row, behind CONTEXT tokens."""
    ids = model.denoiser.tokens.encode("".join(itertools.chain(*texts())))
    assert len(ids) > CONTEXT + max(ROWS)

    transformer = model.denoiser.transformer

    def read(n: int) -> Session:
        session = model.denoiser.new_session()
        for ask in session.prefill(ids[:n]):
            perform(transformer, [ask])
        return session

    session = read(CONTEXT)
    rows = [
        ("load, s", f"{loading:.1f}"),
        ("context the device is given, tokens", model.info.context_tokens),
        ("prefill, tokens/s", f"{512_000 / median_ms(lambda: read(512), 3):.0f}"),
    ]
    for n in ROWS:
        part = ids[CONTEXT : CONTEXT + n]
        rows.append(
            (
                f"pass of {n} rows, ms",
                f"{median_ms(lambda part=part: perform(transformer, [session.check(part, Choice())])):.0f}",
            )
        )
    table(("the model, 8 bits", "measured"), rows)


def policies(model: LocalInfiller) -> None:
    """Passes and time per token; copies from the prompt are off, so that the drafts themselves are measured."""
    rows: list[tuple[object, ...]] = []
    for name in ("greedy", "check", "threshold"):
        forwards = n_tokens = spent = 0.0
        for prefix, _, suffix in holes(N_PROMPTS):
            request = Request(prefix, suffix, policy=name, max_tokens=MAX_TOKENS, copies=False)
            last = list(model(request))[-1]
            forwards, n_tokens, spent = forwards + last.forwards, n_tokens + last.n_tokens, spent + last.ms["decode"]
        rows.append((name, int(n_tokens), int(forwards), f"{n_tokens / forwards:.2f}", f"{spent / n_tokens:.0f}"))
    table(("policy", "tokens", "forwards", "tokens per forward", "ms per token"), rows)


# --- candidates for the arithmetic on the CPU -----------------------------------------------------------------------
# Each takes a float matrix [N, K] and gives a function from x [R, K] to [R, N], f32.

Product = Callable[[Tensor], Tensor]


def fbgemm_rows(weight: Tensor) -> Product:
    """What the model runs: rows quantised by their own peak, 7-bit weights."""
    packed = int8_weight(*quantize_int8(weight))
    return lambda x: linear(x, packed)


def int_mm(weight: Tensor) -> Product:
    """Exact 32-bit sums of 8-bit rows and 8-bit weights."""
    whole, scale = quantize_int8(weight, 127)
    turned = whole.t()

    def product(x: Tensor) -> Tensor:
        peak = x.abs().amax(1, keepdim=True).clamp_min(1e-12) / 127
        return torch._int_mm((x / peak).round_().to(torch.int8), turned).float() * peak * scale

    return product


def onednn_dynamic(weight: Tensor) -> Product:
    """The library's dynamic quantisation: one scale for all rows of a call."""
    torch.backends.quantized.engine = "onednn"
    whole, scale = quantize_int8(weight, 127)
    zero = torch.zeros(len(scale), dtype=torch.int64)
    packed = torch.ops.quantized.linear_prepack(
        torch._make_per_channel_quantized_tensor(whole, scale.double(), zero, 0), None
    )
    return lambda x: torch.ops.quantized.linear_dynamic(x, packed)


def int8pack(weight: Tensor) -> Product:
    """8-bit weights, bf16 activations."""
    whole, scale = quantize_int8(weight, 127)
    scale = scale.bfloat16()
    return lambda x: torch._weight_int8pack_mm(x.bfloat16(), whole, scale).float()


def int4pack(weight: Tensor) -> Product:
    """4-bit weights with a scale per GROUP of them, bf16 activations."""
    n, k = weight.shape
    groups = weight.view(n, k // GROUP, GROUP)
    scale = (groups.abs().amax(2, keepdim=True) / 7).clamp_min(1e-12)
    whole = ((groups / scale).round().clamp(-8, 7) + 8).to(torch.int32).view(n, k)
    packed = torch._convert_weight_to_int4pack_for_cpu(whole, 1)
    both = torch.stack((scale[:, :, 0], torch.zeros(n, k // GROUP)), 2).transpose(0, 1).contiguous().bfloat16()
    return lambda x: torch._weight_int4pack_mm_for_cpu(x.bfloat16(), packed, GROUP, both).float()


def dense(weight: Tensor) -> Product:
    """The library's own product in 32 bits."""
    return lambda x: torch.nn.functional.linear(x, weight)


CANDIDATES: dict[str, Callable[[Tensor], Product]] = {
    "fp32": dense,
    "fbgemm, scale per row (ours)": fbgemm_rows,
    "_int_mm, scale per row": int_mm,
    "oneDNN dynamic": onednn_dynamic,
    "_weight_int8pack_mm": int8pack,
    "_weight_int4pack_mm_for_cpu": int4pack,
}


def matrices(weights: Weights) -> list[Tensor]:
    """The linear layers' matrices in the order of a pass, then the vocabulary's tiles."""
    found: list[Weight] = [w for layer in weights.layers for w in (layer.qkv, layer.o, layer.gate_up, layer.down)]
    return [w.weight for w in (*found, *weights.lm_head) if isinstance(w, Dense)]


def logits(config: Config, weights: Weights, products: Sequence[Product], ids: Sequence[int], n: int) -> Tensor:
    """Causal logits [n, V] behind the last n of `ids`: the transformer once more, with any product."""
    table_ = rope_table(len(ids), config.head_dim, config.rope_theta, torch.device("cpu"))
    bias = attention_bias(torch.arange(1, len(ids) + 1), config.n_heads // config.n_kv_heads)
    room = torch.zeros(2, config.n_kv_heads, bias.shape[1], config.head_dim)
    x = weights.embed[torch.tensor(ids)].float()
    for index, layer in enumerate(weights.layers):
        qkv, o, gate_up, down = products[4 * index : 4 * index + 4]
        heads = qkv(rms_norm(x, layer.attn_norm, config.rms_eps))
        if isinstance(layer.qkv, Dense) and layer.qkv.bias is not None:
            heads = heads + layer.qkv.bias
        heads = heads.view(len(ids), -1, config.head_dim)
        n_qk = config.n_heads + config.n_kv_heads
        qk = rope(heads[:, :n_qk], table_)
        room[0, :, : len(ids)], room[1, :, : len(ids)] = (
            qk[:, config.n_heads :].transpose(0, 1),
            heads[:, n_qk:].transpose(0, 1),
        )
        x = x + o(block_attention(qk[:, : config.n_heads].contiguous(), room[0], room[1], bias))
        x = x + down(swiglu(gate_up(rms_norm(x, layer.mlp_norm, config.rms_eps))))
    x = rms_norm(x[-n:], weights.norm, config.rms_eps)
    return torch.cat([tile(x) for tile in products[4 * len(weights.layers) :]], 1)


@torch.inference_mode()
def arithmetic(tokens: Tokens) -> None:
    """Time of a pass' linear layers (the vocabulary among them up to 32 rows), and what each costs in accuracy."""
    paths = store.ready(EMBEDDED, "float32") or store.ensure(EMBEDDED, "float32")
    config, weights = read_checkpoint(paths.weights, torch.device("cpu"))
    whole = matrices(weights)
    n_tiles = -(-config.vocab // TILE)
    generator = torch.Generator().manual_seed(0)
    inputs = {n: {k: torch.randn(n, k, generator=generator) for k in {w.shape[1] for w in whole}} for n in ROWS}
    rows: list[list[object]] = []
    wanted: list[Tensor] = []
    for name, prepare in CANDIDATES.items():
        products = [prepare(weight) for weight in whole]
        row: list[object] = [name]
        for n in ROWS:
            used = list(zip(products, whole, strict=True))[: None if n <= 32 else -n_tiles]

            def work(used: list[tuple[Product, Tensor]] = used, x: dict[int, Tensor] = inputs[n]) -> None:
                for product, weight in used:
                    product(x[weight.shape[1]])

            row.append(f"{median_ms(work, REPEATS if n <= 32 else 2):.0f}")
        loss, same, n_targets = 0.0, 0, 0
        for index, (prefix, middle, suffix) in enumerate(holes(N_MIDDLES)):
            targets = tokens.encode(middle)
            ids = [*prompt(tokens, Request(prefix, suffix)).ids, *targets[:-1]]
            found = logits(config, weights, products, ids, len(targets))
            loss += float(torch.nn.functional.cross_entropy(found, torch.tensor(targets), reduction="sum"))
            if len(wanted) <= index:
                wanted.append(found.argmax(1))
            same += int((found.argmax(1) == wanted[index]).sum())
            n_targets += len(targets)
        rows.append([*row, f"{loss / n_targets:.4f}", f"{100 * same / n_targets:.1f}%"])
    torch.backends.quantized.engine = "fbgemm"
    head = ("linear layers", *(f"{n} rows, ms" for n in ROWS), "nats per token", "agrees with fp32")
    table(head, rows)


# --- a peer: the same published file under llama.cpp ----------------------------------------------------------------


def peer(python: str, gguf: Path) -> None:
    try:
        with LlamaCpp(python, gguf, threads=n_cores(), n_ctx=1536) as found:
            measured = found.passes("".join(itertools.chain(*texts())))
    except FailureError as error:
        print(f"\n{error}")
        return
    table(("llama-cpp-python, the published q4_k_m file", "measured"), list(measured.items()))


def main() -> None:
    parts = ("passes", "policies", "arithmetic", "peer")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=parts, default=parts)
    parser.add_argument("--peer", default=sys.executable, help="an interpreter that has llama-cpp-python")
    parser.add_argument("--gguf", type=Path, help="the published file, for the peer (default: the one in the cache)")
    args = parser.parse_args()
    warnings.filterwarnings("ignore", "torch.quantize_per_tensor", UserWarning)
    began = time.perf_counter()
    model = load(device="cpu")
    loading = time.perf_counter() - began
    assert isinstance(model, LocalInfiller)
    load_average = f", load average {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    print(f"{n_cores()} threads, torch {torch.__version__}, {torch.backends.cpu.get_cpu_capability()}{load_average}")
    if "passes" in args.only:
        passes(model, loading)
    if "policies" in args.only:
        policies(model)
    if "arithmetic" in args.only:
        arithmetic(model.denoiser.tokens)
    if "peer" in args.only:
        peer(args.peer, args.gguf or store.folder(EMBEDDED) / store.published(EMBEDDED).file)
    print(f"\n{time.perf_counter() - began:.0f} s in all")


if __name__ == "__main__":
    main()
