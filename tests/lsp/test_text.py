"""Documents: lines, edits, newline and indentation styles, languages."""

import pytest

from mercury_lsp import text as text_module
from mercury_lsp.languages import GRAMMARS
from mercury_lsp.text import Document, IndentStyle, Span, indent_of, language_of, model_text, utf8


def lines(text: str) -> list[str]:
    document = Document("u", 1, "", text)
    return [document.line_span(line, keepend=True).of(text) for line in range(document.n_lines)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", [""]),
        ("a", ["a"]),
        ("a\n", ["a\n", ""]),
        ("a\r\nb\rc\nd", ["a\r\n", "b\r", "c\n", "d"]),
        ("\n\r", ["\n", "\r", ""]),
        ("\r\r\n", ["\r", "\r\n", ""]),
        ("a\x0bb\x0cc\x1cd\x85e\u2028f\u2029g", ["a\x0bb\x0cc\x1cd\x85e\u2028f\u2029g"]),
    ],
)
def test_D2_lines_end_at_newlines_only(text: str, expected: list[str]) -> None:
    assert lines(text) == expected


@pytest.mark.parametrize("text", ["", "a", "a\r\nb\rc\n", "\n\n", "x\u2028y\nz"])
def test_every_offset_is_in_the_line_that_covers_it(text: str) -> None:
    document = Document("u", 1, "", text)
    for offset in range(len(text) + 1):
        span = document.line_span(document.line_of(offset), keepend=True)
        assert span.start <= offset < span.end or offset == len(text) == span.end


def test_offsets_and_lines_outside_are_clamped() -> None:
    document = Document("u", 1, "", "a\nb")
    assert (document.line_of(-5), document.line_of(99)) == (0, 1)
    assert document.line_span(-1) == Span(0, 1)
    assert document.line_span(99) == Span(2, 3)
    assert document.apply(Span(-3, 99), "c", 2).text == "c"


@pytest.mark.parametrize(
    ("text", "span", "new_text"),
    [
        ("a\r\nb", Span(2, 2), "x"),  # parts a pair
        ("a\r\nb", Span(2, 3), ""),  # leaves its \r
        ("a\r\nb", Span(1, 2), ""),  # leaves its \n
        ("a\rb", Span(2, 2), "\n"),  # joins a pair behind
        ("a\nb", Span(1, 1), "\r"),  # joins a pair before
        ("a\r\rb", Span(2, 2), "\n"),
        ("a\rx\nb", Span(2, 3), ""),  # joins two that stood apart
        ("", Span(0, 0), "\r\n"),
        ("a\n", Span(2, 2), "b\nc"),
        ("a\nb\nc\n", Span(1, 5), "\n"),
    ],
)
def test_an_edit_keeps_the_line_table_right(text: str, span: Span, new_text: str) -> None:
    document = Document("u", 1, "", text)
    assert document.n_lines
    edited = document.apply(span, new_text, 2)
    assert [edited.line_span(n, keepend=True).of(edited.text) for n in range(edited.n_lines)] == lines(edited.text)
    assert (document.text, document.version, edited.version) == (text, 1, 2)


def test_I1_an_edit_scans_only_its_own_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    document = Document("u", 1, "", "some line of code\n" * 50_000)
    assert document.n_lines == 50_001
    scanned: list[int] = []
    scan = text_module._line_starts  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(text_module, "_line_starts", lambda text: scanned.append(len(text)) or scan(text))
    edited = document.apply(Span(400_000, 400_001), "x\ny", 2)
    assert edited.n_lines == 50_002
    assert sum(scanned) < 100


@pytest.mark.parametrize(
    ("text", "newline"),
    [("", "\n"), ("a\r\nb\r\nc\n", "\r\n"), ("a\nb\nc\r\n", "\n"), ("a\rb\rc\n", "\r"), ("abc", "\n")],
)
def test_D1_the_newline_most_lines_have(text: str, newline: str) -> None:
    assert Document("u", 1, "", text).newline == newline


@pytest.mark.parametrize(
    ("language", "text", "style"),
    [
        ("python", "def f():\n  a\n  if b:\n    c\n", IndentStyle(False, 2)),
        ("python", "def f():\n    a\n    if b:\n        c\n", IndentStyle(False, 4)),
        ("python", "def f():\n\ta\n\tif b:\n\t\tc\n", IndentStyle(True, 4)),
        ("python", "def f():\r\n\ta\r\n\tb\r\n    c\r\n", IndentStyle(True, 4)),
        ("python", "x = 1\n", IndentStyle(False, 4)),
        ("javascript", "", IndentStyle(False, 2)),
        ("go", "", IndentStyle(True, 4)),
        ("unheard-of", "", IndentStyle(False, 4)),
    ],
)
def test_C1_indentation_is_detected(language: str, text: str, style: IndentStyle) -> None:
    assert Document("u", 1, language, text).indent == style


def test_columns_of_tabs_and_spaces() -> None:
    assert [indent_of(line) for line in ("x", "  x", "\tx", " \tx", "\t  x", "")] == [0, 2, 4, 4, 6, 0]


@pytest.mark.parametrize(
    ("key", "language"),
    [
        ("python", "python"),
        ("javascriptreact", "javascript"),
        ("typescriptreact", "tsx"),
        ("shellscript", "bash"),
        ("jsonc", "json"),
        ("/src/App.TSX", "tsx"),
        ("file:///c%3A/src/main.rs", "rust"),
        ("C:\\src\\a.hpp", "cpp"),
        ("untitled:Untitled-1.go", "go"),
        ("/home/me/.bashrc", "bash"),
        ("notes.md", None),
        ("markdown", None),
        ("Makefile", None),
        ("", None),
    ],
)
def test_the_language_of_a_path_or_an_id(key: str, language: str | None) -> None:
    assert language_of(key) == language


def test_no_id_or_suffix_belongs_to_two_languages() -> None:
    keys = [key for row in GRAMMARS.values() for key in (row.name, *row.ids, *row.suffixes, *row.names)]
    assert len(keys) == len(set(keys))


def test_E3_lone_surrogates_are_tolerated() -> None:
    assert model_text("a\ud800b\r\nc\rd😀") == "a\ufffdb\nc\nd😀"
    assert utf8("a\ud800b") == b"a?b"
    document = Document("u", 1, "python", "x = '\ud800'\n")
    assert document.apply(Span(5, 6), "\udfff", 2).line_text(0) == "x = '\udfff'"
