"""What a run of the model reads for a document: the document itself, or all cells of a notebook in one language.

Values in, values out: no LSP types. An edit of the whole comes back as one of the document, or not at all.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from mercury_lsp.edit import Edit
from mercury_lsp.text import Document, Span


@dataclass(frozen=True, slots=True)
class Frame:
    """What a run reads for a document: `whole`, in which the document's text begins at `offset`."""

    document: Document
    whole: Document
    offset: int = 0

    def inside(self, edit: Edit) -> Edit | None:
        """An edit of `whole` as one of the document; None if it reaches beyond it."""
        span = Span(edit.span.start - self.offset, edit.span.end - self.offset)
        if not 0 <= span.start <= span.end <= len(self.document.text):
            return None
        return replace(edit, uri=self.document.uri, version=self.document.version, span=span)


def frame(document: Document, notebook: str, cells: Sequence[Document]) -> Frame:
    """A cell among the cells of its language, in their order; without cells the document alone.

    notebook: the URI under which the whole is known. cells: all of the notebook, the document's own among them.
    """
    here = next((n for n, cell in enumerate(cells) if cell.uri == document.uri), None)
    if here is None:
        return Frame(document, document)
    before = "".join(cell.text.rstrip("\r\n") + "\n\n" for cell in cells[:here] if _belongs(cell, document))
    after = "".join("\n\n" + cell.text for cell in cells[here + 1 :] if _belongs(cell, document))
    whole = Document(notebook, document.version, document.language, before + document.text + after)
    return Frame(document, whole, len(before))


def _belongs(cell: Document, document: Document) -> bool:
    return cell.language == document.language and bool(cell.text.strip())
