"""notebookDocument/*: cells are documents of their own, whose order is known (frame.py makes one text of them).

A cell follows the settings and the ignore rules of its notebook. Outputs are never looked at.
"""

from collections.abc import Sequence

from lsprotocol import types

from mercury_lsp.features import documents
from mercury_lsp.features.session import Session
from mercury_lsp.features.store import document_key
from mercury_lsp.text import Document


def options() -> types.NotebookDocumentSyncOptions:
    """All cells of all notebooks; pygls advertises it to clients that have notebooks."""
    return types.NotebookDocumentSyncOptions([types.NotebookDocumentFilterWithNotebook("*")], save=True)


def did_open(session: Session, params: types.DidOpenNotebookDocumentParams) -> None:
    """A second didOpen of the same notebook replaces its cells."""
    notebook = params.notebook_document
    _give_up(session, notebook.uri)
    session.notebooks[document_key(notebook.uri)] = [cell.document for cell in notebook.cells]
    _take(session, notebook.uri, params.cell_text_documents)


def did_change(session: Session, params: types.DidChangeNotebookDocumentParams) -> None:
    """Cells come, go, move and change; a notebook that is not open is nothing to worry about."""
    uri, cells = params.notebook_document.uri, session.notebooks.get(document_key(params.notebook_document.uri))
    changes = params.change.cells
    if cells is None or changes is None:
        return
    if changes.structure is not None:
        array = changes.structure.array
        cells[array.start : array.start + array.delete_count] = [cell.document for cell in array.cells or ()]
        _close(session, [identifier.uri for identifier in changes.structure.did_close or ()])
        _take(session, uri, changes.structure.did_open or ())
    for content in changes.text_content or ():
        documents.did_change(session, types.DidChangeTextDocumentParams(content.document, content.changes))


def did_save(session: Session, _: types.DidSaveNotebookDocumentParams) -> None:
    """What is shown of other places may be chosen anew."""
    session.folders.contexts.touch()


def did_close(session: Session, params: types.DidCloseNotebookDocumentParams) -> None:
    """Its cells are closed too, whether or not the client names them."""
    _close(session, [identifier.uri for identifier in params.cell_text_documents])
    _give_up(session, params.notebook_document.uri)


def _take(session: Session, notebook: str, items: Sequence[types.TextDocumentItem]) -> None:
    for item in items:
        session.folders.adopt(item.uri, notebook)
        session.documents.put(Document(item.uri, item.version, item.language_id, item.text))


def _close(session: Session, uris: list[str]) -> None:
    for uri in uris:
        documents.did_close(session, types.DidCloseTextDocumentParams(types.TextDocumentIdentifier(uri)))
        session.folders.release(uri)


def _give_up(session: Session, notebook: str) -> None:
    _close(session, session.notebooks.pop(document_key(notebook), []))
    session.forget(notebook)  # what a run of any cell left behind
