"""Reuse of suggestions, the shapes on the wire, and the waiting for a pause: pure functions."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from mercury_lsp.edit import Edit
from mercury_lsp.features.positions import to_offset
from mercury_lsp.features.recent import Recent
from mercury_lsp.features.rhythm import TypingRhythm
from mercury_lsp.features.wire import completion_item, inline_item, is_vscode
from mercury_lsp.text import Document, Span

URI = "file:///x.py"
TEXT = st.text(alphabet="ab(\n)\r\U0001f600é ", max_size=12)
TAIL = st.text(alphabet=")]} ", max_size=3)


def document(text: str) -> Document:
    return Document(URI, 1, "python", text)


def suggestion(before: str, replaced: str, new_text: str) -> Edit:
    return Edit(URI, 1, Span(len(before), len(before) + len(replaced)), new_text)


@given(before=TEXT, replaced=TAIL, after=TEXT, new_text=TEXT.filter(bool), n=st.integers(0, 12))
def test_typing_a_part_of_a_suggestion_leaves_the_rest_of_it(
    before: str, replaced: str, after: str, new_text: str, n: int
) -> None:
    recent = Recent()
    edit = suggestion(before, replaced, new_text)
    recent.put(URI, document(before + replaced + after), edit)
    typed = new_text[: min(n, len(new_text) - 1)]
    now = document(before + typed + replaced + after)
    rest = recent.find(URI, now, len(before + typed))
    assert rest is not None
    result = now.text[: rest.span.start] + rest.new_text + now.text[rest.span.end :]
    assert result == before + new_text + after


@pytest.mark.parametrize(
    ("now", "cursor"),
    [
        ("x = 2\n", 5),  # something else was typed
        ("y = 1\n", 5),  # the text before changed
        ("x = 1!\n", 5),  # the text after changed
        ("x = 1 + 2\n", 9),  # all of it was typed
        ("x = 1\n", 4),  # the cursor went back
        ("x = \n", 3),
        ("x = ", 4),
    ],
)
def test_a_suggestion_is_not_reused_for_any_other_state(now: str, cursor: int) -> None:
    recent = Recent()
    recent.put(URI, document("x = \n"), suggestion("x = ", "", "1 + 2"))
    assert recent.find(URI, document(now), cursor) is None
    assert recent.find("file:///other.py", document("x = \n"), 4) is None
    assert recent.find(URI, document("x = \n"), 4) is not None


@pytest.mark.parametrize(
    ("typed", "closer", "found"),
    [("f(", ")", True), ("f(a", ")", True), ("f(a)", ")", False), ("f", ")", False), ("f(", "]", False)],
)
def test_A1_a_bracket_that_the_editor_closed_is_covered(typed: str, closer: str, found: bool) -> None:
    recent = Recent()
    recent.put(URI, document("x = \n"), suggestion("x = ", "", "f(a) + 1"))
    now = document(f"x = {typed}{closer}\n")
    rest = recent.find(URI, now, 4 + len(typed))
    assert (rest is not None) == found
    if rest is not None:
        assert rest.apply(now) == "x = f(a) + 1\n"


def test_the_suggestion_for_the_longest_prefix_is_taken_and_old_ones_are_forgotten() -> None:
    recent = Recent(size=2)
    recent.put(URI, document("x = \n"), suggestion("x = ", "", "1 + 2"))
    recent.put(URI, document("x = 1\n"), suggestion("x = 1", "", " + 200"))
    rest = recent.find(URI, document("x = 1 \n"), 6)
    assert rest is not None
    assert rest.new_text == "+ 200"
    recent.put(URI, document("z\n"), suggestion("z", "", "z"))
    assert len(recent) == 2
    recent.forget(URI)
    assert len(recent) == 0


def test_the_text_far_from_a_suggestion_may_change() -> None:
    recent = Recent()
    near = "a\n" * 3000
    recent.put(URI, document("1" + near + "x = " + near + "1"), suggestion("1" + near + "x = ", "", "value"))
    assert recent.find(URI, document("2" + near + "x = va" + near + "2"), len(near) + 7) is not None


@given(
    before=TEXT,
    replaced=TAIL,
    after=TEXT.map(lambda text: "\n" + text),
    new_text=TEXT.filter(str.strip),
    encoding=st.sampled_from(["utf-8", "utf-16", "utf-32"]),
    whole_line=st.booleans(),
)
def test_every_shape_writes_the_edit_and_nothing_else(
    before: str, replaced: str, after: str, new_text: str, encoding: str, whole_line: bool
) -> None:
    now, edit = document(before + replaced + after), suggestion(before, replaced, new_text)
    assume(not before.endswith("\r"))  # the cursor cannot stand inside a line end
    wanted = before + new_text.replace("\r\n", "\n").replace("\r", "\n") + after
    ghost = inline_item(now, len(before), edit, encoding, whole_line=whole_line)
    menu = completion_item(now, len(before), edit, encoding, markdown=False)
    assert ghost is not None
    assert ghost.range is not None
    assert menu is not None
    assert menu.text_edit is not None
    for area, text in ((ghost.range, ghost.insert_text), (menu.text_edit.range, menu.text_edit.new_text)):
        assert area.start.line == area.end.line
        start, end = to_offset(now, area.start, encoding), to_offset(now, area.end, encoding)
        assert now.text[:start] + str(text) + now.text[end:] == wanted
    if ghost.filter_text is not None:
        start, end = (to_offset(now, place, encoding) for place in (ghost.range.start, ghost.range.end))
        assert ghost.filter_text.startswith(now.text[start:end])


def test_an_edit_beyond_the_cursors_line_is_not_sent() -> None:
    now = document("x = \ny\n")
    edit = Edit(URI, 1, Span(4, 6), "1\nz")
    assert inline_item(now, 4, edit, "utf-8", whole_line=True) is None
    assert completion_item(now, 4, edit, "utf-8", markdown=True) is None


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("Visual Studio Code", True),
        ("Visual Studio Code - Insiders", True),
        ("VSCodium", True),
        ("Code - OSS", True),
        ("Cursor", True),
        ("Neovim", False),
        ("emacs", False),
        ("CodeMirror", False),
        ("", False),
    ],
)
def test_VS_Code_is_known_under_its_names(name: str, found: bool) -> None:
    assert is_vscode(name) == found


def typist(*keys: float) -> TypingRhythm:
    rhythm = TypingRhythm()
    for key in keys:
        rhythm.key(URI, key)
    return rhythm


def test_the_wait_follows_the_typing_and_counts_from_the_last_key() -> None:
    assert TypingRhythm().wait(URI, 5.0) == 0.0
    fast = typist(*(i * 0.02 for i in range(40)))
    slow = typist(*(i * 0.18 for i in range(40)))
    assert fast.wait(URI, 39 * 0.02) == pytest.approx(0.075)
    assert slow.wait(URI, 39 * 0.18) == pytest.approx(0.27, abs=0.01)
    assert slow.wait(URI, 39 * 0.18 + 0.2) == pytest.approx(0.07, abs=0.01)
    assert slow.wait(URI, 39 * 0.18 + 1) == 0.0
    assert slow.wait(URI, 39 * 0.18, fixed=0.0) == 0.0
    slow.forget(URI)
    assert slow.wait(URI, 39 * 0.18) == 0.0


def test_a_pause_is_not_typing() -> None:
    assert typist(0.0, 10.0).wait(URI, 10.0) == pytest.approx(typist(0.0).wait(URI, 0.0))
