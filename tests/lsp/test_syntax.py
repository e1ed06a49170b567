"""Errors, scopes, windows and the end of a unit, as tables."""

import subprocess
import sys

import pytest

from mercury_lsp.languages import GRAMMARS
from mercury_lsp.lexical import needed, scan, scan_after, scan_before
from mercury_lsp.syntax import (
    WINDOW_LINES,
    Replacement,
    SyntaxProblem,
    complete_unit,
    errors,
    n_errors,
    opens_block,
    parse,
    scope_at,
    window,
)
from mercury_lsp.text import Document, Span
from tests.lsp.cases import MARK

VALID = {
    "python": "def f(a):\n    return [a]\n",
    "javascript": "const f = (a) => { return <p>{a}</p>; };\n",
    "typescript": "const f = (a: number): number => a;\n",
    "tsx": "const f = (a: number) => <p>{a}</p>;\n",
    "rust": "fn f<'a>(x: &'a str) -> char { 'x' }\n",
    "go": "package p\n\nfunc f() int { return 1 }\n",
    "java": "class A { int f() { return 1; } }\n",
    "c": "#include <stdio.h>\nint main(void) { return 0; }\n",
    "cpp": "template <class T> T f(T x) { return x; }\n",
    "json": '{"a": [1, 2, null]}\n',
    "bash": 'for f in *; do echo "$f"; done\n',
    "html": "<!doctype html><p class='x'>don't</p>\n",
    "css": "a { color: red; }\n",
}
BROKEN = {
    "python": "def f(a:\n    return [a\n",
    "javascript": "const f = (a => {\n",
    "typescript": "const f: = 1 +;\n",
    "tsx": "const f = <p>{a</p>;\n",
    "rust": "fn f( -> i32 {\n",
    "go": "package p\n\nfunc f( {\n",
    "java": "class A { int f( { }\n",
    "c": "int main(void { return }\n",
    "cpp": "struct P { int x\n",
    "json": '{"a": [1, 2}\n',
    "bash": "if [ -f x ]; then\n",
    "html": "<p class=></\n",
    "css": "a { color: ; } }\n",
}


@pytest.mark.parametrize("language", GRAMMARS)
def test_every_grammar_loads_and_tells_good_from_broken(language: str) -> None:
    assert errors(VALID[language], language) == ()
    assert n_errors(BROKEN[language], language)


@pytest.mark.parametrize("language", GRAMMARS)
def test_the_node_kinds_of_a_row_exist_in_its_grammar(language: str) -> None:
    row = GRAMMARS[language]
    parsed = parse("", language)
    assert parsed is not None
    known = parsed.tree.language
    kinds = {known.node_kind_for_id(number) for number in range(known.node_kind_count)}
    named = (
        row.comment_nodes
        | row.string_nodes
        | row.code_nodes
        | row.function_nodes
        | row.class_nodes
        | row.block_nodes
        | row.import_nodes
    )
    assert named <= kinds, named - kinds


def test_problems_are_in_code_points() -> None:
    found = errors("x = '😀漢'\nfoo(1\n", "python")
    assert found is not None
    assert all(9 <= problem.span.start <= 15 for problem in found)


def test_a_missing_token_is_an_empty_span() -> None:
    found = errors("int x = 1", "c")
    assert found == (SyntaxProblem(Span(9, 9), "missing"),)


@pytest.mark.parametrize("language", ["markdown", "", "klingon"])
def test_an_unknown_language_is_not_judged(language: str) -> None:
    assert errors("((((", language) is None
    assert n_errors("((((", language) is None
    assert parse("((((", language) is None
    assert Replacement("((((", Span(1, 2), language).n_errors_with("x") is None


def test_E3_lone_surrogates_and_odd_line_ends_parse() -> None:
    assert n_errors("x = '\ud800'\ny = 1\n", "python") == 0
    assert n_errors("x = 1\ry = 2\r", "python") == 0
    assert n_errors("x = 1\r\ny = 2\r\n\x0cz = 3\r\n", "python") == 0


@pytest.mark.parametrize("new_text", ["", "1", "f(", "'é'", "'''\n", "(\n1)", "1\nif x:\n    y", "😀", "\r\n"])
@pytest.mark.parametrize("text", ["x = ‸\ny = '漢字'\n", "def f(‸\n    return 1\n", "if a:\r\n    ‸\r\nb = 1\r\n"])
def test_a_replacement_counts_what_parsing_anew_counts(text: str, new_text: str) -> None:
    at, text = text.index(MARK), text.replace(MARK, "")
    judge = Replacement(text, Span(at, at), "python")
    assert judge.n_errors == n_errors(text, "python")
    assert judge.n_errors_with(new_text) == n_errors(text[:at] + new_text + text[at:], "python")


@pytest.mark.parametrize(
    ("language", "text", "scope"),
    [
        ("python", "x = ‸1\n", "code"),
        ("python", "# a note‸\nx = 1\n", "comment"),
        ("python", "# a note\n‸x = 1\n", "code"),
        ("python", "x = 1  # a‸bout\n", "comment"),
        ("python", "‸# a note\n", "code"),
        ("python", "x = 'ab‸c'\n", "string"),
        ("python", "x = 'abc'‸\n", "code"),
        ("python", "x = ‸'abc'\n", "code"),
        ("python", "x = 'abc‸\ny = 1\n", "string"),
        ("python", 'def f():\n    """Says ‸\n    so."""\n', "string"),
        ("python", 'def f():\n    """Says ‸\n', "string"),
        ("python", "x = f'{a.‸b}'\n", "code"),
        ("python", "x = '😀' + 'é‸'\n", "string"),
        ("python", "print(‸\n", "code"),
        ("javascript", "// note‸\nf();\n", "comment"),
        ("javascript", "/* no‸te */ f();\n", "comment"),
        ("javascript", "/* note */‸ f();\n", "code"),
        ("javascript", "f(`a ${b.‸c} d`);\n", "code"),
        ("javascript", "f(`a ‸${b} d`);\n", "string"),
        ("javascript", "f(`a ‸\n", "string"),
        ("tsx", "const a = <p>te‸xt</p>;\n", "code"),
        ("rust", "/// doc‸\nfn f() {}\n", "comment"),
        ("rust", 'let s = "a‸";\n', "string"),
        ("rust", "fn f<'a>(x: &'a str) { ‸ }\n", "code"),
        ("go", "package p\n\nvar s = `raw‸`\n", "string"),
        ("java", "class A { /** doc‸ */ int x; }\n", "comment"),
        ("c", '#include "a‸.h"\n', "string"),
        ("bash", "# note‸\n", "comment"),
        ("bash", 'echo "a‸"\n', "string"),
        ("html", "<!-- a‸ --><p>x</p>\n", "comment"),
        ("css", "a { /* x‸ */ top: 0; }\n", "comment"),
        ("json", '{"a‸": 1}\n', "string"),
        ("markdown", "Some ‸words\n", "code"),
        ("python", "‸", "code"),
    ],
)
def test_M1_scope_at(language: str, text: str, scope: str) -> None:
    document = Document("u", 1, language, text.replace(MARK, ""))
    assert scope_at(document, text.index(MARK)) == scope


@pytest.mark.parametrize(
    ("language", "line", "opens"),
    [
        ("python", "def f(a):", True),
        ("python", "    if x:  # why", True),
        ("python", ") -> int:", True),
        ("python", "    async with a as b:", True),
        ("python", "x = {1:", False),
        ("python", "d[1:", False),
        ("python", "x: int", False),
        ("python", "else:", True),
        ("python", "if x['#']:", True),
        ("javascript", "function f() {", True),
        ("javascript", "const f = () =>", False),
        ("javascript", "f(a);", False),
        ("rust", "    None => {", True),
        ("bash", "if x; then", True),
        ("bash", "for f in *; do", True),
        ("bash", "echo sudo", False),
        ("json", '  "a": {', False),
        ("markdown", "list:", False),
    ],
)
def test_lines_that_open_a_block(language: str, line: str, opens: bool) -> None:
    assert opens_block(line, language) is opens


@pytest.mark.parametrize(
    ("kind", "language", "around", "text", "kept"),
    [
        ("line", "python", "x = ‸\n", "1\ny = 2", "1"),
        ("line", "python", "x = ‸\n", "1", None),
        ("line", "python", "x = ‸\n", "f(\n    1,\n)\ny = 2", "f(\n    1,\n)"),
        ("line", "python", "x = ‸\n", "f(\n    1,\n", None),
        ("line", "python", "x = ‸\n", '"""a\nb"""\ny', '"""a\nb"""'),
        ("line", "python", "x = ‸\n", "a + \\\n    b\ny", "a + \\\n    b"),
        ("line", "python", "x = f(‸", "\n    1,\n)\ny = 2", "\n    1,\n)"),
        ("line", "python", "x = f(‸\n)\n", "1)\n", "1"),
        ("line", "python", "# see ‸\n", "below (and\nabove)", "below (and"),
        ("line", "python", "x = 'it‸\n", " is'\ny = 1", " is'"),
        ("line", "javascript", "const f = ‸\n", "() => {\n  return 1;\n};\nf();", "() => {\n  return 1;\n};"),
        ("line", "javascript", "const r = ‸\n", 'a.replace(/["(]/, "");\nb', 'a.replace(/["(]/, "");'),
        ("line", "rust", "let c = ‸\n", "'('; // don't\nlet d", "'('; // don't"),
        ("block", "python", "def f():‸\n", "\n    a\n    b\n\nc", "\n    a\n    b"),
        ("block", "python", "def f():‸\n", "\n    a\n\n    b\n", None),
        ("block", "python", "def f():\n    ‸\n", "a\n    if b:\n        c\nd", "a\n    if b:\n        c"),
        ("block", "python", "def f():\n    a\n    ‸\n", "b\n\n    c", "b"),
        ("block", "python", "def f():\n    a\n    ‸\n", "if b:\n        c\n\n        d\n    e", None),
        ("block", "python", "def f():\n    a\n    ‸\n", "b\n\n", None),
        ("block", "python", "‸", "def f():\n    a\n\n\ndef g():\n", "def f():\n    a"),
        ("block", "python", "def f():\n    ‸\n", "x = '''\nraw\n'''\n    y\nz", "x = '''\nraw\n'''\n    y"),
        ("block", "javascript", "function f() {‸\n", "\n  a();\n}\nb();", "\n  a();\n}"),
        ("block", "javascript", "function f() {‸\n}\n", "\n  a();\n}\nb();", "\n  a();"),
        ("block", "javascript", "f(() => {‸\n", "\n  a();\n});\nb();", "\n  a();\n});"),
        (
            "block",
            "javascript",
            "f(() => {\n  ‸\n",
            "if (a) {\n    b();\n  }\n});\nc();",
            "if (a) {\n    b();\n  }\n});",
        ),
        ("block", "go", "func f() {\n\t‸\n}\n", "a()\n}\n", "a()"),
        ("block", "bash", "if a; then‸\n", "\n  b\nfi\nc", "\n  b\nfi"),
        ("block", "bash", "if a; then‸\nfi\n", "\n  b\nfi\n", "\n  b"),
        ("block", "python", 'def f():\n    """Do."""‸\n', "\n    a\n\n\ndef g", "\n    a"),
        ("block", "python", 'class A:\n    """Be."""‸\n', "\n\n    x = 1\n\ny = 2", "\n\n    x = 1"),
        ("rest", "python", "f(‸, b)\n", "a, b)", "a"),
        ("rest", "python", "f(‸, b)\n", "a", None),
        ("rest", "python", "f(‸, b)\n", "a)", "a"),
        ("rest", "python", "x = ‸ if y else z\n", "1 if y", "1"),
        ("rest", "python", "x = ‸ if y else z\n", "elif_(1)\n", "elif_(1)"),
        ("block", "python", "def f():\n    ‸\n    return a\n", "a = 1\n    return a\n", "a = 1"),
        ("block", "python", "def f():\n    ‸\n    return a\n", "a = 1\n    return a", None),
        ("block", "python", "def f():\n    ‸\n    return a\n", "a = 1\n    return ab\n    b", None),
        ("line", "klingon", "x = ‸\n", "f(\n1)\ny", "f(\n1)"),
    ],
)
def test_complete_unit(kind: str, language: str, around: str, text: str, kept: str | None) -> None:
    before, after = around.split(MARK)
    found = complete_unit(before, text, after, language, kind)  # pyright: ignore[reportArgumentType]
    assert (None if found is None else text[:found]) == kept


def test_a_unit_that_is_complete_stays_so_while_text_streams_in() -> None:
    text = "\n  a();\n  if (b) {\n    c();\n  }\n}\nnext();\n"
    ends = [complete_unit("function f() {", text[:n], "\n", "javascript", "block") for n in range(len(text) + 1)]
    first = next(n for n, end in enumerate(ends) if end is not None)
    assert {text[:end] for end in ends[first:]} == {"\n  a();\n  if (b) {\n    c();\n  }\n}"}


@pytest.mark.parametrize(
    ("before", "after", "count"),
    [("f(g(", ")", 1), ("f(g(", "))", 0), ("f(", "", 1), ("f {\n  g(", "\n}", 1), ("x", ")", 0), ("f('", "')", 0)],
)
def test_A2_closers_that_are_still_needed(before: str, after: str, count: int) -> None:
    outer = scan(before, "python")
    assert needed(outer, scan(after, "python", outer.string)) == count


@pytest.mark.parametrize(
    ("language", "before", "after", "count"),
    [
        ("python", 'def f():\n    """Says ', '\n    x = 1\n\ndef g():\n    """So."""\n', 1),
        ("python", 'def f():\n    """Says ', '\n    so."""\n\ndef g():\n    """So."""\n', 0),
        ("css", "/* red ", "\na { top: 0; }\n/* blue */\n", 1),
        ("css", "/* red ", "\nand */\n/* blue */\n", 0),
    ],
)
def test_A2_a_string_further_down_does_not_close_this_one(language: str, before: str, after: str, count: int) -> None:
    outer = scan(before, language)
    assert needed(outer, scan_after(after, language, outer.string)) == count


@pytest.mark.parametrize(
    "text", ["f(g[\n  {'a': (", "x = '''\n[", "# (\n[", "f(\n)", "", "a\n", "f(\n'it", "{\n}\n)", "'''a\n'''\n("]
)
def test_typing_scans_one_line_and_finds_the_same(text: str) -> None:
    whole, lines = scan(text, "python"), scan_before(text, "python")
    assert (whole.open, whole.string) == (lines.open, lines.string)


def test_I1_a_large_document_is_judged_in_a_window_cut_at_top_level() -> None:
    block = "def f():\n    if a:\n        return 1\n    return 2\n\n\n"
    document = Document("u", 1, "python", block * 8_000)
    place = document.line_span(24_000).start
    area = window(document, place)
    lines = area.of(document.text)
    assert lines.startswith("def f():\n")
    assert 1.5 * WINDOW_LINES < lines.count("\n") < 3 * WINDOW_LINES
    assert n_errors(lines, "python") == 0
    assert area.start <= place < area.end


def test_I1_a_very_long_line_does_not_make_the_window_long() -> None:
    document = Document("u", 1, "javascript", "f(1);" * 400_000)
    area = window(document, 1_000_000)
    assert area.start < 1_000_000 < area.end
    assert len(area) < 100_000
    assert window(document.apply(Span(1_000_000, 1_000_000), "x", 2), 1_000_001) == area


def test_a_small_document_is_judged_whole() -> None:
    document = Document("u", 1, "python", "a\nb\n")
    assert window(document, 2) == Span(0, 4)


FIRST_KEYS = """
import sys
from mercury_lsp import edit, region, syntax
from mercury_lsp.text import Document, Span
for language in sys.argv[1:]:
    opened = Document("file:///a", 1, language, "a = 1")
    syntax.warm(opened)
    known = set(sys.modules)
    document = opened.apply(Span(5, 5), "2", 2)
    edit.completion_edit(region.completion_region(document, 6, region.Budget(100, 100), len), "3")
    print(*sorted(set(sys.modules) - known))
"""


def test_the_first_key_in_a_warm_document_imports_nothing() -> None:
    command = [sys.executable, "-c", FIRST_KEYS, *sorted(GRAMMARS), "nobody's"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.split("\n") == [""] * (len(GRAMMARS) + 2)
