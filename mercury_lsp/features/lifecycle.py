"""initialize, initialized and shutdown: who the client is, its settings, and the model's loading in the background."""

import asyncio

from lsprotocol import types

from mercury_lsp.features import workspace
from mercury_lsp.features.progress import LoadingProgress
from mercury_lsp.features.session import Session


def initialize(session: Session, params: types.InitializeParams) -> None:
    """Takes down what the client says; loads nothing, so that the answer is immediate."""
    session.loop = asyncio.get_running_loop()
    session.capabilities = params.capabilities
    session.client_name = params.client_info.name if params.client_info else ""
    session.encoding = session.server.workspace.position_encoding or types.PositionEncodingKind.Utf16
    session.options = params.initialization_options
    workspace.configure(session, workspace.roots_of(params))
    window = params.capabilities.window
    if window is not None and window.work_done_progress:
        session.progress = LoadingProgress(session.server)


def initialized(session: Session, _: types.InitializedParams) -> None:
    """Asks the client for its settings, then reports wrong ones in one message and begins to load the model."""
    workspace.start(session)


def shutdown(session: Session, _: None) -> None:
    """Stops whatever runs; `exit` ends the process."""
    if session.watching is not None:
        session.watching.cancel()
    session.folders.close()
    session.engine.close(timeout=0)
