"""Tokens per second of one sequence: `check` and `threshold` against one token at a time, in one run; prints a table.

    python model/tokens_per_second.py                    the embedded model on whatever device there is
    python model/tokens_per_second.py --json FILE        the figures as JSON besides
    python model/tokens_per_second.py --random           weights of its sizes drawn at random: what passes cost

The same kernels serve all three policies, once as steps in static buffers (`graph`: captured on a GPU, uncaptured on a
CPU) and once the ordinary way. Every run writes the same number of tokens behind the same contexts; copies from the
context are off and no token ends a text. With random weights a draft is never right, so only times mean something.
It asserts nothing: kernels/gpu_check.sh compares what it finds with what is wanted.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

# as mercury_model.load has it; read when torch is loaded
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import torch

from mercury_kernels import Dense, tiles
from mercury_model import Request, load
from mercury_model.adapter import MASK_ID, load_adapter
from mercury_model.config import Config
from mercury_model.denoiser import BlockDenoiser
from mercury_model.filling import Run, drive, fill
from mercury_model.graph import Steps
from mercury_model.merging import merged
from mercury_model.prompt import Prompt, prompt
from mercury_model.tokens import Tokens
from mercury_model.transformer import Layer, Transformer, Weights

HELDOUT = Path(__file__).parents[1] / "tests" / "data" / "heldout"
ADAPTER = Path(__file__).parent / "mercury_model" / "adapter.safetensors"
POLICIES = ("greedy", "check", "threshold")
PATHS = ("graph", "ordinary")
SIZES = Config(24, 896, 4864, 14, 2, 64, 151_936, 1e6, 1e-6, 32_768)
"""The embedded model's."""


class Endless(Tokens):
    """Tokens of which none ends a text; without a tokenizer each shows as one letter."""

    def __init__(self, tokens: Tokens | None) -> None:
        self._tokens = tokens

    def is_special(self, token: int) -> bool:
        return False

    def decode(self, ids: Sequence[int]) -> str:
        return "x" * len(ids) if self._tokens is None else self._tokens.decode(ids)


@dataclass(frozen=True)
class Spent:
    """One run: seconds behind the prefill, passes, and the tokens written."""

    seconds: float
    forwards: float
    out: list[int]


def write(denoiser: BlockDenoiser, context: Sequence[int], policy: str, n_tokens: int) -> Spent:
    request = Request("", "", policy=policy, max_tokens=n_tokens, copies=False)
    run = Run(denoiser, request, denoiser.new_session(), Prompt(list(context), ""))
    last = list(drive(run, fill(run)))[-1]
    return Spent(last.ms["decode"] / 1000, last.forwards, run.out)


def compare(
    transformer: Transformer,
    tokens: Tokens | None,
    contexts: Sequence[Sequence[int]],
    n_tokens: int,
    *,
    mask_id: int,
    block_size: int,
    repeats: int,
    paths: Sequence[str] = PATHS,
) -> list[dict[str, object]]:
    """A row per path and policy: medians over contexts and repeats, taken in turns so that all see the same machine.

    The ordinary way is run once per context. same_as_greedy: share of contexts whose tokens are the same as greedy's.
    """
    steps = Steps(transformer, len(contexts[0]) + n_tokens + block_size)
    found: dict[tuple[str, str], list[Spent]] = {(path, policy): [] for path in paths for policy in POLICIES}
    for turn in range(repeats + 1):
        for context in contexts if turn else contexts[:1]:  # the first turn compiles, captures and warms up
            for (path, policy), runs in found.items():
                if path == "ordinary" and turn > 1:
                    continue
                denoiser = BlockDenoiser(
                    transformer,
                    Endless(tokens),
                    mask_id=mask_id,
                    block_size=block_size,
                    steps=steps if path == "graph" else None,
                )
                spent = write(denoiser, context, policy, n_tokens)
                if turn:
                    runs.append(spent)
    rows: list[dict[str, object]] = []
    for (path, policy), runs in found.items():
        speed = statistics.median(n_tokens / run.seconds for run in runs)
        greedy = found[path, "greedy"]
        base = statistics.median(n_tokens / run.seconds for run in greedy)
        n_forwards = sum(run.forwards for run in runs)
        rows.append(
            {
                "path": path,
                "policy": policy,
                "tokens_per_s": speed,
                "times_greedy": speed / base,
                "tokens_per_forward": n_tokens * len(runs) / n_forwards,
                "ms_per_forward": 1000 * sum(run.seconds for run in runs) / n_forwards,
                "same_as_greedy": sum(a.out == b.out for a, b in zip(runs, greedy, strict=True)) / len(runs),
            }
        )
    return rows


def at_random(config: Config, device: torch.device, dtype: torch.dtype) -> Transformer:
    """Weights of the embedded model's sizes; the adapter is the real one."""
    generator = torch.Generator(device).manual_seed(0)

    def matrix(n_out: int, n_in: int, bias: bool = False) -> Dense:
        weight = torch.randn(n_out, n_in, generator=generator, device=device) / n_in**0.5
        return Dense(weight.to(dtype), torch.zeros(n_out, dtype=dtype, device=device) if bias else None)

    h, f = config.hidden, config.intermediate
    q, kv = config.n_heads * config.head_dim, config.n_kv_heads * config.head_dim
    one = torch.ones(h, dtype=dtype, device=device)
    layers = tuple(
        Layer(one, matrix(q + 2 * kv, h, bias=True), matrix(h, q), one, matrix(2 * f, h), matrix(h, f))
        for _ in range(config.n_layers)
    )
    vocabulary = matrix(config.vocab, h)
    weights = Weights(vocabulary.weight, layers, one, tiles(vocabulary))
    model = Transformer(config, weights, load_adapter(ADAPTER, config.n_layers, h, dtype, device))
    if dtype != torch.float32:  # as the real ones are loaded
        model.drafting = merged(model)
        model.adapter = None
    return model


def contexts_of(tokens: Tokens, length: int, n: int) -> list[list[int]]:
    """n stretches of held-out code, each with what stands before a prefix: `length` tokens in all."""
    sources = sorted(path for path in HELDOUT.iterdir() if path.suffix != ".json")
    ids = tokens.encode("".join(path.read_text(encoding="utf-8") for path in sources))
    head = prompt(tokens, Request("", "")).ids
    room = length - len(head)
    if len(ids) < room + n:
        raise SystemExit(f"the held-out code has {len(ids)} tokens: ask for --context of at most {len(ids) - n}")
    step = (len(ids) - room) // n
    return [[*head, *ids[i * step : i * step + room]] for i in range(n)]


def text(rows: Sequence[dict[str, object]]) -> str:
    lines = ["| " + " | ".join(rows[0]) + " |", "|" + "---|" * len(rows[0])]
    for row in rows:
        cells = [f"{cell:.2f}" if isinstance(cell, float) else str(cell) for cell in row.values()]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    parser.add_argument("--random", action="store_true", help="random weights: no download, only times mean something")
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda (default: %(default)s)")
    parser.add_argument("--new", type=int, default=128, help="tokens to write (default: %(default)s)")
    parser.add_argument("--context", type=int, default=512, help="tokens before them (default: %(default)s)")
    parser.add_argument("--contexts", type=int, default=6, help="places in held-out code (default: %(default)s)")
    parser.add_argument("--repeats", type=int, default=3, help="runs of each with the graph (default: %(default)s)")
    parser.add_argument("--paths", nargs="+", choices=PATHS, default=PATHS, help="(default: both)")
    chosen = parser.parse_args(arguments)
    warnings.filterwarnings("ignore", "torch.quantize_per_tensor", UserWarning)
    began = time.perf_counter()
    if chosen.random:
        gpu = chosen.device != "cpu" and torch.cuda.is_available()
        device, dtype = torch.device("cuda:0" if gpu else "cpu"), torch.bfloat16 if gpu else torch.float32
        transformer, tokens, block_size = at_random(SIZES, device, dtype), None, 8
        generator = torch.Generator().manual_seed(1)
        drawn = torch.randint(0, 150_000, (chosen.contexts, chosen.context), generator=generator)
        contexts: list[list[int]] = drawn.tolist()
    else:
        model = load(device=chosen.device)
        denoiser = getattr(model, "denoiser", None)
        assert isinstance(denoiser, BlockDenoiser)
        transformer, tokens, block_size = denoiser.transformer, denoiser.tokens, denoiser.block_size
        contexts = contexts_of(tokens, chosen.context, chosen.contexts)
    rows = compare(
        transformer,
        tokens,
        contexts,
        chosen.new,
        mask_id=MASK_ID,
        block_size=block_size,
        repeats=chosen.repeats,
        paths=chosen.paths,
    )
    on_gpu = transformer.device.type == "cuda"
    report = {
        "device": torch.cuda.get_device_name() if on_gpu else f"cpu, {torch.get_num_threads()} threads",
        "torch": torch.__version__,
        "dtype": str(transformer.dtype).removeprefix("torch."),
        "weights": "random" if chosen.random else "embedded",
        "context": chosen.context,
        "new": chosen.new,
        "seconds": round(time.perf_counter() - began, 1),
        "rows": rows,
    }
    print({key: value for key, value in report.items() if key != "rows"})
    print(text(rows))
    if chosen.json is not None:
        chosen.json.write_text(json.dumps(report), encoding="utf-8")


if __name__ == "__main__":
    main()
