"""The evaluation commands, without weights: the sandbox's verdicts, scoring, resuming, next edits."""

import argparse
import base64
import dataclasses
import gzip
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mercury_lsp import loading
from mercury_lsp.cli import evaluate
from mercury_lsp.errors import FailureError, UsageError
from mercury_lsp.evaluation import aggregate, humaneval, next_edit, recorded_peer, report
from mercury_lsp.evaluation.sandbox import Limits, run_program
from mercury_model.draft import Draft, ModelInfo, Request

QUICK = Limits(cpu=30, wall=120.0, memory=256 << 20)
# each limit of time alone, so that a busy machine cannot change which one ends the program
LIMITS = {"hang": Limits(cpu=1, wall=120.0), "sleep": Limits(cpu=30, wall=1.0)}


# --- the sandbox -----------------------------------------------------------------------------------------------

HONEST = {
    "the standard library": "import math, re, collections, random, heapq, itertools\nassert math.sqrt(9) == 3",
    "a dataclass": "from dataclasses import dataclass\n@dataclass\nclass A:\n    x: int\nassert A(1) == A(1)",
    "a little output": "print('hello')",
    "caught exceptions": "try:\n    1 / 0\nexcept ZeroDivisionError:\n    pass",
    "reading its own library": "import inspect, json\nassert inspect.getsource(json)",
}


@pytest.mark.parametrize("name", HONEST)
def test_an_honest_program_passes(name: str) -> None:
    assert run_program(HONEST[name], QUICK).passed


ABUSES = {
    "wrong": ("assert 1 == 2", "failed"),
    "syntax": ("def f(:", "failed"),
    "null byte": ("x = '\0'", "failed"),
    "hang": ("while True: pass", "killed"),
    "sleep": ("import time; time.sleep(60)", "timeout"),
    "sys.exit": ("import sys; sys.exit(0)", "failed"),
    "quit": ("raise SystemExit", "failed"),
    "os._exit": ("import os; os._exit(0)", "left early"),
    "abort": ("import os; os.abort()", "killed"),
    "recursion": ("def f(): f()\nf()", "failed"),
    "memory": ("x = bytearray(1 << 34)", "failed"),
    "slow memory": ("x = []\nwhile True: x.append(bytearray(1 << 24))", "failed"),
    "flood": ("while True: print('x' * 10000)", "failed"),
    "error flood": ("import sys\nwhile True: sys.stderr.write('x' * 10000)", "failed"),
    "fork": ("import os; os.fork()", "failed"),
    "forks": ("import os\nwhile True: os.forkpty()", "failed"),
    "subprocess": ("import subprocess; subprocess.run(['true'])", "failed"),
    "shell": ("import os; assert os.system('true') == 0", "failed"),
    "exec": ("import os; os.execv('/bin/true', ['true'])", "failed"),
    "kill": ("import os; os.kill(os.getppid(), 0)", "failed"),
    "socket": ("import socket; socket.socket()", "failed"),
    "write": ("open('x', 'w')", "failed"),
    "os.open": ("import os; os.open('x', os.O_CREAT | os.O_WRONLY)", "failed"),
    "remove": ("import os; os.remove('output')", "failed"),
    "ctypes": ("import ctypes; ctypes.CDLL(None)", "failed"),
    "printed verdict": ("print('passed'); print('{\"passed\": true}'); import os; os._exit(0)", "left early"),
    "written verdict": (
        "import os\nfor fd in range(3, 64):\n    try:\n        os.write(fd, b'0' * 32)\n"
        "    except OSError:\n        pass\nos._exit(0)",
        "left early",
    ),
    "failed exit hook": ("import atexit, os\natexit.register(os._exit, 0)\nassert False", "failed"),
}


@pytest.mark.parametrize("name", ABUSES)
def test_an_abusive_program_does_not_pass(name: str) -> None:
    program, reason = ABUSES[name]
    verdict = run_program(program, LIMITS.get(name, QUICK))
    assert not verdict.passed
    assert verdict.reason == reason


@pytest.mark.parametrize("call", ["os.fork()", "socket.socket()", "os.remove('/tmp/x')", "open('/tmp/x', 'w')"])
def test_the_fence_holds_where_the_program_looks_away(call: str) -> None:
    program = f"import os, socket\ntry:\n    {call}\n    broken = True\nexcept PermissionError:\n    broken = False\n"
    assert run_program(program + "assert not broken", QUICK).passed


def test_the_secret_is_not_lying_about() -> None:
    program = (
        "import os, sys\nassert len(sys.argv) == 1 and sys.stdin.read() == ''\n"
        "assert set(os.environ) <= {'PYTHONHASHSEED', 'LANG', 'LC_CTYPE'}\n"
    )
    assert run_program(program, QUICK).passed


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="network namespaces are Linux's")
def test_the_program_sees_no_network_where_the_system_permits_it() -> None:
    import subprocess

    probe = "from mercury_lsp.evaluation import sandbox_child; raise SystemExit(not sandbox_child.leave_network())"
    root = str(Path(evaluate.__file__).parents[2])
    if subprocess.run([sys.executable, "-c", probe], cwd=root).returncode:
        pytest.skip("this system permits no network namespace")
    program = "seen = [l.split(':')[0].strip() for l in open('/proc/net/dev') if ':' in l]\nassert seen == ['lo'], seen"
    assert run_program(program, QUICK).passed


# --- HumanEval-Infilling ---------------------------------------------------------------------------------------


def task(task_id: str = "SingleLineInfilling/HumanEval/0/L1", canonical: str = "    return a + b\n") -> humaneval.Task:
    return humaneval.Task(
        task_id=task_id,
        entry_point="add",
        prompt="def add(a, b):\n",
        suffix="\n\nextra = 1\n",
        canonical=canonical,
        test="def check(candidate):\n    assert candidate(1, 2) == 3\n",
    )


SPAN = "RandomSpanInfilling/HumanEval/0/1"


class Scripted:
    """Answers with the text `texts` gives for the request's policy; half as many forwards as tokens but for greedy."""

    info = ModelInfo(name="scripted", device="cpu", kind="block", adapter="a1")

    def __init__(self, texts: Callable[[Request], str]) -> None:
        self.texts = texts
        self.requests: list[Request] = []

    def count_tokens(self, text: str, /) -> int:
        return len(text.split())

    def __call__(self, request: Request, /) -> Iterator[Draft]:
        self.requests.append(request)
        text = self.texts(request)
        yield Draft(text="", n_open=4)
        yield Draft(
            text=text,
            n_tokens=8,
            forwards=8.0 if request.policy == humaneval.GREEDY_POLICY else 4.0,
            prefilled=20,
            done=True,
            ended="end" if text.endswith("\n") else "length",
        )


ANSWERS = {
    # name: task id, answer, (passed, exact, valid)
    "the canonical line": (task().task_id, "    return a + b\n", (True, True, True)),
    "a line is cut at its end": (task().task_id, "    return a + b\n    nonsense((", (True, True, True)),
    "a line gets its break": (task().task_id, "    return a + b", (True, True, True)),
    "another right line": (task().task_id, "    return b + a\n", (True, False, True)),
    "a wrong line": (task().task_id, "    return a - b\n", (False, False, True)),
    "a broken line": (task().task_id, "    return (a + b\n", (False, False, False)),
    "an empty line": (task().task_id, "", (False, False, True)),  # the grammar allows an empty block
    "a span as it came": (SPAN, "    c = a\n    return c + b\n", (True, False, True)),
    "a span that did not end": (SPAN, "    return a + b\n\n\ndef g(:", (False, False, False)),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_is_scored(name: str) -> None:
    task_id, text, expected = ANSWERS[name]
    row = humaneval.answer(task(task_id), humaneval.Decoding(), Scripted(lambda _: text), QUICK)
    assert (row.passed, row.exact, row.valid) == expected


def test_the_request_names_policy_effort_and_room_and_gives_the_length_away_to_nobody() -> None:
    single = humaneval.request_for(task(), humaneval.Decoding("threshold", "high"))
    assert (single.policy, single.effort, single.max_tokens, single.document) == ("threshold", "high", 64, "")
    assert single.end is not None and single.end("ab") is None and single.end("ab\ncd") == 3
    short, long = (humaneval.request_for(task(SPAN, canonical), humaneval.Decoding()) for canonical in ("x", "x" * 900))
    assert dataclasses.replace(short, end=None) == dataclasses.replace(long, end=None) and short.max_tokens >= 128
    goes_on = "    c = a + b\n    return c\n\n\ndef other"
    assert short.end is not None and long.end is not None
    assert short.end(goes_on) == long.end(goes_on) == goes_on.index("\ndef")


def test_a_model_without_a_draft_is_a_failure() -> None:
    class Silent(Scripted):
        def __call__(self, request: Request, /) -> Iterator[Draft]:
            return iter(())

    with pytest.raises(FailureError, match="doctor"):
        humaneval.answer(task(), humaneval.Decoding(), Silent(lambda _: ""), QUICK)


def tasks_file(path: Path, tasks: list[humaneval.Task]) -> Path:
    lines = [
        json.dumps({("canonical_solution" if k == "canonical" else k): v for k, v in dataclasses.asdict(t).items()})
        for t in tasks
    ]
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    return path


def numbered(n: int) -> list[humaneval.Task]:
    return [task(f"SingleLineInfilling/HumanEval/{i}/L1") for i in range(n)]


def test_the_seed_chooses_the_subset_and_a_larger_limit_only_adds() -> None:
    tasks = numbered(30)
    few, more, other = (humaneval.choose(tasks, n, s) for n, s in ((5, 0), (9, 0), (5, 1)))
    assert few == more[:5] and few != other and few != tasks[:5]
    assert sorted(humaneval.choose(tasks, None, 0), key=tasks.index) == tasks


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "holds no tasks"),
        (b"\x1f\x8b broken", "cannot read"),
        (b'{"task_id": 1}', "line 1 is not"),
        (b"[1]", "line 1 is not"),
        (b"\xff", "cannot read"),
    ],
)
def test_a_file_that_holds_no_tasks_is_bad_input(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "tasks.jsonl.gz"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=message):
        humaneval.load_tasks(path)


def run_cli(*words: str) -> int:
    parser = argparse.ArgumentParser()
    evaluate.add_arguments(parser)
    return evaluate.run(parser.parse_args(words))


def plug(monkeypatch: pytest.MonkeyPatch, infiller: Scripted) -> None:
    def load(settings: Any, report: Callable[[str, float], None]) -> Scripted:
        report("loading", 0.5)
        return infiller

    monkeypatch.setattr(loading, "load_infiller", load)


def by_task(request: Request) -> str:
    """Right but for one task, where check and greedy differ as well."""
    if "17" in request.prefix:
        return "    return a\n" if request.policy == "check" else "    return b\n"
    return "    return a + b\n"


def marked(n: int) -> list[humaneval.Task]:
    return [dataclasses.replace(t, prompt=f"# {i + 15}\n" + t.prompt, test=t.test) for i, t in enumerate(numbered(n))]


def test_the_json_object_has_the_contract_s_fields(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plug(monkeypatch, Scripted(by_task))
    data = tasks_file(tmp_path / "t.jsonl.gz", marked(4))
    assert run_cli("humaneval-infill", "--data", str(data), "--greedy", "--json") == 0
    figures = json.loads(capsys.readouterr().out)
    greedy = figures.pop("greedy")
    assert figures.pop("texts_equal") == 0.75
    assert (
        list(figures)
        == list(greedy)
        == [
            *("n", "policy", "effort", "model", "pass_at_1", "exact_match", "syntax_valid", "forwards_per_token"),
            *("tokens_per_forward", "stopped_by_itself", "seconds", "tokens", "prefilled"),
        ]
    )
    assert figures | {"seconds": 0} == {
        **{"n": 4, "policy": "check", "effort": "medium", "model": "scripted+a1", "pass_at_1": 0.75},
        **{"exact_match": 0.75, "syntax_valid": 1.0, "forwards_per_token": 0.5, "tokens_per_forward": 2.0},
        **{"stopped_by_itself": 1.0, "seconds": 0, "tokens": 32, "prefilled": 80},
    }
    assert 0 < figures["seconds"]["p50"] <= figures["seconds"]["p95"]
    assert (greedy["policy"], greedy["forwards_per_token"], greedy["pass_at_1"]) == ("greedy", 1.0, 0.75)


def test_both_decodings_take_turns_on_the_same_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    infiller = Scripted(by_task)
    plug(monkeypatch, infiller)
    data = tasks_file(tmp_path / "t.jsonl.gz", marked(5))
    run_cli("humaneval-infill", "--data", str(data), "--limit", "2", "--seed", "3", "--greedy", "--json")
    assert [r.policy for r in infiller.requests] == ["check", "greedy"] * 2
    assert infiller.requests[0].prefix == infiller.requests[1].prefix != infiller.requests[2].prefix


def test_people_get_a_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plug(monkeypatch, Scripted(by_task))
    data = tasks_file(tmp_path / "t.jsonl.gz", marked(4))
    run_cli("humaneval-infill", "--data", str(data), "--greedy")
    out = capsys.readouterr().out
    assert "pass_at_1" in out and "0.750" in out and "greedy" in out and "seconds.p95" in out


def test_resuming_asks_only_for_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    infiller = Scripted(by_task)
    plug(monkeypatch, infiller)
    data, kept = tasks_file(tmp_path / "t.jsonl.gz", marked(4)), tmp_path / "rows.jsonl"
    words = ("humaneval-infill", "--data", str(data), "--json", "--resume", str(kept))
    run_cli(*words, "--limit", "3")
    capsys.readouterr()
    assert len(infiller.requests) == 3
    run_cli(*words)
    whole = capsys.readouterr().out
    assert len(infiller.requests) == 4
    run_cli(*words)
    assert capsys.readouterr().out == whole and len(infiller.requests) == 4
    run_cli(*words, "--effort", "high")
    assert len(infiller.requests) == 8  # another effort is another measurement


def test_ctrl_c_leaves_a_file_that_can_be_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(request: Request) -> str:
        if len(infiller.requests) == 3:
            raise KeyboardInterrupt
        return by_task(request)

    infiller = Scripted(interrupted)
    plug(monkeypatch, infiller)
    data, kept = tasks_file(tmp_path / "t.jsonl.gz", marked(4)), tmp_path / "rows.jsonl"
    words = ("humaneval-infill", "--data", str(data), "--json", "--resume", str(kept))
    assert run_cli(*words) == 130
    captured = capsys.readouterr()
    assert captured.out == "" and "--resume" in captured.err
    assert len(humaneval.RowFile(kept).rows) == 2
    assert run_cli(*words) == 0
    assert json.loads(capsys.readouterr().out)["n"] == 4 and len(infiller.requests) == 5


def test_a_row_torn_by_a_crash_is_dropped_and_asked_again(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    store = humaneval.RowFile(path)
    rows = list(humaneval.evaluate(numbered(2), [humaneval.Decoding()], Scripted(by_task), (), store.append, QUICK))
    path.write_bytes(path.read_bytes()[:-20])
    torn = humaneval.RowFile(path)
    assert torn.rows == rows[:1]
    torn.append(rows[1])
    assert humaneval.RowFile(path).rows == rows


@pytest.mark.parametrize("content", ["precious text without a line break", "one\ntwo\n", '{"a": 1}\n', "[]\n"])
def test_a_foreign_file_is_refused_and_left_as_it_is(tmp_path: Path, content: str) -> None:
    path = tmp_path / "notes.txt"
    path.write_text(content)
    with pytest.raises(UsageError, match="line 1 is no finished task"):
        humaneval.RowFile(path)
    assert path.read_text() == content


def test_greedy_beside_greedy_is_bad_input(tmp_path: Path) -> None:
    data = tasks_file(tmp_path / "t.jsonl.gz", numbered(1))
    with pytest.raises(UsageError, match="--greedy"):
        run_cli("humaneval-infill", "--data", str(data), "--policy", "greedy", "--greedy")


@pytest.mark.parametrize(
    ("values", "share", "expected"), [([], 0.5, 0.0), ([3.0], 0.95, 3.0), ([4.0, 1.0, 3.0, 2.0], 0.5, 2.0)]
)
def test_percentile(values: list[float], share: float, expected: float) -> None:
    assert aggregate.percentile(values, share) == expected


def test_no_tokens_give_no_division_by_zero() -> None:
    row = humaneval.Row("m", "p", "low", "t", "", False, False, False, 0, 0.0, 0, 0.1, "length")
    assert report.summary([row])["forwards_per_token"] == report.summary([row])["tokens_per_forward"] == 0.0


# --- next edits ------------------------------------------------------------------------------------------------

EDIT = """A rename, told in words.
id: rename
language: python
file: a.py
row: 2
col: 4
cursor-positions: 1:0, 3:2
-- buffer.txt --
one
old = 1
three
-- history --
<|file|> a.py
<|old|>
before
<|new|>
after
after too
<|file|> b.py
<|old|>
<|new|>
added
-- steps --
request-completion manual
-- expected --
one
new_name = 1
three

"""
SILENT = """Nothing to do.
id: suppress-x
language: go
file: x.go
row: 1
col: 0
modified: false
-- buffer.txt --
fine
"""


def scenario_folder(folder: Path) -> Path:
    (folder / "01-rename.txtar").write_text(EDIT)
    (folder / "02-suppress-x.txtar").write_text(SILENT)
    return folder


def test_a_scenario_is_read(tmp_path: Path) -> None:
    first, second, third, silent = next_edit.load_scenarios(scenario_folder(tmp_path))
    assert first == next_edit.Scenario(
        name="rename",
        path="a.py",
        language="python",
        buffer="one\nold = 1\nthree\n",
        row=2,
        col=4,
        history=(next_edit.RecentEdit("a.py", "before", "after\nafter too"), next_edit.RecentEdit("b.py", "", "added")),
        expected="one\nnew_name = 1\nthree\n",
    )
    assert [(s.row, s.col, s.buffer) for s in (second, third)] == [(1, 0, first.buffer), (3, 2, first.buffer)]
    assert silent.expected is None and not silent.modified


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is missing"),
        (EDIT.replace("row: 2", "row: two"), "invalid literal"),
        (EDIT.replace("<|new|>", "<|newer|>"), "history"),
        (EDIT.replace("1:0, 3:2", "1:0:4"), "too many|cursor"),
    ],
)
def test_a_damaged_scenario_is_bad_input(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "bad.txtar"
    path.write_text(text)
    with pytest.raises(UsageError, match=message):
        next_edit.read_scenario(path)


CHANGED = {
    "a replaced line": ("a\nb\nc\n", "a\nX\nc\n", "X"),
    "an inserted line": ("a\nc\n", "a\nb\nc\n", "b"),
    "a deleted line": ("a\nb\nc\n", "a\nc\n", ""),
    "a repeated line": ("a\na\n", "a\na\na\n", "a"),
    "nothing": ("a\nb\n", "a\nb", ""),
    "two places and what lies between": ("a\nb\nc\nd\n", "a\nX\nc\nY\n", "X\nc\nY"),
    "everything": ("a\n", "b\nc\n", "b\nc"),
}


@pytest.mark.parametrize("name", CHANGED)
def test_changed_lines(name: str) -> None:
    before, after, expected = CHANGED[name]
    assert next_edit.changed_lines(before, after) == expected


@pytest.mark.parametrize(
    ("candidate", "reference", "expected"),
    [
        ("", "", 100.0),
        ("abc", "abc", 100.0),
        ("", "abc", 0.0),
        ("abc", "", 0.0),
        ("abc", "xyz", 0.0),
        # order 1: precision 2/2, recall 2/3, F = 5 * 2/3 / (4 + 2/3); order 2: 1/1, 1/2, F = 2.5 / 4.5; order 3: 0
        ("ab", "abc", 100 * ((10 / 3) / (14 / 3) + 2.5 / 4.5 + 0) / 3),
        # counts are clipped: one of two a's is right
        ("aa", "ab", 100 * (0.5 + 0) / 2),
    ],
)
def test_chrf(candidate: str, reference: str, expected: float) -> None:
    assert next_edit.chrf(candidate, reference) == pytest.approx(expected)


def outcome(shown: bool, quality: float | None, seconds: float = 1.0) -> next_edit.Outcome:
    return next_edit.Outcome("x", shown, quality, seconds)


def test_the_score_punishes_chatter_and_silence() -> None:
    good, missed, quiet, chatter = outcome(True, 80.0), outcome(False, 0.0), outcome(False, None), outcome(True, None)
    assert next_edit.figures([good, quiet])["score"] == pytest.approx(0.8)
    assert next_edit.figures([good, chatter])["score"] == 0.0
    assert next_edit.figures([missed, quiet])["score"] == 0.0
    half = next_edit.figures([good, missed, quiet])
    assert (half["delta_chrf"], half["show_rate"], half["quiet_rate"]) == (40.0, 0.5, 1.0)
    assert half["score"] == pytest.approx(0.4 * 2 / 3)
    assert next_edit.figures([good])["score"] == pytest.approx(0.8)


def test_a_prediction_that_changes_nothing_is_silence(tmp_path: Path) -> None:
    edit, *_, silent = next_edit.load_scenarios(scenario_folder(tmp_path))
    assert edit.expected is not None
    assert next_edit.judge(edit, edit.expected, 0.1).quality == 100.0
    assert next_edit.judge(edit, edit.buffer, 0.1) == next_edit.Outcome("rename", False, 0.0, 0.1)
    assert not next_edit.judge(silent, "fine", 0.1).shown
    assert next_edit.judge(silent, "fine\nmore\n", 0.1).shown


def recording(prompt: str, answer: str, interaction: int = 0) -> str:
    def body(value: object) -> str:
        return base64.b64encode(json.dumps(value).encode()).decode()

    request = {"messages": [{"role": "user", "content": prompt}]}
    response = {"choices": [{"message": {"content": answer}}]}
    lines = [
        {"kind": "meta", "provider": "x"},
        {"kind": "request", "interaction": interaction, "body_b64": body(request)},
        {"kind": "response", "interaction": interaction, "body_b64": body(response), "duration_ms": 250},
    ]
    return "".join(json.dumps(line) + "\n" for line in lines)


PROMPT = (
    "<|current_file_content|>\ncurrent_file_path: a.py\none\n<|code_to_edit|>\nold<|cursor|> = 1\n"
    "<|/code_to_edit|>\nthree\n<|/current_file_content|>\n\n<|edit_diff_history|>\n<|/edit_diff_history|>\n"
)
PEER_ANSWERS = {
    "fenced": ("```\nnew_name = 1\n```", True, 100.0),
    "fenced with a language": ("```python\nnew_name = 1\n```\n", True, 100.0),
    "bare": ("new_name = 1", True, 100.0),
    "unchanged": ("```\nold = 1\n```", False, 0.0),
    "no prediction": ("None", False, 0.0),
    "emptied": ("```\n```", True, 0.0),
}


@pytest.mark.parametrize("name", PEER_ANSWERS)
def test_a_recorded_answer_is_put_into_the_buffer_and_scored(tmp_path: Path, name: str) -> None:
    answer, shown, quality = PEER_ANSWERS[name]
    scenario_folder(tmp_path)
    later = recording(PROMPT, "something later", interaction=1)
    (tmp_path / "01-rename.mercury.ndjson").write_text(recording(PROMPT, answer) + later)
    (result,) = recorded_peer.peer_outcomes(tmp_path)
    assert result == next_edit.Outcome("rename", shown, quality, 0.25)


@pytest.mark.parametrize("text", ["", "{", "[]\n", '{"kind": "meta"}\n', recording("no region", "x")])
def test_a_damaged_recording_is_bad_input(tmp_path: Path, text: str) -> None:
    scenario_folder(tmp_path)
    (tmp_path / "01-rename.mercury.ndjson").write_text(text)
    with pytest.raises(UsageError, match="no recorded exchange"):
        list(recorded_peer.peer_outcomes(tmp_path))


def test_peer_only_needs_no_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scenario_folder(tmp_path)
    (tmp_path / "01-rename.mercury.ndjson").write_text(recording(PROMPT, "new_name = 1"))
    assert run_cli("next-edit", "--data", str(tmp_path), "--peer-only", "--json") == 0
    assert json.loads(capsys.readouterr().out)["peer"]["score"] == pytest.approx(1.0)
    run_cli("next-edit", "--data", str(tmp_path), "--peer-only")
    assert "delta_chrf" in capsys.readouterr().out


def test_the_predictor_is_asked_at_every_cursor_and_stands_beside_the_peer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    scenario_folder(tmp_path)
    (tmp_path / "01-rename.mercury.ndjson").write_text(recording(PROMPT, "None"))
    asked: list[tuple[int, int]] = []

    def predict(infiller: Scripted, scenario: next_edit.Scenario) -> str | None:
        asked.append((scenario.row, scenario.col))
        return scenario.expected

    monkeypatch.setattr(evaluate, "predict", predict)
    plug(monkeypatch, Scripted(by_task))
    run_cli("next-edit", "--data", str(tmp_path), "--json")
    figures = json.loads(capsys.readouterr().out)
    assert asked == [(2, 4), (1, 0), (3, 2), (1, 0)]
    assert list(figures) == ["n", "score", "delta_chrf", "show_rate", "quiet_rate", "seconds", "peer"]
    assert (figures["n"], figures["score"], figures["peer"]["score"]) == (4, 1.0, 0.0)


def test_a_folder_without_scenarios_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no \.txtar"):
        run_cli("next-edit", "--data", str(tmp_path), "--peer-only")
    with pytest.raises(UsageError, match="no folder"):
        run_cli("next-edit", "--data", str(tmp_path / "x"), "--peer-only")
