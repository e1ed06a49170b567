"""The open documents: our own frozen snapshots instead of pygls' TextDocument.

pygls splits lines at form feeds and U+2028 and walks the whole text at every key, so its handlers of these
notifications are taken out (server.py) and these stand in their place. They are plain functions: a plain handler runs
before the next message is read, and pygls keeps the future of every asynchronous notification for ever.
"""

import asyncio
import logging
import time

from lsprotocol import types

from mercury_lsp.features.positions import apply_change, to_span
from mercury_lsp.features.session import Session
from mercury_lsp.features.store import document_key
from mercury_lsp.syntax import warm
from mercury_lsp.text import Document, language_of

logger = logging.getLogger(__name__)


def did_open(session: Session, params: types.DidOpenTextDocumentParams) -> None:
    """A second didOpen of the same document replaces its text."""
    item = params.text_document
    document = Document(item.uri, item.version, item.language_id, item.text)
    session.documents.put(document)
    asyncio.get_running_loop().run_in_executor(None, warm, document)


def did_change(session: Session, params: types.DidChangeTextDocumentParams) -> None:
    """Applies the changes in order. Versions are kept, never relied on: some clients send none, or always the same."""
    identifier = params.text_document
    document = session.documents.get(identifier.uri)
    for change in params.content_changes:
        if document is None:
            if isinstance(change, types.TextDocumentContentChangePartial):
                continue
            # a whole text needs no didOpen before it
            language = language_of(identifier.uri) or ""
            document = Document(identifier.uri, identifier.version, language, change.text)
        else:
            before, document = document, apply_change(document, change, session.encoding, identifier.version)
            _remember(session, before, change, document)
    if document is None:
        logger.info("ignored a change of a document that is not open")
        return
    session.documents.put(document)
    key = document_key(identifier.uri)
    session.turned_down.changed(key, document)
    session.rhythm.key(key, time.monotonic())


def did_close(session: Session, params: types.DidCloseTextDocumentParams) -> None:
    """Forgets the document and what was computed for it; an unknown one is nothing to worry about."""
    uri = params.text_document.uri
    document = session.documents.get(uri)
    if document is not None:
        session.folders.ring.close(document.uri)
    session.documents.drop(uri)
    session.forget(uri)


def _remember(
    session: Session, before: Document, change: types.TextDocumentContentChangeEvent, after: Document
) -> None:
    ring, now = session.folders.ring, time.monotonic()
    if isinstance(change, types.TextDocumentContentChangePartial):
        ring.record(before, to_span(before, change.range, session.encoding), change.text, after, now)
    else:
        ring.replaced(before, after, now)
