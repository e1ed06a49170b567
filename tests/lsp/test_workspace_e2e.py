"""Folders, settings, ignored files and context over a real server process with a scripted model."""

import asyncio
import json
from pathlib import Path
from typing import Any

import psutil
import pytest
from lsprotocol import types

from tests.lsp.editor import SECONDS, Editor, editing
from tests.lsp.test_index import tree

VSCODE = "vscode_languageclient_10"
MAIN = "from lib import price\n\n\ndef total(items):\n    result = ‸\n    return result\n"
AT_ONCE = {"inline": {"debounceMs": 0}}


async def requests(editor: Editor) -> list[dict[str, Any]]:
    """Everything the model was given so far."""
    counters = await editor.test("counters")
    return [json.loads(json.dumps(as_dict(request))) for request in counters.requests]


def as_dict(value: Any) -> Any:
    """pygls hands out named tuples."""
    if hasattr(value, "_asdict"):
        return {name: as_dict(item) for name, item in value._asdict().items()}
    return [as_dict(item) for item in value] if isinstance(value, list | tuple) else value


async def last_context(editor: Editor) -> dict[str, str]:
    return {piece["path"]: piece["text"] for piece in (await requests(editor))[-1]["context"]}


def close(editor: Editor, uri: str) -> None:
    identifier = types.TextDocumentIdentifier(uri=uri)
    editor.client.text_document_did_close(types.DidCloseTextDocumentParams(text_document=identifier))


def save(editor: Editor, uri: str) -> None:
    identifier = types.TextDocumentIdentifier(uri=uri)
    editor.client.text_document_did_save(types.DidSaveTextDocumentParams(text_document=identifier))


def changed(editor: Editor, *paths: Path, kind: types.FileChangeType = types.FileChangeType.Changed) -> None:
    events = [types.FileEvent(uri=path.as_uri(), type=kind) for path in paths]
    editor.client.workspace_did_change_watched_files(types.DidChangeWatchedFilesParams(changes=events))


async def offered(editor: Editor, marked: str, path: Path) -> bool:
    """Whether a buffer gets a suggestion."""
    editor.open(marked, uri=path.as_uri())
    return bool(await editor.ask(invoked=True))


async def test_files_and_settings_are_followed_through_the_client_where_it_can(tmp_path: Path) -> None:
    async with editing(VSCODE, folders=[tmp_path]) as editor:
        sync = editor.capabilities.text_document_sync
        assert isinstance(sync, types.TextDocumentSyncOptions)
        assert sync.save
        await editor.test("indexed")  # comes after the registration
        methods = [registration.method for registration in editor.registrations]
        assert methods == [types.WORKSPACE_DID_CHANGE_WATCHED_FILES, types.WORKSPACE_DID_CHANGE_CONFIGURATION]


async def test_declarations_that_the_code_uses_are_shown_and_stay_while_typing(tmp_path: Path) -> None:
    root = tree(tmp_path, {"lib.py": "def price(item: dict) -> int:\n    return 1\n", "main.py": ""})
    async with editing(VSCODE, folders=[root], options=AT_ONCE, FAKE_TEXT="1") as editor:
        await editor.test("indexed")
        editor.open(MAIN, uri=(root / "main.py").as_uri())
        assert await editor.ask()
        assert await last_context(editor) == {"lib.py": "def price(item: dict) -> int:"}
        for key in "sum(":
            editor.type(key)
            await editor.ask()
        seen = await requests(editor)
        assert len(seen) > 1
        assert all(request["context"] == seen[0]["context"] for request in seen)
        assert {request["path"] for request in seen} == {"main.py"}


async def test_without_a_share_only_the_file_is_shown(tmp_path: Path) -> None:
    root = tree(tmp_path, {"lib.py": "def price(): ...\n", "main.py": ""})
    options = {**AT_ONCE, "context": {"share": 0}}
    async with editing(VSCODE, folders=[root], options=options, FAKE_TEXT="1") as editor:
        assert await offered(editor, MAIN, root / "main.py")
        assert await last_context(editor) == {}


async def test_recent_edits_of_other_files_are_shown_and_a_saved_file_is_looked_at_again(tmp_path: Path) -> None:
    root = tree(tmp_path, {"main.py": "", "other.py": ""})
    async with editing(VSCODE, folders=[root], options=AT_ONCE, FAKE_TEXT="1") as editor:
        assert await offered(editor, MAIN, root / "main.py")
        assert await last_context(editor) == {}
        editor.open("def renamed_everywhere(‸): ...\n", uri=(root / "other.py").as_uri())
        editor.type("argument")
        save(editor, editor.uri)
        assert await offered(editor, MAIN.replace("result", "value"), root / "main.py")
        assert "def renamed_everywhere(argument)" in (await last_context(editor))["other.py"]


async def test_diagnostics_that_came_with_a_request_are_shown(tmp_path: Path) -> None:
    async with editing(VSCODE, folders=[tmp_path], options=AT_ONCE, FAKE_TEXT="1") as editor:
        editor.open(MAIN, uri=(tmp_path / "main.py").as_uri())
        place = types.Range(start=editor.position(0), end=editor.position(4))
        context = types.CodeActionContext(diagnostics=[types.Diagnostic(range=place, message="lib is not there")])
        identifier = types.TextDocumentIdentifier(uri=editor.uri)
        await editor.client.text_document_code_action_async(types.CodeActionParams(identifier, place, context))
        assert await editor.ask(invoked=True)
        assert await last_context(editor) == {"main.py": "# lib is not there: from lib import price"}


async def test_L1_L5_nothing_of_an_ignored_file_ever_reaches_the_model(tmp_path: Path) -> None:
    """Canaries on disk, in an open buffer, in edits, in the index, behind a link and in a file that is renamed."""
    root = tree(
        tmp_path,
        {
            ".env": "TOKEN=CANARY_DISK\n",
            "secrets.py": "def price(CANARY_INDEX): ...\n",
            "private/keys.py": "def price(CANARY_PRIVATE): ...\n",
            "old.py": "",
            ".mercuryignore": "private/\n",
            "lib.py": "def price(item: dict) -> int:\n    return 1\n",
            "main.py": "",
            "other.py": "",
        },
    )
    (root / "link.py").symlink_to(root / "secrets.py")
    async with editing(VSCODE, folders=[root], options=AT_ONCE, FAKE_TEXT="1") as editor:
        assert (await editor.test("indexed")).files == 4
        for name in (".env", "secrets.py", "private/keys.py", "link.py"):
            editor.open("result = items + CANARY_BUFFER‸\n", uri=(root / name).as_uri())
            editor.type(" + CANARY_EDIT")
            assert await editor.ask(invoked=True) == []
            status = await editor.status(kind="Inactive")
            assert "ignored" in status.message
            save(editor, editor.uri)
        editor.open("result = ‸items\n", uri=(root / "old.py").as_uri())
        editor.type("CANARY_RENAMED")
        close(editor, editor.uri)
        (root / "old.py").rename(root / ".env.local")
        editor.open("result = CANARY_RENAMED + items‸\n", uri=(root / ".env.local").as_uri())
        editor.open("result = visible_‸items\n", uri=(root / "other.py").as_uri())
        editor.type("edit_")
        changed(editor, root / ".env", root / "secrets.py", root / "other.py")
        assert await offered(editor, MAIN, root / "main.py")
        save(editor, editor.uri)
        editor.type("1")
        await editor.ask(invoked=True)
        seen = await requests(editor)
        assert len(seen) == 2
        assert "CANARY" not in json.dumps(seen)
        for request in seen:  # it would have been seen: what is not ignored is
            assert {"lib.py", "other.py"} <= {piece["path"] for piece in request["context"]}
            assert "visible_edit_items" in json.dumps(request)


async def test_L5_what_becomes_ignored_is_not_shown_once_more(tmp_path: Path) -> None:
    root = tree(tmp_path, {"lib.py": "def price(CANARY): ...\n", "main.py": ""})
    async with editing(VSCODE, folders=[root], options=AT_ONCE, FAKE_TEXT="1") as editor:
        await editor.test("indexed")
        assert await offered(editor, MAIN, root / "main.py")
        assert "CANARY" in json.dumps(await requests(editor))
        tree(root, {".mercuryignore": "lib.py\n"})
        changed(editor, root / ".mercuryignore")
        await editor.test("indexed")
        assert await offered(editor, MAIN.replace("result", "value"), root / "main.py")
        assert await last_context(editor) == {}


async def test_L3_an_example_is_allowed_again_by_a_negated_glob(tmp_path: Path) -> None:
    options = {**AT_ONCE, "files": {"ignore": ["!.env.example"]}}
    async with editing(VSCODE, folders=[tmp_path], options=options, FAKE_TEXT="1") as editor:
        assert not await offered(editor, "A=‸\n", tmp_path / ".env")
        assert await offered(editor, "A=‸\n", tmp_path / ".env.example")


async def test_L1_unsaved_buffers_are_ignored_by_name_and_language() -> None:
    async with editing(VSCODE, options=AT_ONCE, FAKE_TEXT="1") as editor:
        editor.open("A=‸\n", uri="untitled:.env", language="plaintext")
        assert await editor.ask(invoked=True) == []
        editor.open("A=‸\n", uri="untitled:Untitled-1", language="dotenv")
        assert await editor.ask(invoked=True) == []
        editor.open("a = ‸\n", uri="untitled:Untitled-2", language="python")
        assert await editor.ask(invoked=True)


async def test_settings_are_asked_for_and_asked_for_again(tmp_path: Path) -> None:
    off = {"inline": {"enabled": False}}
    async with editing(VSCODE, folders=[tmp_path], configuration=off, options=AT_ONCE, FAKE_TEXT="1") as editor:
        await editor.test("indexed")
        assert not await offered(editor, "a = ‸\n", tmp_path / "a.py")
        editor.client.set_configuration({"mercury": {"inline": {"enabled": True}}})
        editor.client.workspace_did_change_configuration(types.DidChangeConfigurationParams(settings=None))
        async with asyncio.timeout(SECONDS):
            while not await offered(editor, "a = ‸\n", tmp_path / "a.py"):
                await asyncio.sleep(0.05)


async def test_J4_a_wrong_setting_is_named_once_wherever_it_stands(tmp_path: Path) -> None:
    root = tree(tmp_path, {".mercury.toml": "[inline]\nmax_tokens = 'many'\n"})
    wrong = {"context": {"colour": 1}}
    async with editing(VSCODE, folders=[root], configuration=wrong, options=AT_ONCE, FAKE_TEXT="1") as editor:
        async with asyncio.timeout(SECONDS):
            while "colour" not in "".join(editor.messages):
                await asyncio.sleep(0.02)
        changed(editor, root / ".mercury.toml")
        assert await offered(editor, "a = ‸\n", root / "a.py")
        lines = "\n".join(editor.messages).split("\n")
        assert len(lines) == 2
        assert lines[0].startswith(f"{root / '.mercury.toml'}: Setting inline.max_tokens must be a whole number")
        assert lines[1].startswith("Unknown setting context.colour")


async def test_O5_each_folder_has_its_own_settings_reloaded_when_they_change(tmp_path: Path) -> None:
    tree(tmp_path, {"one/.mercury.toml": "enabled = false\n", "one/a.py": "", "two/a.py": ""})
    one, two = tmp_path / "one", tmp_path / "two"
    async with editing(VSCODE, folders=[one, two], options=AT_ONCE, FAKE_TEXT="1") as editor:
        assert not await offered(editor, "a = ‸\n", one / "a.py")
        assert (await editor.status(kind="Inactive")).message == "switched off in the settings"
        assert await offered(editor, "a = ‸\n", two / "a.py")
        tree(one, {".mercury.toml": "[inline]\nenabled = true\n"})
        tree(two, {".mercury.toml": "[files]\nignore = ['a.py']\n"})
        changed(editor, one / ".mercury.toml", two / ".mercury.toml")
        assert await offered(editor, "b = ‸\n", one / "a.py")
        assert not await offered(editor, "b = ‸\n", two / "a.py")


async def test_folders_come_and_go(tmp_path: Path) -> None:
    tree(tmp_path, {"one/a.py": "def one(): ...\n", "two/.mercuryignore": "*.py\n", "two/a.py": ""})
    one, two = tmp_path / "one", tmp_path / "two"
    async with editing(VSCODE, folders=[one], options=AT_ONCE, FAKE_TEXT="1") as editor:
        assert (await editor.test("indexed")).files == 1
        assert await offered(editor, "a = ‸\n", two / "a.py")
        event = types.WorkspaceFoldersChangeEvent(
            added=[types.WorkspaceFolder(two.as_uri(), "two")], removed=[types.WorkspaceFolder(one.as_uri(), "one")]
        )
        editor.client.workspace_did_change_workspace_folders(types.DidChangeWorkspaceFoldersParams(event=event))
        assert not await offered(editor, "b = ‸\n", two / "a.py")


async def test_the_server_watches_where_the_client_cannot(tmp_path: Path) -> None:
    root = tree(tmp_path, {"a.py": ""})
    options = {**AT_ONCE, "context": {"share": 0.5}}
    async with editing("neovim_0.12", folders=[root], options=options, FAKE_TEXT="1") as editor:
        await editor.test("indexed")
        assert editor.registrations == []
        assert await offered(editor, "a = ‸\n", root / "a.py")
        async with asyncio.timeout(SECONDS):
            number = 0
            while await offered(editor, f"a{number} = ‸\n", root / "a.py"):
                number += 1
                tree(root, {".mercury.toml": f"# {number}\n[inline]\nenabled = false\n"})
                await asyncio.sleep(0.2)


@pytest.mark.parametrize("client", [VSCODE, "menu_only"])
async def test_without_a_folder_there_is_no_index_and_no_watcher(client: str) -> None:
    async with editing(client, options=AT_ONCE, FAKE_TEXT="1") as editor:
        editor.open("a = ‸\n")
        assert await editor.complete() if client == "menu_only" else await editor.ask(invoked=True)
        assert psutil.Process(server_pid(editor)).children() == []


async def test_J1_the_index_leaves_with_the_server(tmp_path: Path) -> None:
    async with editing(VSCODE, folders=[tree(tmp_path, {"a.py": "def f(): ...\n"})]) as editor:
        worker = psutil.Process((await editor.test("indexed")).pid)
        assert worker.ppid() == server_pid(editor)
    psutil.wait_procs([worker], timeout=SECONDS)
    assert not worker.is_running()


def server_pid(editor: Editor) -> int:
    server = editor.client._server
    assert server is not None
    return server.pid
