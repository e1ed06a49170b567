"""From a cursor in an open document to an Edit: what inline completion and completion have in common.

Waits until the user pauses, reuses what was suggested before, asks the engine, and looks once more whether the buffer
moved on meanwhile. It knows nothing about the shapes on the wire.
"""

import asyncio
import time
from dataclasses import dataclass, replace

from mercury_lsp.edit import Edit
from mercury_lsp.features.frame import Frame, frame
from mercury_lsp.features.run import Run
from mercury_lsp.features.session import Session
from mercury_lsp.features.store import document_key
from mercury_lsp.text import Document

PROSE = ("markdown", "plaintext", "rst", "asciidoc", "latex", "gitcommit", "git-commit")


@dataclass(frozen=True, slots=True)
class Suggestion:
    """An edit for `document` as it is now; cursor: the asker's, moved by what was typed meanwhile."""

    document: Document
    cursor: int
    edit: Edit


def refusal(session: Session, document: Document) -> str:
    """Why a document gets no suggestions at all, for people; empty when it gets them."""
    settings = session.folders.settings_of(document.uri)
    if session.pause.reason:
        return session.pause.reason
    if not settings.enabled:
        return "switched off in the settings"
    scheme = session.folders.owner(document.uri).split(":", 1)[0]
    if scheme not in settings.files.schemes:
        return f"documents of the scheme {scheme} are left alone"
    if len(document.text) > settings.files.max_kilobytes * 1024:
        return f"the file is larger than {settings.files.max_kilobytes} KB (setting files.max_kilobytes)"
    if document.language in PROSE and not settings.inline.markdown:
        return "switched off for prose (setting inline.markdown)"
    ignored = session.folders.reason(document.uri, document.language)
    return f"ignored: {ignored}" if ignored else ""


async def suggest(
    session: Session, document: Document, cursor: int, *, at_once: bool, opened: Document | None = None
) -> Suggestion | None:
    """The suggestion at `cursor`, or None. A newer call for the same document makes this one answer None at once.

    at_once: the user asked for it by a command; nobody waits for a pause then. opened: the open document of which
    `document` is a variant (an entry of the completion menu accepted), if it is one.
    Overtaken, the run of this call goes on until the newer call knows whether it can use it; cancelled by the
    client, it stops.
    """
    key = document_key(document.uri)
    body = asyncio.ensure_future(_suggest(session, key, document, cursor, at_once, opened or document))
    session.overtake(key, body)
    try:
        return _unless_turned_down(session, key, await body, at_once)
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or not task.cancelling():
            return None
        if session.asking.get(key) is body:
            session.engine.cancel(key)
        raise
    finally:
        if session.asking.get(key) is body:
            del session.asking[key]


async def _suggest(
    session: Session, key: str, document: Document, cursor: int, at_once: bool, opened: Document
) -> Suggestion | None:
    settings = session.folders.settings_of(document.uri)
    reason = refusal(session, document)
    session.set_inactive(reason)
    edit = session.recent.find(key, document, cursor) if not reason else None
    if reason or edit is not None or not (settings.enabled and settings.inline.enabled):
        session.engine.cancel(key)
        return Suggestion(document, cursor, edit) if edit is not None else None
    run = session.runs.get(key)
    if run is not None and run.serves(document, cursor):
        edit = await run.edit()
        if edit is not None:
            session.recent.put(key, run.document, edit)
            edit = session.recent.find(key, document, cursor)
        if edit is not None:
            return _current(session, opened, Suggestion(document, cursor, edit))
        if session.documents.get(document.uri) is not opened or run.document.text == document.text:
            return None
        # the model changed its mind about what the user has typed since: ask again
    if not at_once:
        fixed = settings.inline.debounce_ms
        await asyncio.sleep(session.rhythm.wait(key, time.monotonic(), None if fixed is None else fixed / 1000))
    if session.documents.get(document.uri) is not opened:
        return None  # the buffer moved on during the wait: the request for its new state is on its way
    run = session.runs[key] = Run(
        session.engine, settings, session.regions, session.surroundings, _frame(session, document), cursor
    )
    edit = await run.edit()
    if edit is None:
        return None
    session.recent.put(key, document, edit)
    return _current(session, opened, Suggestion(document, cursor, edit))


def _frame(session: Session, document: Document) -> Frame:
    notebook = session.folders.owner(document.uri)
    cells = session.notebooks.get(document_key(notebook), ())
    found = [cell for uri in cells if (cell := session.documents.get(uri)) is not None]
    return frame(document, notebook, found)


def _unless_turned_down(session: Session, key: str, found: Suggestion | None, at_once: bool) -> Suggestion | None:
    """What may be shown: nothing that the user did not want at this spot, unless it was asked for."""
    if found is None or (not at_once and session.turned_down.has(key, found.document, found.cursor, found.edit)):
        return None
    session.turned_down.offer(key, found.document, found.cursor, found.edit)
    return found


def _current(session: Session, opened: Document, found: Suggestion) -> Suggestion | None:
    """The suggestion for the buffer as it is now; one for a variant of it only if the buffer is the same."""
    if found.document is opened:
        return rebased(session, found)
    return found if session.documents.get(opened.uri) is opened else None


def rebased(session: Session, suggestion: Suggestion) -> Suggestion | None:
    """The suggestion for the buffer as it is now; None if anything but its beginning was typed meanwhile."""
    document = suggestion.document
    current = session.documents.get(document.uri)
    if current is None:
        return None
    if current is document or current.text == document.text:
        return replace(suggestion, document=current)
    key = document_key(document.uri)
    cursor = suggestion.cursor + len(current.text) - len(document.text)
    for moved in (cursor, cursor - 1):  # one less: the editor closed a bracket by itself
        edit = session.recent.find(key, current, moved) if moved > suggestion.cursor else None
        if edit is not None:
            return Suggestion(current, moved, edit)
    return None
