"""URIs as a hostile or careless client writes them: no text of one raises, none leaves its folder unseen."""

import os
from dataclasses import asdict
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mercury_lsp.features.folders import Folders, path_of
from mercury_lsp.features.store import document_key
from mercury_lsp.workspace.index import Limits
from mercury_lsp.workspace.index_worker import Worker
from tests.faults.serving import ANSWER, AT_ONCE, open_document, serving, suggested

PIECES = st.sampled_from(
    ("file:", "FILE:", "untitled:", "//", "/", "[", "]", "%00", "%FF", "%", "..", ".", "a.py", ".env", "~", "host",
     "\\", "?x=1", "#1", ";p", "é", "\udcff", "\n", " ", "@", ":8080", "%2e%2e", "%2F")
)  # fmt: skip
URIS = st.lists(PIECES, max_size=8).map("".join) | st.text(max_size=12)


@settings(max_examples=500, deadline=None)
@given(URIS)
def test_any_text_is_a_uri_that_can_be_asked_about(uri: str) -> None:
    folders = Folders()
    folders.configure([Path("/project")], lambda root: [])
    folders.adopt(uri, uri + "/notebook")
    for asked in (uri, f"file:///project/{uri}"):
        folders.reason(asked)
        folders.locate(asked)
        folders.gone(asked)
        folders.settings_of(asked)
        assert document_key(asked) == document_key(asked)
        path = path_of(asked)
        assert path is None or ".." not in path.parts


@pytest.mark.skipif(os.name == "nt", reason="paths of this system")
@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("file:///project/a%20b.py", "/project/a b.py"),
        ("FILE:///project/a.py", "/project/a.py"),
        ("file://localhost/project/a.py", "/project/a.py"),
        ("file:///project/../../etc/passwd", "/etc/passwd"),
        ("file:///project/%2e%2e/%2E%2E/etc/passwd", "/etc/passwd"),
        ("file:///project/x/..%2Fa;b.py", "/project/a;b.py"),
        ("file:///caf%E9.py", "/caf\udce9.py"),
        ("file://another/etc/passwd", None),
        ("file:///a%00b.py", None),
        ("file:a.py", None),
        ("file://[", None),
        ("untitled:Untitled-1", None),
    ],
)
def test_the_path_of_a_uri(uri: str, path: str | None) -> None:
    assert path_of(uri) == (None if path is None else Path(path))


def test_names_that_are_no_utf8_are_different_documents() -> None:
    assert document_key("file:///%FE.py") != document_key("file:///%FF.py")
    assert document_key("file:///%C3%BC.py") == document_key("file:///ü.py")


def test_what_lies_outside_of_a_folder_is_neither_indexed_nor_taken_for_a_part_of_it(tmp_path: Path) -> None:
    project, outside = tmp_path / "project", tmp_path / "outside"
    for folder in (project, outside):
        folder.mkdir()
        (folder / "module.py").write_text(f"def from_{folder.name}():\n    return 1\n")
    uri = f"{project.as_uri()}/../outside/module.py"
    folders = Folders()
    folders.configure([project], lambda root: [])
    assert folders.locate(uri) == ("", "module.py")
    worker = Worker()
    root = {"path": str(project), "ignore": (), "gitignore": True}
    worker.take({"do": "open", "roots": [root], **asdict(Limits())})
    worker.take({"do": "changed", "paths": [str(path_of(uri))]})
    while worker.busy:
        worker.step()
    assert worker.table.n_files == 1


def test_a_secret_is_a_secret_under_every_spelling_of_its_uri(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    spellings = (".env", "sub/../.env", "%2Eenv", "sub/%2e%2e/.env", "./.env", ".ENV", ".ssh/config", "x/../.ssh/a.py")
    settings = {**AT_ONCE, "files": {"ignore": ["!*.py"]}}
    with serving(tmp_path / "log", settings=settings, folders=[tmp_path.as_uri()]) as client:
        for name in spellings:
            uri = f"{tmp_path.as_uri()}/{name}"
            open_document(client, uri, "KEY = ", "python")
            if not name.endswith(".py"):  # that one was allowed
                assert suggested(client, uri, "KEY = ") == [], name
        open_document(client, f"{tmp_path.as_uri()}/.ssh/../a.py", "KEY = ")
        assert suggested(client, f"{tmp_path.as_uri()}/.ssh/../a.py", "KEY = ") == [ANSWER]
