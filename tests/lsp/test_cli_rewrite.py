"""The commands `rewrite` and `fix`: diffs that git applies, and nothing where nothing is to change."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from mercury_lsp import cli, loading
from tests.fakes import FakeInfiller

Main = Callable[..., tuple[int, str, str]]


@pytest.fixture
def main(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Main:
    """Runs the command line in tmp_path: (exit status, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[int, str, str]:
        status = cli.main(arguments)
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return run


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeInfiller:
    infiller = FakeInfiller("x = 20")
    monkeypatch.setattr(loading, "load_infiller", lambda settings, report: infiller)
    return infiller


@pytest.fixture
def no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> None:
        raise AssertionError("the model was loaded")

    monkeypatch.setattr(loading, "load_infiller", never)


def git_apply(folder: Path, diff: str) -> None:
    env = {"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CEILING_DIRECTORIES": str(folder.parent)}
    command = ["git", "apply", "--whitespace=nowarn", "-"]
    done = subprocess.run(command, input=diff.encode(), cwd=folder, env=env, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode() + diff


@pytest.mark.usefixtures("no_model")
@pytest.mark.parametrize("name", ["a.py", "in/a folder/ä.py"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("last", ["", "\n"])
def test_git_applies_the_diff_of_fix(main: Main, tmp_path: Path, name: str, newline: str, last: str) -> None:
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(("def f(x)\n    return x\n\n\nprint(f(1)" + last).replace("\n", newline).encode())
    status, diff, _ = main("fix", name)
    assert status == 0 and diff.startswith("--- ")
    git_apply(tmp_path, diff)
    right = ("def f(x):\n    return x\n\n\nprint(f(1))" + last).replace("\n", newline)
    assert path.read_bytes().decode() == right


@pytest.mark.usefixtures("no_model")
def test_a_file_without_errors_prints_nothing(main: Main, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\n")
    assert main("fix", "a.py") == (0, "", "mercury-lsp: nothing to change\n")
    status, out, _ = main("fix", "a.py", "--json")
    assert status == 0
    found = json.loads(out)
    assert (found["changed"], found["diff"], found["model"]) == (False, "", None)
    assert found["errors"] == {"before": 0, "after": 0}


def test_git_applies_the_diff_of_rewrite(main: Main, tmp_path: Path, fake: FakeInfiller) -> None:
    (tmp_path / "a.py").write_text("w = 1\nx = 2\ny = 3\n")
    status, diff, _ = main("rewrite", "a.py", "--lines", "2-2", "--instruction", "ten times")
    assert status == 0
    assert fake.requests[0].instruction == "ten times" and fake.requests[0].original == "x = 2"
    git_apply(tmp_path, diff)
    assert (tmp_path / "a.py").read_text() == "w = 1\nx = 20\ny = 3\n"


def test_rewrite_prints_one_json_object(main: Main, tmp_path: Path, fake: FakeInfiller) -> None:
    (tmp_path / "a.py").write_text("x = 2\n")
    status, out, err = main("rewrite", "a.py", "--lines", "1", "--json")
    found = json.loads(out)
    assert (status, err) == (0, "")
    assert found["changed"] and found["model"] == "fake" and found["language"] == "python"
    assert "+x = 20" in found["diff"].splitlines()
    assert set(found["ms"]) == {"load", "total"}


def test_rewrite_that_changes_nothing_prints_nothing(main: Main, tmp_path: Path, fake: FakeInfiller) -> None:
    fake.script = "x = 2"
    (tmp_path / "a.py").write_text("x = 2\n")
    status, out, err = main("rewrite", "a.py", "--lines", "1-1")
    assert (status, out) == (0, "") and err.endswith("mercury-lsp: nothing to change\n")


@pytest.mark.usefixtures("no_model")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("rewrite", "a.py", "--lines", "4-5"), "has the lines 1 to 3"),
        (("rewrite", "a.py", "--lines", "2-1"), "has the lines 1 to 3"),
        (("rewrite", "a.py", "--lines", "one"), "--lines takes A-B"),
        (("rewrite", "a.py", "--lines", "2-2"), "nothing to rewrite"),
        (("rewrite", "a.py"), "--lines"),
        (("rewrite", "b.py", "--lines", "1-1"), "cannot read b.py"),
        (("fix", "b.py"), "cannot read b.py"),
        (("fix", "a.klingon"), "not known"),
    ],
)
def test_bad_input_is_one_line_and_status_2(main: Main, tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    (tmp_path / "a.py").write_text("x = 1\n\n")
    (tmp_path / "a.klingon").write_text("x = 1\n")
    status, out, err = main(*arguments)
    assert (status, out) == (2, "")
    assert said in err and err.count("\n") == 1


def test_a_file_elsewhere_is_named_as_its_repository_knows_it(main: Main, tmp_path: Path, fake: FakeInfiller) -> None:
    folder = tmp_path.parent / f"{tmp_path.name}-other"
    (folder / ".git").mkdir(parents=True)
    (folder / "src").mkdir()
    (folder / "src" / "a.py").write_text("x = 2\n")
    _, diff, _ = main("rewrite", str(folder / "src" / "a.py"), "--lines", "1-1")
    assert diff.startswith("--- a/src/a.py\n+++ b/src/a.py\n")
