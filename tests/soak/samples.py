"""What a server process holds while it works: memory, open handles, threads, seen from outside.

It knows nothing about what is asked of the server.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil


@dataclass(frozen=True, slots=True)
class Sample:
    """done: requests or keys so far. memory: resident, bytes. handles: open file descriptors."""

    done: int
    seconds: float
    memory: int
    handles: int
    threads: int

    def line(self) -> str:
        return (
            f"{self.seconds:7.0f} s {self.done:9,} done {self.memory / 2**20:8.1f} MiB "
            f"{self.handles:4} handles {self.threads:4} threads"
        )


def sample(process: psutil.Process, done: int, seconds: float) -> Sample:
    """The process as it is now."""
    handles = process.num_handles() if psutil.WINDOWS else process.num_fds()
    return Sample(done, seconds, process.memory_info().rss, handles, process.num_threads())


def keep(taken: Sample, file: Path | None) -> None:
    """Prints it, and adds it to a file of JSON lines."""
    print(taken.line(), flush=True)
    if file is not None:
        with file.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(asdict(taken)) + "\n")


def summary(samples: Sequence[Sample], n_warm: int) -> str:
    """The first after the warm-up against the last and the most; n_warm: samples that belong to the warm-up."""
    if len(samples) < n_warm + 2:
        return "too short to say anything"
    steady = samples[n_warm:]
    first, last = steady[0], steady[-1]
    most = max(s.memory for s in steady)
    growth = 100 * (last.memory / first.memory - 1)
    return (
        f"{last.done:,} in {last.seconds:,.0f} s. Memory {first.memory / 2**20:.1f} MiB after the warm-up "
        f"({first.done:,}), {last.memory / 2**20:.1f} MiB at the end ({growth:+.1f}%), {most / 2**20:.1f} MiB at most; "
        f"handles {first.handles} and {last.handles}; threads {first.threads} and {last.threads}"
    )
