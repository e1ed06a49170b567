"""LSP positions and changes to code points and back: the only place that counts encoded units.

A unit is a byte (utf-8), a 16-bit unit (utf-16) or a code point (utf-32). Positions are clamped as LSP says:
past the end of a line is the end of that line, before its newline; past the last line is the end of the text.
A position inside a character is the start of that character. Nothing that is passed in is changed.
"""

from lsprotocol import types

from mercury_lsp.text import Document, Span

Encoding = types.PositionEncodingKind | str
Change = types.TextDocumentContentChangeEvent


def units(text: str, encoding: Encoding) -> int:
    """Length of `text` in units of `encoding`; a lone surrogate is one utf-16 unit and three bytes."""
    if text.isascii() or encoding == types.PositionEncodingKind.Utf32:
        return len(text)
    if encoding == types.PositionEncodingKind.Utf8:
        return len(text.encode("utf-8", "surrogatepass"))
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def _skip(text: str, n_units: int, encoding: Encoding) -> int:
    """Number of whole characters of `text` that fit in `n_units`."""
    if text.isascii() or encoding == types.PositionEncodingKind.Utf32:
        return min(n_units, len(text))
    utf8 = encoding == types.PositionEncodingKind.Utf8
    for index, char in enumerate(text):
        n_units -= units(char, encoding) if utf8 else 1 + (char > "\uffff")
        if n_units < 0:
            return index
    return len(text)


def to_offset(document: Document, position: types.Position, encoding: Encoding) -> int:
    """Code point offset of an LSP position, clamped into the document."""
    if position.line >= document.n_lines:
        return len(document.text)
    if position.line < 0:
        return 0
    span = document.line_span(position.line)
    return span.start + _skip(span.of(document.text), max(position.character, 0), encoding)


def to_position(document: Document, offset: int, encoding: Encoding) -> types.Position:
    """LSP position of a code point offset, clamped into the document and out of its newlines."""
    line = document.line_of(offset)
    span = document.line_span(line)
    end = min(max(offset, span.start), span.end)
    return types.Position(line, units(document.text[span.start : end], encoding))


def to_range(document: Document, span: Span, encoding: Encoding) -> types.Range:
    """LSP range of a span of code points."""
    return types.Range(to_position(document, span.start, encoding), to_position(document, span.end, encoding))


def to_span(document: Document, lsp_range: types.Range, encoding: Encoding) -> Span:
    """Span of an LSP range; one whose ends are swapped is put right."""
    ends = to_offset(document, lsp_range.start, encoding), to_offset(document, lsp_range.end, encoding)
    return Span(min(ends), max(ends))


def apply_change(document: Document, change: Change, encoding: Encoding, version: int | None) -> Document:
    """The document after one content change of `textDocument/didChange`."""
    if isinstance(change, types.TextDocumentContentChangeWholeDocument):
        return Document(document.uri, version, document.language, change.text)
    return document.apply(to_span(document, change.range, encoding), change.text, version)
