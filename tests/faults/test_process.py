"""What happens around the server process: signals, clocks, disks, homes, names of files."""

import ast
import os
import signal
import sys
from pathlib import Path

import psutil
import pytest

from tests.faults.serving import ANSWER, AT_ONCE, open_document, serving, shown, statuses, suggested
from tests.lsp.editor import ROOT, SECONDS
from tests.lsp.raw_client import RawClient

URI = "file:///project/example.py"
SERVE = (sys.executable, "-m", "mercury_lsp", "serve", "--stdio")
INDEXED = {**AT_ONCE, "context": {"index": True}}


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGTERM there")
@pytest.mark.parametrize("gated", [False, True], ids=["idle", "in a run"])
def test_SIGTERM_ends_the_server_and_its_index(tmp_path: Path, gated: bool) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "module.py").write_text("def total(items):\n    return sum(items)\n")
    client = RawClient(tmp_path / "log", FAKE_TEXT=ANSWER)
    try:
        client.configuration = INDEXED
        opened = [{"uri": folder.as_uri(), "name": "project"}]
        client.greet(initializationOptions=INDEXED, workspaceFolders=opened)
        index = client.call("test/indexed")
        assert index["files"] == 1
        if gated:
            client.call("test/script", {"text": ANSWER, "gated": True})
            open_document(client, URI, "x = ")
            params = {
                "textDocument": {"uri": URI},
                "position": {"line": 0, "character": 4},
                "context": {"triggerKind": 1},
            }
            client.request("textDocument/inlineCompletion", params)
            client.call("test/wait", {"runs": 1})
        worker = psutil.Process(index["pid"])
        client.process.send_signal(signal.SIGTERM)
        assert client.process.wait(SECONDS) != 0
        worker.wait(SECONDS)
    finally:
        client.close()


def test_a_log_that_cannot_be_written_any_more_costs_only_the_log() -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("no device here that is always full")
    client = RawClient(full, FAKE_TEXT="!")
    try:
        client.configuration = AT_ONCE
        client.greet(encodings=["utf-32"], initializationOptions=AT_ONCE)
        open_document(client, URI, "x = ")
        for _ in range(3):
            assert suggested(client, URI, "x = ") == []  # the model fails, and that is logged
            client.notify("no/such/method", {})
        client.call("test/script", {"text": ANSWER, "gated": False})
        assert suggested(client, URI, "x = ") == [ANSWER]
        assert client.leave() == 0
    finally:
        client.close()


WALL_CLOCK = {("mercury_lsp/api/answering.py", "time"), ("mercury_lsp/api/catalogue.py", "time")}
"""Dates that clients are told. Whatever is measured or waited for is measured with a clock that never jumps."""


def test_no_interval_is_measured_with_a_clock_that_can_jump() -> None:
    found = set[tuple[str, str]]()
    for folder in ("mercury_lsp", "model/mercury_model", "kernels/mercury_kernels"):
        for file in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text("utf-8"))):
                if not (isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)):
                    continue
                jumps = {"time": ("time", "time_ns", "ctime"), "datetime": ("now", "today", "utcnow")}
                if node.attr in jumps.get(node.value.id, ()):
                    found.add((file.relative_to(ROOT).as_posix(), node.attr))
    assert found == WALL_CLOCK


@pytest.mark.parametrize("odd", ["no home", "a cache that is a file"])
def test_a_server_that_cannot_have_weights_says_so_in_one_line_and_stays(tmp_path: Path, odd: str) -> None:
    """The real loader: where there is nowhere to keep weights, nothing is fetched."""
    (tmp_path / "file").write_text("")
    variables = {"HOME": "", "XDG_CACHE_HOME": "", "MERCURY_LSP_CACHE": str(tmp_path / "file" / "cache")}
    if odd == "no home":
        variables |= {"MERCURY_LSP_CACHE": "", "HOME": str(tmp_path / "file" / "home")}
    with serving(tmp_path / "log", SERVE, **variables, **NO_PIP) as client:
        open_document(client, URI, "x = ")
        assert suggested(client, URI, "x = ") == []
        client.until(lambda: any(s["kind"] == "Error" for s in statuses(client)), "nobody says why")
        (message,) = {s["message"] for s in statuses(client) if s["kind"] == "Error"}
        assert "MERCURY_LSP_CACHE" in message
        assert "\n" not in message
        assert shown(client) == [message]
        client.faults()  # the engine has logged it, which is right


NO_PIP = {"PIP_NO_INDEX": "1", "HF_HUB_OFFLINE": "1"}


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="names are text there")
def test_names_that_are_no_utf8_are_indexed_and_completed_like_any_other(tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path / "project") + b"/\xff\xfe"
    os.makedirs(folder)  # noqa: PTH103 - a Path of bytes does not exist
    for name in (b"caf\xe9.py", b"\x80.rs", b"plain.py"):
        Path(os.fsdecode(folder + b"/" + name)).write_text("def total(items):\n    return sum(items)\n")
    uri = Path(os.fsdecode(folder)).as_uri()
    with serving(tmp_path / "log", settings=INDEXED, folders=[(tmp_path / "project").as_uri()]) as client:
        assert client.call("test/indexed")["files"] == 3
        document = f"{uri}/caf%E9.py"
        open_document(client, document, "x = ")
        assert suggested(client, document, "x = ") == [ANSWER]
        client.notify("textDocument/didSave", {"textDocument": {"uri": document}})
        events = [{"uri": f"{uri}/%FF%FE.py", "type": 1}, {"uri": document, "type": 3}]
        client.notify("workspace/didChangeWatchedFiles", {"changes": events})
        assert client.call("test/indexed")["files"] == 3
