"""The tasks: what the model is asked, what becomes of its draft, and what is never touched."""

from collections.abc import Callable

import pytest

from mercury_lsp.actions import faults
from mercury_lsp.actions.places import hole, statement
from mercury_lsp.actions.remedies import Complaint
from mercury_lsp.actions.rewriting import Wish, drive, edits, objections, one_value
from mercury_lsp.actions.tasks import TASKS
from mercury_lsp.diffs import apply
from mercury_lsp.text import Document, Span
from mercury_model.draft import Request
from tests.fakes import FakeInfiller
from tests.lsp.faulty import FAULTS, Fault

MARKS = "‹›"


def marked(text: str, language: str = "python") -> tuple[Document, Span]:
    """A document and the span between ‹ and ›."""
    start, end = text.index("‹"), text.index("›") - 1
    return Document("file:///x", 1, language, text.replace("‹", "").replace("›", "")), Span(start, end)


def done(
    task: str,
    text: str,
    model: str | Callable[[Request], str] = "",
    *,
    language: str = "python",
    message: str = "",
    instruction: str = "",
) -> tuple[str | None, list[Request]]:
    """(the text after a task, None where it changes nothing; what the model was asked)."""
    document, span = marked(text, language)
    fake = FakeInfiller(model)
    complaint = Complaint(span, message) if message else None
    work = TASKS[task].work(Wish(document, span, instruction=instruction, complaint=complaint))
    hunk = drive(work, lambda: fake)
    return (apply(document.text, (hunk,)) if hunk is not None else None), fake.requests


# --- syntax errors and diagnostics -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("language", "broken", "right"),
    [
        ("python", "def f(x)‹›\n    return x\n", "def f(x):\n    return x\n"),
        ("python", "x = [1, 2‹›\ny = 3\nprint(x)\n", "x = [1, 2]\ny = 3\nprint(x)\n"),
        ("python", "def f(x):\n    ‹retrun› x\n", "def f(x):\n    return x\n"),
        (
            "python",
            "def f(x):\n    a = 1\n‹›      b = 2\n    return b\n",
            "def f(x):\n    a = 1\n    b = 2\n    return b\n",
        ),
        ("python", "def f():\n‹›return 1\n", "def f():\n    return 1\n"),
        ("python", "print('hello‹›)\nx = 1\n", "print('hello')\nx = 1\n"),
        ("python", "print((1))‹›)\nx = 1\n", "print((1))\nx = 1\n"),
        ("python", "if x ‹=› 3:\n    pass\n", "if x == 3:\n    pass\n"),
        ("python", "def f(x)‹›:\r\n    retrun x\r\n", "def f(x):\r\n    return x\r\n"),
        ("javascript", "fucntion ‹f›(a) {\n  return a;\n}\n", "function f(a) {\n  return a;\n}\n"),
        ("javascript", "if (a ‹{›\n  b();\n}\n", "if (a) {\n  b();\n}\n"),
        ("javascript", "const s = 'abc‹;›\nfoo();\n", "const s = 'abc';\nfoo();\n"),
        ("typescript", "const a: number[] = [1, 2‹;›\n", "const a: number[] = [1, 2];\n"),
        (
            "rust",
            "fn f(a: i32) -> i32 {\n    let x = a + 1‹›\n    x\n}\n",
            "fn f(a: i32) -> i32 {\n    let x = a + 1;\n    x\n}\n",
        ),
        (
            "go",
            "package a\n\nfunc f(a int) int {\n\tif a > 0 {\n\t\treturn a\n‹›\treturn 0\n}\n",
            "package a\n\nfunc f(a int) int {\n\tif a > 0 {\n\t\treturn a\n\t}\n\treturn 0\n}\n",
        ),
    ],
)
def test_a_syntax_error_is_mended_by_the_smallest_edit(language: str, broken: str, right: str) -> None:
    assert done("repair", broken, language=language)[0] == right


def test_the_model_decides_between_edits_that_are_equally_small() -> None:
    broken = "const s = 'a b‹;›\nfoo();\n"
    for line, right in (
        ("const s = 'a b;'", "const s = 'a b;'\nfoo();\n"),
        ("const s = 'a b';", "const s = 'a b';\nfoo();\n"),
    ):
        text, asked = done("repair", broken, line + "\n", language="javascript")
        assert text == right
        assert len(asked) == 1 and asked[0].guess == "const s = 'a b;"


def test_every_syntax_error_of_a_document_is_mended_and_nothing_else_is_touched() -> None:
    broken = "‹›def f(x)\n    return x\n\n\nprint(f(1)\n\n\nkeep = {  'odd' :1 }\n"
    right = "def f(x):\n    return x\n\n\nprint(f(1))\n\n\nkeep = {  'odd' :1 }\n"
    assert done("repair_all", broken)[0] == right


def test_a_document_without_errors_is_left_alone_and_the_model_is_not_asked() -> None:
    assert done("repair_all", "‹›x = 1\n", "y = 2") == (None, [])
    assert done("repair_all", "‹›whatever (", "y", language="klingon") == (None, [])


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
@pytest.mark.parametrize("answer", ["", "((((", "}\n}\n}\n", "x = ", "<|endoftext|>", "```python\nfoo\n```"])
def test_whatever_the_model_writes_a_quick_fix_never_leaves_more_errors(fault: Fault, answer: str) -> None:
    fake = FakeInfiller(answer)
    hunk = drive(fault.work(), lambda: fake)
    text = apply(fault.document.text, (hunk,)) if hunk is not None else fault.document.text
    assert fault.errors(text) <= fault.errors(fault.document.text)
    assert "<|" not in text and "```" not in text


@pytest.mark.parametrize(
    ("language", "text", "message", "right"),
    [
        ("python", "total = 1\nprint(‹totl›)\n", "Undefined name `totl`", "total = 1\nprint(total)\n"),
        (
            "python",
            '"""Doc."""\nprint(‹json›.x)\n',
            "undefined name 'json'",
            '"""Doc."""\nimport json\nprint(json.x)\n',
        ),
        ("typescript", "x.‹lenght›;\n", "Property 'lenght' does not exist. Did you mean 'length'?", "x.length;\n"),
        ("typescript", "const a = ‹await f()›;\n", "'await' has no effect on this type.", "const a = f();\n"),
        ("javascript", "if (a ‹==› b) {\n}\n", "Expected '===' and instead saw '=='.", "if (a === b) {\n}\n"),
        ("javascript", "‹let› a = 1;\n", "'a' is never reassigned. Use 'const' instead.", "const a = 1;\n"),
        ("python", "‹import os›\nx = 1\n", "`os` imported but unused", "x = 1\n"),
        ("python", "from a import b, ‹c›\nprint(b)\n", "`a.c` imported but unused: `c`", "from a import b\nprint(b)\n"),
        (
            "rust",
            "fn f() {\n    let ‹mut x› = 1;\n}\n",
            "variable does not need to be mutable",
            "fn f() {\n    let x = 1;\n}\n",
        ),
        (
            "go",
            "package a\n\nfunc g() int {\n\treturn f(1, ‹2›)\n}\n",
            "too many arguments in call to f",
            "package a\n\nfunc g() int {\n\treturn f(1)\n}\n",
        ),
        (
            "python",
            "def f(a, rate):\n    return ‹g(a)›\n",
            'Argument missing for parameter "rate"',
            "def f(a, rate):\n    return g(a, rate)\n",
        ),
        (
            "rust",
            "fn f() -> i32 ‹{\n    1;\n}›\n",
            "mismatched types expected `i32`, found `()`",
            "fn f() -> i32 {\n    1\n}\n",
        ),
    ],
)
def test_the_words_of_a_diagnostic_are_enough_without_the_model(
    language: str, text: str, message: str, right: str
) -> None:
    fixed, asked = done("mend", text, "nonsense(", language=language, message=message)
    assert (fixed, asked) == (right, [])


def test_a_missing_argument_is_the_models_to_write() -> None:
    text, asked = done("mend", "f(1, 2)\n‹f(3)›\n", "4)\n", message="Expected 2 arguments, but got 1.")
    assert text == "f(1, 2)\nf(3, 4)\n"
    assert asked[0].prefix == "f(1, 2)\nf(3, " and asked[0].suffix == ")\n"


def test_a_diagnostic_without_a_remedy_makes_only_its_own_tokens_doubtful() -> None:
    text, asked = done(
        "mend", "n = 1\nx = ‹'a' + n›\ny = 2\n", "x = 'a' + str(n)", message="Unsupported operand types for +"
    )
    assert text == "n = 1\nx = 'a' + str(n)\ny = 2\n"
    (request,) = asked
    assert request.original == "x = 'a' + n" and request.doubtful == ((10, 11),)
    assert (request.prefix, request.suffix) == ("n = 1\n", "\ny = 2\n")


def test_the_model_is_told_the_message_when_other_tokens_do_not_help() -> None:
    def answer(request: Request) -> str:
        return "x = 'a' + str(n)" if request.instruction else "x = 'a' + 1); f(n"

    text, asked = done("mend", "x = ‹'a' + n›\n", answer, message="Unsupported operand types for +")
    assert text == "x = 'a' + str(n)\n"
    assert [request.doubtful for request in asked] == [((10, 11),), ((4, 11),), ((4, 11),)]
    assert asked[-1].instruction == "Fix: Unsupported operand types for +"


def test_a_rewrite_leaves_lines_without_a_doubtful_token_alone() -> None:
    text, _ = done(
        "mend",
        "x = f(\n    1,\n    ‹n›,\n)\n",
        "x = f(\n    100,\n    str(n),\n)",
        message="wrong type",
    )
    assert text == "x = f(\n    1,\n    str(n),\n)\n"


def test_the_judge_objects_to_new_errors_and_to_the_wrong_word() -> None:
    document, span = marked("a = 1\n‹b = totl›\n")
    assert objections(document, span, "totl", "b = total") == []
    assert objections(document, span, "totl", "b = totl") == [(4, 8)]
    assert objections(document, span, "", "b = (") != []


# --- holes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("language", "text", "model", "right"),
    [
        ("python", "def f():\n    ‹›pass\n", "return 1\n", "def f():\n    return 1\n"),
        ("python", "def f():\n    ...‹›\n\n\nx = 1\n", "return 1\n", "def f():\n    return 1\n\n\nx = 1\n"),
        ("python", "def f():\n    raise NotImplementedError‹›\n", "return 1\n", "def f():\n    return 1\n"),
        ("python", "def f():‹›\n\nx = 1\n", "return 1\n", "def f():\n    return 1\n\nx = 1\n"),
        ("python", "def f():\n    # TODO‹›: one\n", "return 1\n", "def f():\n    # TODO: one\n    return 1\n"),
        ("rust", "fn f() -> i32 {\n    todo!()‹›\n}\n", "1\n}\n", "fn f() -> i32 {\n    1\n}\n"),
        ("rust", "fn f() -> i32 {‹›}\n", "1\n}", "fn f() -> i32 {\n    1\n}\n"),
        (
            "go",
            'package a\n\nfunc f() int {\n\tpanic("not implemented")‹›\n}\n',
            "return 1\n}\n",
            "package a\n\nfunc f() int {\n\treturn 1\n}\n",
        ),
        (
            "javascript",
            'function f() {\n  throw new Error("not implemented");‹›\n}\n',
            "return 1;\n}\n",
            "function f() {\n  return 1;\n}\n",
        ),
        ("javascript", "function f() {‹›\r\n}\r\n", "return 1;\n}", "function f() {\r\n  return 1;\r\n}\r\n"),
    ],
)
def test_a_hole_is_filled_and_its_surroundings_stay(language: str, text: str, model: str, right: str) -> None:
    document, span = marked(text, language)
    assert hole(document, span) is not None
    assert done("fill", text, model, language=language)[0] == right


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("python", "x = 'pass‹›'\n"),
        ("python", "def f():\n    return 1‹›\n"),
        ("python", "x = 1‹›\n"),
        ("javascript", "f(...‹›args);\n"),
        ("python", "passed = ‹›1\n"),
    ],
)
def test_what_only_looks_like_a_hole_is_none(language: str, text: str) -> None:
    document, span = marked(text, language)
    assert hole(document, span) is None


def test_a_function_is_completed_behind_its_last_statement() -> None:
    text, asked = done("complete", "def f(a):\n    b‹› = a\n\n\nx = 1\n", "return b\n")
    assert text == "def f(a):\n    b = a\n    return b\n\n\nx = 1\n"
    assert asked[0].prefix == "def f(a):\n    b = a\n    "


# --- rewrites --------------------------------------------------------------------------------------------------------


def test_the_selection_is_rewritten_with_the_instruction_and_crlf_is_kept() -> None:
    text, asked = done("rewrite", "a = 1\r\n‹x = 2\r\ny = 3›\r\n", "x = 2\ny = 30", instruction="ten times")
    assert text == "a = 1\r\nx = 2\r\ny = 30\r\n"
    assert (asked[0].original, asked[0].instruction) == ("x = 2\ny = 3", "ten times")


@pytest.mark.parametrize("answer", ["", "x = (", "<|fim_middle|>", "x = 2"])
def test_an_answer_that_is_empty_broken_or_the_same_changes_nothing(answer: str) -> None:
    assert done("rewrite", "a = 1\n‹x = 2›\n", answer)[0] is None


def test_B2_a_rewrite_that_throws_most_of_the_region_away_is_no_answer() -> None:
    code = "".join(f"x{n} = f({n}, {n})\n" for n in range(12))
    assert done("rewrite", f"‹{code}›", "x0 = f(0, 0)")[0] is None
    assert done("simplify", f"‹{code}›", "x0 = f(0, 0)")[0] == "x0 = f(0, 0)\n"


@pytest.mark.parametrize(
    ("answer", "taken"),
    [
        ("    total = sum(a)\n    return total", True),
        ("    if not a:\n        return 0\n    return sum(a)", True),
        ("    total = sum(a)\nreturn total", False),
        ("    total = sum(a)\n  return total", False),
    ],
)
def test_C3_no_line_of_a_rewrite_leaves_the_block_that_the_region_is_in(answer: str, taken: bool) -> None:
    text, _ = done("rewrite", "def f(a):\n‹    total = 0\n    return total›\n", answer, instruction="use sum")
    assert text == (f"def f(a):\n{answer}\n" if taken else None)


def test_edits_are_no_larger_than_the_difference() -> None:
    document, span = marked("‹a = 1\nb = 2\nc = 3›\n")
    hunk = drive(TASKS["rewrite"].work(Wish(document, span)), lambda: FakeInfiller("a = 1\nb = 20\nc = 3"))
    assert hunk is not None
    (edit,) = edits(document, hunk)
    assert (edit.span, edit.new_text, edit.version) == (Span(11, 11), "0", 1)


@pytest.mark.parametrize(
    ("language", "text", "model", "right"),
    [
        (
            "python",
            "def ‹f›(a):\n    return a\n",
            'Returns what it is given."""\n',
            'def f(a):\n    """Returns what it is given."""\n    return a\n',
        ),
        (
            "python",
            'def ‹f›(a):\n    """Old words."""\n    return a\n',
            'Returns what it is given."""\n',
            'def f(a):\n    """Returns what it is given."""\n    return a\n',
        ),
        (
            "go",
            "package a\n\nfunc ‹F›(a int) int {\n\treturn a\n}\n",
            "returns what it is given.\nfunc",
            "package a\n\n// F returns what it is given.\nfunc F(a int) int {\n\treturn a\n}\n",
        ),
        (
            "rust",
            "fn ‹f›(a: i32) -> i32 {\n    a\n}\n",
            "Returns what it is given.\nfn",
            "/// Returns what it is given.\nfn f(a: i32) -> i32 {\n    a\n}\n",
        ),
        (
            "javascript",
            "function ‹f›(a) {\n  return a;\n}\n",
            "Returns what it is given.\n */\n",
            "/**\n * Returns what it is given.\n */\nfunction f(a) {\n  return a;\n}\n",
        ),
    ],
)
def test_documentation_is_written_where_the_language_has_it(language: str, text: str, model: str, right: str) -> None:
    assert done("docstring", text, model, language=language)[0] == right


def test_types_are_written_into_their_places_only() -> None:
    def types(request: Request) -> str:
        return "str:\n" if request.prefix.endswith("-> ") else "int, rest"

    text, asked = done("annotate", "class A:\n    def ‹f›(self, a, b=1, c: str = ''):\n        return a\n", types)
    assert text == "class A:\n    def f(self, a: int, b: int = 1, c: str = '') -> str:\n        return a\n"
    assert len(asked) == 3
    text, _ = done("annotate", "function ‹f›(a, b: string) {\n  return a;\n}\n", types, language="typescript")
    assert text == "function f(a: int, b: string): int {\n  return a;\n}\n"


@pytest.mark.parametrize(
    ("text", "end"), [("f(a, b), c", 7), ("x", None), ("dict[str, int]) -> y", 14), ("'a, b', c", 6), ("a\nb", 1)]
)
def test_a_value_ends_outside_its_own_brackets(text: str, end: int | None) -> None:
    assert one_value(text) == end


def test_a_statement_is_its_head_where_the_place_is_not_in_its_block() -> None:
    document, span = marked("if ‹a›:\n    b = 1\n    c = 2\n")
    assert statement(document, span).of(document.text) == "if a:"
    document, span = marked("x = f(\n    ‹a›,\n    b,\n)\ny = 1\n")
    assert statement(document, span).of(document.text) == "x = f(\n    a,\n    b,\n)"


def test_an_error_behind_an_unclosed_bracket_is_looked_for_where_the_bracket_is() -> None:
    document = Document("file:///x", 1, "python", "x = [1\n\n\ndef f():\n    return 1\n")
    (piece,) = faults.faulty_pieces(document, Span(0, len(document.text)), Span(9, 9))
    assert piece.of(document.text).startswith("x = [1")
