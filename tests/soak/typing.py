"""Somebody types pieces of this project's own files, in real time, into a server with the real model."""

import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import psutil

from mercury_lsp.cli.bench import OWN_SOURCE, SERVER
from mercury_lsp.evaluation.typing_replay import Measured, replay
from mercury_lsp.evaluation.typing_traces import Trace, traces
from tests.soak.samples import Sample, sample

KEYS = 200  # of the traces of one seed


async def type_for(seconds: float, seed: int, every: float, took: Callable[[Sample], object]) -> Measured:
    """Types trace after trace until so many seconds are over; `took` gets a sample about each `every` seconds."""
    return await replay(SERVER, _until(seconds, seed, every, took), {})


def _until(seconds: float, seed: int, every: float, took: Callable[[Sample], object]) -> Iterator[Trace]:
    files: list[Path] = sorted(OWN_SOURCE.rglob("*.py"))
    files = [file for file in files if file.stat().st_size]
    begin, n_keys, due = time.monotonic(), 0, 0.0
    server = _server()
    for number in count(seed):
        for trace in traces(files, KEYS, number):
            now = time.monotonic() - begin
            if now >= due:
                took(sample(server, n_keys, now))
                due = now + every
            if now >= seconds:
                return
            n_keys += len(trace.target)
            yield trace


def _server() -> psutil.Process:
    """The only child that serves."""
    (found,) = (child for child in psutil.Process().children() if "serve" in child.cmdline())
    return found
