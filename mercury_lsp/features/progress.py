"""Shows the loading of the model as a work-done progress that the server begins itself, if the client can.

It is fed with the engine's statuses in the event loop's thread.
"""

from concurrent.futures import Future

from lsprotocol import types
from pygls.lsp.server import LanguageServer

from mercury_lsp.engine import Status


class LoadingProgress:
    """One progress per loading: created at its first status, ended by the first that is not about loading."""

    def __init__(self, server: LanguageServer) -> None:
        self._server = server
        self._count = 0
        self._token: str | None = None
        self._begun = False
        self._percent = -1
        self._last = Status()

    def show(self, status: Status) -> None:
        self._last = status
        if status.state == "loading" and self._token is None:
            self._create()
        elif status.state == "loading" and self._begun:
            self._report(status)
        elif status.state != "loading" and self._token is not None:
            self._end(status)

    def _create(self) -> None:
        self._count += 1
        token = self._token = f"mercury-loading-{self._count}"
        created = self._server.protocol.send_request(
            types.WINDOW_WORK_DONE_PROGRESS_CREATE, types.WorkDoneProgressCreateParams(token=token)
        )
        created.add_done_callback(lambda answer: self._begin(token, answer))

    def _begin(self, token: str, answer: "Future[None]") -> None:
        if answer.cancelled() or answer.exception() is not None or token != self._token:
            return  # refused, or loading is over already
        self._begun, self._percent = True, _percent(self._last)
        self._notify(
            types.WorkDoneProgressBegin(
                title="Mercury", message=self._last.message, percentage=self._percent, cancellable=False
            )
        )

    def _report(self, status: Status) -> None:
        percent = _percent(status)
        if percent != self._percent:
            self._percent = percent
            self._notify(types.WorkDoneProgressReport(message=status.message, percentage=percent))

    def _end(self, status: Status) -> None:
        if self._begun:
            self._notify(types.WorkDoneProgressEnd(message=status.message or "the model is loaded"))
        self._token, self._begun = None, False

    def _notify(
        self, value: types.WorkDoneProgressBegin | types.WorkDoneProgressReport | types.WorkDoneProgressEnd
    ) -> None:
        # not pygls' Progress: it keeps every token for ever
        if self._token is not None:
            self._server.progress(types.ProgressParams(token=self._token, value=value))


def _percent(status: Status) -> int:
    return round(100 * status.fraction)
