"""What docs/security.md promises: nothing is unpickled, nothing sent anywhere, nothing of the user written down."""

import ast
import json
import logging
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.api.serving import client_of
from tests.fakes import FakeInfiller
from tests.faults.serving import ANSWER, AT_ONCE, open_document, serving, shown, statuses, suggested
from tests.lsp.editor import ROOT

SHIPPED = ("mercury_lsp", "model/mercury_model", "kernels/mercury_kernels")
UNSAFE = {"pickle", "cPickle", "dill", "shelve", "marshal", "joblib", "cloudpickle"}
CANARY = "canary7f3a"


def sources(*folders: str) -> list[tuple[Path, ast.Module]]:
    found = [file for folder in folders for file in (ROOT / folder).rglob("*.py")]
    assert found
    return [(file, ast.parse(file.read_text("utf-8"))) for file in found]


def test_nothing_shipped_imports_a_pickle() -> None:
    for file, tree in sources(*SHIPPED):
        for node in ast.walk(tree):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not {name.split(".")[0] for name in names} & UNSAFE, f"{file}:{getattr(node, 'lineno', 0)}"


def test_torch_loads_weights_only() -> None:
    n_loads = 0
    for file, tree in sources(*SHIPPED, "model/train"):
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("torch.load", "load") and node.args:
                if ast.unparse(node.func) == "load":
                    continue  # ours, of a checkpoint's name
                n_loads += 1
                told = {k.arg: ast.unparse(k.value) for k in node.keywords}
                assert told.get("weights_only") == "True", f"{file}:{node.lineno}"
    assert n_loads  # the search finds what there is


def ask_everything(client: Any, uri: str, text: str) -> None:
    """Every feature once, with the canary wherever a client may write something."""
    at = {"line": 0, "character": len(text)}
    place = {"start": {"line": 0, "character": 0}, "end": at}
    identifier = {"uri": uri}
    suggested(client, uri, text)
    diagnostic = {"range": place, "message": f"{CANARY} is not defined", "code": CANARY, "source": CANARY}
    params = {"textDocument": identifier, "range": place, "context": {"diagnostics": [diagnostic]}}
    for action in client.call("textDocument/codeAction", params):
        client.call("codeAction/resolve", action)
    for command, given in (
        ("mercury.rewrite", {"uri": uri, "range": place, "instruction": CANARY}),
        ("mercury.fill", {"uri": uri, "position": at}),
        ("mercury.cycle", {"uri": uri, "position": at}),
    ):
        client.call("workspace/executeCommand", {"command": command, "arguments": [given]})
    client.call("textDocument/copilotInlineEdit", {"textDocument": identifier, "position": at})
    client.notify("mercury/rejected", {"textDocument": identifier, "position": at, "text": CANARY})
    client.notify("no/such/method", {"text": CANARY})
    client.notify("textDocument/didOpen", {"textDocument": {"uri": [CANARY], "text": {"a": CANARY}}})
    client.write(b'Content-Length: 20\r\n\r\n{"%s"' % CANARY.encode() + b" " * (20 - 3 - len(CANARY)))
    client.notify("$/cancelRequest", {"id": CANARY})
    client.notify("window/workDoneProgress/cancel", {"token": CANARY})
    client.call("test/state")


@pytest.mark.parametrize("script", [ANSWER, "!", CANARY], ids=["answers", "fails", "echoes"])
def test_L4_nothing_of_the_user_is_in_the_log_a_message_a_status_or_the_cache(script: str, tmp_path: Path) -> None:
    cache, folder = tmp_path / "cache", tmp_path / "project"
    cache.mkdir()
    folder.mkdir()
    (folder / f"{CANARY}.py").write_text(f"def {CANARY}():\n    return '{CANARY}'\n")
    settings = {**AT_ONCE, "context": {"index": True}, "files": {"ignore": [f"none/{CANARY}.txt"]}, "odd": CANARY}
    uri, text = f"{folder.as_uri()}/{CANARY}/{CANARY}.py", f"{CANARY} = '{CANARY}' + "
    variables = {"MERCURY_LSP_CACHE": str(cache), "FAKE_TEXT": script, "MERCURY_API_KEY": CANARY}
    log = tmp_path / "log"
    try:
        with serving(log, settings=settings, folders=[folder.as_uri()], **variables) as client:
            for document, language in ((uri, "python"), (f"untitled:{CANARY}", "rust")):
                open_document(client, document, text, language)
                ask_everything(client, document, text)
            told = [*shown(client), json.dumps(statuses(client))]
            told += [json.dumps(note) for note in client.notes if note["method"] == "window/logMessage"]
    except AssertionError as error:
        assert script == "!", error  # a model that fails is logged: the fault that is looked for here
        told = []
    assert CANARY not in log.read_text("utf-8", "replace")
    assert not [message for message in told if CANARY in message]
    assert not [path for path in cache.rglob("*") if path.is_file() and CANARY.encode() in path.read_bytes()]


def test_a_server_that_is_used_reaches_no_network(tmp_path: Path) -> None:
    command = (sys.executable, "-m", "tests.faults.blocked_network")
    with serving(tmp_path / "log", command, settings={**AT_ONCE, "context": {"index": True}}) as client:
        open_document(client, "file:///project/a.py", "x = ")
        ask_everything(client, "file:///project/a.py", "x = ")
        assert suggested(client, "file:///project/a.py", "x = ") == [ANSWER]


async def test_nothing_of_an_http_request_is_in_the_log_or_the_counters(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    bodies: dict[str, Any] = {
        "/v1/chat/completions": {"model": "fake", "messages": [{"role": "user", "content": CANARY}]},
        "/v1/fim/completions": {"model": "fake", "prompt": CANARY, "suffix": CANARY, "path": CANARY},
        "/v1/edit/completions": {"model": "fake", "messages": [{"role": "user", "content": CANARY}]},
        "/v1/apply/completions": {"model": CANARY, "messages": CANARY},
        f"/{CANARY}": {},
    }
    async with client_of(FakeInfiller(CANARY)) as client:
        for path, body in bodies.items():
            await client.post(path, json=body, headers={"Authorization": f"Bearer {CANARY}"})
            await client.post(path, content=CANARY)
        metrics = (await client.get("/metrics")).text
        health = (await client.get("/health")).text
    ours = [record.getMessage() for record in caplog.records if not record.name.startswith(("httpx", "httpcore"))]
    assert not [line for line in ours if CANARY in line]
    assert CANARY not in metrics + health
