"""textDocument/completion for clients without inline completion: one item, the same suggestion."""

from lsprotocol import types

from mercury_lsp.features.positions import to_offset
from mercury_lsp.features.session import Session
from mercury_lsp.features.suggest import suggest
from mercury_lsp.features.wire import completion_item


def wanted(capabilities: types.ClientCapabilities) -> bool:
    """Never both: a client that shows ghost text does not get the same text as a menu entry."""
    text_document = capabilities.text_document
    return text_document is None or text_document.inline_completion is None


def options(_: types.ClientCapabilities) -> types.CompletionOptions:
    """No trigger characters: the client asks when the user types words or asks for the menu."""
    return types.CompletionOptions()


async def completion(session: Session, params: types.CompletionParams) -> types.CompletionList:
    """At most one item; the list is incomplete, so that typing on asks again."""
    nothing = types.CompletionList(is_incomplete=True, items=[])
    document = session.documents.get(params.text_document.uri)
    if document is None:
        return nothing
    cursor = to_offset(document, params.position, session.encoding)
    found = await suggest(session, document, cursor, at_once=False)
    if found is None:
        return nothing
    text_document = session.capabilities.text_document
    support = text_document.completion if text_document else None
    formats = (support.completion_item.documentation_format if support and support.completion_item else None) or ()
    markdown = types.MarkupKind.Markdown in formats
    item = completion_item(found.document, found.cursor, found.edit, session.encoding, markdown=markdown)
    return types.CompletionList(is_incomplete=True, items=[item] if item is not None else [])
