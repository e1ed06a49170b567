"""An application over a scripted Infiller, in process, and the same behind a real loopback server."""

import asyncio
import contextlib
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from typing import Any

import httpx
import pytest
import uvicorn

from mercury_lsp.api.app import Options, build
from mercury_lsp.api.pool import Pool
from mercury_model.draft import Infiller

SECONDS = 240.0
"""A hang is a failure; nothing is asserted about how fast anything is."""


@contextlib.asynccontextmanager
async def client_of(
    infiller: Infiller, options: Options | None = None, **pool: Any
) -> AsyncIterator[httpx.AsyncClient]:
    """A client that calls the application in process."""
    runs = Pool(lambda report: infiller, **pool)
    app = build(runs, options or Options(name="fake"))
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:1", timeout=SECONDS) as client:
        try:
            yield client
        finally:
            assert await asyncio.to_thread(runs.close, SECONDS)


def app_of(infiller: Infiller, options: Options | None = None, **pool: Any) -> Any:
    """The application over a pool of its own."""
    return build(Pool(lambda report: infiller, **pool), options or Options(name="fake"))


@contextlib.contextmanager
def serving(infiller: Infiller, options: Options | None = None, **pool: Any) -> Iterator[tuple[str, Pool]]:
    """The base URL of a loopback server and its pool."""
    runs = Pool(lambda report: infiller, **pool)
    with serving_app(build(runs, options or Options(name="fake"))) as url:
        yield url, runs


@contextlib.contextmanager
def serving_app(app: Any) -> Generator[str]:
    """Any ASGI application behind a loopback server."""
    listening = socket.create_server(("127.0.0.1", 0), backlog=2048)
    config = uvicorn.Config(app, log_config=None, access_log=False, timeout_graceful_shutdown=2, ws="none")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(SECONDS)
        listening.close()


def until(condition: Callable[[], bool], seconds: float = SECONDS) -> None:
    """Waits for a condition that another thread brings about; fails after `seconds`."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            pytest.fail("it did not happen in time")
        time.sleep(0.005)
