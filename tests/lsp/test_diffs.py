"""Unified diffs that git takes, and the smallest hunks of an edit."""

import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mercury_lsp.diffs import apply, hunks, unified_diff

LINES = st.lists(st.sampled_from(["a", "b = 1", "", "é 𝒳", "\\ No newline", "- x", "+++ y", "@@ z", "\x0c", "\u2028"]))
ENDS = st.sampled_from(["\n", "\r\n"])


@st.composite
def texts(draw: st.DrawFn) -> str:
    lines = draw(LINES)
    text = "".join(line + draw(ENDS) for line in lines)
    return text + draw(st.sampled_from(["", "last", "a"]))


def git_apply(folder: Path, diff: str, path: str) -> str:
    done = subprocess.run(
        ["git", "apply", "-p1", "--whitespace=nowarn", "-"],
        input=diff.encode(),
        cwd=folder,
        capture_output=True,
        check=False,
        env={"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CEILING_DIRECTORIES": str(folder.parent), "PATH": "/usr/bin:/bin"},
    )
    assert done.returncode == 0, done.stderr.decode() + diff
    return (folder / path).read_bytes().decode()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(old=texts(), new=texts())
def test_git_apply_of_the_diff_gives_the_new_text(tmp_path: Path, old: str, new: str) -> None:
    # git takes a file that becomes empty, or was, for a creation or deletion: our commands edit, they do neither
    if not old or not new or old == new:
        return
    (tmp_path / "file.py").write_bytes(old.encode())
    assert git_apply(tmp_path, unified_diff("file.py", old, new), "file.py") == new


@pytest.mark.parametrize("path", ["a b.py", "deep/er/x.py", 'quo"te.py', "tab\there.py", "ünï.py"])
def test_git_finds_a_file_of_any_name(tmp_path: Path, path: str) -> None:
    (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / path).write_text("one\ntwo\n")
    assert git_apply(tmp_path, unified_diff(path, "one\ntwo\n", "one\n2\n"), path) == "one\n2\n"


def test_equal_texts_have_no_diff() -> None:
    assert unified_diff("a.py", "x\n", "x\n") == ""


@given(old=texts(), new=texts(), offset=st.integers(0, 5))
def test_hunks_lead_from_the_old_text_to_the_new_one(old: str, new: str, offset: int) -> None:
    found = hunks("#" * offset + old, "#" * offset + new)
    assert apply("#" * offset + old, found) == "#" * offset + new
    shifted = hunks(old, new, offset)
    assert apply("#" * offset + old, shifted) == "#" * offset + new
    text = "#" * offset + old
    for hunk in shifted:
        for place in (hunk.span.start, hunk.span.end):
            assert text[place - 1 : place + 1] != "\r\n"


def test_a_hunk_is_only_what_differs() -> None:
    old = "keep\nprint(foo(a, b)\nkeep too\n"
    (hunk,) = hunks(old, "keep\nprint(foo(a, b))\nkeep too\n")
    assert (hunk.new_text, len(hunk.span)) == (")", 0)
