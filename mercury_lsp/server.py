"""The language server: pygls with our own documents, the table of features, and the care a long-lived process needs.

Importing this module loads neither torch nor a model. It knows nothing about what the features do.
"""

import asyncio
import inspect
import logging
import os
import threading
import traceback
from collections.abc import Callable, Coroutine
from typing import Any, cast

from lsprotocol import types
from pygls.exceptions import JsonRpcException, JsonRpcInvalidRequest
from pygls.io_ import StdoutWriter, run_async
from pygls.lsp.server import LanguageServer
from pygls.protocol import LanguageServerProtocol

from mercury_lsp.features import notebooks
from mercury_lsp.features.lifecycle import initialize
from mercury_lsp.features.session import Loader, Session
from mercury_lsp.features.table import FEATURES, Feature
from mercury_lsp.loading import load_infiller
from mercury_lsp.stdio import MessageReader, open_reader, take_stdio
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
    types.WORKSPACE_EXECUTE_COMMAND,
    types.WINDOW_WORK_DONE_PROGRESS_CANCEL,
)
"""Methods that pygls answers by itself; the features do it instead: with our own documents, and with commands that
stop when they are cancelled."""


class MercuryProtocol(LanguageServerProtocol):
    """pygls' protocol without its documents, and with an answer to "did the client say goodbye"."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for method in _OURS:
            self.fm.builtin_features.pop(method)

    def structure_message(self, data: dict[str, Any]) -> dict[str, Any]:
        """Leaves it alone: pygls would take every table inside a message that has the keys of one for a message."""
        return data

    def handle_message(self, message: Any) -> None:
        """Every request is answered: one that makes no sense with an error, where pygls keeps silent."""
        if not isinstance(message, dict):
            raise JsonRpcInvalidRequest
        table = cast("dict[str, Any]", message)
        asks = "method" in table and isinstance(table.get("id"), int | str)
        try:
            structured = cast("Any", super().structure_message(table))
            if asks and not hasattr(structured, "id"):
                raise JsonRpcInvalidRequest  # a method that has no answer
        except JsonRpcException as error:
            if asks:
                self._send_response(table["id"], error=error.to_response_error())
            raise
        super().handle_message(structured)

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
            notebook_document_sync=notebooks.options(),
            protocol_cls=MercuryProtocol,
            max_workers=2,  # they only read stdin, where the event loop cannot
        )
        self.session = Session(self, load)
        self.watch_editor = False

    def report_server_error(self, error: Exception, source: Any) -> None:
        """Into the log, as pygls' own would pop a message up for every failed notification."""
        _report(error, source)


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
    if isinstance(options, types.ExecuteCommandOptions):
        for name in options.commands:  # so that they are advertised; pygls would take them from nowhere else
            server.command(name)(handler(server.session, feature))


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
    """Serves the client at stdin and stdout until it leaves; the exit status is 0 if it said goodbye."""
    stdin, stdout = take_stdio()
    server.watch_editor = True  # over TCP the number may mean a process of another machine
    server.protocol.set_writer(StdoutWriter(stdout))

    async def talk() -> None:
        await _messages(server, await open_reader(stdin, server.thread_pool))

    return _until_it_leaves(server, talk())


def serve_tcp(server: MercuryServer, host: str, port: int) -> int:
    """Serves the first client that connects to host:port, until it leaves. Raises OSError if it cannot listen."""

    async def talk() -> None:
        first: asyncio.Future[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = asyncio.Future()

        def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if first.done():
                writer.close()
            else:
                first.set_result((reader, writer))

        listener = await asyncio.start_server(connected, host, port)
        reader, writer = await first
        listener.close()
        server.protocol.set_writer(cast("Any", writer))
        try:
            await _messages(server, MessageReader(reader))
        finally:
            writer.close()

    return _until_it_leaves(server, talk())


async def _messages(server: MercuryServer, reader: MessageReader) -> None:
    stop = threading.Event()  # never set: the end of the input ends the loop, `exit` the process
    # under pygls' name, whose records lose the users' texts (cli/serve.py)
    await run_async(stop, reader, server.protocol, logging.getLogger("pygls.server"), error_handler=_report)


def _report(error: Exception, source: Any) -> None:
    logger.error("%s: %s", getattr(source, "__name__", source), type(error).__name__)


def _until_it_leaves(server: MercuryServer, talk: Coroutine[Any, Any, None]) -> int:
    try:
        asyncio.run(talk)
    except BrokenPipeError:
        logger.warning("the client is gone")
    except (KeyboardInterrupt, SystemExit):
        pass
    finally:
        server.shutdown()
    return _leave(server)


def _leave(server: MercuryServer) -> int:
    server.session.folders.close()
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
