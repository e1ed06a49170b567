"""Cases of docs/cases.md that belong to no single method, over a real server process with a scripted model."""

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import psutil
import pytest
from lsprotocol import types

from tests.lsp.editor import SECONDS, URI, Editor, editing
from tests.lsp.test_index import tree

VSCODE = "vscode_languageclient_10"


def actions(editor: Editor, *, selected: int = 0) -> Coroutine[Any, Any, Any]:
    """Asks for what can be done at the cursor as it is now."""
    place = types.Range(start=editor.position(editor.cursor - selected), end=editor.position())
    identifier = types.TextDocumentIdentifier(uri=editor.uri)
    params = types.CodeActionParams(identifier, place, types.CodeActionContext(diagnostics=[]))
    return asyncio.wait_for(editor.client.text_document_code_action_async(params), SECONDS)


async def status(editor: Editor) -> Any:
    params = types.ExecuteCommandParams("mercury.status")
    return await asyncio.wait_for(editor.client.workspace_execute_command_async(params), SECONDS)


def close(editor: Editor, uri: str) -> None:
    identifier = types.TextDocumentIdentifier(uri=uri)
    editor.client.text_document_did_close(types.DidCloseTextDocumentParams(text_document=identifier))


@pytest.mark.parametrize("client", ["neovim_0.12", VSCODE])
async def test_A6_after_a_partial_accept_nothing_typed_is_repeated(client: str) -> None:
    async with editing(client, FAKE_TEXT="first + second") as editor:
        editor.open("x = ‸\n")
        assert await editor.ask()
        for word in ("first", " +"):
            editor.type(word)
            (item,) = await editor.ask()
            assert editor.accepted(item) == "x = first + second\n"
        assert (await editor.test("counters")).runs == 1


async def test_I2_a_slow_model_blocks_no_other_answer() -> None:
    async with editing(FAKE_TEXT="1 + 2", FAKE_GATED="1") as editor:
        editor.open("x = ‸\ndef f(:\n    pass\n")
        request = editor.ask()
        await editor.test("wait", runs=1)  # and no pass is allowed yet
        editor.cursor = editor.text.index("(:") + 1
        assert await actions(editor, selected=1)
        assert (await status(editor))["busy"]
        assert not request.done()
        editor.cursor = 4
        await editor.test("allow", passes=100)
        assert (await request)[0].insert_text == "1 + 2"


async def test_I3_code_actions_at_every_move_of_the_cursor_run_no_model_and_all_are_answered() -> None:
    async with editing(FAKE_TEXT="1 + 2", FAKE_GATED="1") as editor:
        editor.open("def f(a, b):\n    return a + b‸\n" + "value = f(1, 2)\n" * 300)
        asked: list[Any] = []
        for cursor in range(0, 3000, 30):
            editor.cursor = cursor
            asked.append(actions(editor))
        answers = await asyncio.gather(*asked)
        assert len(answers) == 100
        assert not any(answers)
        assert (await editor.test("counters")).runs == 0


async def test_I7_an_endless_text_never_reaches_the_client() -> None:
    async with editing(FAKE_TEXT="x + " * 20_000, FAKE_PER_STEP="100000") as editor:
        editor.open("x = ‸\n")
        assert await editor.ask() == []
        await editor.test("script", text="1 + 2", gated=False)
        editor.type("(")
        assert await editor.ask()


async def test_J2_whatever_is_wrong_with_the_settings_the_server_stays_and_says_it_once(tmp_path: Path) -> None:
    root = tree(tmp_path, {".mercury.toml": "this = is [no toml", "a.py": ""})
    options = {"inline": 7, "files": {"ignore": 3}, "context": {"tokens": -1}, "model": {"name": 5}, "": {}}
    async with editing(VSCODE, folders=[root], options=options, FAKE_LOAD_ERROR="100") as editor:
        editor.open("x = ‸\n", uri=(root / "a.py").as_uri())
        for _ in range(3):
            assert await editor.ask(invoked=True) == []
        assert (await editor.status(kind="Error")).message.startswith("No weights here")
        wrong, *others = sorted(editor.messages, key=lambda message: "Setting" not in message)
        assert len(wrong.split("\n")) >= 5
        assert len(others) == 1  # about the model
        assert editor.client._server is not None
        assert psutil.Process(editor.client._server.pid).is_running()


async def test_O3_a_buffer_that_was_open_long_before_or_comes_again_is_served() -> None:
    async with editing(FAKE_TEXT="1 + 2") as editor:
        await editor.status(busy=False, model="fake")  # the server has long been up
        for version in (1, 70, 3):
            item = types.TextDocumentItem(uri=URI, language_id="python", version=version, text="x = \n")
            editor.client.text_document_did_open(types.DidOpenTextDocumentParams(item))
            editor.text, editor.cursor, editor.version = "x = \n", 4, version
            assert await editor.ask()
            close(editor, URI)


@pytest.mark.parametrize("closed", [True, False])
async def test_O4_a_renamed_document_starts_anew_also_where_the_old_one_is_never_closed(closed: bool) -> None:
    old, new = "file:///project/old.py", "file:///project/new.py"
    async with editing(FAKE_TEXT="1 + 2") as editor:
        editor.open("x = ‸\n", uri=old)
        assert await editor.ask()
        if closed:
            close(editor, old)
        await editor.test("script", text="3 + 4", gated=False)
        editor.open("x = ‸\n", uri=new, language="python")
        assert (await editor.ask())[0].insert_text == "3 + 4"
        editor.uri = old
        answer = await editor.ask()
        assert answer == [] if closed else answer[0].insert_text == "1 + 2"
        assert editor.messages == []
