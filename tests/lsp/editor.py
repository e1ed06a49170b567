"""A small editor for the end-to-end tests: a buffer, a cursor, and a client over a real server process."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from lsprotocol import types
from pytest_lsp import ClientServerConfig, LanguageClient, make_test_lsp_client

ROOT = Path(__file__).parents[2]
CLIENTS = Path(__file__).parent / "clients"
URI = "file:///project/example.py"
SERVER = [sys.executable, "-m", "tests.lsp.fake_server"]
SECONDS = 30  # a hang is a failure; nothing is asserted about how fast anything is


def server_env(**variables: str) -> dict[str, str]:
    """The environment of a server process that can import the project and its tests."""
    path = os.pathsep.join(str(ROOT / part) for part in ("", "model", "kernels"))
    return {**os.environ, "PYTHONPATH": path, **variables}


def make_client() -> LanguageClient:
    """pytest-lsp's client, which also takes `mercury/status`."""
    client = make_test_lsp_client()
    client.statuses = []  # type: ignore[attr-defined]
    client.registrations = []  # type: ignore[attr-defined]
    register = client.feature(types.CLIENT_REGISTER_CAPABILITY)
    register(lambda params: client.registrations.extend(params.registrations))  # type: ignore[attr-defined]
    client.feature("mercury/status")(lambda params: client.statuses.append(params))  # type: ignore[attr-defined]
    return client


def initialize_params(
    client: str,
    options: dict[str, Any] | None = None,
    encodings: list[str] | None = None,
    folders: Sequence[Path] = (),
) -> types.InitializeParams:
    """What the client `client` (a file in clients/) sends first."""
    from pygls.protocol import default_converter

    described = json.loads((CLIENTS / f"{client}.json").read_text())
    if encodings:
        described["capabilities"]["general"]["positionEncodings"] = encodings
    converter = default_converter()
    return types.InitializeParams(
        capabilities=converter.structure(described["capabilities"], types.ClientCapabilities),
        client_info=converter.structure(described["clientInfo"], types.ClientInfo),
        initialization_options=options,
        process_id=os.getpid(),
        workspace_folders=[types.WorkspaceFolder(folder.as_uri(), folder.name) for folder in folders] or None,
    )


class Editor:
    """One buffer and its cursor (code points), kept in step with the server by incremental changes."""

    def __init__(self, client: LanguageClient, result: types.InitializeResult) -> None:
        self.client = client
        self.capabilities = result.capabilities
        self.uri, self.text, self.cursor, self.version = URI, "", 0, 0

    @property
    def encoding(self) -> str:
        return str(self.capabilities.position_encoding)

    @property
    def statuses(self) -> list[Any]:
        return self.client.statuses  # type: ignore[attr-defined]

    @property
    def registrations(self) -> list[types.Registration]:
        return self.client.registrations  # type: ignore[attr-defined]

    @property
    def messages(self) -> list[str]:
        return [message.message for message in self.client.messages]

    def open(self, marked: str, *, uri: str = URI, language: str = "python") -> None:
        """Opens a buffer whose cursor stands at `‸`."""
        self.uri, self.cursor, self.version = uri, marked.index("‸"), 1
        self.text = marked.replace("‸", "")
        item = types.TextDocumentItem(uri=uri, language_id=language, version=1, text=self.text)
        self.client.text_document_did_open(types.DidOpenTextDocumentParams(text_document=item))

    def position(self, offset: int | None = None) -> types.Position:
        """Where an offset (the cursor) is, in the units of the connection: counted here independently."""
        before = self.text[: self.cursor if offset is None else offset]
        lines = before.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        units = {"utf-8": ("utf-8", 1), "utf-16": ("utf-16-le", 2), "utf-32": ("utf-32-le", 4)}
        codec, size = units[self.encoding]
        return types.Position(line=len(lines) - 1, character=len(lines[-1].encode(codec)) // size)

    def replace(self, start: int, end: int, new_text: str, version: int | None = None) -> None:
        """Edits the buffer; the cursor goes behind the new text."""
        self.version += 1
        change = types.TextDocumentContentChangePartial(
            range=types.Range(start=self.position(start), end=self.position(end)), text=new_text
        )
        self.text = self.text[:start] + new_text + self.text[end:]
        self.cursor = start + len(new_text)
        self.client.text_document_did_change(
            types.DidChangeTextDocumentParams(
                text_document=types.VersionedTextDocumentIdentifier(
                    uri=self.uri, version=self.version if version is None else version
                ),
                content_changes=[change],
            )
        )

    def type(self, text: str) -> None:
        """Types at the cursor."""
        self.replace(self.cursor, self.cursor, text)

    def ask(
        self,
        *,
        invoked: bool = False,
        selected: types.SelectedCompletionInfo | None = None,
        msg_id: str | None = None,
    ) -> "asyncio.Future[Any]":
        """Asks for an inline completion at the cursor; a msg_id makes the request one that can be cancelled."""
        kind = types.InlineCompletionTriggerKind
        params = types.InlineCompletionParams(
            text_document=types.TextDocumentIdentifier(uri=self.uri),
            position=self.position(),
            context=types.InlineCompletionContext(
                trigger_kind=kind.Invoked if invoked else kind.Automatic, selected_completion_info=selected
            ),
        )
        method = types.TEXT_DOCUMENT_INLINE_COMPLETION
        return asyncio.ensure_future(
            asyncio.wait_for(self.client.protocol.send_request_async(method, params, msg_id=msg_id), SECONDS)
        )

    async def complete(self) -> types.CompletionList:
        """Asks for the completion menu at the cursor."""
        params = types.CompletionParams(
            text_document=types.TextDocumentIdentifier(uri=self.uri), position=self.position()
        )
        return await asyncio.wait_for(self.client.text_document_completion_async(params), SECONDS)  # type: ignore[return-value]

    def cancel(self, msg_id: str) -> None:
        self.client.protocol.notify(types.CANCEL_REQUEST, types.CancelParams(id=msg_id))

    def offset(self, position: types.Position) -> int:
        """The offset of a position in the connection's units."""
        return next(o for o in range(len(self.text) + 1) if self.position(o) == position)

    def accepted(self, item: Any) -> str:
        """The buffer after the item was accepted."""
        start, end = self.offset(item.range.start), self.offset(item.range.end)
        return self.text[:start] + str(item.insert_text) + self.text[end:]

    async def test(self, method: str, **params: Any) -> Any:
        """A request of the tests to the fake server."""
        return await asyncio.wait_for(self.client.protocol.send_request_async(f"test/{method}", params), SECONDS)

    async def status(self, **expected: Any) -> Any:
        """Waits for a `mercury/status` with these values."""
        async with asyncio.timeout(SECONDS):
            while True:
                for status in self.statuses:
                    if all(getattr(status, name) == value for name, value in expected.items()):
                        return status
                await asyncio.sleep(0.01)


@asynccontextmanager
async def editing(
    client: str = "neovim_0.12",
    *,
    options: dict[str, Any] | None = None,
    encodings: list[str] | None = None,
    folders: Sequence[Path] = (),
    configuration: dict[str, Any] | None = None,
    **variables: str,
) -> AsyncIterator[Editor]:
    """An editor with a fresh server process; both leave in good order at the end."""
    config = ClientServerConfig(server_command=SERVER, client_factory=make_client, server_env=server_env(**variables))
    connection = await config.start()
    assert isinstance(connection, LanguageClient)
    if configuration is not None:
        connection.set_configuration({"mercury": configuration})
    try:
        result = await connection.initialize_session(initialize_params(client, options, encodings, folders))
        yield Editor(connection, result)
        await asyncio.wait_for(connection.shutdown_session(), SECONDS)
    finally:
        server = connection._server  # only a test that failed leaves one running
        if server is not None and server.returncode is None:
            server.kill()
        await connection.stop()
