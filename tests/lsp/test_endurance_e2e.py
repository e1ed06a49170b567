"""Thousands of mixed requests to one server process: its memory stays, and it rests when nothing is asked."""

import asyncio
import random

import psutil
import pytest
from lsprotocol import types
from pygls.exceptions import JsonRpcException

from tests.lsp.editor import SECONDS, Editor, editing

AT_ONCE = {"inline": {"debounceMs": 0}, "context": {"index": False}}
TEXT = "def total(items, rate):\n    result = ‸\n    return result\n" + "# filler\n" * 200
N_FILES = 8
STATUS = types.ExecuteCommandParams("mercury.status")


def uri(number: int) -> str:
    return f"file:///project/file_{number}.py"


async def request(editor: Editor, choice: random.Random, number: int) -> None:
    """One request of the kinds that editors send, in proportions that are typical for typing."""
    kind = choice.choices(("key", "cancel", "actions", "reopen", "status", "next"), (60, 8, 15, 5, 7, 5))[0]
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


async def send(editor: Editor, n: int, warm_up: int) -> tuple[int, int]:
    """Sends `n` requests; the resident memory (bytes) after the first `warm_up` and in the end."""
    assert editor.client._server is not None
    process = psutil.Process(editor.client._server.pid)
    choice, first = random.Random(6), 0
    editor.open(TEXT, uri=uri(0))
    for number in range(n):
        if number == warm_up:
            first = process.memory_info().rss
        await request(editor, choice, number)
        if number % 200 == 199:  # the fake remembers what it was asked; the server must not
            await editor.test("forget")
    return first, process.memory_info().rss


def processor_seconds(editor: Editor) -> float:
    assert editor.client._server is not None
    times = psutil.Process(editor.client._server.pid).cpu_times()
    return times.user + times.system


async def endure(n: int, warm_up: int, growth: float) -> None:
    async with editing(options=AT_ONCE, FAKE_TEXT="rate * sum(items)") as editor:
        first, last = await send(editor, n, warm_up)
        assert last <= first * (1 + growth), f"{first / 2**20:.1f} MiB became {last / 2**20:.1f} MiB"
        assert editor.messages == []
        await asyncio.sleep(0.5)
        before = processor_seconds(editor)
        await asyncio.sleep(1)
        assert processor_seconds(editor) - before <= 0.02  # two ticks of the clock


@pytest.mark.timeout(300)
async def test_I5_I4_memory_stays_over_hundreds_of_mixed_requests_and_then_it_rests() -> None:
    await endure(500, 200, growth=0.1)


@pytest.mark.slow
@pytest.mark.timeout(3000)
async def test_I5_memory_stays_within_five_percent_over_ten_thousand_mixed_requests() -> None:
    await endure(10_000, 1_000, growth=0.05)
