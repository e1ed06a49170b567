"""The size of the real server process with the model loaded and in use."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import psutil
import pytest
from lsprotocol import types
from pytest_lsp import ClientServerConfig

from mercury_lsp.cli.doctor import MEMORY_LIMIT
from mercury_model import EMBEDDED
from tests.lsp.editor import Editor, initialize_params, make_client, server_env

pytestmark = pytest.mark.real
SECONDS = 600
BUFFER = "import math\n\n\ndef area(radius: float) -> float:\n    return ‸\n"


@pytest.mark.timeout(900)
async def test_the_server_answers_with_the_model_in_at_most_1600_MB(weights: None) -> None:
    command = [sys.executable, "-m", "mercury_lsp", "serve", "--stdio"]
    config = ClientServerConfig(server_command=command, client_factory=make_client, server_env=server_env())
    connection: Any = await config.start()
    try:
        editor = Editor(connection, await connection.initialize_session(initialize_params("neovim_0.12")))
        editor.open(BUFFER)
        params = types.InlineCompletionParams(
            text_document=types.TextDocumentIdentifier(uri=editor.uri),
            position=editor.position(),
            context=types.InlineCompletionContext(trigger_kind=types.InlineCompletionTriggerKind.Invoked),
        )
        answer = await asyncio.wait_for(connection.text_document_inline_completion_async(params), SECONDS)
        items = answer if isinstance(answer, list) else answer.items
        assert items, f"{EMBEDDED} has nothing to say after `return`"
        # how much of the expression there is depends on the deadline, and so on the machine
        assert editor.accepted(items[0]).split("return ", 1)[1].strip()
        info = psutil.Process(connection._server.pid).memory_info()
        print(f"resident: {info.rss / 1e6:.0f} MB")
        assert info.rss <= MEMORY_LIMIT
        await asyncio.wait_for(connection.shutdown_session(), SECONDS)
    finally:
        if connection._server.returncode is None:
            connection._server.kill()
        await connection.stop()
