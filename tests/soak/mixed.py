"""Requests in the proportions that are typical for typing, to a server with a scripted model."""

import asyncio
import random
import time
from collections.abc import Callable

import psutil
from lsprotocol import types
from pygls.exceptions import JsonRpcException

from tests.lsp.editor import SECONDS, Editor
from tests.soak.samples import Sample, sample

OPTIONS = {"inline": {"debounceMs": 0}, "context": {"index": False}}
TEXT = "def total(items, rate):\n    result = ‸\n    return result\n" + "# filler\n" * 200
N_FILES = 8
STATUS = types.ExecuteCommandParams("mercury.status")
KINDS = {"key": 60, "cancel": 8, "actions": 15, "reopen": 5, "status": 7, "next": 5}
FORGET_EVERY = 200  # the fake remembers what it was asked; the server must not


def uri(number: int) -> str:
    return f"file:///project/file_{number}.py"


def server_of(editor: Editor) -> psutil.Process:
    assert editor.client._server is not None
    return psutil.Process(editor.client._server.pid)


async def request(editor: Editor, choice: random.Random, number: int) -> None:
    """One request and its answer."""
    kind = choice.choices(list(KINDS), list(KINDS.values()))[0]
    if kind == "key":
        if len(editor.text) > len(TEXT) + 200:
            editor.replace(editor.cursor - 150, editor.cursor, "")
        editor.type(choice.choice(("a", " + ", "(1)", "\n    ", "x1")))
        await editor.ask(invoked=choice.random() < 0.2)
    elif kind == "cancel":
        editor.type("b")
        asked = editor.ask(msg_id=f"cancelled-{number}")
        editor.cancel(f"cancelled-{number}")
        await asyncio.wait([asked], timeout=SECONDS)
        assert asked.done()
        assert asked.exception() is None or isinstance(asked.exception(), JsonRpcException)
    elif kind == "actions":
        place = types.Range(start=editor.position(editor.cursor - 5), end=editor.position())
        diagnostic = types.Diagnostic(range=place, message=f"name {number} is not defined")
        identifier = types.TextDocumentIdentifier(uri=editor.uri)
        params = types.CodeActionParams(identifier, place, types.CodeActionContext(diagnostics=[diagnostic]))
        await asyncio.wait_for(editor.client.text_document_code_action_async(params), SECONDS)
    elif kind == "reopen":
        identifier = types.TextDocumentIdentifier(uri=editor.uri)
        editor.client.text_document_did_close(types.DidCloseTextDocumentParams(identifier))
        editor.open(TEXT, uri=uri(choice.randrange(N_FILES)))
    else:
        place = editor.position()
        where = {"position": {"line": place.line, "character": place.character}, "textDocument": {"uri": editor.uri}}
        method, params = ("mercury/nextEdit", where) if kind == "next" else ("workspace/executeCommand", STATUS)
        await asyncio.wait_for(editor.client.protocol.send_request_async(method, params), SECONDS)


async def send(editor: Editor, n: int, every: int, took: Callable[[Sample], object], seed: int = 6) -> None:
    """Sends `n` requests; `took` gets a sample after each `every` of them."""
    process, choice, begin = server_of(editor), random.Random(seed), time.monotonic()
    editor.open(TEXT, uri=uri(0))
    for number in range(1, n + 1):
        await request(editor, choice, number)
        if number % FORGET_EVERY == 0:
            await editor.test("forget")
            editor.statuses.clear()
        if number % every == 0:
            took(sample(process, number, time.monotonic() - begin))
