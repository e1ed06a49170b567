"""textDocument/copilotInlineEdit, and mercury/nextEdit, which is the same: what the user probably changes next.

No edit is the usual answer: `{"edits": []}`, never an error. There is one at most, for the version of the document that
it names; a request for another version than the server has gets none. `mercury/rejected` (the edit under `item`, or a
`uri`) says that the user turned it down: it is not offered again, and the server keeps quiet for a while. Whoever
draws the edit decides when to ask.
"""

from dataclasses import dataclass
from typing import Any

import cattrs
from lsprotocol import types
from pygls.exceptions import JsonRpcInvalidParams
from pygls.protocol import default_converter

from mercury_lsp.edit import Edit
from mercury_lsp.features.declined import Offer
from mercury_lsp.features.positions import to_offset, to_range
from mercury_lsp.features.session import Session
from mercury_lsp.features.store import document_key
from mercury_lsp.features.suggest import refusal
from mercury_lsp.features.working import current_edits, do, plain
from mercury_lsp.next_edits.changes import MAX_CHANGES, Change
from mercury_lsp.next_edits.next_edit import Situation, next_edit
from mercury_lsp.text import Document, Span

METHOD = "textDocument/copilotInlineEdit"
ALIAS = "mercury/nextEdit"
SHOWN = "textDocument/didShowInlineEdit"
REJECTED = "mercury/rejected"
_CONVERTER = default_converter()


@dataclass(frozen=True)
class TextDocument:
    uri: str
    version: int | None = None


@dataclass(frozen=True)
class Context:
    triggerKind: int = types.InlineCompletionTriggerKind.Automatic.value  # noqa: N815 - its name on the wire


@dataclass(frozen=True)
class NextEditParams:
    textDocument: TextDocument  # noqa: N815 - its name on the wire
    position: types.Position
    context: Context = Context()


def nothing() -> dict[str, Any]:
    return {"edits": []}


async def answer(session: Session, params: Any) -> dict[str, Any]:
    """`{"edits": [{id, text, range, textDocument: {uri, version}}]}`, or none."""
    try:
        given = _CONVERTER.structure(plain(params), NextEditParams)
    except (cattrs.BaseValidationError, TypeError, ValueError, KeyError):
        raise JsonRpcInvalidParams(message=f"{METHOD} takes {{textDocument: {{uri, version}}, position}}") from None
    document = session.documents.get(given.textDocument.uri)
    if document is None or not session.folders.settings_of(document.uri).enabled or refusal(session, document):
        return nothing()
    if given.textDocument.version not in (None, document.version):
        return nothing()
    key = document_key(document.uri)
    session.engine.cancel(key + "#next")  # an older request is answered with nothing, at once
    asked = given.context.triggerKind == types.InlineCompletionTriggerKind.Invoked
    if session.declined.is_quiet(key) and not asked:
        return nothing()
    cursor = to_offset(document, given.position, session.encoding)
    located = session.folders.locate(document.uri)
    path = located[1] if located is not None else ""
    situation = Situation(document, cursor, changes(session), path, session.declined.of(key))
    hunk = await do(session, document, next_edit(situation), channel="#next")
    placed = current_edits(session, document, hunk) if hunk is not None else None
    if placed is None or not placed[1] or session.pause.reason:
        return nothing()
    now, edits = placed
    whole = _one(now, edits)
    old = whole.span.of(now.text)
    if (old, whole.new_text) in session.declined.of(key):
        return nothing()
    name = session.declined.offer(Offer(key, old, whole.new_text))
    return {"edits": [_wire(session, now, whole, name)]}


def changes(session: Session) -> tuple[Change, ...]:
    """The recent edits of all files that may be shown, oldest first."""
    found: list[Change] = []
    for edit in session.folders.ring.edits()[:MAX_CHANGES]:
        located = session.folders.locate(edit.uri)
        if located is not None:
            found.insert(0, Change(located[1], edit.old.rstrip("\n"), edit.new.rstrip("\n")))
    return tuple(found)


def _one(document: Document, edits: tuple[Edit, ...]) -> Edit:
    """Several edits of a document as one, with what stands between them."""
    start, end = edits[0].span.start, edits[-1].span.end
    text, place = "", start
    for edit in edits:
        text += document.text[place : edit.span.start] + edit.new_text
        place = edit.span.end
    return Edit(document.uri, document.version, Span(start, end), text, valid=True)


def _wire(session: Session, document: Document, edit: Edit, name: str) -> dict[str, Any]:
    where = to_range(document, edit.span, session.encoding)
    return {
        "id": name,
        "text": edit.new_text.replace("\r\n", "\n"),
        "range": _CONVERTER.unstructure(where),
        "textDocument": {"uri": document.uri, "version": document.version},
    }


def shown(session: Session, params: Any) -> None:
    """`textDocument/didShowInlineEdit`: nothing is counted and nothing is sent anywhere."""


def rejected(session: Session, params: Any) -> None:
    """`mercury/rejected`: by the edit's id, or else what its document was offered last."""
    given = plain(params)
    item = given.get("item", given) if isinstance(given, dict) else None
    if not isinstance(item, dict):
        return
    name, document = item.get("id"), item.get("textDocument")
    uri = document.get("uri") if isinstance(document, dict) else item.get("uri")
    if isinstance(name, str):
        session.declined.decline(name)
    elif isinstance(uri, str):
        session.declined.decline_last(document_key(uri))
