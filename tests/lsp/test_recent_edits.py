"""The ring of recent edits: what is joined, what is dropped, and that ignored files leave no trace."""

import random
import subprocess
from pathlib import Path

import pytest

from mercury_lsp.text import Document, Span
from mercury_lsp.workspace.recent_edits import MAX_CHARS, EditRing

BODY = "".join(f"line {n}\n" for n in range(40))


def edit(ring: EditRing, document: Document, start: int, end: int, text: str, now: float = 0.0) -> Document:
    after = document.apply(Span(start, end), text, None)
    ring.record(document, Span(start, end), text, after, now)
    return after


def at(document: Document, text: str) -> int:
    return document.text.index(text)


def test_typing_is_one_hunk_with_its_diff() -> None:
    ring, document = EditRing(), Document("file:///a.py", 1, "python", BODY)
    place = at(document, "line 20\n") + len("line 20")
    for index, key in enumerate(" and more"):
        document = edit(ring, document, place + index, place + index, key, float(index))
    (found,) = ring.edits()
    assert (found.old, found.new) == ("line 20", "line 20 and more")
    assert found.span.of(document.text) == "line 20 and more"
    assert found.first_line == 20
    assert found.diff.split("\n") == [
        "@@ -18,7 +18,7 @@", " line 17", " line 18", " line 19", "-line 20", "+line 20 and more", " line 21",
        " line 22", " line 23",
    ]  # fmt: skip


def test_edits_far_apart_are_two_hunks_and_move_with_later_ones() -> None:
    ring, document = EditRing(), Document("file:///a.py", 1, "python", BODY)
    place = at(document, "line 30")
    document = edit(ring, document, place, place + 4, "LINE", 1.0)
    document = edit(ring, document, 0, 0, "new\nnew\n", 2.0)
    newest, older = ring.edits()
    assert newest.new.startswith("new")
    assert older.span.of(document.text) == "LINE 30"
    assert older.first_line == 32


def test_what_is_undone_leaves_nothing() -> None:
    ring, document = EditRing(), Document("file:///a.py", 1, "python", BODY)
    document = edit(ring, document, 5, 5, "xyz")
    edit(ring, document, 5, 8, "")
    assert ring.edits() == ()


def test_mass_changes_are_not_kept() -> None:
    ring, document = EditRing(), Document("file:///a.py", 1, "python", BODY)
    edit(ring, document, 0, 0, "x" * (MAX_CHARS + 1))
    assert ring.edits() == ()


def test_a_whole_text_is_compared() -> None:
    ring = EditRing()
    before = Document("file:///a.py", 1, "python", BODY)
    ring.replaced(before, Document("file:///a.py", 2, "python", BODY.replace("line 7\n", "line seven\n")), 0.0)
    (found,) = ring.edits()
    assert (found.old, found.new) == ("line 7", "line seven")
    ring.replaced(before, before, 0.0)


def test_the_oldest_hunks_leave_first() -> None:
    ring, document = EditRing(max_hunks=3), Document("file:///a.py", 1, "python", BODY)
    for index, line in enumerate(("line 0", "line 10", "line 20", "line 30", "line 39")):
        document = edit(ring, document, at(document, line), at(document, line), "X", float(index))
    assert [found.new for found in ring.edits()] == ["Xline 39", "Xline 30", "Xline 20"]


def test_a_closed_document_keeps_its_hunks_and_a_forgotten_one_does_not() -> None:
    ring, document = EditRing(), Document("file:///a.py", 1, "python", BODY)
    edit(ring, document, 0, 4, "LINE")
    open_edits = ring.edits()
    ring.close(document.uri)
    assert ring.edits() == open_edits
    ring.forget(document.uri)
    assert ring.edits() == ()


def test_L1_ignored_documents_never_enter_and_leave_when_they_become_ignored() -> None:
    secret = {"file:///p/.env"}
    ring = EditRing(lambda uri: uri in secret)
    edit(ring, Document("file:///p/.env", 1, "", "A=1\n"), 0, 0, "CANARY")
    edit(ring, Document("file:///p/a.py", 1, "python", BODY), 0, 0, "seen")
    assert [found.new for found in ring.edits()] == ["seenline 0"]
    secret.add("file:///p/a.py")
    assert ring.edits() == ()
    assert "CANARY" not in repr(vars(ring))


@pytest.mark.parametrize("seed", range(8))
def test_diffs_applied_backwards_give_the_first_text(seed: int, tmp_path: Path) -> None:
    """Random edits: reversing every hunk of the ring restores the text, and git takes the diffs."""
    rng = random.Random(seed)
    ring, document = EditRing(max_hunks=1000), Document("file:///a.py", 1, "python", BODY)
    for step in range(60):
        start = rng.randrange(len(document.text) + 1)
        end = min(len(document.text), start + rng.choice((0, 0, 1, 5, 30)))
        document = edit(ring, document, start, end, rng.choice(("", "x", "a\nb\n", "\n", "foo(bar)")), float(step))
    restored = document.text
    for found in sorted(ring.edits(), key=lambda found: -found.span.start):
        assert found.span.of(document.text) == found.new
        restored = restored[: found.span.start] + found.old + restored[found.span.end :]
    assert restored == BODY
    (tmp_path / "a.py").write_text(document.text + "\n")
    for found in sorted(ring.edits(), key=lambda found: -found.span.start):
        patch = f"--- a/a.py\n+++ b/a.py\n{found.diff}\n"
        done = subprocess.run(
            ["git", "apply", "-R", "--unidiff-zero", "--whitespace=nowarn", "-"],
            cwd=tmp_path, input=patch, text=True, capture_output=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, (patch, done.stderr)
