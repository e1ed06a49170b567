"""Which region the cursor makes, and the windows that the model is shown."""

import json
from itertools import pairwise

import pytest

from mercury_lsp.edit import completion_edit
from mercury_lsp.region import Budget, EditRegion, completion_region, request_for
from mercury_lsp.syntax import scope_at
from mercury_lsp.text import Document, Span
from tests.fakes import FakeInfiller
from tests.lsp.cases import DATA, MARK, count_words

BUDGET = Budget(200, 60)


def at_mark(text: str, language: str = "python") -> tuple[Document, int]:
    return Document("u", 1, language, text.replace(MARK, "")), text.index(MARK)


def region_at(text: str, language: str = "python", budget: Budget = BUDGET) -> EditRegion:
    region = completion_region(*at_mark(text, language), budget, count_words)
    assert region is not None
    return region


@pytest.mark.parametrize(
    ("language", "text", "kind", "replaced"),
    [
        ("python", "x = ‸", "line", ""),
        ("python", "‸", "block", ""),
        ("python", "f(‸)", "line", ")"),
        ("python", "f('‸')  \nx", "line", "')  "),
        ("python", "f(g[‸]):\n    pass\n", "line", "]):"),
        ("python", "f(‸, b)", "rest", ""),
        ("python", "f(‸) + 1", "rest", ""),
        ("python", "x = ‸ # note", "rest", ""),
        ("python", "def f():‸\n", "block", ""),
        ("python", "def f():\n    ‸\n", "block", ""),
        ("python", "def f():\n    # add them up\n    ‸\n", "block", ""),
        ("python", "def f():\n    # add them ‸\n", "line", ""),
        ("python", 'def f():\n    """Add."""\n    ‸\n', "block", ""),
        ("python", 'def f():\n    """Add\n    ‸\n    """\n', "line", ""),
        ("python", 'def f():\n    """Add."""‸\n', "block", ""),
        ("python", 'def f():\n    """Add\n    them."""‸\n', "block", ""),
        ("python", 'x = """Add"""‸\n', "line", ""),
        ("python", 'return """Add."""‸\n', "line", ""),
        ("python", 'f("""a\n""" + """b"""‸)\n', "line", ")"),
        ("rust", "match x {\n    1 => ‸,\n}\n", "line", ","),
        ("python", "x = [\n    1,\n    ‸\n]\n", "line", ""),
        ("python", "x = {\n    ‸\n}\n", "line", ""),
        ("python", "# note:‸\n", "line", ""),
        ("python", "x = {'a':‸\n", "line", ""),
        ("javascript", "function f() {‸}\n", "block", "}"),
        ("javascript", "f(() => {‸});\n", "block", "});"),
        ("javascript", "function f() {\n  ‸\n}\n", "block", ""),
        ("javascript", "// open {‸\n", "line", ""),
        ("json", "{\n  ‸\n}\n", "line", ""),
        ("bash", "if a; then‸\n", "block", ""),
        ("klingon", "x ‸", "line", ""),
    ],
)
def test_A1_A3_kind_and_span(language: str, text: str, kind: str, replaced: str) -> None:
    region = region_at(text, language)
    assert (region.kind, region.replaced) == (kind, replaced)
    assert region.span.start == region.cursor


@pytest.mark.parametrize("language", ["python", "javascript", "rust"])
def test_every_ordinary_place_of_the_source_files_can_be_completed(language: str) -> None:
    places = json.loads((DATA / language / "positions.json").read_text(encoding="utf-8"))
    assert {path.name for path in (DATA / language).iterdir() if path.suffix not in (".case", ".json")} == set(places)
    for name, place in places.items():
        document = Document(name, 1, language, (DATA / language / name).read_text(encoding="utf-8"))
        line = document.line_span(place["line"] - 1)
        cursor = line.start + place["column"] - 1
        assert cursor <= line.end, name
        region = completion_region(document, cursor, BUDGET, count_words)
        assert region is not None, name
        assert scope_at(document, cursor) == "code", name


@pytest.mark.parametrize("text", ["fo‸o", "x = ba‸r + 1", "漢‸字", "x_‸y", "1‸2"])
def test_nothing_is_offered_inside_a_word(text: str) -> None:
    assert completion_region(*at_mark(text), BUDGET, count_words) is None


def test_E2_a_cursor_outside_is_clamped_and_none_stands_inside_a_newline() -> None:
    document = Document("u", 1, "python", "a\r\nb")
    for cursor, wanted in ((-1, 0), (99, 4), (2, 1)):
        region = completion_region(document, cursor, BUDGET, count_words)
        assert region is not None
        assert region.cursor == wanted


def test_A3_an_auto_closed_bracket_does_not_change_the_suffix() -> None:
    plain, paired = region_at("x = f‸\ny = 2\n"), region_at("x = f(‸)\ny = 2\n")
    assert request_for(plain).suffix == request_for(paired).suffix == "\ny = 2\n"
    assert request_for(paired).prefix == "x = f("


def test_D1_the_model_sees_newlines_of_one_kind() -> None:
    request = request_for(region_at("a = 1\r\nb = '\ud800'\rc = ‸\r\nd = 4\r\n"))
    assert request.prefix == "a = 1\nb = '\ufffd'\nc = "
    assert request.suffix == "\nd = 4\n"


def test_the_request_carries_the_end_rule_and_any_field() -> None:
    request = request_for(region_at("x = f(‸)\ny = 2\n"), max_tokens=9, path="a.py")
    assert (request.document, request.max_tokens, request.path) == ("u", 9, "a.py")
    assert request.end is not None
    assert request.end("1)\nz") == 2
    assert request.end("1") is None


def test_the_end_rule_stops_a_model_that_goes_on() -> None:
    region = region_at("def f():\n    ‸\n    return a\n")
    infill = FakeInfiller("a = 1\n    return a\n\n\ndef g():\n    pass\n", per_step=1)
    last = list(infill(request_for(region)))[-1]
    assert (last.text, last.ended) == ("a = 1", "rule")
    edit = completion_edit(region, last.text)
    assert edit is not None
    assert edit.new_text == "a = 1"


LONG = "".join(f"value_{n} = {n}\n" for n in range(400))


def test_windows_keep_to_the_budget_and_begin_at_lines() -> None:
    region = region_at(LONG + "x = ‸\n" + LONG)
    text = region.document.text
    before, after = region.before.of(text), region.after.of(text)
    assert 150 < count_words(before) <= 200
    assert 45 < count_words(after) <= 60
    assert text[region.before.start - 1] == "\n"
    assert text[region.after.end - 1] == "\n"
    assert before.endswith("x = ")
    assert after.startswith("\nvalue_0")


def test_typing_only_appends_until_a_quarter_goes_at_once() -> None:
    document, cursor = at_mark(LONG + "‸\n" + LONG)
    region = completion_region(document, cursor, BUDGET, count_words)
    starts: list[int] = []
    sizes: list[int] = []
    suffixes: set[str] = set()
    for char in "name = other\n" * 40:
        document = document.apply(Span(cursor, cursor), char, None)
        cursor += 1
        region = completion_region(document, cursor, BUDGET, count_words, region)
        assert region is not None
        starts.append(region.before.start)
        sizes.append(count_words(region.before.of(document.text)))
        suffixes.add(region.after.of(document.text))
    assert max(sizes) <= 200
    assert len(suffixes) == 1
    assert starts == sorted(starts)
    moves = [n for n, (a, b) in enumerate(pairwise(starts)) if a != b]
    assert 1 <= len(moves) <= 7  # 240 words typed, 50 given up at a time
    assert all(sizes[n + 1] <= 150 for n in moves)


def test_windows_hold_when_text_far_above_changes() -> None:
    document, cursor = at_mark(LONG + "x = ‸\n" + LONG)
    region = completion_region(document, cursor, BUDGET, count_words)
    assert region is not None
    edited = document.apply(Span(0, 0), "import os\n", 2)
    moved = completion_region(edited, cursor + 10, BUDGET, count_words, region)
    assert moved is not None
    assert request_for(moved).prefix == request_for(region).prefix
    assert request_for(moved).suffix == request_for(region).suffix


def test_a_window_is_made_anew_after_a_jump() -> None:
    document, cursor = at_mark(LONG + "x = ‸\n" + LONG)
    region = completion_region(document, cursor, BUDGET, count_words)
    place = document.line_span(100).end
    up, fresh = (completion_region(document, place, BUDGET, count_words, last) for last in (region, None))
    assert up is not None
    assert fresh is not None
    assert up.before == fresh.before
    assert up.after.start == fresh.after.start
    assert count_words(up.after.of(document.text)) > 30
    other = Document("other", 1, "python", "y = ")
    assert completion_region(other, 4, BUDGET, count_words, region) == completion_region(other, 4, BUDGET, count_words)


def test_I1_a_large_document_is_never_tokenised_whole() -> None:
    counted: list[int] = []

    def count(text: str) -> int:
        counted.append(len(text))
        return count_words(text)

    for text in (LONG * 300, "f(1);" * 400_000):
        document = Document("u", 1, "javascript", text)
        region = completion_region(document, len(text) // 2 // 5 * 5, BUDGET, count)
        assert region is not None
        assert sum(counted) < 6_000
        assert len(region.before) + len(region.after) < 6_000


def test_line_counts_are_remembered() -> None:
    counted: list[str] = []

    def count(text: str) -> int:
        counted.append(text)
        return count_words(text)

    document, cursor = at_mark(LONG + "x = ‸\n")
    region = completion_region(document, cursor, BUDGET, count)
    n_first = len(counted)
    assert completion_region(document.apply(Span(cursor, cursor), "1", 2), cursor + 1, BUDGET, count, region)
    assert len(counted) == n_first + 1


@pytest.mark.parametrize(
    ("buffer", "answer", "objects"),
    [
        ("def f(x):\n    return ‸\n", "x + 1", False),
        ("def f(x):\n    return ‸\n", "x + )", True),
        ("def f(x):\n    y = g(‸)\n", "x, 1)", False),
        ("def f(x:\n    return ‸\n", "x", False),  # what was wrong before is not held against the answer
        ("a = 1\n‸\nb = 2\n", "for in x:", True),
        ("some text ‸", "anything ( at all", False),
    ],
)
def test_the_judge_objects_to_what_parses_worse_and_points_into_the_text(
    buffer: str, answer: str, objects: bool
) -> None:
    request = request_for(region_at(buffer, "python" if "some" not in buffer else "plaintext"))
    assert request.judge is not None
    found = list(request.judge(answer))
    assert bool(found) is objects
    assert all(0 <= a <= b <= len(answer) for a, b in found)
