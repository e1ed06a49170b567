"""The process that indexes a workspace, apart from the server so that no answer waits for it:
`python -P -m mercury_lsp.workspace.index_worker`, one JSON object a line on stdin and stdout.

in:  {"do": "open", "roots": [{"path", "ignore", "gitignore"}], "max_files", "max_file_bytes"}   begins anew
     {"do": "changed", "paths": [...]}    files or folders that may be new, changed or gone
     {"do": "lookup", "id", "query"}      see index.Query
out: {"id", "found": [...]}               see index.Declaration
     {"files", "symbols", "done"}         now and then while it indexes, and when it is done

A question is answered between two files. It runs at low priority, sleeps when there is nothing to do, and leaves when
its stdin ends, which happens however the server ends. It knows nothing about editors or documents.
"""

import contextlib
import json
import os
import queue
import sys
import threading
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import psutil

from mercury_lsp.workspace.ignore import Ignore
from mercury_lsp.workspace.index import Limits, Query, SymbolTable, index_file, skipped, walk

REPORT_EVERY = 500
"""Files between two reports."""

Message = dict[str, Any]


class Worker:
    """The index and what is still to be done for it. Any order of messages is fine."""

    def __init__(self) -> None:
        self.table = SymbolTable()
        self._roots: dict[Path, Ignore] = {}
        self._limits = Limits()
        self._scan: Iterator[tuple[Path, Path]] | None = None
        self._changed: dict[Path, None] = {}
        self._since_report = 0

    @property
    def busy(self) -> bool:
        return self._scan is not None or bool(self._changed)

    def take(self, message: Message) -> Message | None:
        """Takes a message in; the answer to a lookup."""
        match message.get("do"):
            case "open":
                self.table = SymbolTable()
                self._limits = Limits(message["max_files"], message["max_file_bytes"])
                self._roots = {
                    Path(root["path"]): Ignore([root["path"]], root["ignore"], gitignore=root["gitignore"])
                    for root in message["roots"]
                }
                self._changed.clear()
                self._scan = self._files()
            case "changed":
                for ignore in self._roots.values():
                    ignore.refresh()
                self._changed.update((Path(path), None) for path in message["paths"])
            case "lookup":
                query = message["query"]
                names = tuple((str(name), float(weight)) for name, weight in query.pop("names"))
                hidden = (int(query["hidden"][0]), int(query.pop("hidden")[1]))
                found = self.table.lookup(Query(**query, names=names, hidden=hidden))
                return {"id": message["id"], "found": [asdict(declaration) for declaration in found]}
            case _:
                pass
        return None

    def step(self) -> Message | None:
        """Does the next piece of work, one file; a report now and then."""
        if self._changed:
            path = next(iter(self._changed))
            del self._changed[path]
            self._update(path)
        elif self._scan is not None:
            found = next(self._scan, None)
            if found is None:
                self._scan = None
            else:
                root, path = found
                index_file(self.table, root, path, self._roots[root], self._limits, walked=True)
        self._since_report += 1
        if self.busy and self._since_report < REPORT_EVERY:
            return None
        self._since_report = 0
        return {"files": self.table.n_files, "symbols": self.table.n_symbols, "done": not self.busy}

    def _files(self) -> Iterator[tuple[Path, Path]]:
        for root, ignore in self._roots.items():
            for path in walk(root, ignore, self._limits):
                if self._owner(path) == root:  # a root inside another one has rules of its own
                    yield root, path

    def _owner(self, path: Path) -> Path | None:
        return max(
            (root for root in self._roots if path.is_relative_to(root)),
            key=lambda root: len(root.parts),
            default=None,
        )

    def _update(self, path: Path) -> None:
        root = self._owner(path)
        if root is None or root == path:
            return
        if path.is_dir() and not path.is_symlink():
            if not skipped(path.relative_to(root) / "x"):
                self._changed.update((found, None) for found in walk(path, self._roots[root], self._limits))
        else:
            index_file(self.table, root, path, self._roots[root], self._limits)


def main() -> int:
    _be_modest()
    messages: queue.SimpleQueue[Message] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(messages,), daemon=True).start()
    worker, out = Worker(), sys.stdout
    while True:
        message: Message | None = None
        with contextlib.suppress(queue.Empty):
            message = messages.get(block=not worker.busy)
        answer = worker.take(message) if message is not None else worker.step()
        if answer is not None:
            try:
                out.write(json.dumps(answer) + "\n")
                out.flush()
            except OSError:
                return 0  # the server is gone


def _read(messages: "queue.SimpleQueue[Message]") -> None:
    for line in sys.stdin:
        messages.put(json.loads(line))
    os._exit(0)


def _be_modest() -> None:
    """Low priority for processor and disk, where the system has such a thing."""
    process = psutil.Process()
    with contextlib.suppress(Exception):
        process.nice(psutil.BELOW_NORMAL_PRIORITY_CLASS if sys.platform == "win32" else 10)
    with contextlib.suppress(Exception):
        process.ionice(psutil.IOPRIO_CLASS_IDLE)


if __name__ == "__main__":
    sys.exit(main())
