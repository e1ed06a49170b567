"""The index under any names and texts: of files, of definitions, of what a document asks about."""

from dataclasses import asdict
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from mercury_lsp.languages import GRAMMARS
from mercury_lsp.workspace.index import Query, SymbolTable
from mercury_lsp.workspace.index_worker import Worker
from mercury_lsp.workspace.symbols import definitions

NAMES = st.text(st.characters(codec=None), min_size=1, max_size=6).map(lambda name: name.replace("/", "_"))
LANGUAGES = st.sampled_from(sorted(GRAMMARS))
LINES = st.sampled_from(
    ("import ", "from . import ", "def f", "class ", '"', "'", "./", "../", "\udcff", "\ud800", "é", "(", "):\n", "\n",
     "use ", "require(", "#include <", "package ", "{", "}", "export const x", " = ", "fn ", "func ", "\0")
)  # fmt: skip
TEXTS = st.lists(LINES, max_size=20).map("".join)


@settings(max_examples=200, deadline=None)
@given(NAMES, st.lists(st.tuples(NAMES, TEXTS), max_size=4), TEXTS, LANGUAGES)
def test_any_name_and_text_can_be_put_asked_about_and_dropped(
    root: str, files: list[tuple[str, str]], text: str, language: str
) -> None:
    table = SymbolTable()
    suffix = GRAMMARS[language].suffixes[0]
    for name, content in files:
        symbols = definitions(content.encode("utf-8", "replace").decode(), f"x{suffix}")
        table.put(f"/{root}", f"{name}{suffix}", language, symbols)
    assert table.n_files == len({name for name, _ in files})
    asked = Query(f"/{root}", f"{root}{suffix}", language, text, ((root, 1.0), ("f", 1.0)), (0, 0))
    table.lookup(asked)
    for name, _ in files:
        table.drop(f"/{root}", f"{name}{suffix}")
    assert (table.n_files, table.n_symbols) == (0, 0)


@settings(max_examples=100, deadline=None)
@given(st.lists(NAMES, max_size=3), TEXTS)
def test_the_worker_lives_whatever_it_is_told(names: list[str], text: str) -> None:
    worker = Worker()
    root = {"path": "/no/such/folder", "ignore": names, "gitignore": True}
    worker.take({"do": "open", "roots": [root], "max_files": 10, "max_file_bytes": 1000})
    paths = [str(Path("/no/such/folder") / name) for name in names if "\0" not in name]
    worker.take({"do": "changed", "paths": paths})
    while worker.busy:
        worker.step()
    query = Query("/no/such/folder", "a.py", "python", text, tuple((name, 1.0) for name in names), (0, 0))
    answer = worker.take({"do": "lookup", "id": 1, "query": {**asdict(query), "names": [list(n) for n in query.names]}})
    assert answer == {"id": 1, "found": []}
