"""textDocument/copilotInlineEdit and mercury/nextEdit over a real server process with a scripted model."""

import asyncio
from typing import Any

import pytest
from lsprotocol import types
from pygls.exceptions import JsonRpcInvalidParams, JsonRpcRequestCancelled

from tests.lsp.editor import SECONDS, Editor, editing

METHOD, ALIAS = "textDocument/copilotInlineEdit", "mercury/nextEdit"
AREA = "def area(w‸, h):\n    return w * h\n\n\nprint(area(2, 3))\n"
INVOKED, AUTOMATIC = 1, 2


def ask(
    editor: Editor,
    *,
    method: str = METHOD,
    version: int | None = None,
    kind: int = AUTOMATIC,
    msg_id: str | None = None,
) -> "asyncio.Future[Any]":
    here = editor.position()
    params = {
        "textDocument": {"uri": editor.uri, "version": editor.version if version is None else version},
        "position": {"line": here.line, "character": here.character},
        "context": {"triggerKind": kind},
    }
    return asyncio.ensure_future(
        asyncio.wait_for(editor.client.protocol.send_request_async(method, params, msg_id=msg_id), SECONDS)
    )


def renamed(editor: Editor, marked: str = AREA) -> None:
    """Opens a buffer and renames the first parameter."""
    editor.open(marked)
    editor.replace(editor.cursor - 1, editor.cursor, "width")


def accepted(editor: Editor, edit: Any) -> str:
    start = editor.offset(types.Position(edit.range.start.line, edit.range.start.character))
    end = editor.offset(types.Position(edit.range.end.line, edit.range.end.character))
    return editor.text[:start] + edit.text + editor.text[end:]


@pytest.mark.parametrize("method", [METHOD, ALIAS])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
async def test_a_rename_is_followed(method: str, encoding: str) -> None:
    async with editing(encodings=[encoding], FAKE_TEXT="") as editor:
        renamed(editor, "# 😀\n" + AREA.replace("return w", "return '😀' + w"))
        (edit,) = (await ask(editor, method=method)).edits
        assert accepted(editor, edit) == editor.text.replace("w * h", "width * h")
        assert edit.text == "idth"  # the smallest edit, neither the line nor the word
        assert (edit.textDocument.uri, edit.textDocument.version) == (editor.uri, editor.version)


async def test_nothing_changed_is_no_edit_and_no_model_run() -> None:
    async with editing(FAKE_TEXT="surprise") as editor:
        editor.open(AREA)
        assert (await ask(editor)).edits == []
        assert (await editor.test("counters")).runs == 0


async def test_H2_a_request_for_another_version_gets_nothing() -> None:
    async with editing(FAKE_TEXT="") as editor:
        renamed(editor)
        assert (await ask(editor, version=editor.version - 1)).edits == []
        assert (await ask(editor)).edits != []


async def test_a_document_that_is_not_open_and_bad_parameters() -> None:
    async with editing(FAKE_TEXT="") as editor:
        renamed(editor)
        editor.uri = "file:///project/other.py"
        assert (await ask(editor)).edits == []
        with pytest.raises(JsonRpcInvalidParams, match="takes"):
            await editor.client.protocol.send_request_async(METHOD, {"textDocument": 1})


async def test_a_secret_file_gets_nothing() -> None:
    async with editing(FAKE_TEXT="") as editor:
        editor.open(AREA, uri="file:///project/.env")
        editor.replace(editor.cursor - 1, editor.cursor, "width")
        assert (await ask(editor, kind=INVOKED)).edits == []


async def test_a_cancelled_request_is_answered_while_the_model_is_inside_a_pass() -> None:
    async with editing(FAKE_TEXT="1 + 2", FAKE_GATED="1") as editor:
        editor.open("x =‸\n")
        request = ask(editor, msg_id="one")
        await editor.test("wait", runs=1)
        editor.cancel("one")
        with pytest.raises(JsonRpcRequestCancelled):
            await request  # no pass is allowed yet: the answer did not wait for the model
        await editor.test("allow", passes=1000)
        assert (await ask(editor)).edits != []


async def test_a_newer_request_ends_an_older_one_with_nothing() -> None:
    async with editing(FAKE_TEXT="1 + 2", FAKE_GATED="1") as editor:
        editor.open("x =‸\n")
        first = ask(editor)
        await editor.test("wait", runs=1)
        second = ask(editor)
        assert (await first).edits == []  # no pass is allowed yet
        await editor.test("allow", passes=1000)
        assert (await second).edits != []


async def test_C4_H2_an_edit_moves_with_the_lines_that_were_put_above_it_meanwhile() -> None:
    async with editing(FAKE_TEXT="run()", FAKE_GATED="1") as editor:
        editor.open("import os\n\n\ndef f(x):\n    x.‸\n    return 1\n\n\ny = 3\n")
        request = ask(editor)
        await editor.test("wait", runs=1)
        editor.replace(0, 0, "import sys\n")
        await editor.test("allow", passes=1000)
        (edit,) = (await request).edits
        assert edit.textDocument.version == editor.version
        assert accepted(editor, edit) == editor.text.replace("x.", "x.run()")


async def test_C4_an_edit_of_a_line_that_was_indented_anew_meanwhile_is_dropped() -> None:
    async with editing(FAKE_TEXT="1 + 2", FAKE_GATED="1") as editor:
        editor.open("if a:\n    x =‸\n")
        request = ask(editor)
        await editor.test("wait", runs=1)
        editor.replace(6, 10, "\t")
        await editor.test("allow", passes=1000)
        assert (await request).edits == []


async def test_B4_what_was_rejected_is_not_offered_again() -> None:
    async with editing(FAKE_TEXT="") as editor:
        renamed(editor)
        (edit,) = (await ask(editor)).edits
        editor.client.protocol.notify("textDocument/didShowInlineEdit", {"item": {"id": edit.id}})
        editor.client.protocol.notify("mercury/rejected", {"item": {"id": edit.id}})
        assert (await ask(editor, kind=INVOKED)).edits == []


async def test_after_a_rejection_nothing_is_offered_unasked_for_a_while() -> None:
    async with editing(FAKE_TEXT="") as editor:
        renamed(editor, AREA + "\n\ndef volume(a):\n    return a\n")
        assert (await ask(editor)).edits
        editor.client.protocol.notify("mercury/rejected", {"uri": editor.uri})
        at = editor.text.index("volume(a") + len("volume(")
        editor.replace(at, at + 1, "size")
        assert (await ask(editor)).edits == []
        (edit,) = (await ask(editor, kind=INVOKED)).edits
        assert accepted(editor, edit).endswith("def volume(size):\n    return size\n")


async def test_nothing_is_offered_while_paused() -> None:
    async with editing(FAKE_TEXT="") as editor:
        renamed(editor)
        command = types.ExecuteCommandParams(command="mercury.pause")
        await editor.client.workspace_execute_command_async(command)
        assert (await ask(editor, kind=INVOKED)).edits == []


async def test_completions_are_not_overtaken_by_next_edits() -> None:
    async with editing(FAKE_TEXT="1 + 2", FAKE_GATED="1") as editor:
        editor.open("x = ‸\n")
        completion = editor.ask(invoked=True)
        await editor.test("wait", runs=1)
        edit = ask(editor)
        await editor.test("allow", passes=1000)
        assert await completion
        await edit
