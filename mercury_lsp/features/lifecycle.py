"""initialize, initialized and shutdown: who the client is, its settings, and the model's loading in the background."""

import asyncio

from lsprotocol import types

from mercury_lsp.features.progress import LoadingProgress
from mercury_lsp.features.session import Session
from mercury_lsp.settings import read_settings


def initialize(session: Session, params: types.InitializeParams) -> None:
    """Takes down what the client says; loads nothing, so that the answer is immediate."""
    session.loop = asyncio.get_running_loop()
    session.capabilities = params.capabilities
    session.client_name = params.client_info.name if params.client_info else ""
    session.encoding = session.server.workspace.position_encoding or types.PositionEncodingKind.Utf16
    session.settings, session.setting_problems = read_settings(params.initialization_options)
    minutes = session.settings.model.idle_unload_minutes
    session.engine.configure(idle_seconds=60 * minutes)
    window = params.capabilities.window
    if window is not None and window.work_done_progress:
        session.progress = LoadingProgress(session.server)


def initialized(session: Session, _: types.InitializedParams) -> None:
    """Reports wrong settings in one message and begins to load the model."""
    if session.setting_problems:
        session.announce("\n".join(session.setting_problems), types.MessageType.Warning)
    session.send_status()
    if session.settings.enabled and session.settings.model.preload:
        session.engine.start()


def shutdown(session: Session, _: None) -> None:
    """Stops whatever runs; `exit` ends the process."""
    session.engine.close(timeout=0)
