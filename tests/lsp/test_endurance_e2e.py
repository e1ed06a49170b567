"""A long life of one server process: memory, handles and threads stay, and it rests when nothing is asked."""

import asyncio

import psutil
import pytest

from tests.lsp.editor import editing
from tests.soak.mixed import OPTIONS, send, server_of
from tests.soak.samples import Sample

MOST_THREADS = 40
"""32 workers of the event loop on a large machine, the model, the input, the watchdog."""


def processor_seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system


async def endure(n: int, warm_up: int, growth: float) -> None:
    samples: list[Sample] = []
    async with editing(options=OPTIONS, FAKE_TEXT="rate * sum(items)") as editor:
        await send(editor, n, warm_up, samples.append)
        first, last = samples[0], samples[-1]
        assert last.memory <= first.memory * (1 + growth), f"{first.line()} became {last.line()}"
        assert last.handles <= first.handles, f"{first.line()} became {last.line()}"
        # the workers that parse are made as they are needed, up to a fixed number
        assert max(s.threads for s in samples) <= MOST_THREADS, [s.line() for s in samples]
        assert editor.messages == []
        process = server_of(editor)
        await asyncio.sleep(0.5)
        before = processor_seconds(process)
        await asyncio.sleep(1)
        assert processor_seconds(process) - before <= 0.02  # two ticks of the clock


@pytest.mark.timeout(300)
async def test_I5_I4_nothing_grows_over_hundreds_of_mixed_requests_and_then_it_rests() -> None:
    await endure(600, 200, growth=0.1)


@pytest.mark.slow
@pytest.mark.timeout(3000)
async def test_I5_memory_stays_within_five_percent_over_ten_thousand_mixed_requests() -> None:
    await endure(10_000, 1_000, growth=0.05)
