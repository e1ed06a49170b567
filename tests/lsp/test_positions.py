"""LSP positions against a model of the document that knows no characters, only encoded units."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lsprotocol import types

from mercury_lsp.features.positions import apply_change, to_offset, to_position, to_range, to_span
from mercury_lsp.text import Document, Span
from tests.lsp.code_units import Units

# No high surrogate: two lone ones side by side would be one character for a client that counts 16-bit units.
PIECES = [
    "a", "b ", "_", "\t", "é", "e\u0301", "漢", "字", "😀", "👩\u200d💻", "\udc80", "\n", "\n", "\r\n", "\r\n", "\r",
    "\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u2029", "\ufeff", "\x00", "foo",
]  # fmt: skip
TEXTS = st.lists(st.sampled_from(PIECES), max_size=14).map("".join)
ENCODINGS = ("utf-8", "utf-16", "utf-32")


POSITIONS = st.tuples(st.integers(0, 9), st.integers(0, 25))
EDITS = st.lists(st.tuples(POSITIONS, POSITIONS, TEXTS), min_size=1, max_size=6)


@settings(max_examples=2000, deadline=None)
@given(TEXTS, EDITS, st.sampled_from(ENCODINGS))
def test_E1_D2_D3_edits_land_where_the_client_made_them(
    text: str, edits: list[tuple[tuple[int, int], tuple[int, int], str]], encoding: str
) -> None:
    document, model = Document("u", 0, "python", text), Units.of(text, encoding)
    for version, (one, other, new_text) in enumerate(edits, 1):
        start, end = min(one, other), max(one, other)
        before, wanted = document.text, types.Range(types.Position(*start), types.Position(*end))
        change = types.TextDocumentContentChangePartial(range=wanted, text=new_text)
        edited = apply_change(document, change, encoding, version)
        assert (document.text, document.version) == (before, version - 1)
        assert change.range == types.Range(types.Position(*start), types.Position(*end))
        model.splice(start, end, new_text)
        document = edited
        assert Units.of(document.text, encoding).data == model.data
        fresh = Document("u", version, "python", document.text)
        assert [document.line_span(line, keepend=True) for line in range(document.n_lines)] == [
            fresh.line_span(line, keepend=True) for line in range(fresh.n_lines)
        ]
        assert document.version == version


@settings(max_examples=500, deadline=None)
@given(TEXTS, st.sampled_from(ENCODINGS))
def test_E1_every_offset_survives_the_round_trip(text: str, encoding: str) -> None:
    document, model = Document("u", 1, "python", text), Units.of(text, encoding)
    for offset in range(len(text) + 1):
        position = to_position(document, offset, encoding)
        back = to_offset(document, position, encoding)
        assert model.index(position.line, position.character) == len(Units.of(text[:back], encoding).data)
        within = text[offset - 1 : offset + 1] == "\r\n"  # no position stands between the two
        assert back == (offset - 1 if within else offset)


@settings(max_examples=500, deadline=None)
@given(TEXTS, POSITIONS, st.sampled_from(ENCODINGS))
def test_E2_positions_never_leave_the_document(text: str, at: tuple[int, int], encoding: str) -> None:
    document = Document("u", 1, "python", text)
    offset = to_offset(document, types.Position(*at), encoding)
    assert len(Units.of(text[:offset], encoding).data) == Units.of(text, encoding).index(*at)


@pytest.mark.parametrize(("encoding", "character"), [("utf-8", 13), ("utf-16", 8), ("utf-32", 7)])
def test_E1_units_of_each_encoding(encoding: str, character: int) -> None:
    document = Document("u", 1, "python", "x\n# 😀漢e\u0301 ‸")
    offset = document.text.index("‸")
    assert to_position(document, offset, encoding) == types.Position(1, character)
    assert to_offset(document, types.Position(1, character), encoding) == offset


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize(
    ("text", "line", "character", "offset"),
    [
        ("", 0, 0, 0),
        ("", 7, 7, 0),
        ("abc", 0, 10, 3),
        ("abc", 1, 0, 3),
        ("abc\n", 0, 10, 3),
        ("abc\n", 1, 0, 4),
        ("abc\r\ndef", 0, 10, 3),
        ("abc\rdef", 1, 1, 5),
        ("a\x0cb\u2028c\n d", 1, 1, 7),
    ],
)
def test_D3_E2_clamped_positions(text: str, line: int, character: int, offset: int, encoding: str) -> None:
    position = types.Position(line, character)
    assert to_offset(Document("u", 1, "", text), position, encoding) == offset
    assert position == types.Position(line, character)


def test_a_position_inside_a_character_is_its_start() -> None:
    document = Document("u", 1, "", "😀x")
    assert to_offset(document, types.Position(0, 1), "utf-16") == 0
    assert to_offset(document, types.Position(0, 3), "utf-8") == 0


def test_a_range_with_swapped_ends_is_put_right() -> None:
    document = Document("u", 1, "", "one\ntwo")
    swapped = types.Range(types.Position(1, 1), types.Position(0, 1))
    assert to_span(document, swapped, "utf-16") == Span(1, 5)
    assert to_range(document, Span(1, 5), "utf-16") == types.Range(types.Position(0, 1), types.Position(1, 1))


def test_a_change_without_a_range_replaces_everything() -> None:
    document = Document("u", 1, "python", "old")
    change = types.TextDocumentContentChangeWholeDocument(text="new\r\n")
    assert apply_change(document, change, "utf-16", 2) == Document("u", 2, "python", "new\r\n")
