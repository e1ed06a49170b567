"""`mercury-lsp bench typing`: replays typing through a real server process and measures its answers.

`mercury-lsp bench peers` measures this project beside others (see bench_peers.py).

Pieces of real files are typed in real time, with pauses, corrections and acceptances. Figures go to standard output:
the time from a key to its answer (ms), how many suggestions needed no run of the model, runs per 100 keys, and the
server's own time, without a model, in a file of 1,000 lines and in one of 2 MB.
"""

import argparse
import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from rich.console import Console

from mercury_lsp.cli import bench_peers
from mercury_lsp.errors import UsageError
from mercury_lsp.evaluation.report import table
from mercury_lsp.evaluation.typing_replay import milliseconds, replay
from mercury_lsp.evaluation.typing_traces import padded, traces

SERVER = (sys.executable, "-m", "mercury_lsp", "serve", "--stdio")
MODEL_FREE = (sys.executable, "-m", "mercury_lsp.cli.model_free")
SIZES = {"1000_lines": 40_000, "2_mb": 2_000_000}
"""Characters of the files in which the server's own time is measured; lines of code have about 40."""
HURRY = 4.0
"""How much faster than a person's are the keys by which the server's own time is measured; it is idle between them."""
OWN_SOURCE = Path(__file__).parents[1]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    kinds = parser.add_subparsers(dest="kind", required=True, metavar="WHAT")
    typing = kinds.add_parser("typing", help="key to answer, reuse, and the server's own time")
    typing.add_argument("files", nargs="*", type=Path, metavar="FILE", help="what is typed (default: own source files)")
    typing.add_argument("--keys", type=_positive, default=400, metavar="N", help="about how many (default: 400)")
    typing.add_argument("--seed", type=int, default=0, help="what the typing starts from (default: 0)")
    typing.add_argument("--speed", type=float, default=1.0, metavar="X", help="type X times as fast (default: 1)")
    typing.add_argument("--fake", action="store_true", help="without a model: what the server alone costs")
    typing.add_argument("--model", metavar="NAME", help="which model (default: the one of the settings)")
    typing.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    beside = kinds.add_parser("peers", help="beside llama.cpp and one-at-a-time decoding, as a page with plots")
    bench_peers.add_arguments(beside, _positive)


def run(args: argparse.Namespace) -> int:
    """Exit status. Raises MercuryError for bad input and failures."""
    if args.kind == "peers":
        return bench_peers.run(args, MODEL_FREE, HURRY)
    if not args.speed > 0:
        raise UsageError(f"--speed {args.speed:g} is not above 0")
    figures = asyncio.run(_measure(args))
    if args.json:
        print(json.dumps(figures))
    else:
        Console().print(table("Typing", {figures["model"]: figures}))
    return 0


async def _measure(args: argparse.Namespace) -> dict[str, Any]:
    files = args.files or sorted(OWN_SOURCE.glob("*.py"))
    command = MODEL_FREE if args.fake else SERVER
    options: dict[str, Any] = {"model": {"name": args.model}} if args.model else {}
    measured = await replay(command, traces(files, args.keys, args.seed), options, args.speed)
    figures = {"seed": args.seed, **measured.figures()}
    at_once = {"inline": {"debounceMs": 0}}
    typed = list(traces(files, args.keys, args.seed + 1))
    own: dict[str, dict[str, float]] = {}
    for name, size in SIZES.items():
        alone = await replay(MODEL_FREE, [padded(trace, size) for trace in typed], at_once, HURRY * args.speed)
        own[name] = milliseconds(alone.seconds)
    return {**figures, "server_ms": own}


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not at least 1")
    return value
