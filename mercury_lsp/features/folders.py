"""The folders of the client: whose settings and ignore rules hold for a document, and what is known about the rest of
its folder (index, recent edits, context).

It knows nothing about messages; workspace.py feeds it. A document of another scheme than `file` has a name, no path:
nothing is looked up on a disk for it.
"""

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

from mercury_lsp.features.store import document_key
from mercury_lsp.settings import Settings, Source, read_layers
from mercury_lsp.settings_files import folder_source
from mercury_lsp.workspace.context_cache import ContextCache
from mercury_lsp.workspace.ignore import Ignore
from mercury_lsp.workspace.index import Limits
from mercury_lsp.workspace.index_process import IndexProcess, IndexRoot, Progress
from mercury_lsp.workspace.recent_edits import EditRing

_WINDOWS = os.name == "nt"
_DRIVE = re.compile(r"/[A-Za-z]:")

SECRET_LANGUAGES = frozenset({"dotenv", "pem"})


@dataclass(frozen=True)
class Folder:
    """A root with what holds in it."""

    path: Path
    settings: Settings
    ignore: Ignore


class Folders:
    """All roots. Files outside of them follow the editor's settings, and the rules of their own repository."""

    def __init__(self) -> None:
        self.roots: tuple[Path, ...] = ()
        self.settings = Settings()
        self.ring = EditRing(lambda uri: self.reason(uri) is not None)
        self.contexts = ContextCache()
        self.index = IndexProcess(self._indexed, late=self.contexts.touch)
        self._ready = False
        self._folders: dict[Path, Folder] = {}
        self._owners: dict[str, str] = {}
        self._outside = Ignore()
        self._indexing: tuple[tuple[IndexRoot, ...], Limits] = ((), Limits())

    def configure(self, roots: Sequence[Path], sources: Callable[[Path | None], Sequence[Source]]) -> list[str]:
        """Reads the settings anew; one line about each option that was not taken.

        sources: what the editor says for a folder, or without one (None), the weakest first.
        """
        found = dict.fromkeys(roots)
        own, problems = read_layers(sources(None))
        outside = Ignore((), own.files.ignore, gitignore=own.files.gitignore)
        folders: dict[Path, Folder] = {}
        for root in found:
            source, problem = folder_source(root)
            settings, more = read_layers([*sources(root), *([source] if source is not None else [])])
            files = settings.files
            folders[root] = Folder(root, settings, Ignore([root], files.ignore, gitignore=files.gitignore))
            problems += [*more, *([problem] if problem else [])]
        # at once: the model's thread may ask at any moment what is ignored, and without its folder nothing would be
        self.roots, self.settings, self._outside, self._folders = tuple(found), own, outside, folders
        self.contexts.forget()
        return list(dict.fromkeys(problems))

    def start_index(self, *, anew: bool = False) -> None:
        """Indexes the roots that want it; anew: also if that is what is indexed already (ignore files changed)."""
        wanted = [folder for folder in self._folders.values() if self._worth_indexing(folder)]
        roots = tuple(
            IndexRoot(folder.path, folder.settings.files.ignore, folder.settings.files.gitignore) for folder in wanted
        )
        context = self.settings.context
        limits = Limits(context.index_max_files, context.index_max_file_kilobytes * 1024)
        if anew or (roots, limits) != self._indexing:
            self._indexing, self._ready = (roots, limits), False
            self.index.open(roots, limits)

    def watched(self) -> list[tuple[Path, Ignore]]:
        """The roots to watch, for whoever does it."""
        wanted = [folder for folder in self._folders.values() if self._worth_indexing(folder)]
        return [(folder.path, folder.ignore) for folder in wanted if folder.settings.context.watch]

    def ignore_files_changed(self) -> None:
        """Nothing that was taken before holds: what is ignored now must not be shown once more."""
        for folder in self._folders.values():
            folder.ignore.refresh()
        self._outside.refresh()
        self.contexts.forget()
        self.start_index(anew=True)

    def adopt(self, cell: str, notebook: str) -> None:
        """What holds for a notebook holds for its cell from now on."""
        self._owners[document_key(cell)] = notebook

    def release(self, cell: str) -> None:
        """A cell is closed."""
        self._owners.pop(document_key(cell), None)

    def owner(self, uri: str) -> str:
        """The URI whose settings and rules hold for a document: a cell's notebook, or its own."""
        return self._owners.get(document_key(uri), uri)

    def settings_of(self, uri: str) -> Settings:
        """The settings that hold for a document. The model is the editor's choice everywhere."""
        folder = self._owner(path_of(self.owner(uri)))
        return self.settings if folder is None else replace(folder.settings, model=self.settings.model)

    def reason(self, uri: str, language: str = "") -> str | None:
        """Why a document is ignored, for people; None if it is not."""
        if language in SECRET_LANGUAGES:
            return f"{language} files may hold secrets"
        uri = self.owner(uri)
        path = path_of(uri)
        if path is None:
            return self._outside.reason(_name(uri), on_disk=False)
        folder = self._owner(path)
        return (self._outside if folder is None else folder.ignore).reason(path)

    def locate(self, uri: str) -> tuple[str, str] | None:
        """(root, path relative to it); None for a document that is ignored. Outside of all roots: its name alone."""
        if self.reason(uri) is not None:
            return None
        uri = self.owner(uri)
        path = path_of(uri)
        folder = self._owner(path)
        if path is None or folder is None:
            return "", _name(uri)
        return str(folder.path), path.relative_to(folder.path).as_posix()

    def gone(self, uri: str) -> bool:
        """Whether the file of a document does not exist any more (it was renamed or deleted)."""
        path = path_of(self.owner(uri))
        return path is not None and not path.exists()

    def close(self) -> None:
        self.index.close()

    def _owner(self, path: Path | None) -> Folder | None:
        if path is None:
            return None
        owners = [
            folder for folder in self._folders.values() if path.is_relative_to(folder.path) and path != folder.path
        ]
        return max(owners, key=lambda folder: len(folder.path.parts), default=None)

    def _worth_indexing(self, folder: Folder) -> bool:
        """Not a whole disk, nor everything a user has."""
        context = folder.settings.context
        too_much = folder.path in (Path(folder.path.anchor), Path.home())
        return folder.settings.enabled and context.index and context.share > 0 and not too_much

    def _indexed(self, progress: Progress) -> None:
        if progress.done and not self._ready:
            self._ready = True
            self.contexts.touch()


@lru_cache(maxsize=1_024)
def path_of(uri: str) -> Path | None:
    """The path of a file URI, without `..` in it, so that it is below no folder that it leaves; None for any other.

    Bytes that are no UTF-8 stay the bytes that they are, as everywhere in Python's paths.
    """
    try:
        parts = urlsplit(uri)
    except ValueError:  # brackets that are no address
        return None
    path = unquote(parts.path, errors="surrogateescape")
    if parts.scheme.lower() != "file" or not path.startswith("/") or "\0" in path:
        return None
    host = "" if parts.netloc.lower() == "localhost" else parts.netloc
    if _WINDOWS:
        drive = _DRIVE.match(path)
        path = f"//{host}{path}" if host else path[1].lower() + path[2:] if drive else path
    elif host:
        return None  # another machine
    return Path(os.path.normpath(path))


def _name(uri: str) -> str:
    try:
        path = urlsplit(uri).path
    except ValueError:  # brackets that are no address
        path = uri
    return PurePosixPath(unquote(path, errors="surrogateescape")).name or uri
