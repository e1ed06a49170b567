"""Does a task for a document of the client: asks the engine what the task wants to know, shows how it gets on.

It knows nothing about what the tasks do, or about which request wants one done.
"""

import asyncio
import contextlib
import itertools
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future
from dataclasses import asdict
from functools import partial
from typing import Any, TypeVar

from lsprotocol import types

from mercury_lsp.actions.repair import Ask, Room, Work
from mercury_lsp.actions.rewriting import edits
from mercury_lsp.diffs import Hunk
from mercury_lsp.edit import Edit
from mercury_lsp.features.anchors import moved
from mercury_lsp.features.positions import to_range
from mercury_lsp.features.session import Session
from mercury_lsp.features.store import document_key
from mercury_lsp.region import Budget
from mercury_lsp.text import Document, Span
from mercury_model.draft import Draft

CANVAS_METHOD = "mercury/canvas"

T = TypeVar("T")
_numbers = itertools.count(1)


def room(session: Session, document: Document) -> Room:
    """How much of a document the model is shown, by its folder's settings as they are now."""
    context = session.folders.settings_of(document.uri).context
    return lambda infiller: Budget.of(infiller, context.tokens, context.suffix_share)


def tell(session: Session, message: str) -> None:
    """A message about what the user has just asked for: shown every time."""
    session.server.window_show_message(types.ShowMessageParams(type=types.MessageType.Info, message=message))


def plain(raw: Any) -> Any:
    """What pygls may have turned into tuples with names, as dictionaries again."""
    if hasattr(raw, "_asdict"):
        raw = raw._asdict()
    if isinstance(raw, Mapping):
        return {str(key): plain(value) for key, value in raw.items()}  # type: ignore[reportUnknownVariableType]
    return [plain(value) for value in raw] if isinstance(raw, list | tuple) else raw  # type: ignore[reportUnknownVariableType]


async def do(
    session: Session,
    document: Document,
    work: Work,
    on_draft: Callable[[Draft], None] | None = None,
    *,
    channel: str = "#task",
) -> Hunk | None:
    """Runs a task to its end. Cancelled, it stops the model; stopped by something else (a pause), it is None.

    Its runs and the completions of the same document do not overtake each other; a newer task of the document on the
    same channel does.
    """
    key = document_key(document.uri) + channel
    draft: Draft | None = None
    while True:
        ask, result = await asyncio.to_thread(_advance, work, draft)
        if ask is None:
            return result
        future = session.engine.submit(key, ask, on_draft)
        try:
            draft = await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            return None


def _advance(work: Work, draft: Draft | None) -> tuple[Ask | None, Hunk | None]:
    try:
        return work.send(draft), None
    except StopIteration as end:
        return None, end.value


def current_edits(session: Session, document: Document, hunk: Hunk) -> tuple[Document, tuple[Edit, ...]] | None:
    """(the document as it is now, the edits of `hunk` for it); None if the text around it changed meanwhile."""
    now = session.documents.get(document.uri)
    if now is None:
        return None
    changes = edits(document, hunk)
    placed: list[Edit] = []
    for change in changes:
        span = moved(document, now, change.span)
        if span is None:
            return None
        placed.append(Edit(now.uri, now.version, span, change.new_text, change.confidence, change.valid))
    return now, tuple(placed)


def canvas(session: Session, document: Document, span: Span) -> Callable[[Draft], None] | None:
    """Sends each step's draft to a client that asked for it; called in the engine's thread."""
    loop = session.loop
    if not session.settings.canvas or loop is None:
        return None
    where = to_range(document, span, session.encoding)
    head = {"uri": document.uri, "version": document.version, "range": _range(where)}

    def show(draft: Draft) -> None:
        slots = [asdict(slot) for slot in draft.slots]
        params = head | {"slots": slots, "forwards": draft.forwards, "done": draft.done}
        with contextlib.suppress(RuntimeError):  # the loop may end at any time
            loop.call_soon_threadsafe(partial(session.server.protocol.notify, CANVAS_METHOD, params))

    return show


def _range(where: types.Range) -> dict[str, Any]:
    ends = {"start": where.start, "end": where.end}
    return {name: {"line": end.line, "character": end.character} for name, end in ends.items()}


class Progress:
    """A work-done progress with the client's token, or one of our own where the client takes them."""

    def __init__(self, session: Session, title: str, token: "int | str | None", stop: Callable[[], object]) -> None:
        self._session, self._title = session, title
        self._begun = self._over = False
        self._token = token
        window = session.capabilities.window
        if token is not None:
            self._begin()
        elif window is not None and window.work_done_progress:
            self._token = f"mercury-task-{next(_numbers)}"
            created = session.server.protocol.send_request(
                types.WINDOW_WORK_DONE_PROGRESS_CREATE, types.WorkDoneProgressCreateParams(token=self._token)
            )
            created.add_done_callback(self._created)
        if self._token is not None:
            session.stops[self._token] = stop

    def _created(self, answer: "Future[None]") -> None:
        if not answer.cancelled() and answer.exception() is None and not self._over:
            self._begin()

    def _begin(self) -> None:
        self._begun = True
        self._notify(types.WorkDoneProgressBegin(title=f"Mercury: {self._title}", cancellable=True))

    def end(self, message: str = "") -> None:
        """Ends it, whether or not the client has begun to show it."""
        self._over = True
        if self._token is not None:
            self._session.stops.pop(self._token, None)
        if self._begun:
            self._notify(types.WorkDoneProgressEnd(message=message or None))

    def _notify(self, value: types.WorkDoneProgressBegin | types.WorkDoneProgressEnd) -> None:
        if self._token is not None:
            self._session.server.progress(types.ProgressParams(token=self._token, value=value))


async def shown(session: Session, title: str, token: "int | str | None", body: Coroutine[Any, Any, T]) -> T | None:
    """Runs `body` with a progress that can cancel it; None when that, or a pause, did.

    The request's own cancel raises, as it should.
    """
    task = asyncio.ensure_future(body)
    session.working.add(task)
    progress = Progress(session, title, token, task.cancel)
    try:
        return await task
    except asyncio.CancelledError:
        own = asyncio.current_task()
        if own is not None and own.cancelling():
            task.cancel()
            raise
        return None
    finally:
        session.working.discard(task)
        progress.end()


def progress_cancelled(session: Session, params: types.WorkDoneProgressCancelParams) -> None:
    """`window/workDoneProgress/cancel`: an unknown token is of something that has ended."""
    token: object = params.token  # lsprotocol lets anything through
    stop = session.stops.get(token) if isinstance(token, int | str) else None
    if stop is not None:
        stop()
