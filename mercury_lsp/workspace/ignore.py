"""Which files the server must not look at: secrets, what .gitignore and .mercuryignore name, and the user's globs.

Three rules, the first that has something to say decides:

1. the setting `files.ignore` and `.mercuryignore` files (of every folder from the root down): a pattern ignores, a
   negated one (`!.env.example`) allows again whatever the next two rules say;
2. secrets, by built-in patterns that nothing replaces;
3. `.gitignore` of every folder from the top of the repository down, and `.git/info/exclude`.

A symbolic link is judged by its own name and by what it points to. This module knows nothing about documents, settings
or what the files are wanted for; it reads ignore files only, and again when they change.
"""

import contextlib
import fnmatch
import os
import re
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath, PurePosixPath

from pathspec import GitIgnoreSpec

SECRET_FILES = (
    ".env*", "*.env", ".dev.vars", ".netrc", "_netrc", ".npmrc", ".pypirc", ".git-credentials", ".htpasswd",
    ".pgpass", ".my.cnf", ".vault_pass*", ".vault-token", ".s3cfg", ".boto", ".dockercfg", "kubeconfig",
    "credentials", "credentials.*", "credentials-*", "credentials_*", "*.credentials", "secrets", "secrets.*",
    "secret.*", "*.secret", "*.secrets", "service-account*.json", "service_account*.json", "client_secret*.json",
    "id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", "*.pem", "*.key", "*.p12", "*.pfx", "*.pkcs12", "*.p8",
    "*.ppk", "*.jks", "*.keystore", "*.kdb", "*.kdbx", "*.cert", "*.crt", "*.cer", "*.der", "*.gpg", "*.asc",
    "*.tfvars", "*.tfvars.json", "*.tfstate", "*.tfstate.*", ".bash_history", ".zsh_history", ".python_history",
)  # fmt: skip
"""Names of files whose text is nobody's business, in any case of letters."""
SECRET_FOLDERS = (".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".password-store")
"""Everything below folders of these names is secret too."""
SKIPPED_FOLDERS = frozenset(
    {
        ".git", ".hg", ".svn", ".jj", "node_modules", "bower_components", "jspm_packages", ".venv", "venv",
        "virtualenv", "site-packages", "__pycache__", ".tox", ".nox", ".eggs", ".mypy_cache", ".ruff_cache",
        ".pytest_cache", ".hypothesis", ".ipynb_checkpoints", "target", "dist", "build", "out", "bin", "obj",
        ".gradle", ".idea", ".vs", ".next", ".nuxt", ".svelte-kit", ".turbo", ".cache", ".parcel-cache", "coverage",
        "htmlcov", "Pods", "DerivedData", ".terraform", ".direnv", "bazel-out", "cmake-build-debug", "elm-stuff",
    }
)  # fmt: skip
"""Folders that are neither indexed nor watched: what tools make and download, not what people write."""

OWN_FILE, GIT_FILE = ".mercuryignore", ".gitignore"
FRESH_SECONDS = 2.0
"""So long an answer, and an ignore file that was read, are taken for current without a look at the disk."""
_MAX_REMEMBERED = 4_096
_MAX_BYTES = 1_000_000  # of an ignore file; a larger one is not one

_SECRET_FILE = re.compile("|".join(f"(?:{fnmatch.translate(pattern)})" for pattern in SECRET_FILES))
_ABSOLUTE = re.compile(r"!?(?:/|~[/\\]|[A-Za-z]:[/\\])")

_MAX_STARS = 5
"""Of a pattern; with each more, a name that nearly matches takes a hundred times as long."""


@dataclass(frozen=True, slots=True)
class _Read:
    """An ignore file as it was read: when that was checked last, its stamp, and its patterns (None: no file)."""

    checked: float
    stamp: tuple[int, int] | None
    spec: GitIgnoreSpec | None


class Ignore:
    """Says of each path whether it is ignored, and why.

    roots: folders of the workspace; a path belongs to the innermost. patterns: the user's, in the syntax of
    .gitignore, relative to the root or absolute (`~` too). gitignore: whether rule 3 applies.
    """

    def __init__(
        self,
        roots: Iterable[str | Path] = (),
        patterns: Sequence[str] = (),
        *,
        gitignore: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        given = [Path(root).absolute() for root in roots]
        known = {root: root for root in given} | {Path(os.path.realpath(root)): root for root in given}
        self._roots = sorted(known, key=lambda root: len(root.parts), reverse=True)
        self._gitignore = gitignore
        self._clock = clock
        patterns = _usable(patterns)
        self._relative = GitIgnoreSpec.from_lines(patterns)
        self._absolute = GitIgnoreSpec.from_lines(
            [_without_drive(_expanded(line)) for line in patterns if _ABSOLUTE.match(line)]
        )
        self._read: dict[Path, _Read] = {}
        self._tops: dict[Path, Path] = {}
        self._answers: dict[str, tuple[float, str | None]] = {}
        self._below: dict[tuple[Path, Path, str], tuple[float, bool]] = {}

    def refresh(self) -> None:
        """Forgets what was read: an ignore file changed."""
        self._read.clear()
        self._tops.clear()
        self._answers.clear()
        self._below.clear()

    def reason(self, path: str | PurePath, *, on_disk: bool = True) -> str | None:
        """Why a file is ignored, for people; None if it is not.

        on_disk: False for the name of something that is no file (an unsaved buffer): nothing is looked up then.
        """
        if not on_disk:
            return self._by_name(PurePosixPath(str(path).replace("\\", "/")))
        key, now = str(path), self._clock()
        known = self._answers.get(key)
        if known is not None and now - known[0] < FRESH_SECONDS:
            return known[1]
        absolute = Path(os.path.normpath(Path(path).absolute()))
        answer = self._on_disk(absolute)
        if answer is None:
            target = Path(os.path.realpath(absolute))
            answer = self._on_disk(target) if target != absolute else None
        if len(self._answers) >= _MAX_REMEMBERED:
            self._answers.clear()
        self._answers[key] = (now, answer)
        return answer

    def reason_in_walk(self, path: Path) -> str | None:
        """As `reason`, of a path met while walking down from a root without following links; not remembered."""
        return self._on_disk(path)

    def root_of(self, path: Path) -> Path | None:
        """The innermost root that holds `path`."""
        return next((root for root in self._roots if path.is_relative_to(root)), None)

    def _by_name(self, path: PurePosixPath) -> str | None:
        relative = str(path).lstrip("/")
        allowed = self._relative.check_file(relative).include
        if allowed is not None:
            return "the setting files.ignore names it" if allowed else None
        return _secret(path)

    def _on_disk(self, path: Path) -> str | None:
        root = self.root_of(path)
        include = self._user(path, root)
        if include is not None:
            return "the setting files.ignore names it" if include else None
        if root is not None:
            include = self._nested(path, root, OWN_FILE)
            if include is not None:
                return f"{OWN_FILE} names it" if include else None
        inside = path.relative_to(root) if root is not None else path
        secret = _secret(inside)
        if secret is not None or not self._gitignore:
            return secret
        top = self._top(path.parent, root)
        ignored = top is not None and self._nested(path, top, GIT_FILE)
        return f"{GIT_FILE} names it" if ignored else None

    def _user(self, path: Path, root: Path | None) -> bool | None:
        whole = _without_drive(path.as_posix()).lstrip("/")
        include = self._absolute.check_file(whole).include if len(self._absolute) else None
        if include is not None or not len(self._relative):
            return include
        return self._relative.check_file(path.relative_to(root).as_posix() if root is not None else whole).include

    def _nested(self, path: Path, top: Path, name: str) -> bool | None:
        """What the files `name` from `top` down say: True ignored, False allowed again, None nothing.

        A folder that is ignored takes everything below with it, as git has it.
        """
        if path == top:
            return None
        return True if self._folder_ignored(path.parent, top, name) else self._itself(path, top, name, "")

    def _folder_ignored(self, folder: Path, top: Path, name: str) -> bool:
        if folder == top:
            return False
        key, now = (folder, top, name), self._clock()
        known = self._below.get(key)
        if known is not None and now - known[0] < FRESH_SECONDS:
            return known[1]
        ignored = self._folder_ignored(folder.parent, top, name) or bool(self._itself(folder, top, name, "/"))
        if len(self._below) >= _MAX_REMEMBERED:
            self._below.clear()
        self._below[key] = (now, ignored)
        return ignored

    def _itself(self, path: Path, top: Path, name: str, ending: str) -> bool | None:
        """What the innermost of the files that has a pattern for this path says of it."""
        holder, below = path, ""
        while holder != top:
            below = f"{holder.name}/{below}" if below else holder.name + ending
            holder = holder.parent
            spec = self._spec(holder, name)
            include = spec.check_file(below).include if spec is not None else None
            if include is not None:
                return include
        return None

    def _spec(self, folder: Path, name: str) -> GitIgnoreSpec | None:
        file, now = folder / name, self._clock()
        known = self._read.get(file)
        if known is not None and now - known.checked < FRESH_SECONDS:
            return known.spec
        stamp = _stamp(file)
        if known is not None and known.stamp == stamp:
            spec = known.spec
        else:
            lines = _lines(file) if stamp is not None else []
            if name == GIT_FILE and (folder / ".git").exists():
                lines = [*_lines(folder / ".git" / "info" / "exclude"), *lines]
            spec = GitIgnoreSpec.from_lines(lines) if lines else None
        if len(self._read) >= 4 * _MAX_REMEMBERED:
            self._read.clear()
        self._read[file] = _Read(now, stamp, spec)
        return spec

    def _top(self, folder: Path, root: Path | None) -> Path | None:
        """The top of the repository that holds `folder`, else the root."""
        if folder not in self._tops:
            if len(self._tops) >= _MAX_REMEMBERED:
                self._tops.clear()
            start = root or folder  # a repository inside a root has its own rules below those of the root
            above = (place for place in (start, *start.parents) if (place / ".git").exists())
            self._tops[folder] = next(above, root or folder)
        return self._tops[folder]


def _secret(path: PurePath) -> str | None:
    name = path.name.lower()
    if _SECRET_FILE.match(name):
        pattern = next(pattern for pattern in SECRET_FILES if fnmatch.fnmatchcase(name, pattern))
        return f"it may hold secrets ({pattern})"
    folder = next((part for part in path.parts[:-1] if part.lower() in SECRET_FOLDERS), None)
    return f"it may hold secrets (it is in {folder})" if folder else None


def _stamp(file: Path) -> tuple[int, int] | None:
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


def _lines(file: Path) -> list[str]:
    try:
        if file.stat().st_size > _MAX_BYTES:
            return []
        lines = file.read_text("utf-8", "replace").splitlines()
    except OSError:
        return []
    return _usable(lines)


def _usable(lines: Iterable[str]) -> list[str]:
    """The patterns that can be read, in a shape that is matched in time."""
    return [tamed for line in lines if (tamed := _tamed(line)) and _valid(tamed)]


def _tamed(line: str) -> str:
    """A pattern with so many stars that matching would take for ever, cut where it has said enough.

    Cut, it ignores more; one that allows files again is dropped. Longer runs of stars mean the same as one.
    """
    line = re.sub(r"\*{3,}", "*", line)
    stars = list(re.finditer(r"\*+", line))
    if len(stars) <= _MAX_STARS:
        return line
    return "" if line.startswith("!") else line[: stars[_MAX_STARS - 1].end()]


def _valid(line: str) -> bool:
    try:
        GitIgnoreSpec.from_lines([line])
    except ValueError:
        return False  # one broken line must not switch the others off
    return True


def _expanded(line: str) -> str:
    negated, pattern = ("!", line[1:]) if line.startswith("!") else ("", line)
    if pattern.startswith("~"):
        with contextlib.suppress(RuntimeError):  # there is no such home
            pattern = Path(pattern).expanduser().as_posix()
    return negated + pattern


def _without_drive(path: str) -> str:
    """`C:/x` as `/c/x`: the colon would be part of the first folder's name."""
    return re.sub(r"^(!?)([A-Za-z]):[/\\]", lambda m: f"{m[1]}/{m[2].lower()}/", path)
