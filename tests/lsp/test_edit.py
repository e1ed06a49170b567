"""From a model's text to an edit: the data files of tests/data by case ID, and what holds for any text.

A new case is a new file tests/data/<language>/<ID>_<name>.case; its format is described in cases.py.
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mercury_lsp.edit import FILTERS, Edit, completion_edit
from mercury_lsp.languages import GRAMMARS
from mercury_lsp.region import Budget, completion_region
from mercury_lsp.syntax import n_errors
from mercury_lsp.text import Document, Span
from tests.lsp.cases import DATA, Case, cases, count_words, offered

IDS = ("A1", "A2", "A3", "A4", "A5", "A7", "B1", "B2", "B3", "C1", "C2", "C3", "D1", "D2", "D3", "E1", "S")


def files(prefix: str) -> pytest.MarkDecorator:
    found = cases(f"{prefix}_")
    assert found, f"no case file for {prefix}"
    return pytest.mark.parametrize("case", found, ids=lambda case: case.name)


def check(case: Case) -> None:
    document, edit = offered(case)
    if case.expect is None:
        assert edit is None
        return
    assert edit is not None
    assert edit.apply(document) == case.expect
    assert edit.valid
    assert "\r" not in edit.new_text
    assert edit.version == document.version


@files("A1")
def test_A1_closer_already_there(case: Case) -> None:
    check(case)


@files("A2")
def test_A2_needed_closer_is_kept(case: Case) -> None:
    check(case)


@files("A3")
def test_A3_inside_an_empty_pair(case: Case) -> None:
    check(case)


@files("A4")
def test_A4_following_text_is_not_repeated(case: Case) -> None:
    check(case)


@files("A5")
def test_A5_rest_of_the_line_survives(case: Case) -> None:
    check(case)


@files("A7")
def test_A7_outer_block_is_not_balanced(case: Case) -> None:
    check(case)


@files("B1")
def test_B1_no_special_token_or_fence(case: Case) -> None:
    check(case)


@files("B2")
def test_B2_no_edit_answers_give_nothing(case: Case) -> None:
    check(case)


@files("B3")
def test_B3_copies_are_dropped(case: Case) -> None:
    check(case)


@files("C1")
def test_C1_indentation_style(case: Case) -> None:
    check(case)


@files("C2")
def test_C2_no_stray_space(case: Case) -> None:
    check(case)


@files("C3")
def test_C3_relative_indentation(case: Case) -> None:
    check(case)


@files("D1")
def test_D1_line_endings(case: Case) -> None:
    check(case)


@files("D2")
def test_D2_form_feed_and_line_separator(case: Case) -> None:
    check(case)


@files("D3")
def test_D3_no_newline_at_the_end(case: Case) -> None:
    check(case)


@files("E1")
def test_E1_wide_characters_before_the_cursor(case: Case) -> None:
    check(case)


@files("S")
def test_no_syntax_error_is_added(case: Case) -> None:
    check(case)


def test_every_case_file_is_tested_and_every_language_has_some() -> None:
    names = list(DATA.glob("*/*.case"))
    assert {path.stem.split("_")[0] for path in names} == set(IDS)
    assert {path.parent.name for path in names} == set(GRAMMARS)


def test_A7_B2_nothing_but_closers_is_ever_replaced() -> None:
    for case in cases(""):
        document, edit = offered(case)
        if edit is not None:
            assert not any(char.isalnum() for char in edit.span.of(document.text))


def test_filters_leave_good_text_alone() -> None:
    document = Document("u", 1, "python", "def f(xs):\n    \n")
    region = completion_region(document, 15, Budget(100, 100), count_words)
    assert region is not None
    text = "for x in xs:\n        print(x)\n\n        yield x"
    for name, step in FILTERS:
        assert step(region, text) == text, name


def test_a_language_without_a_parser_is_not_called_valid() -> None:
    document = Document("u", 1, "markdown", "Some (")
    region = completion_region(document, 6, Budget(100, 100), count_words)
    assert region is not None
    edit = completion_edit(region, "words)")
    assert edit is not None
    assert (edit.new_text, edit.valid) == ("words)", None)


def test_D1_apply_writes_the_line_ends_of_the_document() -> None:
    document = Document("u", 1, "python", "a\r\nb\r\n")
    assert Edit("u", 1, Span(3, 4), "x\ny").apply(document) == "a\r\nx\r\ny\r\n"


PIECES = [
    "def f(", "):", "\n", "\n    ", "\t", "x", " = ", "(", ")", "[", "]", "{", "}", '"', "'", '"""', "#", "//", "`",
    ";", "return ", "if ", ",", "😀", "\r\n", "\r", "\ud800", "\u2028", "<|mask|>", "```", ">", "\x0c", "é",
]  # fmt: skip
CODE = st.lists(st.sampled_from(PIECES), max_size=25).map("".join)


@settings(max_examples=600, deadline=None)
@given(CODE, CODE, CODE, st.sampled_from([*GRAMMARS, "markdown"]))
def test_any_text_gives_an_edit_that_parses_no_worse_or_none(before: str, after: str, text: str, language: str) -> None:
    document = Document("u", 1, language, before + after)
    region = completion_region(document, len(before), Budget(50, 20), count_words)
    edit = None if region is None else completion_edit(region, text)
    if region is None or edit is None:
        return
    line = document.line_span(document.line_of(region.cursor))
    assert line.start <= edit.span.start <= edit.span.end <= line.end
    assert "\r" not in edit.new_text
    assert "<|" not in edit.new_text
    assert edit.new_text.strip()
    if (old := n_errors(document.text, language)) is not None:
        assert edit.valid
        new = n_errors(document.text[: edit.span.start] + edit.new_text + document.text[edit.span.end :], language)
        assert new is not None
        assert new <= old
