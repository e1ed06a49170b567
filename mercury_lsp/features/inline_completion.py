"""textDocument/inlineCompletion: ghost text."""

from lsprotocol import types

from mercury_lsp.features.positions import to_offset, to_span
from mercury_lsp.features.session import Session
from mercury_lsp.features.store import document_key
from mercury_lsp.features.suggest import suggest
from mercury_lsp.features.wire import inline_item, is_vscode, selected_item
from mercury_lsp.text import Document, Span

Items = list[types.InlineCompletionItem]


def options(_: types.ClientCapabilities) -> types.InlineCompletionOptions:
    """Explicit: without options pygls does not advertise the method."""
    return types.InlineCompletionOptions()


async def inline_completion(session: Session, params: types.InlineCompletionParams) -> Items:
    """One item, or an empty list: nothing to suggest is never an error."""
    document = session.documents.get(params.text_document.uri)
    if document is None:
        return []
    cursor = to_offset(document, params.position, session.encoding)
    context = params.context
    at_once = context.trigger_kind == types.InlineCompletionTriggerKind.Invoked
    if context.selected_completion_info is not None:
        return await _selected(session, document, cursor, context.selected_completion_info, at_once)
    found = await suggest(session, document, cursor, at_once=at_once)
    if found is None:
        return []
    whole_line = is_vscode(session.client_name)
    item = inline_item(found.document, found.cursor, found.edit, session.encoding, whole_line=whole_line)
    return [item] if item is not None else []


async def _selected(
    session: Session, document: Document, cursor: int, info: types.SelectedCompletionInfo, at_once: bool
) -> Items:
    """What follows the entry that is selected in the completion menu; the menu's own range and text are kept."""
    span, chosen = to_span(document, info.range, session.encoding), info.text
    known = session.recent.find(document_key(document.uri), document, cursor)
    if known is not None and span.end == cursor:
        whole = document.text[span.start : cursor] + known.new_text
        if whole.startswith(chosen) and len(whole) > len(chosen) and known.span == Span(cursor, cursor):
            item = selected_item(info, whole[len(chosen) :])
            return [item] if item is not None else []
    accepted = document.apply(span, chosen, document.version)
    end = span.start + len(chosen)
    found = await suggest(session, accepted, end, at_once=at_once, opened=document)
    if found is None or found.edit.span != Span(end, end):
        return []
    item = selected_item(info, found.edit.new_text)
    return [item] if item is not None else []
