"""workspace/executeCommand over a real server process with a scripted model."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from lsprotocol import types
from pygls.exceptions import JsonRpcException, JsonRpcRequestCancelled

from tests.lsp.editor import SECONDS, Editor, editing
from tests.lsp.test_code_action_e2e import actions, after, selection

VSCODE = "vscode_languageclient_10"
COMMANDS = {
    "mercury.rewrite",
    "mercury.fill",
    "mercury.cycle",
    "mercury.act",
    "mercury.pause",
    "mercury.resume",
    "mercury.snooze",
    "mercury.status",
    "mercury.selectModel",
}


@asynccontextmanager
async def applying(client: str = VSCODE, **variables: Any) -> AsyncIterator[tuple[Editor, list[Any], list[Any]]]:
    """An editor that applies edits: (editor, what it was asked to apply, the canvases it was shown)."""
    async with editing(client, **variables) as editor:
        asked: list[types.ApplyWorkspaceEditParams] = []
        canvases: list[Any] = []

        def apply(params: types.ApplyWorkspaceEditParams) -> types.ApplyWorkspaceEditResult:
            asked.append(params)
            return types.ApplyWorkspaceEditResult(applied=True)

        editor.client.feature(types.WORKSPACE_APPLY_EDIT)(apply)
        editor.client.feature("mercury/canvas")(lambda canvas: canvases.append(canvas))
        yield editor, asked, canvases


def running(editor: Editor, command: str, msg_id: str | None = None, token: str | None = None, **arguments: Any) -> Any:
    if token is not None:
        editor.client.progress_reports[token] = []
    params = types.ExecuteCommandParams(command, [arguments] if arguments else None, work_done_token=token)
    request = editor.client.protocol.send_request_async(types.WORKSPACE_EXECUTE_COMMAND, params, msg_id=msg_id)

    async def answer() -> Any:
        return named(await asyncio.wait_for(request, SECONDS))

    return asyncio.ensure_future(answer())


def named(value: Any) -> Any:
    """An answer whose fields can be written with a dot."""
    if isinstance(value, dict):
        return SimpleNamespace(**{key: named(inner) for key, inner in value.items()})
    return [named(inner) for inner in value] if isinstance(value, list) else value


def wire(place: types.Range | types.Position) -> dict[str, Any]:
    if isinstance(place, types.Position):
        return {"line": place.line, "character": place.character}
    return {"start": wire(place.start), "end": wire(place.end)}


async def until(condition: Any) -> None:
    async with asyncio.timeout(SECONDS):
        while not condition():
            await asyncio.sleep(0.01)


async def test_the_commands_are_advertised() -> None:
    async with editing() as editor:
        provider = editor.capabilities.execute_command_provider
        assert provider is not None and set(provider.commands) == COMMANDS


async def test_rewrite_is_applied_by_the_editor_in_one_versioned_step() -> None:
    async with applying(FAKE_TEXT="x = 20") as (editor, asked, _):
        editor.open("w = 1\nx = 2‸\n")
        place = wire(selection(editor, "x = 2"))
        answer = await running(editor, "mercury.rewrite", uri=editor.uri, range=place, instruction="ten times")
        assert answer.applied is True
        (params,) = asked
        assert params.label == "Mercury: ten times"
        assert after(editor, params.edit) == "w = 1\nx = 20\n"
        (request,) = (await editor.test("counters")).requests
        assert (request.original, request.instruction) == ("x = 2", "ten times")


async def test_rewrite_can_be_answered_instead_of_applied() -> None:
    async with applying(FAKE_TEXT="x = 20") as (editor, asked, _):
        editor.open("x = 2‸\n")
        place = wire(selection(editor, "x = 2"))
        answer = await running(editor, "mercury.rewrite", uri=editor.uri, range=place, apply=False)
        assert answer.applied is False and asked == []
        (change,) = answer.edit.documentChanges
        assert change.textDocument.version == 1 and change.edits[0].newText == "0"


def refuses(_: Any) -> types.ApplyWorkspaceEditResult:
    return types.ApplyWorkspaceEditResult(applied=False, failure_reason="read only")


def fails(_: Any) -> types.ApplyWorkspaceEditResult:
    raise JsonRpcException("the buffer is read only", code=-32803)


@pytest.mark.parametrize("answer", [refuses, fails])
async def test_G6_an_edit_that_the_editor_refuses_is_told_and_loses_nothing(
    answer: Callable[[Any], types.ApplyWorkspaceEditResult],
) -> None:
    async with editing(VSCODE, FAKE_TEXT="x = 20") as editor:
        editor.client.feature(types.WORKSPACE_APPLY_EDIT)(answer)
        editor.open("x = 2‸\n")
        place = wire(selection(editor, "x = 2"))
        assert (await running(editor, "mercury.rewrite", uri=editor.uri, range=place)).applied is False
        await until(lambda: any("read only" in message for message in editor.messages))


async def test_fill_fills_the_hole_or_writes_at_the_cursor() -> None:
    async with applying(FAKE_TEXT="return 1\n") as (editor, asked, _):
        editor.open("def f():\n    pas‸s\n")
        assert (await running(editor, "mercury.fill", uri=editor.uri, position=wire(editor.position()))).applied
        assert after(editor, asked[0].edit) == "def f():\n    return 1\n"
        editor.open("def f():\n    ‸\n")
        assert (await running(editor, "mercury.fill", uri=editor.uri, position=wire(editor.position()))).applied
        assert after(editor, asked[1].edit) == "def f():\n    return 1\n"


async def test_a_client_without_resolve_does_an_action_by_its_command() -> None:
    async with applying("menu_only", FAKE_TEXT="return 1\n") as (editor, asked, _):
        editor.open("def f():\n    pas‸s\n")
        place = types.Range(editor.position(), editor.position())
        params = types.CodeActionParams(
            types.TextDocumentIdentifier(editor.uri), place, types.CodeActionContext(diagnostics=[])
        )
        (command,) = await editor.client.text_document_code_action_async(params) or ()
        assert isinstance(command, types.Command)
        params = types.ExecuteCommandParams(command.command, command.arguments)
        await asyncio.wait_for(editor.client.workspace_execute_command_async(params), SECONDS)
        assert after(editor, asked[0].edit) == "def f():\n    return 1\n"


async def test_progress_is_shown_with_the_clients_token_or_one_of_our_own() -> None:
    async with applying(FAKE_TEXT="x = 20") as (editor, _, __):
        editor.open("x = 2‸\n")
        arguments = {"uri": editor.uri, "range": wire(selection(editor, "x = 2"))}
        await running(editor, "mercury.rewrite", token="mine", **arguments)
        begin, end = editor.client.progress_reports["mine"]
        assert isinstance(begin, types.WorkDoneProgressBegin) and begin.cancellable
        assert isinstance(end, types.WorkDoneProgressEnd)
        await editor.test("script", text="x = 30", gated=True)
        request = running(editor, "mercury.rewrite", **arguments)
        ours = editor.client.progress_reports
        await until(lambda: any(str(token).startswith("mercury-task") and reports for token, reports in ours.items()))
        await editor.test("allow", passes=1000)
        await request
        (reports,) = [reports for token, reports in ours.items() if str(token).startswith("mercury-task")]
        await until(lambda: len(reports) == 2)


@pytest.mark.parametrize("by", ["request", "progress"])
async def test_a_cancelled_command_stops_the_model_and_changes_nothing(by: str) -> None:
    options = {"FAKE_TEXT": "a b c d e f g h", "FAKE_PER_STEP": "1", "FAKE_GATED": "1"}
    async with applying(**options) as (editor, asked, _):
        editor.open("x = 2‸\n")
        arguments = {"uri": editor.uri, "range": wire(selection(editor, "x = 2"))}
        request = running(editor, "mercury.rewrite", "one", "mine", **arguments)
        await editor.test("wait", runs=1)
        if by == "request":
            editor.cancel("one")
            with pytest.raises(JsonRpcRequestCancelled):
                await request
        else:
            params = types.WorkDoneProgressCancelParams(token="mine")
            editor.client.window_work_done_progress_cancel(params)
            assert (await request).applied is False
        await editor.test("allow", passes=1000)
        await editor.test("script", text="x = 20", gated=False)
        assert (await running(editor, "mercury.rewrite", **arguments)).applied is True
        assert len(asked) == 1  # the cancelled one did not come later
        assert (await editor.test("counters")).passes <= 1 + 5  # at most one pass of the cancelled run


async def test_H2_nothing_is_applied_to_text_that_changed_meanwhile() -> None:
    async with applying(FAKE_TEXT="x = 20", FAKE_GATED="1") as (editor, asked, _):
        editor.open("x = 2‸\n")
        request = running(editor, "mercury.rewrite", uri=editor.uri, range=wire(selection(editor, "x = 2")))
        await editor.test("wait", runs=1)
        editor.type("5")
        await editor.test("allow", passes=1000)
        assert (await request).applied is False and asked == []


async def test_the_canvas_is_drawn_for_clients_that_opted_in() -> None:
    options = {"FAKE_TEXT": "x = 2 + 3", "FAKE_PER_STEP": "2"}
    async with applying(options={"canvas": True}, **options) as (editor, _, canvases):
        editor.open("x = 2‸\n")
        place = wire(selection(editor, "x = 2"))
        await running(editor, "mercury.rewrite", uri=editor.uri, range=place)
        await until(lambda: canvases and canvases[-1].done)
        assert [canvas.done for canvas in canvases][:-1] == [False] * (len(canvases) - 1) and len(canvases) > 2
        first = canvases[0]
        assert (first.uri, first.version, first.range.start.line, first.range.end.character) == (editor.uri, 1, 0, 5)
        assert {slot.state for slot in first.slots} == {"settled", "masked"}
        assert set(first.slots[0]._fields) == {"text", "state", "confidence", "revised"}
    async with applying(**options) as (editor, asked, canvases):
        editor.open("x = 2‸\n")
        await running(editor, "mercury.rewrite", uri=editor.uri, range=place)
        assert asked and canvases == []


async def test_cycle_shows_candidate_after_candidate_as_ghost_text() -> None:
    async with editing(FAKE_TEXT="one") as editor:
        editor.open("x = ‸\n")
        (item,) = await editor.ask()
        assert item.insert_text == "one"
        place = wire(editor.position())
        await editor.test("script", text="two", gated=False)
        answer = await running(editor, "mercury.cycle", uri=editor.uri, position=place)
        assert (answer.item.insertText, answer.index, answer.count) == ("two", 1, 2)
        (item,) = await editor.ask()
        assert item.insert_text == "two"
        answer = await running(editor, "mercury.cycle", uri=editor.uri, position=place)  # the model has no third
        assert (answer.item.insertText, answer.index, answer.count) == ("one", 0, 2)
        requests = (await editor.test("counters")).runs
        assert requests <= 1 + 1 + 3


async def test_cycle_draws_several_candidates_in_one_run() -> None:
    async with editing(FAKE_TEXT="one\ftwo\fthree") as editor:
        editor.open("x = ‸\n")
        place = wire(editor.position())
        shown = [await running(editor, "mercury.cycle", uri=editor.uri, position=place) for _ in range(3)]
        assert [(answer.item.insertText, answer.index) for answer in shown] == [("one", 0), ("two", 1), ("three", 2)]
        assert (await editor.test("counters")).runs == 1


async def test_F6_a_pause_is_honoured_at_once_and_everywhere() -> None:
    async with applying(FAKE_TEXT="return 1", FAKE_GATED="1") as (editor, asked, _):
        editor.open("def f():\n    pass\n    x = ‸\n")
        ghost = editor.ask(invoked=True)
        await editor.test("wait", runs=1)
        rewrite = running(editor, "mercury.rewrite", uri=editor.uri, range=wire(selection(editor, "pass")))
        paused = await running(editor, "mercury.pause")
        assert (paused.kind, await ghost) == ("Inactive", [])
        assert (await rewrite).applied is False
        await editor.status(kind="Inactive")
        runs = (await editor.test("counters")).runs
        assert await editor.ask(invoked=True) == []
        assert await actions(editor, selection(editor, "pass")) == []
        place = wire(editor.position())
        assert (await running(editor, "mercury.fill", uri=editor.uri, position=place)).applied is False
        assert (await editor.test("counters")).runs == runs and asked == []
        await editor.test("allow", passes=1000)
        resumed = await running(editor, "mercury.resume")
        assert resumed.kind == "Normal" and editor.statuses[-1].kind == "Normal"
        assert await editor.ask(invoked=True) != []


async def test_F6_a_snooze_ends_by_itself() -> None:
    async with editing(FAKE_TEXT="1") as editor:
        editor.open("x = ‸\n")
        answer = await running(editor, "mercury.snooze", minutes=0.005)
        assert answer.kind == "Inactive"
        await editor.status(kind="Inactive")
        await until(lambda: editor.statuses[-1].kind == "Normal")
        assert await editor.ask() != []


async def test_another_model_is_loaded_when_it_is_selected() -> None:
    async with editing(FAKE_TEXT="1") as editor:
        await editor.status(kind="Normal", busy=False)
        loads = (await editor.test("counters")).loads
        assert (await running(editor, "mercury.selectModel", name="other")).model == "other"
        async with asyncio.timeout(SECONDS):
            while (await editor.test("counters")).loads == loads:
                await asyncio.sleep(0.01)


@pytest.mark.parametrize("client", [VSCODE])
async def test_bad_arguments_are_an_error_that_says_what_the_command_takes(client: str) -> None:
    async with editing(client) as editor:
        editor.open("x = ‸\n")
        for command, arguments, said in (
            ("mercury.rewrite", {}, "takes {uri, range"),
            ("mercury.rewrite", {"uri": editor.uri, "range": 7}, "takes {uri, range"),
            ("mercury.fill", {"uri": editor.uri}, "takes {uri, position"),
            ("mercury.fill", {"uri": "file:///other", "position": wire(editor.position())}, "not open"),
            ("mercury.snooze", {"minutes": -1}, "minutes from 0"),
            ("mercury.snooze", {"hours": 1}, "takes {minutes}"),
            ("mercury.selectModel", {"name": ""}, "takes {name}"),
            ("mercury.act", {"uri": editor.uri}, "code action"),
            ("mercury.dance", {}, "unknown command"),
        ):
            with pytest.raises(JsonRpcException, match=said.replace("{", r"\{")):
                await running(editor, command, **arguments)
