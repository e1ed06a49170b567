"""Notebooks over a real server process with a scripted model."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types

from tests.lsp.editor import SECONDS, Editor, editing

VSCODE = "vscode_languageclient_10"
NOTEBOOK = "file:///project/analysis.ipynb"
AT_ONCE = {"inline": {"debounceMs": 0}}


def cell_uri(name: str, notebook: str = NOTEBOOK) -> str:
    return notebook.replace("file:", "vscode-notebook-cell:") + f"#{name}"


def item(name: str, text: str, language: str = "python", notebook: str = NOTEBOOK) -> types.TextDocumentItem:
    return types.TextDocumentItem(uri=cell_uri(name, notebook), language_id=language, version=1, text=text)


def cell(found: types.TextDocumentItem) -> types.NotebookCell:
    markup = found.language_id == "markdown"
    return types.NotebookCell(types.NotebookCellKind.Markup if markup else types.NotebookCellKind.Code, found.uri)


@asynccontextmanager
async def notebook(
    *items: types.TextDocumentItem,
    at: str,
    uri: str = NOTEBOOK,
    folders: Sequence[Path] = (),
    **variables: str,
) -> AsyncIterator[Editor]:
    """An editor with an open notebook; its cursor stands at `‸` in the cell `at`."""
    async with editing(VSCODE, options=AT_ONCE, folders=folders, **variables) as editor:
        plain = [
            types.TextDocumentItem(one.uri, one.language_id, one.version, one.text.replace("‸", "")) for one in items
        ]
        document = types.NotebookDocument(uri, "jupyter-notebook", 1, [cell(one) for one in plain])
        editor.client.notebook_document_did_open(types.DidOpenNotebookDocumentParams(document, plain))
        editor.uri, editor.version = cell_uri(at, uri), 1
        (marked,) = (one.text for one in items if one.uri == editor.uri)
        editor.text, editor.cursor = marked.replace("‸", ""), marked.index("‸")
        yield editor


def change(editor: Editor, cells: types.NotebookDocumentCellChanges, uri: str = NOTEBOOK) -> None:
    identifier = types.VersionedNotebookDocumentIdentifier(version=2, uri=uri)
    event = types.NotebookDocumentChangeEvent(cells=cells)
    editor.client.notebook_document_did_change(types.DidChangeNotebookDocumentParams(identifier, event))


def splice(
    start: int, deleted: int, opened: list[types.TextDocumentItem], closed: list[str]
) -> types.NotebookDocumentCellChanges:
    array = types.NotebookCellArrayChange(start, deleted, [cell(one) for one in opened])
    gone = [types.TextDocumentIdentifier(uri) for uri in closed]
    return types.NotebookDocumentCellChanges(types.NotebookDocumentCellChangeStructure(array, opened, gone))


async def last_request(editor: Editor) -> Any:
    return (await editor.test("counters")).requests[-1]


@pytest.mark.parametrize(("client", "advertised"), [(VSCODE, True), ("neovim_0.12", False)])
async def test_N2_notebooks_are_advertised_to_clients_that_have_them(client: str, advertised: bool) -> None:
    async with editing(client) as editor:
        sync = editor.capabilities.notebook_document_sync
        assert (sync is not None) is advertised


async def test_N1_N2_cells_of_the_language_are_one_context_and_the_edit_stays_in_the_cell() -> None:
    cells = [
        item("one", "import math\nradius = 2\n"),
        item("two", "# Some *prose*", "markdown"),
        item("three", "SELECT 1", "sql"),
        item("four", "area = ‸"),
        item("five", "print(area)"),
    ]
    async with notebook(*cells, at="four", FAKE_TEXT="math.pi * radius ** 2") as editor:
        (found,) = await editor.ask()
        assert editor.accepted(found) == "area = math.pi * radius ** 2"
        assert found.range.start.line == found.range.end.line == 0
        request = await last_request(editor)
        assert request.prefix == "import math\nradius = 2\n\narea = "
        assert request.suffix == "\n\nprint(area)"
        assert request.path == "analysis.ipynb"


async def test_N1_a_later_cell_is_not_written_once_more() -> None:
    cells = [item("one", "x = 1"), item("two", "def f():\n‸"), item("three", "print(f())\nprint(x)\n")]
    async with notebook(*cells, at="two", FAKE_TEXT="    return x\n\nprint(f())\nprint(x)\n") as editor:
        (found,) = await editor.ask()
        assert editor.accepted(found) == "def f():\n    return x"


async def test_N1_cells_come_go_move_and_change() -> None:
    cells = [item("one", "a = 1"), item("two", "b = ‸"), item("three", "c = 3")]
    async with notebook(*cells, at="two", FAKE_TEXT="value") as editor:
        change(editor, splice(0, 1, [item("zero", "z = 0")], [cell_uri("one")]))
        change(editor, splice(3, 0, [item("four", "d = 4")], []))
        everything = types.TextDocumentContentChangeWholeDocument("c = 33")
        identifier = types.VersionedTextDocumentIdentifier(version=2, uri=cell_uri("three"))
        text = types.NotebookDocumentCellContentChanges(identifier, [everything])
        change(editor, types.NotebookDocumentCellChanges(text_content=[text]))
        place = editor.position()
        typed = types.TextDocumentContentChangePartial(range=types.Range(place, place), text="1 + ")
        identifier = types.VersionedTextDocumentIdentifier(version=2, uri=editor.uri)
        text = types.NotebookDocumentCellContentChanges(identifier, [typed])
        change(editor, types.NotebookDocumentCellChanges(text_content=[text]))
        editor.text, editor.cursor = "b = 1 + ", 8
        (found,) = await editor.ask()
        assert editor.accepted(found) == "b = 1 + value"
        request = await last_request(editor)
        assert (request.prefix, request.suffix) == ("z = 0\n\nb = 1 + ", "\n\nc = 33\n\nd = 4")
        moved = types.NotebookCellArrayChange(0, 4, [cell(item(name, "")) for name in ("four", "two", "zero", "three")])
        structure = types.NotebookDocumentCellChangeStructure(moved)
        change(editor, types.NotebookDocumentCellChanges(structure))
        editor.cursor -= 4
        await editor.ask(invoked=True)
        assert (await last_request(editor)).prefix == "d = 4\n\nb = "


async def test_a_notebook_that_is_closed_or_was_never_open_gives_nothing() -> None:
    async with notebook(item("one", "a = ‸"), at="one", FAKE_TEXT="1") as editor:
        change(editor, splice(0, 1, [], []), uri="file:///project/other.ipynb")
        closed = types.DidCloseNotebookDocumentParams(types.NotebookDocumentIdentifier(NOTEBOOK), [])
        editor.client.notebook_document_did_close(closed)
        editor.client.notebook_document_did_close(closed)
        assert await editor.ask(invoked=True) == []
        assert editor.messages == []


async def test_a_cancelled_request_and_one_for_text_that_changed_meanwhile() -> None:
    async with notebook(item("one", "a = ‸"), at="one", FAKE_TEXT="1", FAKE_GATED="1") as editor:
        request = editor.ask()
        await editor.test("wait", runs=1)
        place = editor.position()
        typed = types.TextDocumentContentChangePartial(range=types.Range(place, place), text="x")
        identifier = types.VersionedTextDocumentIdentifier(version=2, uri=editor.uri)
        text = types.NotebookDocumentCellContentChanges(identifier, [typed])
        change(editor, types.NotebookDocumentCellChanges(text_content=[text]))
        await editor.test("allow", passes=100)
        assert await request == []
        editor.text, editor.cursor = "a = x", 5
        other = editor.ask(msg_id="one")
        editor.cancel("one")
        await asyncio.wait([other], timeout=SECONDS)
        assert other.done()


async def test_L1_L5_a_cell_is_ignored_with_its_notebook(tmp_path: Path) -> None:
    (tmp_path / ".mercuryignore").write_text("private/\n")
    uri = (tmp_path / "private" / "notes.ipynb").as_uri()
    one = item("one", "value = ‸", notebook=uri)
    async with notebook(one, at="one", uri=uri, folders=[tmp_path], FAKE_TEXT="1") as editor:
        place = editor.position()
        typed = types.TextDocumentContentChangePartial(range=types.Range(place, place), text="CANARY")
        identifier = types.VersionedTextDocumentIdentifier(version=2, uri=editor.uri)
        text = types.NotebookDocumentCellContentChanges(identifier, [typed])
        change(editor, types.NotebookDocumentCellChanges(text_content=[text]), uri)
        assert await editor.ask(invoked=True) == []
        assert "ignored" in (await editor.status(kind="Inactive")).message
        editor.open("x = value + ‸\n", uri=(tmp_path / "main.py").as_uri())
        assert await editor.ask(invoked=True)
        assert "CANARY" not in json.dumps(await editor.test("counters"), default=str)
