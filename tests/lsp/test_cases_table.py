"""Every acceptance case has its test, and docs/cases.md says which."""

from tests.cases_table import CASES, EDITORS, PAGE, named, page


def test_the_page_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run python -m tests.cases_table"


def test_every_case_has_a_test_or_is_the_editors() -> None:
    found = named()
    assert len(CASES) == 76
    assert [case for case in CASES if not found.get(case) and case not in EDITORS] == []


def test_no_test_is_named_after_a_case_that_does_not_exist() -> None:
    assert set(named()) - set(CASES) == set()
    assert set(EDITORS) <= set(CASES)
