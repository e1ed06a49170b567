"""`mercury-lsp complete` at ordinary cursor positions of small files, with the real model."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mercury_lsp import cli, loading
from mercury_lsp.syntax import n_errors
from mercury_model import EMBEDDED
from mercury_model.local import LocalInfiller

pytestmark = pytest.mark.real
ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests" / "data"
LANGUAGES = ("python", "javascript", "rust")
SHARE = 0.9
STRAY = " \t"


def positions(language: str) -> list[tuple[Path, int, int]]:
    """(file, line, column), both from 1."""
    rows = json.loads((DATA / language / "positions.json").read_text(encoding="utf-8"))
    return [(DATA / language / name, row["line"], row["column"]) for name, row in rows.items()]


def completed(path: Path, answer: dict[str, Any]) -> str:
    """The file with the answer in it, put there by lines and columns alone."""
    lines = path.read_text(encoding="utf-8").split("\n")
    start, end = answer["range"]["start"], answer["range"]["end"]
    assert start["line"] == end["line"], "a completion replaces a part of one line"
    line = lines[start["line"] - 1]
    lines[start["line"] - 1] = line[: start["column"] - 1] + answer["text"] + line[end["column"] - 1 :]
    return "\n".join(lines)


def is_good(path: Path, language: str, answer: dict[str, Any]) -> bool:
    """Something was written, without stray blanks around it, and the whole file parses without an error."""
    text = answer["text"]
    neat = bool(text.strip()) and text == text.strip(STRAY)
    return neat and answer["valid"] is True and n_errors(completed(path, answer), language) == 0


@pytest.mark.timeout(900)
@pytest.mark.parametrize("language", LANGUAGES)
def test_nine_of_ten_ordinary_positions_get_a_valid_text(
    language: str, model: LocalInfiller, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(loading, "load_infiller", lambda settings, report: model)
    poor: list[str] = []
    for path, line, column in positions(language):
        assert cli.main(["complete", str(path), "--at", f"{line}:{column}", "--json"]) == 0
        answer = json.loads(capsys.readouterr().out)
        with capsys.disabled():
            print(f"\n{path.name}:{line}:{column} {answer['text']!r}", end="")
        if not is_good(path, language, answer):
            poor.append(f"{path.name}: {answer['text']!r}, steps {answer['steps'][-1:]}")
    n = len(positions(language))
    assert n - len(poor) >= math.floor(SHARE * n), poor


@pytest.mark.timeout(900)
def test_the_command_completes_a_file_in_a_process_of_its_own(weights: None) -> None:
    path, line, column = positions("python")[0]
    command = [sys.executable, "-m", "mercury_lsp", "complete", str(path), "--at", f"{line}:{column}", "--json"]
    folders = os.pathsep.join(str(ROOT / part) for part in ("", "model", "kernels"))
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": folders}, timeout=800, check=False
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert is_good(path, "python", answer), answer
    assert answer["model"] == EMBEDDED
    assert answer["forwards"] >= 1
    assert answer["steps"][-1]
