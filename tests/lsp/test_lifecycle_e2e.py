"""The life of a real server process: start, loading, documents that behave oddly, and every way to end."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
from lsprotocol import types

from tests.lsp.editor import ROOT, SECONDS, SERVER, URI, editing, server_env
from tests.lsp.raw_client import frame, hello


def test_importing_the_server_does_not_import_torch() -> None:
    code = "import sys, mercury_lsp.server; sys.exit('torch' in sys.modules or 'transformers' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], env=server_env(), cwd=ROOT).returncode == 0


async def test_I8_initialize_is_answered_while_the_model_still_loads(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    async with editing(FAKE_LOAD_GATE=str(gate), FAKE_TEXT="1 + 2") as editor:
        assert editor.capabilities.inline_completion_provider is not None  # the answer is here, the gate is shut
        await editor.status(busy=True, message="reading the weights", kind="Normal")
        editor.open("x = ‸\n")
        request = editor.ask()
        reports = editor.client.progress_reports
        async with asyncio.timeout(SECONDS):
            while not reports.get("mercury-loading-1"):
                await asyncio.sleep(0.01)
        gate.touch()
        (item,) = await request
        assert item.insert_text == "1 + 2"
        (begin, *_, end) = reports["mercury-loading-1"]
        assert isinstance(begin, types.WorkDoneProgressBegin)
        assert begin.percentage in (0, 25)
        assert isinstance(end, types.WorkDoneProgressEnd)
        assert (await editor.status(busy=False, model="fake")).device == "cpu"


async def test_a_failed_loading_is_told_once_and_the_server_goes_on() -> None:
    async with editing(FAKE_LOAD_ERROR="100", FAKE_TEXT="1 + 2") as editor:
        editor.open("x = ‸\n")
        for _ in range(3):
            assert await editor.ask() == []
        status = await editor.status(kind="Error")
        assert status.message == "No weights here: run `mercury-lsp model pull`."
        assert editor.messages == [status.message]
        assert (await editor.test("counters")).loads == 1


async def test_J5_stray_prints_cannot_break_the_protocol() -> None:
    async with editing(FAKE_PRINT="1", FAKE_TEXT="1 + 2") as editor:
        editor.open("x = ‸\n")
        for _ in range(3):
            editor.type("(")
            assert (await editor.ask(invoked=True))[0].insert_text.startswith("1 + 2")
        assert editor.client.error is None


async def test_J4_wrong_settings_are_named_in_one_message_and_the_defaults_used() -> None:
    options = {"mercury": {"inline": {"maxTokens": "many", "colour": "blue"}, "model": 3}}
    async with editing(options=options, FAKE_TEXT="1 + 2") as editor:
        editor.open("x = ‸\n")
        assert await editor.ask()
        (message,) = editor.messages
        assert "inline.maxTokens must be a whole number" in message
        assert "Unknown setting inline.colour" in message
        assert "Setting model must be a table" in message


async def test_H3_a_change_of_a_document_that_is_not_open_is_nothing_to_the_user() -> None:
    async with editing(FAKE_TEXT="1 + 2") as editor:
        editor.text = "x = "
        editor.replace(0, 0, "y")
        editor.open("x = ‸\n")
        assert await editor.ask()
        assert editor.messages == []


async def test_H3_a_whole_text_for_a_document_that_is_not_open_opens_it() -> None:
    async with editing(FAKE_TEXT="1 + 2") as editor:
        editor.text = "x = \n"
        editor.cursor = 4
        change = types.TextDocumentContentChangeWholeDocument(text=editor.text)
        identifier = types.VersionedTextDocumentIdentifier(uri=URI, version=7)
        editor.client.text_document_did_change(types.DidChangeTextDocumentParams(identifier, [change]))
        assert await editor.ask()
        assert (await editor.test("counters")).prefixes == ["x = "]


async def test_H3_a_version_that_never_changes_does_not_hide_the_changes() -> None:
    async with editing(FAKE_TEXT="1 + 2") as editor:
        editor.open("‸\n")
        for key in ("x", " = "):
            editor.replace(editor.cursor, editor.cursor, key, version=0)
        assert await editor.ask()
        assert (await editor.test("counters")).prefixes == ["x = "]


async def test_O4_opening_twice_replaces_and_closing_what_is_not_open_is_nothing() -> None:
    async with editing(FAKE_TEXT="1 + 2") as editor:
        unknown = types.TextDocumentIdentifier(uri="file:///project/never.py")
        editor.client.text_document_did_close(types.DidCloseTextDocumentParams(unknown))
        editor.open("old = ‸\n")
        editor.open("new = ‸\n")
        assert await editor.ask()
        assert (await editor.test("counters")).prefixes == ["new = "]
        editor.client.text_document_did_close(types.DidCloseTextDocumentParams(types.TextDocumentIdentifier(uri=URI)))
        assert await editor.ask() == []
        assert editor.messages == []


async def test_L4_the_log_holds_no_text_of_documents(capfd: pytest.CaptureFixture[str]) -> None:
    async with editing(FAKE_TEXT="!") as editor:
        editor.open("password = 'hunter2' ‸\n")
        assert await editor.ask(invoked=True) == []
        editor.cancel("no such request")
        editor.client.protocol.notify("test/unknown", {"text": "hunter2"})
        broken = {"textDocument": {"uri": URI, "languageId": "python", "version": "hunter2", "text": "hunter2"}}
        editor.client.protocol.writer.write(frame({"method": types.TEXT_DOCUMENT_DID_OPEN, "params": broken}))
        await editor.test("counters")
    log = capfd.readouterr().err
    assert "ValueError" in log
    assert "hunter2" not in log


def start(command: list[str], **variables: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=server_env(**variables),
        cwd=ROOT,
    )


def read_answer(process: "subprocess.Popen[bytes]") -> dict[str, Any]:
    """The next message with an id."""
    assert process.stdout is not None
    while True:
        length = 0
        while (line := process.stdout.readline().strip()) or not length:
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        message = json.loads(process.stdout.read(length))
        if "id" in message and "result" in message:
            return message


def leave(process: "subprocess.Popen[bytes]") -> None:
    process.kill()
    process.communicate(timeout=SECONDS)


@pytest.mark.parametrize("shut", [True, False])
def test_J1_the_server_ends_with_its_input(tmp_path: Path, shut: bool) -> None:
    # with the gate shut the model's thread is in the middle of loading
    variables = {"FAKE_LOAD_GATE": str(tmp_path / "gate")} if shut else {}
    process = start(SERVER, **variables)
    try:
        assert process.stdin is not None
        process.stdin.write(hello(None))
        process.stdin.flush()
        assert "capabilities" in read_answer(process)["result"]
        process.stdin.close()
        assert process.wait(SECONDS) == 1  # nobody said goodbye
    finally:
        process.stdin = None
        leave(process)


def test_the_exit_status_is_0_after_a_goodbye() -> None:
    process = start(SERVER)
    try:
        goodbye = frame({"id": 2, "method": "shutdown"}) + frame({"method": "exit"})
        assert process.stdin is not None
        process.stdin.write(hello(None) + goodbye)
        process.stdin.flush()
        assert process.wait(SECONDS) == 0
    finally:
        leave(process)


@pytest.mark.parametrize("complete", [True, False])
def test_input_from_a_file_and_input_that_breaks_off_end_the_server_too(tmp_path: Path, complete: bool) -> None:
    goodbye = frame({"id": 2, "method": "shutdown"}) + frame({"method": "exit"})
    conversation = tmp_path / "conversation"
    conversation.write_bytes(hello(None) + (goodbye if complete else goodbye[:40]))
    with conversation.open("rb") as stdin:
        done = subprocess.run(SERVER, stdin=stdin, capture_output=True, env=server_env(), cwd=ROOT, timeout=SECONDS)
    assert b'"capabilities"' in done.stdout
    assert done.returncode == (0 if complete else 1)
    assert b"Traceback" not in done.stderr


WRAPPER = """
import subprocess, sys
server = subprocess.Popen(sys.argv[1:])
print(server.pid, file=sys.stderr, flush=True)
server.wait()
"""


def test_J1_the_server_ends_when_its_editor_is_killed_though_the_pipe_stays_open() -> None:
    editor = subprocess.Popen(
        [sys.executable, "-c", WRAPPER, *SERVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=server_env(),
        cwd=ROOT,
    )
    try:
        assert editor.stdin is not None
        assert editor.stderr is not None
        server = psutil.Process(int(editor.stderr.readline()))
        editor.stdin.write(hello(editor.pid))
        editor.stdin.flush()
        assert "capabilities" in read_answer(editor)["result"]
        os.kill(editor.pid, signal.SIGKILL)
        # this test still holds both pipes of the server
        server.wait(SECONDS)
    finally:
        leave(editor)


async def test_I4_an_idle_server_uses_no_processor_time() -> None:
    async with editing(FAKE_TEXT="1 + 2") as editor:
        editor.open("x = ‸\n")
        assert await editor.ask()
        server = editor.client._server
        assert server is not None
        process = psutil.Process(server.pid)
        await asyncio.sleep(0.5)  # the tail of the answer (30 ms) is not idling
        before = process.cpu_times()
        await asyncio.sleep(2)
        after = process.cpu_times()
        assert after.user + after.system - before.user - before.system <= 0.02  # two ticks of the clock
