"""From a cursor in an open document to an Edit: what inline completion and completion have in common.

Waits until the user pauses, reuses what was suggested before, asks the engine, and looks once more whether the buffer
moved on meanwhile. It knows nothing about the shapes on the wire.
"""

import asyncio
import time
from concurrent.futures import Future
from dataclasses import dataclass, replace

from mercury_lsp.edit import Edit, completion_edit
from mercury_lsp.engine import Prepare
from mercury_lsp.features.session import Session, document_key
from mercury_lsp.region import Budget, EditRegion, completion_region, request_for
from mercury_lsp.syntax import scope_at
from mercury_lsp.text import Document
from mercury_model.draft import Draft, Infiller, Request

PROSE = ("markdown", "plaintext", "rst", "asciidoc", "latex", "gitcommit", "git-commit")


@dataclass(frozen=True, slots=True)
class Suggestion:
    """An edit for `document` as it is now; cursor: the asker's, moved by what was typed meanwhile."""

    document: Document
    cursor: int
    edit: Edit


def refusal(session: Session, document: Document) -> str:
    """Why a document gets no suggestions at all, for people; empty when it gets them."""
    settings = session.settings
    scheme = document.uri.split(":", 1)[0]
    if scheme not in settings.files.schemes:
        return f"documents of the scheme {scheme} are left alone"
    if len(document.text) > settings.files.max_kilobytes * 1024:
        return f"the file is larger than {settings.files.max_kilobytes} KB (setting files.max_kilobytes)"
    if document.language in PROSE and not settings.inline.markdown:
        return "switched off for prose (setting inline.markdown)"
    return ""


async def suggest(
    session: Session, document: Document, cursor: int, *, at_once: bool, opened: Document | None = None
) -> Suggestion | None:
    """The suggestion at `cursor`, or None. A newer call for the same document makes this one answer None.

    at_once: the user asked for it by a command; nobody waits for a pause then. opened: the open document of which
    `document` is a variant (an entry of the completion menu accepted), if it is one.
    """
    opened = opened or document
    settings, key = session.settings, document_key(document.uri)
    newest = session.take_turn(document.uri)
    if not (settings.enabled and settings.inline.enabled):
        return None
    reason = refusal(session, document)
    session.set_inactive(reason)
    if reason:
        return None
    edit = session.recent.find(key, document, cursor)
    if edit is not None:
        session.engine.cancel(key)
        return Suggestion(document, cursor, edit)
    if not at_once:
        fixed = settings.inline.debounce_ms
        wait = session.rhythm.wait(key, time.monotonic(), None if fixed is None else fixed / 1000)
        await asyncio.sleep(wait)
        if not newest():
            return None
    if session.documents.get(document.uri) is not opened:
        return None  # the buffer moved on during the wait: the request for its new state is on its way
    edit = await compute(session, document, cursor)
    if edit is None:
        return None
    session.recent.put(key, document, edit)
    if opened is not document:
        current = session.documents.get(document.uri) is opened
        return Suggestion(document, cursor, edit) if current else None
    return rebased(session, Suggestion(document, cursor, edit))


async def compute(session: Session, document: Document, cursor: int) -> Edit | None:
    """Runs the model for a document, which need not be the open one; None if it has nothing to say or is overtaken."""
    regions: list[EditRegion] = []
    future = session.engine.submit(document_key(document.uri), _prepare(session, document, cursor, regions))
    draft = await _answer(future)
    if draft is None or not regions:
        return None
    region = regions[-1]
    session.regions[document_key(document.uri)] = region
    # parsing a large buffer takes longer than the event loop may be held
    return await asyncio.to_thread(completion_edit, region, draft.text, confidence=draft.confidence)


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


def _prepare(session: Session, document: Document, cursor: int, regions: list[EditRegion]) -> Prepare:
    """Builds the request in the engine's thread, where parsing and counting tokens hold nobody up."""
    settings, previous = session.settings, session.regions.get(document_key(document.uri))

    def prepare(infiller: Infiller) -> Request | None:
        scope = scope_at(document, cursor)
        if (scope == "comment" and not settings.inline.comments) or (scope == "string" and not settings.inline.strings):
            return None
        tokens = settings.context.tokens or infiller.info.context_tokens
        suffix = int(tokens * settings.context.suffix_share)
        budget = Budget(prefix=tokens - suffix, suffix=suffix)
        region = completion_region(document, cursor, budget, infiller.count_tokens, previous)
        if region is None:
            return None
        regions.append(region)
        deadline = settings.inline.deadline_ms
        return request_for(
            region,
            max_tokens=settings.inline.max_tokens,
            policy=settings.inline.policy,
            effort=settings.inline.effort,
            deadline=time.monotonic() + deadline / 1000 if deadline else None,
        )

    return prepare


async def _answer(future: "Future[Draft | None]") -> Draft | None:
    """The engine's answer; None if a newer request took its place, which is no error of this one's."""
    try:
        return await asyncio.wrap_future(future)
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise  # the client cancelled: wrap_future cancelled the run as well
        return None
