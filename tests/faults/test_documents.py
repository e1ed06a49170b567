"""Documents that no editor should open as text, or that are far larger than any: the server keeps step and lives."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.serving import ANSWER, held, open_document, serving, statuses, suggested, type_key

URI = "file:///project/odd.py"
OTHER = "file:///project/usual.py"


def one_line(n: int) -> str:
    return "x = [" + "1234567, " * (n // 9) + "]"


def bytes_as_text() -> str:
    """An executable as an editor shows it: every byte a character, or what is no UTF-8 replaced."""
    raw = random.Random(1).randbytes(60_000)
    return raw.decode("latin-1") + raw.decode("utf-8", "replace") + "".join(map(chr, range(0xD800, 0xD900)))


ODD: dict[str, Callable[[], str]] = {
    "6 MB in one line": lambda: one_line(6_000_000),
    "100,000 lines": lambda: "def f(x):\n    return x\n\n\n" * 25_000,
    "a binary file": bytes_as_text,
    "nothing but line ends": lambda: "\r\n\r\n\n\r" * 30_000,
    "deep nesting": lambda: "(" * 20_000,
    "one word": lambda: "x" * 500_000,
    "only marks of bidirectional text": lambda: "\u202e\u2066" * 20_000,
}


@pytest.mark.parametrize("name", ODD)
def test_an_odd_document_is_kept_answered_and_closed(name: str, tmp_path: Path) -> None:
    text = ODD[name]()
    with serving(tmp_path / "log") as client:
        open_document(client, URI, text)
        type_key(client, URI, text, "\nz = ")
        assert held(client, URI) == text + "\nz = "
        suggested(client, URI, text + "\nz = ")
        everywhere = {"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 3}}
        identifier = {"uri": URI}
        params = {"textDocument": identifier, "range": everywhere, "context": {"diagnostics": []}}
        client.call("textDocument/codeAction", params)
        client.call("textDocument/copilotInlineEdit", {"textDocument": identifier, "position": everywhere["end"]})
        client.notify("textDocument/didClose", {"textDocument": identifier})
        open_document(client, OTHER, "y = ")
        assert suggested(client, OTHER, "y = ") == [ANSWER]


def test_a_file_of_ten_megabytes_is_left_alone_with_the_reason_and_the_next_is_not(tmp_path: Path) -> None:
    text = one_line(10_000_000)
    with serving(tmp_path / "log") as client:
        open_document(client, URI, text)
        assert suggested(client, URI, text) == []
        client.until(lambda: any("8192 KB" in s["message"] for s in statuses(client)), "nobody says why")
        assert statuses(client)[-1]["kind"] == "Inactive"
        type_key(client, URI, text, "!")
        assert held(client, URI) == text + "!"
        open_document(client, OTHER, "y = ")
        assert suggested(client, OTHER, "y = ") == [ANSWER]
        client.until(lambda: statuses(client)[-1]["kind"] == "Normal", "it stays inactive")
