"""What the handlers of one client share: settings, engine, documents, what the client can do, and its status line.

A Session is made with the server and filled in by `initialize`. It knows nothing about single features.
"""

import asyncio
import contextlib
import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from lsprotocol import types
from pygls.lsp.server import LanguageServer

from mercury_lsp.engine import Engine, Report, Status
from mercury_lsp.features.declined import Declined
from mercury_lsp.features.folders import Folders
from mercury_lsp.features.pause import Pause
from mercury_lsp.features.positions import Encoding
from mercury_lsp.features.progress import LoadingProgress
from mercury_lsp.features.recent import Recent
from mercury_lsp.features.rhythm import TypingRhythm
from mercury_lsp.features.run import Run
from mercury_lsp.features.store import Documents, document_key
from mercury_lsp.features.surroundings import Surroundings
from mercury_lsp.features.turned_down import TurnedDown
from mercury_lsp.region import EditRegion
from mercury_lsp.settings import Settings
from mercury_model.draft import Infiller

logger = logging.getLogger(__name__)

STATUS_METHOD = "mercury/status"

Kind = Literal["Normal", "Error", "Warning", "Inactive"]
Loader = Callable[[Settings, Report], Infiller]
"""(settings, progress) -> the model; mercury_lsp.loading.load_infiller, or a test's."""

BUSY_AFTER_SECONDS = 0.15
"""A run that takes longer is shown as busy."""
ANNOUNCE_SECONDS = 600.0
"""The same message is shown to the user at most once in so long."""


@dataclass(frozen=True, slots=True)
class StatusParams:
    """Parameters of the `mercury/status` notification, as they go over the wire."""

    kind: Kind
    message: str
    busy: bool
    model: str
    device: str


class Session:
    """State of the conversation with one client."""

    def __init__(self, server: LanguageServer, load: Loader) -> None:
        self.server = server
        self.load = load
        self.settings = Settings()
        self.setting_problems: list[str] = []
        self.reported: set[str] = set()
        self.options: Any = None
        self.configuration: dict[Path | None, Any] = {}
        self.folders = Folders()
        self.documents = Documents()
        self.notebooks: dict[str, list[str]] = {}
        self.surroundings = Surroundings(self.folders, self.documents)
        self.tasks: set[asyncio.Task[None]] = set()
        self.watching: asyncio.Task[None] | None = None
        self.watched: list[Path] = []
        self.recent = Recent()
        self.declined = Declined()
        self.turned_down = TurnedDown()
        self.rhythm = TypingRhythm()
        self.regions: dict[str, EditRegion] = {}
        self.runs: dict[str, Run] = {}
        self.asking: dict[str, asyncio.Future[Any]] = {}
        self.client_name = ""
        self.capabilities = types.ClientCapabilities()
        self.encoding: Encoding = "utf-16"
        self.loop: asyncio.AbstractEventLoop | None = None
        self.progress: LoadingProgress | None = None
        self.inactive = ""
        self.pause = Pause()
        self.working: set[asyncio.Future[Any]] = set()
        self.stops: dict[int | str, Callable[[], object]] = {}
        self.cycles: dict[str, Any] = {}
        self._announced: OrderedDict[str, float] = OrderedDict()
        self._sent: StatusParams | None = None
        self.engine = Engine(self.load_model, listen=self._engine_changed)

    def load_model(self, report: Report) -> Infiller:
        """Loads the model of the settings as they are now; runs in the engine's thread."""
        return self.load(self.settings, report)

    def overtake(self, key: str, newer: "asyncio.Future[Any]") -> None:
        """Makes `newer` the one that is asked about a document; the one before is cancelled."""
        older = self.asking.get(key)
        self.asking[key] = newer
        if older is not None:
            older.cancel()

    def forget(self, uri: str) -> None:
        """Drops what is kept about a document, and stops what runs for it."""
        key = document_key(uri)
        older = self.asking.pop(key, None)
        if older is not None:
            older.cancel()
        self.runs.pop(key, None)
        self.rhythm.forget(key)
        self.recent.forget(key)
        self.turned_down.forget(key)
        self.regions.pop(key, None)
        self.surroundings.forget(uri)
        self.cycles.pop(key, None)
        self.engine.cancel(key)
        self.declined.forget(key)
        self.engine.cancel(key + "#task")
        self.engine.cancel(key + "#next")

    def stop_all(self) -> None:
        """Stops whatever runs or waits for any document; the requests are answered with nothing."""
        for asked in [*self.asking.values(), *self.working]:
            asked.cancel()
        for key in self.runs:
            self.engine.cancel(key)
        self.runs.clear()

    def set_inactive(self, reason: str) -> None:
        """Says why the current document gets no suggestions; an empty reason says that it does."""
        if reason != self.inactive:
            self.inactive = reason
            self.send_status()

    def announce(self, message: str, kind: types.MessageType = types.MessageType.Error) -> None:
        """Shows a message to the user, the same one only once in ten minutes."""
        now = time.monotonic()
        if now - self._announced.get(message, -ANNOUNCE_SECONDS) < ANNOUNCE_SECONDS:
            return
        self._announced[message] = now
        while len(self._announced) > 100:
            self._announced.popitem(last=False)
        self.server.window_show_message(types.ShowMessageParams(type=kind, message=message))

    def status(self) -> StatusParams:
        """What the client is told: the engine's state, or why this document is left alone."""
        engine = self.engine.status
        kind: Kind = "Normal"
        message = engine.message
        if engine.state == "problem":
            kind = "Error"
        elif not self.settings.enabled:
            kind, message = "Inactive", "switched off in the settings"
        elif self.pause.reason:
            kind, message = "Inactive", self.pause.reason
        elif self.inactive:
            kind, message = "Inactive", self.inactive
        return StatusParams(
            kind=kind,
            message=message,
            busy=engine.state in ("loading", "running"),
            model=engine.info.name if engine.info else self.settings.model.name,
            device=engine.info.device if engine.info else "",
        )

    def send_status(self) -> None:
        """Notifies the client if anything changed."""
        status = self.status()
        if status != self._sent and self.loop is not None:
            self._sent = status
            self.server.protocol.notify(STATUS_METHOD, as_wire(status))

    def _engine_changed(self, status: Status) -> None:
        if self.loop is not None:  # in the engine's thread
            with contextlib.suppress(RuntimeError):  # the loop may end at any time
                self.loop.call_soon_threadsafe(self._show_engine, status)

    def _show_engine(self, status: Status) -> None:
        if status.state == "problem":
            self.announce(status.message)
        if self.progress is not None:
            self.progress.show(status)
        if status.state == "running" and self.loop is not None:
            # most runs are over by then: an item that flickers at every key says nothing, and each message costs
            self.loop.call_later(BUSY_AFTER_SECONDS, self.send_status)
        else:
            self.send_status()


def as_wire(status: StatusParams) -> dict[str, Any]:
    return {name: getattr(status, name) for name in StatusParams.__slots__}
