"""mercury/rejected: the user turned down what was shown.

With a `position` (and a `textDocument` or `uri`) it was the ghost text there; else it was a next edit (next_edit.py).
"""

from typing import Any

import cattrs
from lsprotocol import types
from pygls.protocol import default_converter

from mercury_lsp.features import next_edit
from mercury_lsp.features.positions import to_offset
from mercury_lsp.features.session import Session
from mercury_lsp.features.store import document_key
from mercury_lsp.features.working import plain

_CONVERTER = default_converter()


def rejected(session: Session, params: Any) -> None:
    """A notification: what cannot be understood is nothing to worry about."""
    given = plain(params)
    if not isinstance(given, dict) or "position" not in given:
        next_edit.rejected(session, params)
        return
    identifier = given.get("textDocument", given)
    uri = identifier.get("uri") if isinstance(identifier, dict) else None
    document = session.documents.get(uri) if isinstance(uri, str) else None
    if document is None:
        return
    try:
        position = _CONVERTER.structure(given["position"], types.Position)
    except (cattrs.BaseValidationError, TypeError, ValueError, KeyError):
        return
    cursor = to_offset(document, position, session.encoding)
    session.turned_down.decline(document_key(document.uri), document, cursor)
