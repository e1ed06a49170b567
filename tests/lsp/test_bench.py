"""`mercury-lsp bench typing`: the typist, the traces, and a small replay through real server processes."""

import json
from itertools import islice, pairwise
from pathlib import Path

import pytest

from mercury_lsp import cli
from mercury_lsp.errors import UsageError
from mercury_lsp.evaluation.typing_replay import Measured, milliseconds
from mercury_lsp.evaluation.typing_traces import Action, Trace, Typist, traces

SOURCE = Path(__file__).parents[1] / "data" / "heldout" / "ledger.py"
TARGET = "total = price * amount\nreturn total\n" * 6


def written(trace: Trace, shown: str = "") -> tuple[str, list[Action]]:
    """(the text in the end, what was done); a suggestion that is always `shown`."""
    typist, text, actions = Typist(trace), "", list[Action]()
    while (action := typist.act(shown)) is not None:
        actions.append(action)
        text = text[: -len(action.text)] if action.kind == "delete" else text + action.text
    return text, actions


def test_a_typist_writes_the_target_with_corrections_and_takes_what_is_right() -> None:
    trace = Trace("a.py", "python", "", TARGET, "", seed=3)
    text, actions = written(trace)
    assert text == TARGET
    kinds = [action.kind for action in actions]
    assert kinds.count("delete") >= 1
    assert all(before == "type" for before, kind in pairwise(kinds) if kind == "delete")
    text, actions = written(trace, shown="price * amount\n")
    assert text == TARGET
    assert any(action.kind == "take" for action in actions)
    assert written(trace) == written(trace)


def test_a_typist_pauses() -> None:
    typist = Typist(Trace("a.py", "python", "", TARGET, "", seed=1))
    waits = sorted(typist.wait() for _ in range(400))
    assert waits[0] >= 0.04
    assert 0.1 < waits[200] < 0.25
    assert waits[-1] > 0.8


def test_traces_are_pieces_of_the_files_and_the_same_for_a_seed() -> None:
    text = SOURCE.read_text(encoding="utf-8")
    found = list(traces([SOURCE], 300, seed=5))
    assert found == list(traces([SOURCE], 300, seed=5))
    assert found != list(traces([SOURCE], 300, seed=6))
    assert sum(len(trace.target) for trace in found) == pytest.approx(300, abs=10)
    for trace in islice(found, 5):
        assert trace.target
        assert trace.target in text
        assert text.startswith(trace.before + trace.target)
        assert text.endswith(trace.after.removeprefix("\n"))


@pytest.mark.parametrize("content", [b"\n \n", b"\xff\xfe\xff", None])
def test_a_file_that_cannot_be_typed_is_bad_input(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "a.py"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UsageError, match="name source files"):
        list(traces([path], 10, seed=0))


def test_the_figures_count_answers_with_a_suggestion_only() -> None:
    measured = Measured([0.001, 0.002, 0.1], [False, True, True], [True, True, False], taken=1, runs=1, model="m")
    figures = measured.figures()
    assert figures["keys"] == 3
    assert figures["suggestions"] == 2
    assert figures["answered_without_a_run"] == 0.5
    assert figures["runs_per_100_keys"] == pytest.approx(100 / 3)
    assert figures["key_to_suggestion_ms"] == {"p50": 2.0, "p95": 100.0, "p99": 100.0}
    assert milliseconds([]) == {"p50": 0.0, "p95": 0.0, "p99": 0.0}


def test_a_tiny_trace_through_real_processes(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bench", "typing", str(SOURCE), "--fake", "--keys", "24", "--speed", "20", "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert figures["model"] == "none"
    assert figures["keys"] >= 20
    assert figures["suggestions"] > 0
    assert 0 < figures["runs_per_100_keys"] <= 100
    assert 0 <= figures["answered_without_a_run"] <= 1
    assert set(figures["server_ms"]) == {"1000_lines", "2_mb"}
    for times in (figures["key_to_answer_ms"], *figures["server_ms"].values()):
        assert 0 < times["p50"] <= times["p95"] <= times["p99"]


def test_bad_arguments_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bench", "typing", "--speed", "0"]) == 2
    assert cli.main(["bench", "typing", "--keys", "0"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 2
