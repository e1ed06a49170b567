"""Many clients at once at a real server process: `python -m tests.api.load`.

Sends the same fill-in-the-middle requests one after another and all at once, to servers that run 1, 4, 8... of them at
a time, and prints p95, throughput, what was lost and how many texts are those of a request alone. `--fake` asks a
server with a scripted model 1,000 requests at once. No test: figures depend on the machine; see docs/log.md.
"""

import argparse
import asyncio
import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

import httpx

from mercury_lsp.cli.api import listen
from tests.api.serving import app_of
from tests.fakes import FakeInfiller

URL = "/v1/fim/completions"


@dataclass(frozen=True, slots=True)
class Measured:
    """seconds: of each request that was answered, and of all together. texts: None for one that was lost."""

    each: list[float]
    total: float
    texts: list[str | None]

    def row(self, name: str, alone: "Measured | None") -> str:
        p50, p95 = (sorted(self.each)[int(q * len(self.each))] if self.each else 0.0 for q in (0.5, 0.95))
        equal = "" if alone is None else f"{sum(a == b for a, b in zip(self.texts, alone.texts, strict=True))}"
        lost = self.texts.count(None)
        return f"| {name} | {len(self.texts) / self.total:.2f} | {p50:.2f} | {p95:.2f} | {lost} | {equal} |"


def middle(i: int) -> dict[str, object]:
    """A request that no other one shares a cache with."""
    prompt = f"def add_{i}(a, b):\n    return a + {i}\n\n\ndef scale_{i}(values, factor):\n    return"
    return {"model": "mercury", "prompt": prompt, "suffix": "\n", "max_tokens": 24, "reasoning_effort": "low"}


async def measured(url: str, n_requests: int, n_at_once: int) -> Measured:
    """n_requests, at most n_at_once of them at a time."""
    gate = asyncio.Semaphore(n_at_once)
    each: list[float] = []
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(base_url=url, timeout=1200, limits=limits) as client:

        async def one(i: int) -> str | None:
            async with gate:
                began = time.monotonic()
                try:
                    response = await client.post(URL, json=middle(i))
                    response.raise_for_status()
                except httpx.HTTPError as error:
                    print(f"request {i}: {error!r}", file=sys.stderr)
                    return None
                each.append(time.monotonic() - began)
                return response.json()["choices"][0]["text"]

        await client.post(URL, json=middle(-1))  # the model is loaded and warm
        began = time.monotonic()
        texts = await asyncio.gather(*(one(i) for i in range(n_requests)))
    return Measured(each, time.monotonic() - began, list(texts))


@contextlib.contextmanager
def server(*command: str) -> Iterator[str]:
    """A server process; it ends with the block."""
    with subprocess.Popen([sys.executable, "-m", *command], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert "http://" in line, f"the server said {line!r}"
            yield "http://" + line.split("http://")[1].split()[0]
        finally:
            process.terminate()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=32)
    parser.add_argument("--parallel", type=int, nargs="+", default=[1, 8], help="--parallel of the servers asked")
    parser.add_argument("--fake", action="store_true", help="1,000 at once, of a scripted model")
    parser.add_argument("--serve-fake", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve_fake:
        return serve_fake()
    print("| server | requests/s | p50 s | p95 s | lost | texts as alone |\n|---|---|---|---|---|---|")
    if args.fake:
        with server("tests.api.load", "--serve-fake") as url:
            print(asyncio.run(measured(url, 1000, 1000)).row("fake, 1,000 at once", None))
        return 0
    alone: Measured | None = None
    for n in [0, *args.parallel]:  # a server of its own for each, so that none finds another's caches
        with server("mercury_lsp", "api", "--port", "0", "--parallel", str(n or 1)) as url:
            found = asyncio.run(measured(url, args.requests, args.requests if n else 1))
            name = f"{args.requests} at once, --parallel {n}" if n else "one after another"
            print(found.row(name, alone), flush=True)
            alone = alone or found
    return 0


def serve_fake() -> int:
    import uvicorn

    with listen("127.0.0.1", 0) as listening:
        print(f"http://127.0.0.1:{listening.getsockname()[1]}", flush=True)
        app = app_of(FakeInfiller(lambda request: f"{request.prefix[:8]} answered"))
        uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False)).run(sockets=[listening])
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
