"""Edits as the editors' protocol wants them: the shapes of inline completion items and completion items.

The rules that satisfy every client at once (VS Code hides an item unless the replaced text is a prefix of its
filterText; Neovim needs a range, and shows an empty one as ghost text and another as an overlay; no range may leave
its line; only `\\n` is taken for a line end). It knows nothing about the model or the session.
"""

import re

from lsprotocol import types

from mercury_lsp.edit import Edit
from mercury_lsp.features.positions import Encoding, to_position, to_range
from mercury_lsp.text import Document, Span

_LINE_END = re.compile(r"\r\n|\r")
_WORD = re.compile(r"\w+\Z")


_VSCODE = re.compile(r"visual studio code|vscod|\bcode\b|cursor|windsurf|positron|theia", re.IGNORECASE)


def is_vscode(client_name: str) -> bool:
    """VS Code, its builds under other names, and the editors made from it."""
    return _VSCODE.search(client_name) is not None


def inline_item(
    document: Document, cursor: int, edit: Edit, encoding: Encoding, *, whole_line: bool
) -> types.InlineCompletionItem | None:
    """An item that always has a range on the cursor's line; None if the edit reaches beyond that line.

    A pure insertion is an empty range at the cursor. A replacement, and everything when `whole_line` (VS Code flashes
    otherwise when a word is accepted), goes from column 0 to the end of what it replaces and repeats what stands
    before the cursor.
    """
    text, line = document.text, document.line_span(document.line_of(cursor))
    start, end = edit.span.start, edit.span.end
    if not line.start <= start <= cursor <= end <= line.end:
        return None
    new_text = _LINE_END.sub("\n", edit.new_text)
    if not new_text:
        return None
    if start == end == cursor and not whole_line:
        here = to_position(document, cursor, encoding)
        return types.InlineCompletionItem(insert_text=new_text, range=types.Range(start=here, end=here))
    inserted = text[line.start : start] + new_text
    replaced = text[line.start : end]
    return types.InlineCompletionItem(
        insert_text=inserted,
        filter_text=inserted if inserted.startswith(replaced) else replaced,
        range=to_range(document, Span(line.start, end), encoding),
    )


def selected_item(info: types.SelectedCompletionInfo, continuation: str) -> types.InlineCompletionItem | None:
    """The selected entry of the completion menu and what follows it, over the entry's own range."""
    if info.range.start.line != info.range.end.line or not continuation:
        return None
    text = _LINE_END.sub("\n", info.text + continuation)
    return types.InlineCompletionItem(insert_text=text, filter_text=text, range=info.range)


def completion_item(
    document: Document, cursor: int, edit: Edit, encoding: Encoding, *, markdown: bool
) -> types.CompletionItem | None:
    """One completion item with a preview, sorted first; None if the edit reaches beyond the cursor's line."""
    text, line = document.text, document.line_span(document.line_of(cursor))
    start, end = edit.span.start, edit.span.end
    if not line.start <= start <= cursor <= end <= line.end or not edit.new_text.strip():
        return None
    word = _WORD.search(text, max(line.start, start - 200), start)
    begin = word.start() if word else start
    inserted = text[begin:start] + _LINE_END.sub("\n", edit.new_text)
    first = inserted.lstrip("\n").split("\n", 1)[0].strip()
    preview = f"```{document.language}\n{inserted}\n```" if markdown else inserted
    return types.CompletionItem(
        label=first if len(first) <= 60 else first[:59] + "…",
        kind=types.CompletionItemKind.Snippet,
        detail="Mercury",
        documentation=types.MarkupContent(
            kind=types.MarkupKind.Markdown if markdown else types.MarkupKind.PlainText, value=preview
        ),
        sort_text="\x01",
        filter_text=inserted.split("\n", 1)[0] or None,
        insert_text_format=types.InsertTextFormat.PlainText,
        insert_text_mode=types.InsertTextMode.AsIs,
        text_edit=types.TextEdit(range=to_range(document, Span(begin, end), encoding), new_text=inserted),
    )
