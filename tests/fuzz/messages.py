"""What a client may send, and what no client should: hypothesis strategies over plain JSON values."""

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

PIECES = (
    "a", "b ", "_", "\t", "é", "e\u0301", "漢", "😀", "👩\u200d💻", "\udc80", "\n", "\n", "\r\n", "\r", "\x0b", "\x0c",
    "\x85", "\u2028", "\ufeff", "\x00", "def f(x):\n    return ", "(", ")", "x = ", '"', "# ", "    pass\n",
    "<|endoftext|>",
)  # fmt: skip
TEXTS = st.lists(st.sampled_from(PIECES), max_size=12).map("".join)
LANGUAGES = st.sampled_from(("python", "rust", "typescript", "markdown", "", "no such language", "dotenv"))
LARGEST = 2**31 - 1
NUMBERS = st.integers(0, 9) | st.sampled_from((25, 1000, LARGEST))
POSITIONS = st.fixed_dictionaries({"line": NUMBERS, "character": NUMBERS})
RANGES = st.fixed_dictionaries({"start": POSITIONS, "end": POSITIONS})
PARTIAL = st.fixed_dictionaries({"range": RANGES, "text": TEXTS})
WHOLE = st.fixed_dictionaries({"text": TEXTS})
CHANGES = st.lists(PARTIAL | PARTIAL | PARTIAL | WHOLE, min_size=1, max_size=4)

ODD = st.sampled_from(
    (None, True, -1, 0, 2**31, 10**30, 1.5, float("nan"), float("inf"), "", "x", [], [[]], {}, {"a": 1}, [{"range": 1}])
)
JSON = st.recursive(
    ODD | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)

OPTIONS = {
    "enabled": st.booleans(),
    "canvas": st.booleans(),
    "inline": st.fixed_dictionaries(
        {"debounceMs": st.just(0)},
        optional={
            "enabled": st.booleans(),
            "maxTokens": st.integers(-1, 2000),
            "effort": st.sampled_from(("instant", "high", "all")),
            "comments": st.booleans(),
            "strings": st.booleans(),
            "markdown": st.booleans(),
            "deadlineMs": st.sampled_from((0, 5000, -1)),
        },
    ),
    "files": st.fixed_dictionaries(
        {}, optional={"ignore": st.lists(st.sampled_from(("*.py", "!a.py", "[", "**", "{", "")), max_size=2)}
    ),
    "context": st.fixed_dictionaries(
        {"index": st.just(False)},
        optional={"share": st.sampled_from((0, 0.25, 0.8, 2)), "tokens": st.sampled_from((64, 500, None, -1))},
    ),
    "model": st.fixed_dictionaries({"name": st.sampled_from(("one", "another"))}),
}
SETTINGS = st.fixed_dictionaries(
    {"inline": OPTIONS["inline"], "context": OPTIONS["context"]},
    optional={name: option for name, option in OPTIONS.items() if name not in ("inline", "context")},
)
PLAIN_SETTINGS = {"inline": {"debounceMs": 0}, "context": {"index": False}}

COMMANDS = (
    "mercury.rewrite", "mercury.fill", "mercury.cycle", "mercury.act", "mercury.pause", "mercury.resume",
    "mercury.snooze", "mercury.status", "mercury.selectModel", "mercury.nothing",
)  # fmt: skip


def inline(uri: str, position: Any) -> tuple[str, Any]:
    where = {"textDocument": {"uri": uri}, "position": position}
    return "textDocument/inlineCompletion", {**where, "context": {"triggerKind": 1}}


def completion(uri: str, position: Any) -> tuple[str, Any]:
    return "textDocument/completion", {"textDocument": {"uri": uri}, "position": position}


def next_edit(uri: str, position: Any) -> tuple[str, Any]:
    return "textDocument/copilotInlineEdit", {"textDocument": {"uri": uri}, "position": position}


def actions(uri: str, position: Any) -> tuple[str, Any]:
    place = {"start": {"line": 0, "character": 0}, "end": position}
    diagnostic = {"range": place, "message": "name 'x' is not defined", "severity": 1}
    context = {"diagnostics": [diagnostic], "triggerKind": 1}
    return "textDocument/codeAction", {"textDocument": {"uri": uri}, "range": place, "context": context}


def command(uri: str, position: Any, name: str = "mercury.fill", **more: Any) -> tuple[str, Any]:
    place = {"start": position, "end": position}
    given = {
        "mercury.rewrite": {"uri": uri, "range": place, "instruction": "shorter"},
        "mercury.fill": {"uri": uri, "position": position},
        "mercury.cycle": {"uri": uri, "position": position},
        "mercury.act": {"uri": uri, "version": 1, "task": "fill", "anchor": {}, "span": [0, 1]},
        "mercury.snooze": {"minutes": 1},
        "mercury.selectModel": {"name": "one"},
    }.get(name)
    return "workspace/executeCommand", {"command": name, "arguments": [given] if given else [], **more}


REQUESTS: tuple[Callable[..., tuple[str, Any]], ...] = (inline, inline, inline, completion, next_edit, actions, command)

METHODS = (
    "textDocument/didOpen", "textDocument/didChange", "textDocument/didClose", "textDocument/didSave",
    "textDocument/inlineCompletion", "textDocument/completion", "textDocument/codeAction", "codeAction/resolve",
    "textDocument/copilotInlineEdit", "mercury/nextEdit", "mercury/rejected", "textDocument/didShowInlineEdit",
    "workspace/executeCommand", "workspace/didChangeConfiguration", "workspace/didChangeWatchedFiles",
    "workspace/didChangeWorkspaceFolders", "notebookDocument/didOpen", "notebookDocument/didChange",
    "notebookDocument/didSave", "notebookDocument/didClose", "window/workDoneProgress/cancel", "$/cancelRequest",
    "$/setTrace", "$/progress", "initialize", "initialized", "no/such/method", "", "$/",
)  # fmt: skip


def valid(uri: str) -> dict[str, Any]:
    """For each kind of message parameters that are right, to be spoiled."""
    position = {"line": 0, "character": 1}
    identifier, place = {"uri": uri, "version": 3}, {"start": position, "end": position}
    item = {"uri": uri, "languageId": "python", "version": 1, "text": "x = 1\n"}
    cell = {"kind": 2, "document": "cell:hostile"}
    array = {"start": 0, "deleteCount": 1, "cells": [cell]}
    return {
        "textDocument/didOpen": {"textDocument": item},
        "textDocument/didChange": {"textDocument": identifier, "contentChanges": [{"range": place, "text": "y"}]},
        "textDocument/didClose": {"textDocument": identifier},
        "textDocument/didSave": {"textDocument": identifier, "text": "x"},
        "workspace/didChangeConfiguration": {"settings": {"mercury": {"enabled": True}}},
        "workspace/didChangeWatchedFiles": {"changes": [{"uri": uri, "type": 3}]},
        "workspace/didChangeWorkspaceFolders": {"event": {"added": [], "removed": [{"uri": uri, "name": "x"}]}},
        "notebookDocument/didChange": {
            "notebookDocument": {"uri": "file:///fuzz/hostile.ipynb", "version": 2},
            "change": {"cells": {"structure": {"array": array}}},
        },
        "window/workDoneProgress/cancel": {"token": "x"},
        "mercury/rejected": {"textDocument": identifier, "position": position},
        "codeAction/resolve": {"title": "x", "data": command(uri, position, "mercury.act")[1]["arguments"][0]},
        **dict([inline(uri, position), completion(uri, position), next_edit(uri, position), actions(uri, position)]),
        **dict([command(uri, position, "mercury.rewrite", workDoneToken="x")]),
    }


@st.composite
def spoiled(draw: st.DrawFn, uri: str) -> tuple[str, Any]:
    """A message of which one part is missing, of a wrong type, or too much."""
    method, params = draw(st.sampled_from(sorted(valid(uri).items())))
    return method, _spoil(draw, params)


def _spoil(draw: st.DrawFn, value: Any) -> Any:
    if isinstance(value, dict) and value and draw(st.integers(0, 4)):
        key = draw(st.sampled_from(sorted(value)))
        if not draw(st.integers(0, 3)):
            return {name: kept for name, kept in value.items() if name != key}
        return {**value, key: _spoil(draw, value[key])}
    if isinstance(value, list) and value and draw(st.integers(0, 4)):
        return [_spoil(draw, value[0]), *value[1:]]
    return draw(JSON)


IDS = st.sampled_from((None, True, 0, -1, 1.5, "", "x", 10**30, [], {}, {"id": 1}))
DEEP = 2_000

BODIES = (
    b"", b"{", b"null", b"5", b'"x"', b"[]", b"[{}]", b"{}", b"\xff\xfe\x00", b"{\"jsonrpc\": \"2.0\"",
    b'{"jsonrpc":"2.0","method":5}', b'{"jsonrpc":"2.0","method":null,"id":1}', b'{"jsonrpc":"1.0","method":"x"}',
    b'{"jsonrpc":"2.0","id":77777,"result":null}', b'{"jsonrpc":"2.0","id":"nobody","result":{"a":1}}',
    b'{"jsonrpc":"2.0","id":77778,"error":{"code":1,"message":"x"}}', b'{"jsonrpc":"2.0","id":77779,"error":5}',
    b'{"jsonrpc":"2.0","id":77780}', b'{"method":"x"}', b'[{"jsonrpc":"2.0","method":"x"}]',
    b'{"jsonrpc":"2.0","method":"textDocument/didOpen","params":' + b"[" * DEEP + b"]" * DEEP + b"}",
    b'{"jsonrpc":"2.0","method":"workspace/executeCommand","id":77781,"params":{"command":"mercury.status",'
    b'"arguments":[' + b"[" * 300 + b"]" * 300 + b"]}}",
    b'{"jsonrpc":"2.0","method":"x","params":' + b"9" * 5_000 + b"}",
    b'{"jsonrpc":"2.0","method":"x","params":{"jsonrpc":"2.0","method":"shutdown","id":3}}',
)  # fmt: skip
HEADERS = (
    b"Content-Type: application/vscode-jsonrpc; charset=utf-8\r\n\r\n", b"\r\n", b"X: y\r\n\r\n",
    b"Content-Length: 0\r\n\r\n", b"Content-Length: -5\r\n\r\n", b"Content-Length: x\r\n\r\n", b"\xff\xff\r\n\r\n",
)  # fmt: skip
