"""The server's end of the index: starts the worker process, tells it what changed, asks it.

Nothing here blocks but `lookup`, which gives up after its timeout; a worker that died is an index that knows nothing.
It knows nothing about what is indexed or how.
"""

import contextlib
import itertools
import json
import logging
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, cast

from mercury_lsp.workspace.index import Declaration, Limits, Query

logger = logging.getLogger(__name__)

COMMAND = (sys.executable, "-P", "-m", "mercury_lsp.workspace.index_worker")
"""-P: the current folder is the user's project, whose modules must not be imported."""
LOOKUP_SECONDS = 0.25
HEAD_CHARS = 50_000
"""Characters of a file sent along with a question: its imports stand there."""


@dataclass(frozen=True, slots=True)
class IndexRoot:
    """A folder to index, with the user's globs for it."""

    path: Path
    ignore: tuple[str, ...] = ()
    gitignore: bool = True


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the index is. done: nothing is left to do at the moment."""

    files: int = 0
    symbols: int = 0
    done: bool = False


class IndexProcess:
    """One worker process, started by the first `open`. May be used from any thread.

    listen: told the progress; late: called when an answer came after its `lookup` gave up, as asking again is worth
    while then. Both in a thread of its own.
    """

    def __init__(
        self,
        listen: Callable[[Progress], None] | None = None,
        command: Sequence[str] = COMMAND,
        late: Callable[[], None] | None = None,
    ) -> None:
        self._listen = listen
        self._late = late
        self._command = command
        self._process: subprocess.Popen[str] | None = None
        self._messages: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self._ids = itertools.count()
        self._asked: dict[int, Future[list[dict[str, Any]]]] = {}
        self.progress = Progress()

    @property
    def pid(self) -> int | None:
        """The worker's, while it runs."""
        alive = self._process is not None and self._process.poll() is None
        return self._process.pid if self._process is not None and alive else None

    def open(self, roots: Sequence[IndexRoot], limits: Limits) -> None:
        """Indexes these folders anew; none: nothing, and no process is started for it."""
        if not roots and self._process is None:
            return
        if self._process is None:
            self._start()
        self.progress = Progress()
        self._send(
            {
                "do": "open",
                "roots": [{**asdict(root), "path": str(root.path)} for root in roots],
                **asdict(limits),
            }
        )

    def changed(self, paths: Iterable[str | Path]) -> None:
        """These files or folders may be new, changed or gone."""
        self._send({"do": "changed", "paths": [str(path) for path in paths]})

    def lookup(self, query: Query, timeout: float = LOOKUP_SECONDS) -> tuple[Declaration, ...]:
        """See SymbolTable.lookup; nothing when there is no index or it does not answer in time (seconds)."""
        if self.pid is None:
            return ()
        number, answer = next(self._ids), Future[list[dict[str, Any]]]()
        self._asked[number] = answer
        self._send({"do": "lookup", "id": number, "query": asdict(replace(query, text=query.text[:HEAD_CHARS]))})
        try:
            return tuple(Declaration(**found) for found in answer.result(timeout))
        except FutureTimeout:
            return ()
        finally:
            self._asked.pop(number, None)

    def close(self) -> None:
        """Ends the worker."""
        process, self._process = self._process, None
        if process is None:
            return
        self._messages.put(None)
        process.terminate()
        for answer in list(self._asked.values()):
            _resolve(answer, [])

    def _send(self, message: dict[str, Any]) -> None:
        if self._process is not None:
            self._messages.put(message)

    def _start(self) -> None:
        package = str(Path(__file__).parents[2])
        path = os.pathsep.join(filter(None, (package, os.environ.get("PYTHONPATH", ""))))
        try:
            process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                encoding="ascii",
                env={**os.environ, "PYTHONPATH": path},
                creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
            )
        except OSError as error:
            logger.warning("the index cannot be started (%s); completions go without it", type(error).__name__)
            return
        self._process, self._messages = process, queue.SimpleQueue()
        threading.Thread(target=self._write, args=(process,), name="mercury-index-in", daemon=True).start()
        threading.Thread(target=self._read, args=(process,), name="mercury-index-out", daemon=True).start()

    def _write(self, process: "subprocess.Popen[str]") -> None:
        stream, messages = process.stdin, self._messages
        assert stream is not None
        with contextlib.suppress(OSError):  # the reader tells
            while (message := messages.get()) is not None:
                stream.write(json.dumps(message) + "\n")
                stream.flush()
        with contextlib.suppress(OSError):
            stream.close()

    def _read(self, process: "subprocess.Popen[str]") -> None:
        stream = process.stdout
        assert stream is not None
        with stream:
            for line in stream:
                message = cast("dict[str, Any]", json.loads(line))
                if "id" in message:
                    answer = self._asked.get(message["id"])
                    if answer is not None:
                        _resolve(answer, message["found"])
                    elif self._late is not None:
                        self._late()
                else:
                    self.progress = Progress(**message)
                    if self._listen is not None:
                        self._listen(self.progress)
        process.wait()
        if self._process is process:
            logger.warning("the index process ended by itself; completions go without it")
            for answer in list(self._asked.values()):
                _resolve(answer, [])


def _resolve(answer: "Future[list[dict[str, Any]]]", found: list[dict[str, Any]]) -> None:
    if not answer.done():
        answer.set_result(found)
