"""textDocument/codeAction and codeAction/resolve over a real server process with a scripted model."""

import asyncio
from typing import Any

import pytest
from lsprotocol import types
from pygls.exceptions import JsonRpcRequestCancelled

from tests.lsp.editor import SECONDS, Editor, editing

VSCODE = "vscode_languageclient_10"
Action = types.CodeAction


def selection(editor: Editor, text: str) -> types.Range:
    """The range of the first occurrence of `text` in the buffer."""
    start = editor.text.index(text)
    return types.Range(editor.position(start), editor.position(start + len(text)))


def diagnostic(editor: Editor, text: str, message: str, code: str = "") -> types.Diagnostic:
    return types.Diagnostic(range=selection(editor, text), message=message, code=code or None, source="linter")


async def actions(
    editor: Editor,
    place: types.Range | None = None,
    *,
    diagnostics: tuple[types.Diagnostic, ...] = (),
    only: list[str] | None = None,
) -> list[Action]:
    params = types.CodeActionParams(
        text_document=types.TextDocumentIdentifier(editor.uri),
        range=place or types.Range(editor.position(), editor.position()),
        context=types.CodeActionContext(diagnostics=list(diagnostics), only=only),
    )
    found = await asyncio.wait_for(editor.client.text_document_code_action_async(params), SECONDS)
    assert found is not None and all(isinstance(action, Action) for action in found)
    return list(found)  # type: ignore[arg-type]


def titled(found: list[Action], title: str) -> Action:
    (action,) = [action for action in found if action.title == title]
    return action


def resolving(editor: Editor, action: Action, msg_id: str | None = None) -> "asyncio.Future[Any]":
    request = editor.client.protocol.send_request_async(types.CODE_ACTION_RESOLVE, action, msg_id=msg_id)
    return asyncio.ensure_future(asyncio.wait_for(request, SECONDS))


def after(editor: Editor, edit: types.WorkspaceEdit) -> str:
    """The buffer after an edit of this one document."""
    if edit.document_changes is not None:
        (change,) = edit.document_changes
        assert isinstance(change, types.TextDocumentEdit)
        assert (change.text_document.uri, change.text_document.version) == (editor.uri, editor.version)
        edits = list(change.edits)
    else:
        assert edit.changes is not None
        (edits,) = [list(e) for e in edit.changes.values()]
    text = editor.text
    for change in sorted(edits, key=lambda e: (e.range.start.line, e.range.start.character), reverse=True):
        assert not isinstance(change, types.SnippetTextEdit)
        text = text[: editor.offset(change.range.start)] + change.new_text + text[editor.offset(change.range.end) :]
    return text


async def test_the_capability_names_the_kinds_and_resolve() -> None:
    async with editing() as editor:
        assert editor.capabilities.code_action_provider == types.CodeActionOptions(
            code_action_kinds=("quickfix", "refactor.rewrite", "source.fixAll.mercury"), resolve_provider=True
        )


async def test_titles_come_without_the_model_even_before_it_is_loaded(tmp_path: Any) -> None:
    async with editing(FAKE_LOAD_GATE=str(tmp_path / "gate")) as editor:
        editor.open("def f():\n    ‸pass\n")
        (action,) = await actions(editor)
        assert (action.title, action.kind, action.edit) == ("Fill this hole", "refactor.rewrite", None)
        assert (await editor.test("counters")).runs == 0
        (tmp_path / "gate").touch()


async def test_M3_nothing_lights_the_bulb_without_a_selection_a_diagnostic_a_hole_or_a_fault() -> None:
    async with editing() as editor:
        for text in ("x = ‸1\n", "def f():\n    return ‸1\n", "‸\n", "# a comment‸\n"):
            editor.open(text)
            assert await actions(editor) == []


async def test_a_selection_can_be_rewritten_documented_annotated_and_simplified() -> None:
    async with editing() as editor:
        editor.open("def f(a):\n    return a‸\n")
        found = await actions(editor, selection(editor, "return a"))
        assert {(action.title, action.kind) for action in found} == {
            ("Complete this function", "refactor.rewrite"),
            ("Rewrite the selection", "refactor.rewrite"),
            ("Add or repair the documentation", "refactor.rewrite"),
            ("Add type annotations", "refactor.rewrite"),
            ("Simplify the selection", "refactor.rewrite"),
        }


async def test_only_the_kinds_that_are_asked_for() -> None:
    async with editing() as editor:
        editor.open("def f(x)‸\n    return x\n")
        for only, kinds in (
            (["quickfix"], {"quickfix"}),
            (["refactor"], {"refactor.rewrite"}),
            (["refactor.rewrite"], {"refactor.rewrite"}),
            (["source.fixAll"], {"source.fixAll.mercury"}),
            (["source"], {"source.fixAll.mercury"}),
            (["source.organizeImports"], set()),
            (["quick"], set()),
            (["quickfix", "source"], {"quickfix", "source.fixAll.mercury"}),
        ):
            found = await actions(editor, selection(editor, "return x"), only=only)
            fault = await actions(editor, only=only)
            assert {str(action.kind) for action in [*found, *fault]} == kinds


async def test_a_syntax_error_under_the_cursor_is_mended_without_a_diagnostic() -> None:
    async with editing(VSCODE, FAKE_TEXT="nonsense(") as editor:
        editor.open("def f(x)‸\n    return x\n")
        resolved = await resolving(editor, titled(await actions(editor), "Fix this syntax error"))
        assert after(editor, resolved.edit) == "def f(x):\n    return x\n"
        assert (await editor.test("counters")).runs == 0  # the grammar was enough


async def test_all_syntax_errors_are_mended_by_the_source_action() -> None:
    async with editing(VSCODE) as editor:
        editor.open("def f(x)‸\n    return x\n\n\nprint(f(1)\n")
        (action,) = await actions(editor, only=["source.fixAll.mercury"])
        resolved = await resolving(editor, action)
        assert after(editor, resolved.edit) == "def f(x):\n    return x\n\n\nprint(f(1))\n"


async def test_a_diagnostic_of_anybody_gets_a_quick_fix_that_carries_it() -> None:
    async with editing(VSCODE, FAKE_TEXT="x = 'a' + str(n)") as editor:
        editor.open("n = 1\nx = 'a' + n‸\ny = 2\n")
        problem = diagnostic(editor, "'a' + n", "Unsupported operand types", "operator")
        (action,) = await actions(editor, problem.range, diagnostics=(problem,), only=["quickfix"])
        assert action.title == "Fix: Unsupported operand types"
        assert action.diagnostics is not None and [d.message for d in action.diagnostics] == [problem.message]
        resolved = await resolving(editor, action)
        assert after(editor, resolved.edit) == "n = 1\nx = 'a' + str(n)\ny = 2\n"


async def test_resolve_adds_the_edit_and_alters_nothing_else() -> None:
    async with editing(VSCODE, FAKE_TEXT="return 1\n") as editor:
        editor.open("def f():\n    ‸pass\n")
        (action,) = await actions(editor)
        resolved = await resolving(editor, action)
        assert after(editor, resolved.edit) == "def f():\n    return 1\n"
        before, now = (editor.client.protocol._converter.unstructure(a) for a in (action, resolved))
        now.pop("edit")
        assert before == now


async def test_VS_Code_gets_tags_annotations_and_versions() -> None:
    async with editing(VSCODE, FAKE_TEXT="return 1\n") as editor:
        editor.open("def f():\n    ‸pass\n")
        (action,) = await actions(editor)
        assert action.tags is not None and list(action.tags) == [types.CodeActionTag.LlmGenerated]
        edit = (await resolving(editor, action)).edit
        assert edit.changes is None and edit.document_changes[0].text_document.version == 1
        (annotation,) = edit.change_annotations.values()
        assert (annotation.label, annotation.needs_confirmation) == ("Fill this hole", False)
        (change,) = edit.document_changes[0].edits
        assert isinstance(change, types.AnnotatedTextEdit) and change.annotation_id in edit.change_annotations


async def test_a_client_that_says_nothing_gets_plain_changes_and_no_tags() -> None:
    async with editing("neovim_0.12", FAKE_TEXT="return 1\n") as editor:
        editor.open("def f():\n    ‸pass\n")
        (action,) = await actions(editor)
        edit = (await resolving(editor, action)).edit
        assert action.tags is None and edit.document_changes is None and edit.change_annotations is None
        assert after(editor, edit) == "def f():\n    return 1\n"


async def test_a_client_that_cannot_resolve_gets_a_command() -> None:
    async with editing("menu_only", FAKE_TEXT="return 1\n") as editor:
        editor.open("def f():\n    ‸pass\n")
        place = types.Range(editor.position(), editor.position())
        params = types.CodeActionParams(
            types.TextDocumentIdentifier(editor.uri), place, types.CodeActionContext(diagnostics=[])
        )
        (command,) = await editor.client.text_document_code_action_async(params) or ()
        assert isinstance(command, types.Command)
        assert (command.title, command.command) == ("Fill this hole", "mercury.act")


async def test_D1_new_text_has_plain_newlines_and_positions_count_utf16() -> None:
    async with editing(VSCODE, FAKE_TEXT="return 1\n") as editor:
        editor.open("def f():  # 𝒳\r\n    ‸pass\r\n")
        (action,) = await actions(editor)
        edit = (await resolving(editor, action)).edit
        assert all("\r" not in change.new_text for change in edit.document_changes[0].edits)
        assert after(editor, edit) == "def f():  # 𝒳\r\n    return 1\r\n"


async def test_H2_an_action_of_older_text_finds_its_place_again() -> None:
    async with editing(VSCODE, FAKE_TEXT="return 1\n") as editor:
        editor.open("x = 1\n\n\ndef f():\n    ‸pass\n")
        (action,) = await actions(editor)
        editor.replace(0, 0, "# one more line, and ünïcode\n")
        resolved = await resolving(editor, action)
        assert after(editor, resolved.edit).endswith("x = 1\n\n\ndef f():\n    return 1\n")


async def test_H2_an_action_whose_text_changed_gets_no_edit_and_a_message() -> None:
    async with editing(VSCODE, FAKE_TEXT="return 1\n") as editor:
        editor.open("def f():\n    ‸pass\n")
        (action,) = await actions(editor)
        editor.replace(editor.text.index("f()"), editor.text.index("f()") + 1, "other")
        resolved = await resolving(editor, action)
        assert resolved.edit is None
        assert any("has changed" in message for message in editor.messages)
        assert (await editor.test("counters")).runs == 0


@pytest.mark.parametrize(("at", "edited"), [("x = 1", True), ("pass", False)])
async def test_H2_text_that_changes_while_the_model_is_at_work(at: str, edited: bool) -> None:
    async with editing(VSCODE, FAKE_TEXT="return 1\n", FAKE_GATED="1") as editor:
        editor.open("x = 1\n\n\ndef f():\n    ‸pass\n")
        (action,) = await actions(editor)
        request = resolving(editor, action)
        await editor.test("wait", runs=1)
        start = editor.text.index(at)
        editor.replace(start, start, "# new\n")
        await editor.test("allow", passes=1000)
        resolved = await request
        if edited:
            assert after(editor, resolved.edit) == "# new\nx = 1\n\n\ndef f():\n    return 1\n"
        else:
            assert resolved.edit is None and any("has changed" in message for message in editor.messages)


async def test_a_cancelled_resolve_stops_the_model() -> None:
    async with editing(VSCODE, FAKE_TEXT="a b c d e f g h", FAKE_PER_STEP="1", FAKE_GATED="1") as editor:
        editor.open("def f():\n    ‸pass\n")
        (action,) = await actions(editor)
        request = resolving(editor, action, "one")
        await editor.test("wait", runs=1)
        editor.cancel("one")
        with pytest.raises(JsonRpcRequestCancelled):
            await request
        await editor.test("allow", passes=1000)
        await editor.test("script", text="return 1\n", gated=False)
        assert after(editor, (await resolving(editor, action)).edit) == "def f():\n    return 1\n"
        assert (await editor.test("counters")).passes <= 1 + 4  # at most one pass of the cancelled run


async def test_an_action_that_comes_back_damaged_is_returned_as_it_is() -> None:
    async with editing(VSCODE) as editor:
        editor.open("def f():\n    ‸pass\n")
        for data in (None, 7, {"uri": editor.uri}, {"task": "mend"}):
            resolved = await resolving(editor, Action(title="odd", data=data))
            assert resolved.title == "odd" and resolved.edit is None


async def test_when_the_model_has_nothing_the_user_is_told() -> None:
    async with editing(VSCODE, FAKE_TEXT="") as editor:
        editor.open("def f():\n    ‸pass\n")
        (action,) = await actions(editor)
        assert (await resolving(editor, action)).edit is None
        assert any("found nothing" in message for message in editor.messages)
