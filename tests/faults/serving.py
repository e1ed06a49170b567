"""A greeted server process with a scripted model, for tests of what goes wrong around it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.lsp.editor import SERVER
from tests.lsp.raw_client import RawClient

AT_ONCE = {"inline": {"debounceMs": 0}, "context": {"index": False}}
ANSWER = "1 + 2"


@contextmanager
def serving(
    log: Path,
    command: Sequence[str] = SERVER,
    *,
    settings: dict[str, Any] = AT_ONCE,
    folders: Sequence[str] = (),
    **variables: str,
) -> Iterator[RawClient]:
    """It leaves in good order, and nothing of ours has failed by then."""
    client = RawClient(log, command, **{"FAKE_TEXT": ANSWER, **variables})
    try:
        client.configuration = settings
        opened = [{"uri": uri, "name": "folder"} for uri in folders]
        client.greet(encodings=["utf-32"], initializationOptions=settings, workspaceFolders=opened or None)
        yield client
        assert client.leave() == 0
        assert not (faults := client.faults()), faults[0]
    finally:
        client.close()


def open_document(client: RawClient, uri: str, text: str, language: str = "python") -> None:
    item = {"uri": uri, "languageId": language, "version": 1, "text": text}
    client.notify("textDocument/didOpen", {"textDocument": item})


def place(text: str) -> dict[str, int]:
    """The end of `text` as a position in code points."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return {"line": text.count("\n"), "character": len(text) - text.rfind("\n") - 1}


def type_key(client: RawClient, uri: str, before: str, key: str) -> None:
    """A key behind `before`."""
    where = {"start": place(before), "end": place(before)}
    changes = [{"range": where, "text": key}]
    client.notify("textDocument/didChange", {"textDocument": {"uri": uri, "version": 2}, "contentChanges": changes})


def suggested(client: RawClient, uri: str, before: str) -> list[str]:
    """The texts that are offered behind `before`."""
    params = {"textDocument": {"uri": uri}, "position": place(before), "context": {"triggerKind": 1}}
    return [item["insertText"] for item in client.call("textDocument/inlineCompletion", params) or ()]


def held(client: RawClient, uri: str) -> str:
    """The text that the server holds."""
    return client.call("test/state")["documents"][uri]["text"]


def statuses(client: RawClient) -> list[dict[str, Any]]:
    return [note["params"] for note in client.notes if note["method"] == "mercury/status"]


def shown(client: RawClient) -> list[str]:
    """Messages that popped up."""
    return [note["params"]["message"] for note in client.notes if note["method"] == "window/showMessage"]
