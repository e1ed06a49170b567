"""The symbol index of a workspace: which file defines which name, and the declarations that a place in a file uses.

Kept in a private temporary database of SQLite, so that memory stays bounded (CACHE_KIB) however many files there are;
it is gone with the process. Per definition it holds name, kind, container, lines and a one-line signature, no text.
This module knows nothing about processes, editors or budgets; index_worker.py runs it apart from the server.
"""

import os
import re
import sqlite3
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mercury_lsp.languages import GRAMMARS, grammar_of, language_of
from mercury_lsp.workspace.ignore import SKIPPED_FOLDERS, Ignore
from mercury_lsp.workspace.imports import Target, imported
from mercury_lsp.workspace.symbols import Symbol, definitions

CACHE_KIB = 24_000
MAX_SYMBOLS = 1_500_000
"""Of the whole index; files that come later are left out."""
MAX_NAMES = 80
"""Names looked up for one place."""
MAX_MEMBERS = 12
"""Members of a type that come with it."""
_COMMON = 12  # a name with more definitions, none of them imported, says nothing
_LONG_LINES = 400  # characters in the mean: such a file is generated
_MAX_DEPTH = 24

IMPORTED, IN_FOLDER, NEAR, ELSEWHERE = 8.0, 5.0, 3.0, 1.0
"""How much a definition is worth by where it stands: in a file that is imported, in a folder (package) that is, in the
same folder, anywhere else."""


@dataclass(frozen=True, slots=True)
class Declaration:
    """A definition found for a query. path: relative to its root, with `/`. value: how likely it is what is meant."""

    path: str
    name: str
    kind: str
    container: str
    line: int
    last_line: int
    signature: str
    value: float


@dataclass(frozen=True, slots=True)
class Query:
    """What a place uses. root, path: of its file, path relative. text: of the file, for its imports.

    names: identifiers around the place, with weights. hidden: first and last line of the file that are shown anyway.
    """

    root: str
    path: str
    language: str
    text: str
    names: tuple[tuple[str, float], ...]
    hidden: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Limits:
    """max_files: in the index. max_file_bytes: larger ones are left out."""

    max_files: int = 50_000
    max_file_bytes: int = 512 * 1024


_SURROGATE = re.compile("[\ud800-\udfff]")

_SCHEMA = """
CREATE TABLE files (
    id INTEGER PRIMARY KEY, root TEXT NOT NULL, path TEXT NOT NULL, family TEXT NOT NULL,
    backwards TEXT NOT NULL, folder TEXT NOT NULL, folder_backwards TEXT NOT NULL, UNIQUE (root, path));
CREATE INDEX files_backwards ON files (backwards);
CREATE INDEX files_folder ON files (folder_backwards);
CREATE TABLE symbols (
    file INTEGER NOT NULL, name TEXT NOT NULL, kind TEXT NOT NULL, container TEXT NOT NULL,
    line INTEGER NOT NULL, last INTEGER NOT NULL, signature TEXT NOT NULL);
CREATE INDEX symbols_name ON symbols (name);
CREATE INDEX symbols_file ON symbols (file);
"""


class SymbolTable:
    """Definitions by name and file. One thread only."""

    def __init__(self) -> None:
        self._db = sqlite3.connect("", isolation_level=None)
        self._db.executescript(f"PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; PRAGMA cache_size=-{CACHE_KIB};")
        self._db.executescript(_SCHEMA)
        # one transaction for ever: pages go to the disk when the cache is full, not after every statement
        self._db.execute("BEGIN")
        self.n_files = self.n_symbols = 0

    def put(self, root: str, path: str, family: str, symbols: Sequence[Symbol]) -> None:
        """Takes the definitions of a file in the place of those it had."""
        root, path = _storable(root), _storable(path)
        self.drop(root, path)
        if self.n_symbols + len(symbols) > MAX_SYMBOLS:
            return
        folder = path.rpartition("/")[0]
        cursor = self._db.execute(
            "INSERT INTO files (root, path, family, backwards, folder, folder_backwards) VALUES (?, ?, ?, ?, ?, ?)",
            (root, path, family, f"/{path}"[::-1], folder, f"/{folder}"[::-1]),
        )
        file = cursor.lastrowid
        self._db.executemany(
            "INSERT INTO symbols VALUES (?, ?, ?, ?, ?, ?, ?)",
            [(file, s.name, s.kind, s.container, s.line, s.last_line, s.signature) for s in symbols],
        )
        self.n_files += 1
        self.n_symbols += len(symbols)

    def drop(self, root: str, path: str) -> None:
        """Forgets a file, or all files of a folder."""
        root, path = _storable(root), _storable(path)
        below = path + "/"
        found = self._db.execute(  # not OR, for which SQLite would look at every file
            "SELECT id FROM files WHERE root = ? AND path = ? UNION ALL "
            "SELECT id FROM files WHERE root = ? AND path >= ? AND path < ?",
            (root, path, root, below, below + "\U0010ffff"),
        ).fetchall()
        for (file,) in found:
            self.n_symbols -= self._db.execute("DELETE FROM symbols WHERE file = ?", (file,)).rowcount
            self._db.execute("DELETE FROM files WHERE id = ?", (file,))
            self.n_files -= 1

    def paths(self, root: str) -> list[str]:
        """The files of a root."""
        rows = self._db.execute("SELECT path FROM files WHERE root = ? ORDER BY path", (_storable(root),))
        return [path for (path,) in rows]

    def lookup(self, query: Query, limit: int = 60) -> tuple[Declaration, ...]:
        """The declarations that the names of a query most likely mean, the likeliest first."""
        query = replace(
            query,
            root=_storable(query.root),
            path=_storable(query.path),
            text=_storable(query.text),
            names=tuple((_storable(name), weight) for name, weight in query.names),
        )
        family = _family(query.language)
        files = self._imported(query)
        weights = dict(sorted(query.names, key=lambda item: -item[1])[:MAX_NAMES])
        found: list[Declaration] = []
        for name, weight in weights.items():
            rows = self._db.execute(
                "SELECT f.id, f.root, f.path, f.folder, s.kind, s.container, s.line, s.last, s.signature "
                "FROM symbols s JOIN files f ON f.id = s.file WHERE s.name = ? AND f.family = ? LIMIT 200",
                (name, family),
            ).fetchall()
            for file, root, path, folder, kind, container, line, last, signature in rows:
                own = root == query.root and path == query.path
                if own and query.hidden[0] <= line <= query.hidden[1]:
                    continue
                place = IMPORTED if own else files.get(file, 0.0)
                if not place:
                    place = _by_name_only(query, weights, len(rows), root, folder, kind, container)
                if place:
                    value = weight * place * (1.5 if container in weights else 1.0)
                    found.append(Declaration(path, name, kind, container, line, last, signature, value))
                    if place >= IN_FOLDER and kind in ("class", "type") and not own:
                        found += self._members(file, path, name, value / 3)
        found.sort(key=lambda d: (-d.value, d.path, d.line))
        best = {(d.path, d.line, d.name): d for d in reversed(found)}
        return tuple(sorted(best.values(), key=lambda d: (-d.value, d.path, d.line))[:limit])

    def _members(self, file: int, path: str, container: str, value: float) -> Iterator[Declaration]:
        """The public members of a type that is used, worth less the later they stand."""
        rows = self._db.execute(
            "SELECT name, kind, line, last, signature FROM symbols WHERE file = ? AND container = ? "
            "AND name NOT GLOB '_*' ORDER BY line LIMIT ?",
            (file, container, MAX_MEMBERS),
        )
        for position, (name, kind, line, last, signature) in enumerate(rows.fetchall()):
            yield Declaration(path, name, kind, container, line, last, signature, value * 0.9**position)

    def _imported(self, query: Query) -> dict[int, float]:
        files: dict[int, float] = {}
        for target in imported(query.text, query.path, query.language):
            for file in self._matching(target):
                files[file] = max(files.get(file, 0.0), IN_FOLDER if target.folder else IMPORTED)
        return files

    def _matching(self, target: Target) -> Iterator[int]:
        column = "folder_backwards" if target.folder else "backwards"
        path = "" if target.path == "." else target.path
        start = f"/{path}"[::-1]
        rows = self._db.execute(
            f"SELECT id FROM files WHERE {column} >= ? AND {column} < ? LIMIT 200", (start, start + "\U0010ffff")
        )
        for (file,) in rows:
            yield file


def _storable(text: str) -> str:
    """`text` as SQLite can hold it: bytes of a name that are no UTF-8, and lone surrogates, as private characters."""
    return text if text.isascii() else _SURROGATE.sub(lambda found: chr(0xF0000 + ord(found[0]) - 0xD800), text)


def _by_name_only(
    query: Query, weights: dict[str, float], n_found: int, root: str, folder: str, kind: str, container: str
) -> float:
    """What a definition is worth that no import leads to: common names and other types' members are worth nothing."""
    if kind == "constant" or n_found > _COMMON or (container and container not in weights):
        return 0.0
    near = root == query.root and folder == query.path.rpartition("/")[0]
    return NEAR if near else ELSEWHERE / n_found


def _family(language: str) -> str:
    grammar = grammar_of(language)
    return grammar.family or grammar.name


def walk(root: Path, ignore: Ignore, limits: Limits) -> Iterator[Path]:
    """Files of `root` worth indexing, those near the top first, links not followed. At most limits.max_files."""
    todo, n_found = deque([(root, 0)]), 0
    while todo:
        folder, depth = todo.popleft()
        try:
            with os.scandir(folder) as entries:
                found = sorted(entries, key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in found:
            path = folder / entry.name
            try:
                is_folder = entry.is_dir(follow_symlinks=False)
                is_file = entry.is_file(follow_symlinks=False)
            except OSError:
                continue
            if is_folder and depth < _MAX_DEPTH and entry.name not in SKIPPED_FOLDERS:
                todo.append((path, depth + 1))
            elif is_file and indexable(path) and not ignore.reason_in_walk(path):
                n_found += 1
                if n_found > limits.max_files:
                    return
                yield path


def indexable(path: Path) -> bool:
    """Whether a name is that of a file with definitions."""
    language = language_of(path.name)
    return language is not None and bool(GRAMMARS[language].definitions)


def skipped(relative: Path) -> bool:
    """Whether a path relative to its root lies in a folder that is never indexed."""
    return any(part in SKIPPED_FOLDERS for part in relative.parts[:-1])


def read_symbols(path: Path, limits: Limits) -> tuple[Symbol, ...] | None:
    """The definitions of a file; None if it is too large, generated, not text or not readable."""
    try:
        if path.stat().st_size > limits.max_file_bytes:
            return None
        data = path.read_bytes()
    except OSError:
        return None
    if b"\0" in data[:8192] or len(data) > _LONG_LINES * (data.count(b"\n") + 10):
        return None
    return definitions(data.decode("utf-8-sig", "replace"), path.name)


def index_file(
    table: SymbolTable, root: Path, path: Path, ignore: Ignore, limits: Limits, *, walked: bool = False
) -> None:
    """Brings the index up to date about one path that may be new, changed, gone or ignored.

    walked: `walk` has just said that it is to be indexed.
    """
    relative = path.relative_to(root)
    symbols = None
    wanted = walked or (
        indexable(path)
        and not skipped(relative)
        and path.is_file()
        and not path.is_symlink()
        and not ignore.reason(path)
    )
    if wanted:
        symbols = read_symbols(path, limits)
    if symbols is None:
        table.drop(str(root), relative.as_posix())
    elif table.n_files < limits.max_files:
        table.put(str(root), relative.as_posix(), _family(path.name), symbols)
