"""Edits of a document as a WorkspaceEdit: versioned and annotated where the client can."""

from collections.abc import Sequence

from lsprotocol import types

from mercury_lsp.edit import Edit
from mercury_lsp.features.positions import Encoding, to_range
from mercury_lsp.text import Document

ANNOTATION = "mercury"


def workspace_edit(
    document: Document,
    edits: Sequence[Edit],
    encoding: Encoding,
    capabilities: types.ClientCapabilities,
    label: str,
    *,
    for_action: bool = False,
) -> types.WorkspaceEdit:
    """for_action: the edit belongs to a code action, whose annotations a client honours only if it says so."""
    workspace = capabilities.workspace
    support = workspace.workspace_edit if workspace is not None else None
    plain = [types.TextEdit(range=to_range(document, e.span, encoding), new_text=_wire(e.new_text)) for e in edits]
    if support is None or not support.document_changes:
        return types.WorkspaceEdit(changes={document.uri: plain})
    text_document = capabilities.text_document
    action = text_document.code_action if text_document is not None else None
    annotated = support.change_annotation_support is not None and (
        not for_action or bool(action is not None and action.honors_change_annotations)
    )
    written: list[types.TextEdit | types.AnnotatedTextEdit | types.SnippetTextEdit] = [*plain]
    if annotated:
        written = [types.AnnotatedTextEdit(ANNOTATION, edit.range, edit.new_text) for edit in plain]
    identifier = types.OptionalVersionedTextDocumentIdentifier(uri=document.uri, version=document.version)
    note = types.ChangeAnnotation(label=label, needs_confirmation=False, description="Written by the model")
    return types.WorkspaceEdit(
        document_changes=[types.TextDocumentEdit(text_document=identifier, edits=written)],
        change_annotations={ANNOTATION: note} if annotated else None,
    )


def _wire(text: str) -> str:
    """`\\n` only: the editor writes line ends as the file has them."""
    return text.replace("\r\n", "\n").replace("\r", "\n")
