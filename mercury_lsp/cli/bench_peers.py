"""`mercury-lsp bench peers`: this project beside llama.cpp and one-at-a-time decoding, as a page with plots.

Parts: quality (needs --data), typing, context, server, memory. With --resume FOLDER what was measured is kept there,
and a run that was interrupted goes on. The page and its plots are written when everything is measured.
"""

import argparse
import asyncio
import contextlib
import dataclasses
import functools
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from mercury_lsp import loading
from mercury_lsp.cli.progress import Report, progress
from mercury_lsp.errors import FailureError, UsageError
from mercury_lsp.evaluation import humaneval, peers, peers_machine, peers_report
from mercury_lsp.evaluation.humaneval import Decoding
from mercury_lsp.evaluation.llama_cpp_peer import LlamaCpp
from mercury_lsp.evaluation.peers import Contestant, Timed
from mercury_lsp.evaluation.peers_kept import Kept
from mercury_lsp.evaluation.peers_report import EFFORTS, GREEDY, OURS, PEER, Found
from mercury_lsp.evaluation.typing_replay import replay
from mercury_lsp.evaluation.typing_traces import Trace, padded, traces
from mercury_lsp.settings import ModelSettings, Settings
from mercury_lsp.text import Document
from mercury_model.draft import Infiller

PARTS = ("memory", "quality", "typing", "context", "server")
DATA = {
    "single-line": "HumanEval-SingleLineInfilling.jsonl.gz",
    "multi-line": "HumanEval-MultiLineInfilling.jsonl.gz",
    "random-span": "HumanEval-RandomSpanInfillingLight.jsonl.gz",
}
DECODINGS = {
    **{f"check, {effort}": Decoding("check", effort) for effort in EFFORTS},
    "threshold, medium": Decoding("threshold", "medium"),
    GREEDY: Decoding(humaneval.GREEDY_POLICY),
}
LINES = (1_000, 10_000, 100_000)
LINE = 40
"""Characters in a line of code, about."""
PROCESSES = 3
PEER_CONTEXT = 4096
"""Room for the longest task and its answer."""
OWN_SOURCE = Path(__file__).parents[1]


def add_arguments(parser: argparse.ArgumentParser, positive: Callable[[str], int]) -> None:
    parser.add_argument("--data", type=Path, metavar="FOLDER", help=f"where {', '.join(DATA.values())} are")
    parser.add_argument("--limit", type=positive, default=20, metavar="N", help="tasks of each (default: 20)")
    parser.add_argument("--seed", type=int, default=0, help="what chooses tasks, keys and places (default: 0)")
    parser.add_argument("--peer", default=sys.executable, metavar="PYTHON", help="an interpreter with llama-cpp-python")
    parser.add_argument("--gguf", type=Path, metavar="FILE", help="what the peer loads (default: the one in the cache)")
    parser.add_argument("--device", default="cpu", help="where ours runs (default: cpu, as the peer does)")
    parser.add_argument("--threads", type=positive, metavar="N", help="of ours and of the peer (default: all cores)")
    parser.add_argument("--context", type=positive, metavar="TOKENS", help="default: what the device reads in a second")
    parser.add_argument("--keys", type=positive, default=200, metavar="N", help="keys that are typed (default: 200)")
    parser.add_argument("--every", type=positive, default=5, metavar="K", help="every K-th is answered (default: 5)")
    parser.add_argument("--places", type=positive, default=9, metavar="N", help="of each size of context (default: 9)")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--resume", type=Path, metavar="FOLDER", help="keep what is measured, and take what is there")
    parser.add_argument("--out", type=Path, default=Path("docs/benchmarks.md"), help="default: %(default)s")


def run(args: argparse.Namespace, model_free: Sequence[str], hurry: float) -> int:
    """Exit status. model_free: the server's command without a model; hurry: how much faster than a person it types."""
    if not args.out.absolute().parent.is_dir():
        raise UsageError(f"there is no folder {args.out.parent} for the page: make it, or name another with --out")
    if "quality" in args.only and args.data is None:
        others = " ".join(part for part in PARTS if part != "quality")
        raise UsageError(f"the part quality needs --data FOLDER (HumanEval-Infilling); --only {others} leaves it out")
    with contextlib.ExitStack() as stack, progress() as report:
        bench = _Bench(args, Kept(args.resume), stack, report)
        found = Found(seed=args.seed)
        measures = {
            "memory": bench.memory,
            "quality": bench.quality,
            "typing": bench.typing,
            "context": bench.context,
            "server": functools.partial(bench.server, model_free=model_free, hurry=hurry),
        }
        for part in PARTS:
            if part in args.only:
                measures[part](found)
            else:
                found.notes.append(f"Not measured: {part}.")
        if bench.no_peer:
            found.notes.append(f"Not measured: llama-cpp-python ({bench.no_peer}).")
    images = args.out.parent / "images"
    images.mkdir(exist_ok=True)
    for name, (_, drawing) in peers_report.plots(found).items():
        (images / name).write_text(drawing, encoding="utf-8")
    args.out.write_text(peers_report.page(found, images.name), encoding="utf-8")
    print(args.out)
    return 0


class _Bench:
    """The parts, each measured into a Found. Model and peer are loaded when a part first needs them."""

    def __init__(self, args: argparse.Namespace, kept: Kept, stack: contextlib.ExitStack, report: Report) -> None:
        self._args, self._kept, self._stack, self._report = args, kept, stack, report
        self._model = Settings().model.name
        self._gguf, self.no_peer = _gguf(args.gguf, self._model)
        self._peer_name = ""

    def memory(self, found: Found) -> None:
        prefix, suffix = peers.WARM_UP.prefix, peers.WARM_UP.suffix

        def measure() -> dict[str, list[int]]:
            held: dict[str, list[int]] = {OURS: [], PEER: []}
            for n in range(PROCESSES):
                self._report("memory of processes", n / PROCESSES)
                held[OURS].append(peers_machine.ours_resident(self._model, self._args.device, prefix, suffix))
                with contextlib.ExitStack() as stack:
                    if peer := self._started(stack, peers_report.MEMORY_CONTEXT):
                        for _ in peer(peers.WARM_UP):
                            pass
                        held[PEER].append(peers_machine.peak_resident(peer.pid))
            return {name: sizes for name, sizes in held.items() if sizes}

        found.memory, found.machines["memory"] = self._part("memory", {}, measure)

    def quality(self, found: Found) -> None:
        args = self._args
        sets = {
            name: humaneval.choose(humaneval.load_tasks(args.data / file), args.limit, args.seed)
            for name, file in DATA.items()
        }
        contestants = self._contestants(list(DECODINGS))
        known, n_new = self._kept.rows, 0

        def keep(row: humaneval.Row) -> None:
            nonlocal n_new
            n_new += 1
            self._kept.keep(row)

        for name, tasks in sets.items():

            def report(message: str, fraction: float, name: str = name) -> None:
                self._report(f"{message}, {name}", fraction)

            found.quality[name] = peers.quality(tasks, contestants, known, keep, report)
        # without new rows the machine is the one that was noted with them
        options = {"rows": len(known) + n_new}
        _, found.machines["quality"] = self._kept.part("quality", options, lambda: None, self._machine)

    def typing(self, found: Found) -> None:
        args = self._args
        typed = list(self._traces())

        def measure() -> list[dict[str, Any]]:
            contestants = self._contestants([OURS, GREEDY])
            context = self._context_tokens(contestants[0].infiller)
            return _plain(peers.per_key(contestants, typed, args.every, context, self._report))

        values, found.machines["typing"] = self._part("typing", {"keys": args.keys, "every": args.every}, measure)
        found.typing = [Timed(**value) for value in values]

    def context(self, found: Found) -> None:
        args = self._args
        text = "\n".join(path.read_text(encoding="utf-8") for path in sorted(OWN_SOURCE.glob("*.py")))
        document = Document("context", 1, "python", text)

        def measure() -> list[dict[str, Any]]:
            contestants = self._contestants([OURS, GREEDY])
            sizes = peers.contexts(self._context_tokens(contestants[0].infiller))
            return _plain(peers.by_context(contestants, document, sizes, args.places, args.seed, self._report))

        values, found.machines["context"] = self._part("context", {"places": args.places}, measure)
        found.context = [Timed(**value) for value in values]

    def server(self, found: Found, model_free: Sequence[str], hurry: float) -> None:
        typed = list(self._traces())

        def measure() -> dict[str, list[float]]:
            times: dict[str, list[float]] = {}
            for n, lines in enumerate(LINES):
                self._report("the server without a model", n / len(LINES))
                long = [padded(trace, lines * LINE) for trace in typed]
                options = {"inline": {"debounceMs": 0}}
                times[str(lines)] = asyncio.run(replay(model_free, long, options, hurry)).seconds
            return times

        times, found.machines["server"] = self._part("server", {"keys": self._args.keys}, measure)
        found.server = {int(lines): seconds for lines, seconds in times.items()}

    def _part(self, name: str, options: dict[str, Any], measure: Callable[[], Any]) -> tuple[Any, str]:
        names = ("seed", "context", "device", "threads", "peer")
        asked = {name: getattr(self._args, name) for name in names}
        asked["gguf"] = str(self._gguf)
        return self._kept.part(name, {**options, **asked}, measure, self._machine)

    def _traces(self) -> Sequence[Trace]:
        return list(traces(sorted(OWN_SOURCE.glob("*.py")), self._args.keys, self._args.seed))

    def _context_tokens(self, infiller: Infiller) -> int:
        return self._args.context or infiller.info.context_tokens

    def _contestants(self, names: Sequence[str]) -> list[Contestant]:
        """Ours, and the peer behind them if it is there; all of them warm."""
        contestants = [Contestant(name, self._ours, DECODINGS[name]) for name in names]
        if self._peer is not None:
            contestants.append(Contestant(PEER, self._peer, Decoding(humaneval.GREEDY_POLICY)))
        peers.warm_up(contestants)
        return contestants

    @functools.cached_property
    def _ours(self) -> Infiller:
        settings = dataclasses.replace(Settings(), model=ModelSettings(name=self._model, device=self._args.device))
        infiller = loading.load_infiller(settings, self._report)
        if self._args.threads:
            import torch

            torch.set_num_threads(self._args.threads)
        return infiller

    @functools.cached_property
    def _peer(self) -> LlamaCpp | None:
        return self._started(self._stack, max(PEER_CONTEXT, self._context_tokens(self._ours) + 1024))

    def _started(self, stack: contextlib.ExitStack, n_ctx: int) -> LlamaCpp | None:
        """The peer in a new process that ends with the stack; None, and no_peer says why, if it cannot be had."""
        if self._gguf is None or self.no_peer:
            return None
        from mercury_model.local import n_cores  # not at the top: it imports torch

        threads = self._args.threads or n_cores()
        try:
            peer = stack.enter_context(LlamaCpp(self._args.peer, self._gguf, threads=threads, n_ctx=n_ctx))
        except FailureError as error:
            self.no_peer = f"{error}; install the extra mercury-lsp[peers], or name an interpreter with --peer"
            print(f"llama-cpp-python is left out: {self.no_peer}", file=sys.stderr)
            return None
        self._peer_name = peer.info.name
        return peer

    def _machine(self) -> str:
        names = [self._peer_name] if self._peer_name else []
        if self._args.threads:
            names.append(f"{self._args.threads} threads each")
        if "_ours" in self.__dict__:  # loaded
            names = [f"{humaneval.model_name(self._ours)} on {self._args.device}", *names]
        return peers_machine.machine(names)


def _plain(values: Sequence[Timed]) -> list[dict[str, Any]]:
    return [dataclasses.asdict(value) for value in values]


def _gguf(named: Path | None, model: str) -> tuple[Path | None, str]:
    """The published file, or why there is none."""
    from mercury_model import store  # not at the top: it imports torch

    path = named or store.folder(model) / store.published(model).file
    if path.is_file():
        return path, ""
    if named is not None:
        raise UsageError(f"there is no file {named}; give --gguf {store.published(model).file}")
    return None, f"{path.name} is not in the cache: give --gguf FILE"
