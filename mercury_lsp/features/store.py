"""Open documents by URI. It knows nothing about changes, positions or clients."""

import re
from urllib.parse import unquote

from mercury_lsp.text import Document


class Documents:
    """Open documents by URI, whatever way the client writes it (escaped or not, drive letter in any case)."""

    def __init__(self) -> None:
        self._open: dict[str, Document] = {}

    def get(self, uri: str) -> Document | None:
        return self._open.get(document_key(uri))

    def put(self, document: Document) -> None:
        """Takes a document; it is the one that was used last."""
        key = document_key(document.uri)
        self._open.pop(key, None)
        self._open[key] = document

    def all(self) -> list[Document]:
        """The open documents, those used last first."""
        return list(self._open.values())[::-1]

    def drop(self, uri: str) -> None:
        self._open.pop(document_key(uri), None)


def document_key(uri: str) -> str:
    """One name for all spellings of a URI. Names whose bytes are no UTF-8 are as different as their bytes."""
    name = unquote(uri, errors="surrogateescape")
    return re.sub(r"^(file:///)([A-Za-z])(?=:)", lambda m: m[1] + m[2].lower(), name)
