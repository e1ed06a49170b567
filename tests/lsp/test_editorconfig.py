"""`.editorconfig`: which style a file gets."""

from pathlib import Path

import pytest

from mercury_lsp.text import IndentStyle
from mercury_lsp.workspace.editorconfig import indent_style

TABS, TWO, FOUR = IndentStyle(True, 4), IndentStyle(False, 2), IndentStyle(False, 4)


@pytest.mark.parametrize(
    ("pattern", "name", "matches"),
    [
        ("*", "a.py", True),
        ("*", "deep/er/a.py", True),
        ("*.py", "a.py", True),
        ("*.py", "a.js", False),
        ("*.{js,ts}", "src/a.ts", True),
        ("*.{js,ts}", "src/a.tsx", False),
        ("{a,b*}.py", "bc.py", True),
        ("a{1..3}.py", "a2.py", True),
        ("a{1..3}.py", "a4.py", False),
        ("[ab].py", "a.py", True),
        ("[!ab].py", "a.py", False),
        ("src/*.py", "src/a.py", True),
        ("src/*.py", "src/x/a.py", False),
        ("src/**.py", "src/x/a.py", True),
        ("/a.py", "a.py", True),
        ("/a.py", "src/a.py", False),
        ("a?.py", "ab.py", True),
        ("{single}.py", "{single}.py", True),
        ("Makefile", "Makefile", True),
        ("[z-a].py", "m.py", False),
    ],
)
def test_C1_patterns(tmp_path: Path, pattern: str, name: str, matches: bool) -> None:
    (tmp_path / ".editorconfig").write_text(f"root = true\n[{pattern}]\nindent_style = tab\n", encoding="utf-8")
    assert indent_style(tmp_path / name) == (TABS if matches else None)


@pytest.mark.parametrize(
    ("lines", "style"),
    [
        ("indent_style = tab", TABS),
        ("indent_style = tab\ntab_width = 8", IndentStyle(True, 8)),
        ("indent_style = space\nindent_size = 2", TWO),
        ("Indent_Style = SPACE\nindent_size=2", TWO),
        ("indent_style = space\nindent_size = tab\ntab_width = 2", TWO),
        ("indent_style = space\nindent_size = lots", FOUR),
        ("indent_style = unset\nindent_size = 2", None),
        ("indent_size = 2", None),
        ("# indent_style = tab", None),
    ],
)
def test_C1_properties(tmp_path: Path, lines: str, style: IndentStyle | None) -> None:
    (tmp_path / ".editorconfig").write_text(f"root=true\n[*]\n{lines}\n", encoding="utf-8")
    assert indent_style(tmp_path / "a.py") == style


def test_C1_the_nearer_file_and_the_later_section_win(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    (tmp_path / ".editorconfig").write_text(
        "root = true\n[*]\nindent_style = tab\nindent_size = 8\n[*.py]\nindent_style = space\n", encoding="utf-8"
    )
    (inner / ".editorconfig").write_text("[*.py]\nindent_size = 2\n", encoding="utf-8")
    assert indent_style(tmp_path / "a.py") == IndentStyle(False, 8)
    assert indent_style(inner / "a.py") == TWO
    (inner / ".editorconfig").write_text("root = true\n[*.py]\nindent_size = 2\n", encoding="utf-8")
    assert indent_style(inner / "a.py") is None


def test_a_file_that_is_no_text_says_nothing(tmp_path: Path) -> None:
    (tmp_path / ".editorconfig").write_bytes(b"root = true\n\xff\xfe[\x00*]\n====\n]]\n[")
    assert indent_style(tmp_path / "a.py") is None
