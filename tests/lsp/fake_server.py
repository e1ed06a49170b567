"""The real server over stdio with a scripted model: `python -m tests.lsp.fake_server`.

Environment: FAKE_TEXT (what the model writes), FAKE_PER_STEP (tokens a pass), FAKE_LOAD_GATE (loading waits until this
file exists), FAKE_LOAD_ERROR (loading fails so often), FAKE_PRINT (the model prints to stdout), FAKE_GATED (every
pass waits for `test/allow`).

Requests of the tests: `test/counters`, `test/forget` (the requests), `test/script {text, gated}`,
`test/allow {passes}`, `test/wait {runs, drafts}` which answers when so many runs
began and so many drafts were taken in by the server, and `test/state` (what the server holds: documents, notebooks,
runs of each document so far and at once).
"""

import asyncio
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mercury_lsp.cli.serve import configure_logging
from mercury_lsp.engine import Report
from mercury_lsp.server import MercuryServer, build_server, serve_stdio
from mercury_lsp.settings import Settings
from mercury_model.draft import Draft, Infiller, Request
from mercury_model.errors import FetchError
from tests.fakes import FakeInfiller


class ScriptedInfiller(FakeInfiller):
    """A fake whose passes wait for permits while it is gated; an answer "!" is an error instead."""

    def __init__(self) -> None:
        super().__init__(os.environ.get("FAKE_TEXT", "1 + 2"), per_step=int(os.environ.get("FAKE_PER_STEP", "4")))
        self.gated = "FAKE_GATED" in os.environ
        self.permits = self.begun = self.drafts = 0
        self.changed = threading.Condition()
        self.runs_of: Counter[str] = Counter()
        self.under_way: Counter[str] = Counter()
        self.most_at_once = 0

    def __call__(self, request: Request, /) -> Iterator[Draft]:
        with self.changed:
            self.runs_of[request.document] += 1
            self.under_way[request.document] += 1
            self.most_at_once = max(self.most_at_once, self.under_way[request.document])
        try:
            yield from self._gated_drafts(request)
        finally:
            with self.changed:
                self.under_way[request.document] -= 1
                self.changed.notify_all()

    def _gated_drafts(self, request: Request) -> Iterator[Draft]:
        if self.script == "!":
            raise ValueError(f"cannot continue {request.prefix}")
        drafts = super().__call__(request)
        with self.changed:  # super() counts the run only when its first pass begins
            self.begun += 1
        while True:
            with self.changed:
                self.changed.notify_all()
                self.changed.wait_for(lambda: not self.gated or self.permits > 0)
                self.permits -= 1 if self.gated else 0
            if "FAKE_PRINT" in os.environ:
                print("a stray print")
                os.write(1, b"and one that goes around Python\n")
            try:
                yield next(drafts)
            except StopIteration:
                return
            with self.changed:
                self.drafts += 1


INFILLER = ScriptedInfiller()
LOADS: list[float] = []


def load(_: Settings, report: Report) -> Infiller:
    LOADS.append(time.monotonic())
    gate = os.environ.get("FAKE_LOAD_GATE")
    report("reading the weights", 0.25)
    while gate and not Path(gate).exists():
        time.sleep(0.02)
    if len(LOADS) <= int(os.environ.get("FAKE_LOAD_ERROR", "0")):
        raise FetchError("No weights here: run `mercury-lsp model pull`.")
    report("warming up", 0.75)
    return INFILLER


def received(request: Request) -> dict[str, Any]:
    """Everything the model was given, as text."""
    return {
        "prefix": request.prefix,
        "suffix": request.suffix,
        "path": request.path,
        "context": [{"path": snippet.path, "text": snippet.text} for snippet in request.context],
        "instruction": request.instruction,
        "guess": request.guess,
        "original": request.original or "",
    }


def counters(_: Any) -> dict[str, Any]:
    return {
        "runs": INFILLER.begun,
        "passes": INFILLER.passes,
        "loads": len(LOADS),
        "torch": "torch" in sys.modules,
        "prefixes": [request.prefix for request in INFILLER.requests],
        "requests": [received(request) for request in INFILLER.requests],
    }


def forget(_: Any) -> None:
    INFILLER.requests.clear()


def state(server: MercuryServer) -> dict[str, Any]:
    """under_way: documents with a run that has begun and not ended. busy: whether settings are still asked for."""
    session = server.session
    with INFILLER.changed:
        return {
            "documents": {d.uri: {"text": d.text, "version": d.version} for d in session.documents.all()},
            "notebooks": session.notebooks,
            "runs_of": dict(INFILLER.runs_of),
            "under_way": [document for document, n in INFILLER.under_way.items() if n],
            "most_at_once": INFILLER.most_at_once,
            "busy": bool(session.tasks),
        }


def script(params: Any) -> None:
    with INFILLER.changed:
        INFILLER.script = params.text
        INFILLER.gated, INFILLER.permits = params.gated, 0
        INFILLER.changed.notify_all()


def allow(params: Any) -> None:
    with INFILLER.changed:
        INFILLER.permits += params.passes
        INFILLER.changed.notify_all()


async def wait(params: Any) -> dict[str, Any]:
    runs, drafts = params.runs, getattr(params, "drafts", 0)

    def until() -> None:
        with INFILLER.changed:
            INFILLER.changed.wait_for(lambda: INFILLER.begun >= runs and INFILLER.drafts >= drafts, timeout=30)

    await asyncio.to_thread(until)
    return counters(params)


async def indexed(server: MercuryServer) -> dict[str, Any]:
    """Answers when the index has nothing left to do."""
    folders = server.session.folders
    async with asyncio.timeout(30):
        while not folders.index.progress.done:
            await asyncio.sleep(0.02)
    return {"pid": folders.index.pid, "files": folders.index.progress.files}


def main() -> int:
    configure_logging("info")
    server = build_server(load)
    server.feature("test/counters")(counters)
    server.feature("test/forget")(forget)
    server.feature("test/script")(script)
    server.feature("test/allow")(allow)
    server.feature("test/wait")(wait)
    server.feature("test/state")(lambda _: state(server))

    @server.feature("test/indexed")
    async def _(_: Any) -> dict[str, Any]:
        return await indexed(server)

    return serve_stdio(server)


if __name__ == "__main__":
    sys.exit(main())
