"""The language server: pygls with our own documents, the table of features, and the care a long-lived process needs.

Importing this module loads neither torch nor a model. It knows nothing about what the features do.
"""

import asyncio
import contextlib
import inspect
import logging
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any, BinaryIO, cast

from lsprotocol import types
from pygls.exceptions import JsonRpcException
from pygls.lsp.server import LanguageServer
from pygls.protocol import LanguageServerProtocol

from mercury_lsp.features.lifecycle import initialize
from mercury_lsp.features.session import Loader, Session
from mercury_lsp.features.table import FEATURES, Feature
from mercury_lsp.loading import load_infiller
from mercury_lsp.watchdog import exit_with

logger = logging.getLogger(__name__)

NAME = "mercury-lsp"

_OURS = (
    types.TEXT_DOCUMENT_DID_OPEN,
    types.TEXT_DOCUMENT_DID_CHANGE,
    types.TEXT_DOCUMENT_DID_CLOSE,
    types.NOTEBOOK_DOCUMENT_DID_OPEN,
    types.NOTEBOOK_DOCUMENT_DID_CHANGE,
    types.NOTEBOOK_DOCUMENT_DID_CLOSE,
)
"""Methods that pygls answers by itself with its own documents; the features do it instead."""


class MercuryProtocol(LanguageServerProtocol):
    """pygls' protocol without its documents, and with an answer to "did the client say goodbye"."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for method in _OURS:
            self.fm.builtin_features.pop(method)

    @property
    def said_goodbye(self) -> bool:
        """Whether `shutdown` came: an exit without it is a failure."""
        return self._shutdown


class MercuryServer(LanguageServer):
    """One client, one session."""

    def __init__(self, load: Loader, version: str) -> None:
        super().__init__(
            NAME,
            version,
            text_document_sync_kind=types.TextDocumentSyncKind.Incremental,
            protocol_cls=MercuryProtocol,
            max_workers=2,  # they only read stdin
        )
        self.session = Session(self, load)
        self.watch_editor = False

    def shutdown(self) -> None:
        """Also closes a TCP connection: from Python 3.12 on, pygls would wait for it for ever."""
        if isinstance(self.protocol.writer, asyncio.StreamWriter):
            self.protocol.writer.close()
        super().shutdown()

    def report_server_error(self, error: Exception, source: Any) -> None:
        """Into the log, as pygls' own would pop a message up for every failed notification."""
        logger.error("%s: %s", getattr(source, "__name__", source), type(error).__name__)


def build_server(load: Loader = load_infiller, version: str = "") -> MercuryServer:
    """A server with every feature of the table; `load` is the seam where tests put their model."""
    server = MercuryServer(load, version or _version())
    session = server.session

    def on_initialize(params: types.InitializeParams) -> None:
        initialize(session, params)
        for feature in FEATURES:
            if feature.wanted(params.capabilities):
                register(server, feature, params.capabilities)
        if server.watch_editor and params.process_id is not None:
            exit_with(params.process_id)

    server.feature(types.INITIALIZE)(on_initialize)
    return server


def register(server: MercuryServer, feature: Feature, capabilities: types.ClientCapabilities) -> None:
    """Puts one row of the table into pygls."""
    options = feature.options(capabilities) if feature.options else None
    handler = _asynchronous if inspect.iscoroutinefunction(feature.handler) else _plain
    server.feature(feature.method, options)(handler(server.session, feature))


def _asynchronous(session: Session, feature: Feature) -> Callable[[Any], Any]:
    async def handle(params: Any) -> Any:
        try:
            return await feature.handler(session, params)
        except JsonRpcException:
            raise
        except Exception as error:
            log_fault(feature.method, error)
            return feature.otherwise()

    return handle


def _plain(session: Session, feature: Feature) -> Callable[..., Any]:
    def handle(params: Any = None) -> Any:
        try:
            return feature.handler(session, params)
        except Exception as error:
            log_fault(feature.method, error)
            return feature.otherwise()

    return handle


def log_fault(method: str, error: Exception) -> None:
    """Where it happened, without the error's text: that may quote the document."""
    frames = "".join(traceback.format_tb(error.__traceback__))
    logger.error("%s failed: %s\n%s", method, type(error).__name__, frames)


def serve_stdio(server: MercuryServer) -> int:
    """Serves the client at stdin and stdout until it leaves; the exit status is 0 if it said goodbye.

    The protocol gets copies of both; the originals are then stderr and nothing, so that no stray print, of native code
    neither, can get between two messages, and no child process eats one.
    """
    stdin, stdout = _take_stdio()
    server.watch_editor = True  # over TCP the number may mean a process of another machine
    server.start_io(stdin, stdout)
    return _leave(server)


def serve_tcp(server: MercuryServer, host: str, port: int) -> int:
    """Serves the first client that connects to host:port, until it leaves."""
    with contextlib.suppress(SystemExit):
        server.start_tcp(host, port)
    return _leave(server)


def _take_stdio() -> tuple[BinaryIO, BinaryIO]:
    sys.stdout.flush()
    stdin, stdout = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    os.close(nothing)
    return os.fdopen(stdin, "rb"), os.fdopen(stdout, "wb")


def _leave(server: MercuryServer) -> int:
    status = 0 if cast("MercuryProtocol", server.protocol).said_goodbye else 1
    if not server.session.engine.close():
        # a pass still runs in native code: interpreter shutdown would wait for it, or crash under it
        logging.shutdown()
        os._exit(status)
    return status


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(NAME)
    except PackageNotFoundError:
        return "0"
