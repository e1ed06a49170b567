"""The protocol as a state machine: a client that does anything, in any order, to one real server with a fake model.

What must hold after every step: the server lives; each document it holds is the one that the client has; no document
ever has two runs of the model at once; no request is answered twice; no handler has failed. And: every request is
answered in the end, one that was cancelled before its run began with an error, and the model is never asked for it.
A server process serves many machines, one after another; `Server.steps` counts what was done to all of them.
"""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.fuzz import messages
from tests.lsp.code_units import Units
from tests.lsp.editor import SECONDS
from tests.lsp.raw_client import RawClient, RefusedError, ServerDiedError, frame, framed

HOLD = "file:///fuzz/hold.py"
HOSTILE = "file:///fuzz/hostile.py"
NAMES = {
    "file:///fuzz/a.py": "file:///fuzz/%61.py",
    "file:///fuzz/%C3%BC%20b.rs": "file:///fuzz/ü b.rs",
    "file:///C%3A/fuzz/c.ts": "file:///c:/fuzz/c.ts",
    "untitled:Untitled-1": "untitled:Untitled-1",
    "file:///fuzz/../fuzz/.env": "file:///fuzz/../fuzz/.env",
}
"""Of every document that is opened another spelling of its URI."""
NOTEBOOKS = ("file:///fuzz/n.ipynb", "untitled:Notebook-1")
CELLS = "vscode-notebook-cell:/fuzz/n.ipynb#"
CANCELLED = -32800


class Server:
    """The processes under test, one for each unit of positions."""

    steps: ClassVar[int] = 0
    running: ClassVar[dict[str, "Server"]] = {}

    def __init__(self, encoding: str) -> None:
        self.folder = tempfile.TemporaryDirectory(prefix="mercury-fuzz-")
        self.client = RawClient(Path(self.folder.name) / "log", FAKE_TEXT="1 + f(2)\n", FAKE_PER_STEP="3")
        options = {"mercury": messages.PLAIN_SETTINGS}
        self.client.configuration = messages.PLAIN_SETTINGS
        told = self.client.greet(encodings=[encoding], initializationOptions=options)
        assert told["positionEncoding"] == encoding
        self.clean = True
        """Whether nothing is left of the machine before, which may have failed anywhere."""

    @classmethod
    def of(cls, encoding: str) -> "Server":
        """The process of a unit, a new one where something has happened to the last."""
        known = cls.running.get(encoding)
        if known is not None and not known.clean:
            known.client.close()
            known = None
        known = cls.running[encoding] = known or cls(encoding)
        known.clean = False
        return known

    @classmethod
    def close(cls) -> None:
        for server in cls.running.values():
            server.client.close()
            server.folder.cleanup()
        cls.running.clear()


class Protocol(RuleBasedStateMachine):
    """See the module."""

    def __init__(self) -> None:
        super().__init__()
        self.documents: dict[str, Units] = {}
        self.versions: dict[str, int] = {}
        self.notebooks: dict[str, list[str]] = {}
        self.pending: list[int] = []
        self.gated = False
        self.n_cells = 0

    @initialize(encoding=st.sampled_from(("utf-8", "utf-16", "utf-32")))
    def connect(self, encoding: str) -> None:
        self.encoding, self.server = encoding, Server.of(encoding)
        self.client = self.server.client

    def teardown(self) -> None:
        if not hasattr(self, "client"):
            return
        self.open_gate()
        self.settle()
        for uri in self.client.call("test/state")["notebooks"]:
            self.tell("notebookDocument/didClose", {"notebookDocument": {"uri": uri}, "cellTextDocuments": []})
        for uri in self.client.call("test/state")["documents"]:
            self.tell("textDocument/didClose", {"textDocument": {"uri": uri}})
        self.client.call("test/forget")
        self.client.call("workspace/executeCommand", {"command": "mercury.resume"})
        self.configure(messages.PLAIN_SETTINGS)
        self.client.notes.clear()
        state = self.state_when(lambda state: not state["busy"])
        assert not state["documents"], state["documents"]
        assert not state["notebooks"], state["notebooks"]
        self.client.answers.clear()
        self.server.clean = True

    # --- documents --------------------------------------------------------------------------------------------

    @rule(uri=st.sampled_from(sorted(NAMES)), text=messages.TEXTS, language=messages.LANGUAGES)
    def open(self, uri: str, text: str, language: str) -> None:
        self.put(uri, text)
        item = {"uri": uri, "languageId": language, "version": 1, "text": text}
        self.tell("textDocument/didOpen", {"textDocument": item})

    @rule(uri=st.sampled_from(sorted(NAMES)), changes=messages.CHANGES, other=st.booleans())
    def change(self, uri: str, changes: list[dict[str, Any]], other: bool) -> None:
        name = NAMES[uri] if other and uri in self.documents else uri
        self.tell("textDocument/didChange", {"textDocument": self.identify(uri, name), "contentChanges": changes})
        self.changed(uri, changes)

    @precondition(lambda self: self.documents)
    @rule(data=st.data(), key=st.sampled_from(("a", "(", "\n", "😀", "x = ")))
    def type(self, data: st.DataObject, key: str) -> None:
        """What a user does most: one key at a place that exists, and a question."""
        uri = data.draw(st.sampled_from(sorted(self.documents)))
        position = self.end(uri)
        change = {"range": {"start": position, "end": position}, "text": key}
        self.changed(uri, [change])
        self.tell("textDocument/didChange", {"textDocument": self.identify(uri, uri), "contentChanges": [change]})
        self.ask(*messages.inline(uri, self.end(uri)))

    @rule(uri=st.sampled_from(sorted(NAMES)))
    def close(self, uri: str) -> None:
        self.documents.pop(uri, None)
        self.tell("textDocument/didClose", {"textDocument": {"uri": uri}})

    @rule(uri=st.sampled_from(sorted(NAMES)))
    def save(self, uri: str) -> None:
        self.tell("textDocument/didSave", {"textDocument": {"uri": uri}})

    @precondition(lambda self: self.documents)
    @rule(data=st.data())
    def rename(self, data: st.DataObject) -> None:
        old = data.draw(st.sampled_from(sorted(self.documents)))
        new = data.draw(st.sampled_from(sorted(NAMES)))
        text = self.documents.pop(old).text()
        self.tell("textDocument/didClose", {"textDocument": {"uri": old}})
        events = [{"uri": old, "type": 3}, {"uri": new, "type": 1}]
        self.tell("workspace/didChangeWatchedFiles", {"changes": events})
        self.open(new, text, "python")

    # --- notebooks --------------------------------------------------------------------------------------------

    @rule(uri=st.sampled_from(NOTEBOOKS), texts=st.lists(messages.TEXTS, max_size=3))
    def open_notebook(self, uri: str, texts: list[str]) -> None:
        for cell in self.notebooks.get(uri, []):
            self.documents.pop(cell, None)
        cells, items = self.cells(texts)
        self.notebooks[uri] = [cell["document"] for cell in cells]
        notebook = {"uri": uri, "notebookType": "jupyter-notebook", "version": 1, "cells": cells}
        self.tell("notebookDocument/didOpen", {"notebookDocument": notebook, "cellTextDocuments": items})

    @precondition(lambda self: self.notebooks)
    @rule(data=st.data(), texts=st.lists(messages.TEXTS, max_size=2))
    def splice_cells(self, data: st.DataObject, texts: list[str]) -> None:
        uri = data.draw(st.sampled_from(sorted(self.notebooks)))
        known = self.notebooks[uri]
        start = data.draw(st.integers(0, len(known)))
        n_gone = data.draw(st.integers(0, len(known) - start))
        gone = known[start : start + n_gone]
        for cell in gone:
            self.documents.pop(cell, None)
        cells, items = self.cells(texts)
        known[start : start + n_gone] = [cell["document"] for cell in cells]
        structure = {
            "array": {"start": start, "deleteCount": n_gone, "cells": cells},
            "didOpen": items,
            "didClose": [{"uri": cell} for cell in gone],
        }
        self.change_notebook(uri, {"structure": structure})

    @precondition(lambda self: any(self.notebooks.values()))
    @rule(data=st.data(), changes=messages.CHANGES)
    def change_cell(self, data: st.DataObject, changes: list[dict[str, Any]]) -> None:
        uri = data.draw(st.sampled_from(sorted(u for u, cells in self.notebooks.items() if cells)))
        cell = data.draw(st.sampled_from(self.notebooks[uri]))
        content = {"document": self.identify(cell, cell), "changes": changes}
        self.change_notebook(uri, {"textContent": [content]})
        self.changed(cell, changes)
        self.ask(*messages.inline(cell, self.end(cell)))

    @precondition(lambda self: self.notebooks)
    @rule(data=st.data())
    def close_notebook(self, data: st.DataObject) -> None:
        uri = data.draw(st.sampled_from(sorted(self.notebooks)))
        for cell in self.notebooks.pop(uri):
            self.documents.pop(cell, None)
        self.tell("notebookDocument/didClose", {"notebookDocument": {"uri": uri}, "cellTextDocuments": []})

    # --- requests ---------------------------------------------------------------------------------------------

    @rule(kind=st.sampled_from(messages.REQUESTS), uri=st.sampled_from(sorted(NAMES)), position=messages.POSITIONS)
    def request(self, kind: Any, uri: str, position: dict[str, int]) -> None:
        self.ask(*kind(uri, position))

    @rule(name=st.sampled_from(messages.COMMANDS), uri=st.sampled_from(sorted(NAMES)), position=messages.POSITIONS)
    def execute(self, name: str, uri: str, position: dict[str, int]) -> None:
        self.ask(*messages.command(uri, position, name))

    @precondition(lambda self: not self.gated)
    @rule(uri=st.sampled_from(sorted(NAMES)), position=messages.POSITIONS)
    def act(self, uri: str, position: dict[str, int]) -> None:
        """Code actions, and what comes of the first."""
        found = self.client.call(*messages.actions(uri, position))
        if found and uri not in self.documents:
            raise AssertionError("actions for a document that is not open")
        if found:
            self.ask("codeAction/resolve", found[0])

    @precondition(lambda self: self.pending)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        self.tell("$/cancelRequest", {"id": data.draw(st.sampled_from(self.pending))})

    @rule(uri=st.sampled_from(sorted(NAMES)), kind=st.sampled_from(messages.REQUESTS))
    def ask_and_cancel_at_once(self, uri: str, kind: Any) -> None:
        self.ask(*kind(uri, {"line": 0, "character": 3}))
        self.tell("$/cancelRequest", {"id": self.pending[-1]})

    @precondition(lambda self: not self.gated)
    @rule(n=st.integers(0, 10**9))
    def cancel_before_it_begins(self, n: int) -> None:
        """One run holds the model; a request that waits behind it is cancelled: an error, and never a run."""
        self.settle()
        self.configure(messages.PLAIN_SETTINGS)
        # what was answered before its run ended still has a pass to make
        self.state_when(lambda state: not state["busy"] and not state["under_way"])
        self.client.call("workspace/executeCommand", {"command": "mercury.resume"})
        self.hold()
        waits = f"file:///fuzz/waits{n}.py"
        for uri in (HOLD, waits):
            item = {"uri": uri, "languageId": "python", "version": 1, "text": f"x{n} = "}
            self.tell("textDocument/didOpen", {"textDocument": item})
        end = {"line": 0, "character": 1000}
        holding = self.client.request(*messages.inline(HOLD, end))
        self.state_when(lambda state: any(HOLD in document for document in state["under_way"]))
        cancelled = self.client.request(*messages.inline(waits, end))
        state = self.client.call("test/state")
        assert waits not in state["runs_of"]
        assert cancelled not in self.client.answers
        self.tell("$/cancelRequest", {"id": cancelled})
        try:
            raise AssertionError(f"{self.client.result(cancelled)} for a request that was cancelled before it began")
        except RefusedError as error:
            assert error.code == CANCELLED, error
        self.open_gate()
        self.client.result(holding)
        for uri in (HOLD, waits):
            self.tell("textDocument/didClose", {"textDocument": {"uri": uri}})
        assert waits not in self.client.call("test/state")["runs_of"]

    @precondition(lambda self: not self.gated)
    @rule()
    def hold(self) -> None:
        """The model waits at its next pass."""
        self.gated = True
        self.client.call("test/script", {"text": "1 + f(2)\n", "gated": True})

    @precondition(lambda self: self.gated)
    @rule()
    def one_pass(self) -> None:
        self.client.call("test/allow", {"passes": 1})

    @precondition(lambda self: self.gated)
    @rule()
    def open_gate(self) -> None:
        self.gated = False
        self.client.call("test/script", {"text": "1 + f(2)\n", "gated": False})

    @precondition(lambda self: not self.gated)
    @rule()
    def settle(self) -> None:
        """Every request has its answer, an error or a result."""
        for message_id in self.pending:
            try:
                self.client.result(message_id)
            except RefusedError as error:
                assert error.code < 0, error
        self.pending.clear()

    # --- settings, and what no client should send -------------------------------------------------------------

    @rule(settings=messages.SETTINGS)
    def configure(self, settings: Any) -> None:
        self.client.configuration = settings
        self.tell("workspace/didChangeConfiguration", {"settings": None})

    @rule(settings=messages.JSON)
    def configure_nonsense(self, settings: Any) -> None:
        self.client.configuration = {**messages.PLAIN_SETTINGS, "files": settings, "canvas": settings, "odd": settings}
        self.tell("workspace/didChangeConfiguration", {"settings": settings})

    @rule(message=messages.spoiled(HOSTILE), asks=st.booleans())
    def send_spoiled(self, message: tuple[str, Any], asks: bool) -> None:
        method, params = message
        if asks:
            self.ask(method, params)
        else:
            self.tell(method, params)
        self.mend_hostile()

    @rule(method=st.sampled_from(messages.METHODS), params=messages.JSON, asks=st.booleans())
    def send_nonsense(self, method: str, params: Any, asks: bool) -> None:
        if method == "initialize" or not asks:
            self.tell(method, params)
        else:
            self.ask(method, params)
        self.mend_hostile()

    @rule(message_id=messages.IDS, method=st.sampled_from(messages.METHODS[:10]))
    def send_an_odd_id(self, message_id: Any, method: str) -> None:
        self.tell(method, {"textDocument": {"uri": HOSTILE}}, message_id=message_id)

    @rule(body=st.sampled_from(messages.BODIES), header=st.sampled_from(messages.HEADERS))
    def send_a_broken_frame(self, body: bytes, header: bytes) -> None:
        self.client.write(header + framed(body))

    # --- what must hold ---------------------------------------------------------------------------------------

    @invariant()
    def the_server_holds_what_the_client_has(self) -> None:
        if not hasattr(self, "client"):
            return
        Server.steps += 1
        state = self.client.call("test/state")
        ours = {uri: document["text"] for uri, document in state["documents"].items() if self.is_ours(uri)}
        held = {uri: Units.of(text, self.encoding).data for uri, text in ours.items()}
        kept = {uri: units.data for uri, units in self.documents.items()}
        assert held == kept, f"the server holds {held}, the client {kept}"
        cells = {uri: cells for uri, cells in state["notebooks"].items() if uri in NOTEBOOKS}
        assert cells == self.notebooks, f"the server holds {cells}, the client {self.notebooks}"
        assert state["most_at_once"] <= 1, state
        assert not self.client.twice, self.client.twice[0]
        assert not (faults := self.client.faults()), faults[0]

    # --- helpers ----------------------------------------------------------------------------------------------

    def tell(self, method: str, params: Any, **identified: Any) -> None:
        if "message_id" in identified:
            self.client.write(frame({"id": identified["message_id"], "method": method, "params": params}))
        else:
            self.client.notify(method, params)

    def ask(self, method: str, params: Any) -> None:
        self.pending.append(self.client.request(method, params))

    def is_ours(self, uri: str) -> bool:
        """Whether a document is the client's: what a spoiled message has opened has any name."""
        return uri in NAMES or uri.startswith(CELLS)

    def put(self, uri: str, text: str) -> None:
        self.documents[uri] = Units.of(text, self.encoding)
        self.versions[uri] = 1

    def identify(self, uri: str, name: str) -> dict[str, Any]:
        self.versions[uri] = self.versions.get(uri, 0) + 1
        return {"uri": name, "version": self.versions[uri]}

    def changed(self, uri: str, changes: list[dict[str, Any]]) -> None:
        for change in changes:
            if "range" not in change:
                self.documents[uri] = Units.of(change["text"], self.encoding)
            elif uri in self.documents:
                start, end = change["range"]["start"], change["range"]["end"]
                units = self.documents[uri]
                ends = units.index(start["line"], start["character"]), units.index(end["line"], end["character"])
                units.data[min(ends) : max(ends)] = Units.of(change["text"], self.encoding).data

    def end(self, uri: str) -> dict[str, int]:
        """The last place of a document; past the end of its line is the end of its line."""
        return {"line": messages.LARGEST, "character": 0}

    def cells(self, texts: list[str]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        cells, items = list[dict[str, Any]](), list[dict[str, Any]]()
        for text in texts:
            self.n_cells += 1
            uri = f"{CELLS}{self.n_cells}"
            self.put(uri, text)
            cells.append({"kind": 2, "document": uri})
            items.append({"uri": uri, "languageId": "python", "version": 1, "text": text})
        return cells, items

    def change_notebook(self, uri: str, cells: dict[str, Any]) -> None:
        params = {"notebookDocument": {"uri": uri, "version": 2}, "change": {"cells": cells}}
        self.tell("notebookDocument/didChange", params)

    def mend_hostile(self) -> None:
        """Whatever came of it: what no client should send may have changed the settings, and nothing else."""
        self.configure(messages.PLAIN_SETTINGS)

    def state_when(self, condition: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The state of the server as soon as something holds."""
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            if condition(state := self.client.call("test/state")):
                return state
        raise ServerDiedError(f"the server stays as it is: {state}")
