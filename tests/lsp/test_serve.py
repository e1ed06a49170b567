"""`mercury-lsp serve`: its options, its log, and TCP."""

import argparse
import asyncio
import logging
import socket
import sys
from pathlib import Path

import pytest

from mercury_lsp.cli import serve
from mercury_lsp.errors import FailureError, UsageError
from mercury_lsp.watchdog import exit_with
from tests.lsp.editor import ROOT, SECONDS, Editor, initialize_params, make_client, server_env


def arguments(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    serve.add_arguments(parser)
    return parser.parse_args(words)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.mark.parametrize("address", ["nonsense", "host:", "host:port", "host:99999"])
def test_a_wrong_address_is_one_line(address: str) -> None:
    with pytest.raises(UsageError, match="HOST:PORT"):
        serve.run(arguments("--tcp", address))


def test_a_port_in_use_is_one_line() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(FailureError, match="choose another port"):
            serve.run(arguments("--tcp", f"127.0.0.1:{taken.getsockname()[1]}"))


def test_a_log_file_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="log file"):
        serve.configure_logging("info", tmp_path / "missing" / "log")


def test_L4_pygls_log_records_lose_their_texts() -> None:
    secret = "the text of a document, which is rather long and is nobody's business"
    try:
        raise ValueError(secret)
    except ValueError:
        record = logging.LogRecord("pygls.x", logging.ERROR, "f", 1, "failed %s %s", (secret, 7), sys.exc_info())
    assert serve.withhold_text(record)
    text = logging.Formatter().format(record)
    assert text == "failed <str> 7 (ValueError)"


async def test_the_command_serves_a_client_over_tcp() -> None:
    port = free_port()
    command = [sys.executable, "-m", "mercury_lsp", "serve", "--tcp", f"127.0.0.1:{port}"]
    process = await asyncio.create_subprocess_exec(*command, env=server_env(), cwd=ROOT)
    client = make_client()
    try:
        async with asyncio.timeout(SECONDS):
            while True:
                try:
                    await client.start_tcp("127.0.0.1", port)
                    break
                except ConnectionRefusedError:
                    await asyncio.sleep(0.05)
            options = {"model": {"preload": False}, "inline": {"enabled": False}}
            editor = Editor(client, await client.initialize_session(initialize_params("neovim_0.12", options)))
            editor.open("x = ‸\n")
            assert await editor.ask() == []
            await client.shutdown_session()
            assert await process.wait() == 0
            await client.stop()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def test_an_editor_that_cannot_be_seen_is_not_watched() -> None:
    assert exit_with(2**22 + 12345) is None
