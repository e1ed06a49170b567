"""`mercury-lsp bench peers`: the peer's process, questions in turn, intervals, verdicts, the page; all with fakes."""

import io
import json
import math
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from mercury_lsp import cli, loading
from mercury_lsp.cli import bench_peers
from mercury_lsp.errors import FailureError, UsageError
from mercury_lsp.evaluation import answer_once, humaneval, peers, peers_machine, peers_report
from mercury_lsp.evaluation.aggregate import Spread, median_interval, spread, wilson
from mercury_lsp.evaluation.charts import curve
from mercury_lsp.evaluation.humaneval import Decoding, Row, Task
from mercury_lsp.evaluation.llama_cpp_peer import LlamaCpp
from mercury_lsp.evaluation.peers import Contestant, Timed
from mercury_lsp.evaluation.peers_kept import Kept
from mercury_lsp.evaluation.peers_report import GREEDY, OURS, PEER, Found
from mercury_lsp.evaluation.peers_verdicts import of_ranges, of_rates, of_ratios
from mercury_lsp.evaluation.sandbox import Limits, Verdict
from mercury_lsp.evaluation.typing_replay import Measured
from mercury_lsp.evaluation.typing_traces import Trace
from mercury_lsp.text import Document
from mercury_model.draft import Draft, Request
from tests.fakes import FakeInfiller

# --- the peer ---------------------------------------------------------------------------------------------------

LLAMA_CPP = r'''
import pathlib, re
__version__ = "9.8.7"

class Llama:
    """Its model file holds the text that it answers with; tokens are words and single other bytes."""

    def __init__(self, model_path, n_ctx, n_batch, n_threads, n_threads_batch, verbose):
        self.path, self.pieces, self.shape = pathlib.Path(model_path), [b"", b"<no marks>"], (n_ctx, n_threads)
        self.answer = self.path.read_bytes()

    def tokenize(self, text, add_bos, special=False):
        assert not add_bos
        mark = special and text.startswith(b"<|") and self.answer != b"no marks"
        pieces = [text] if mark else re.findall(rb"\w+|\W", text)
        self.pieces += [piece for piece in dict.fromkeys(pieces) if piece not in self.pieces]
        return [self.pieces.index(piece) for piece in pieces]

    def detokenize(self, tokens):
        return b"".join(piece for t in tokens if not (piece := self.pieces[t]).startswith(b"<|"))

    def generate(self, ids, temp, **kwargs):
        assert temp == 0.0
        with self.path.with_suffix(".prompts").open("ab") as file:
            file.write(b"".join(self.pieces[i] for i in ids) + b"\0")
        yield from self.tokenize(self.answer, False)
        yield 0

    def reset(self):
        pass

    def eval(self, ids):
        if self.answer == b"crash":
            raise RuntimeError("decode failed")
'''


@pytest.fixture
def fake_llama_cpp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model file for an interpreter that has a llama_cpp, which is a fake one."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "llama_cpp.py").write_text(LLAMA_CPP)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    model = tmp_path / "tiny.gguf"
    model.write_bytes("price * é\nnext".encode())
    return model


def started(model: Path) -> LlamaCpp:
    return LlamaCpp(sys.executable, model, threads=2, n_ctx=512)


def test_the_peer_streams_until_it_ends_by_itself_by_the_rule_or_by_length(fake_llama_cpp: Path) -> None:
    with started(fake_llama_cpp) as peer:
        assert peer.info.name == "llama-cpp-python 9.8.7 with tiny.gguf"
        drafts = list(peer(Request("total = ", "\n")))
        assert [draft.text for draft in drafts][:4] == ["price", "price ", "price *", "price * "]
        assert drafts[-1].text == "price * é\nnext" and drafts[-1].ended == "end"
        assert all(not draft.done and draft.ended == "" for draft in drafts[:-1])
        assert (drafts[-1].n_tokens, drafts[-1].forwards) == (8, 8.0)  # é is two tokens, and the end one
        line = list(peer(Request("total = ", "\n", end=humaneval.first_line)))[-1]
        assert (line.text, line.ended, line.n_tokens) == ("price * é\n", "rule", 7)
        assert list(peer(Request("total = ", "\n", max_tokens=2)))[-1].ended == "length"
        next(peer(Request("total = ", "\n")))  # stopping is cancelling: the next question is not in its way
        assert list(peer(Request("a", "b")))[-1].text == "price * é\nnext"
        assert peer.count_tokens("a + b") == 5


def test_the_peer_gets_the_prompt_that_llama_vim_s_server_makes(fake_llama_cpp: Path) -> None:
    with started(fake_llama_cpp) as peer:
        list(peer(Request("def f(x):\n    return x", "\nf(1)\n")))
    assert fake_llama_cpp.with_suffix(".prompts").read_bytes() == (
        b"<|repo_name|>myproject\n<|file_sep|>filename\n"
        b"<|fim_prefix|>def f(x):\n    return x<|fim_suffix|>\nf(1)\n<|fim_middle|>\0"
    )


def test_the_peer_keeps_its_cache_within_a_document_only(fake_llama_cpp: Path) -> None:
    def read(prefix: str, suffix: str, document: str) -> int:
        return list(peer(Request(prefix, suffix, document=document)))[-1].prefilled

    with started(fake_llama_cpp) as peer:
        whole = read("a = 1\nb = ", "\nc\n", "one")
        assert read("a = 1\nb = 2", "\nc\n", "one") == 5  # what follows the cursor is read again: `2`, suffix, marks
        assert read("a = 1\nb = 2", "\nc\n", "two") == read("a = 1\nb = 2", "\nc\n", "") == whole + 1


@pytest.mark.parametrize(
    ("answer", "problem"), [(b"no marks", "the model has no token"), (None, "No such file"), (b"x", "no module named")]
)
def test_a_peer_that_cannot_be_had_says_why(fake_llama_cpp: Path, answer: bytes | None, problem: str) -> None:
    fake_llama_cpp.unlink()
    if answer is not None:
        fake_llama_cpp.write_bytes(answer)
    if problem.startswith("no module"):
        (fake_llama_cpp.parent / "site" / "llama_cpp.py").write_text("import no_module_of_this_name")
    with pytest.raises(FailureError, match=f"(?i)no llama-cpp-python: .*{problem}"):
        started(fake_llama_cpp)


def test_no_interpreter_and_a_peer_that_fails_later_are_failures(fake_llama_cpp: Path) -> None:
    with pytest.raises(FailureError, match="cannot be started"):
        LlamaCpp(str(fake_llama_cpp.parent / "python"), fake_llama_cpp, threads=1)
    fake_llama_cpp.write_bytes(b"crash")
    with started(fake_llama_cpp) as peer:
        with pytest.raises(FailureError, match="decode failed"):
            peer.passes("x " * 300)
        with pytest.raises(FailureError, match="decode failed"):
            list(peer(Request("a", "b")))


def test_the_peer_s_passes_are_timed(fake_llama_cpp: Path) -> None:
    with started(fake_llama_cpp) as peer:
        found = peer.passes("x " * 300)
    assert set(found) == {
        "load, s",
        "prefill, tokens/s",
        "decoding one at a time, tokens/s",
        *(f"batch of {n}, ms" for n in (8, 16, 32)),
    }


# --- memory and machine -----------------------------------------------------------------------------------------


def test_the_peak_of_a_process_and_the_machine_are_known() -> None:
    assert 1 << 20 < peers_machine.peak_resident(os.getpid()) < 1 << 40
    line = peers_machine.machine(["a peer 1.0"])
    assert "cores" in line and "torch " in line and "a peer 1.0" in line and "\n" not in line


def test_a_process_of_ours_answers_one_request(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    infiller = FakeInfiller("x")
    monkeypatch.setattr(loading, "load_infiller", lambda settings, report: infiller)
    monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps({"prefix": "a", "suffix": "b"}) + "\n"))
    answer_once.main("fake", "cpu")
    assert capsys.readouterr().out == "answered\n"
    assert [(r.prefix, r.suffix) for r in infiller.requests] == [("a", "b")]


def test_a_process_of_ours_that_cannot_load_is_a_failure(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(FailureError, match="doctor"):
        peers_machine.ours_resident("http://127.0.0.1:9", "cpu", "a", "b")
    assert "Traceback" in capfd.readouterr().err


# --- figures ----------------------------------------------------------------------------------------------------


def test_intervals_are_those_of_the_tables() -> None:
    assert wilson(8, 10) == pytest.approx((0.4902, 0.9433), abs=1e-4)
    assert wilson(0, 10) == pytest.approx((0.0, 0.2775), abs=1e-4)
    assert wilson(0, 0) == (0.0, 1.0)
    assert median_interval(list(range(20, 0, -1))) == (6, 15)  # ranks 6 and 15 of 20: 95.9%
    assert median_interval(list(range(6))) == (0, 5)
    assert median_interval([1.0] * 5) == (-math.inf, math.inf) == median_interval([])
    assert spread([4, 1, 3, 2]) == Spread(2, 1, 3, 4)


@pytest.mark.parametrize(
    ("ours", "other", "side"),
    [((19, 20), (4, 20), "ahead"), ((4, 20), (19, 20), "behind"), ((15, 20), (12, 20), "tie")],
)
def test_rates_differ_only_if_their_intervals_do(ours: tuple[int, int], other: tuple[int, int], side: str) -> None:
    verdict = of_rates("pass@1", *([n < k for n in range(total)] for k, total in (ours, other)))
    assert verdict.side == side
    assert ("overlap" in verdict.text) == (side == "tie")
    if side != "tie":
        assert verdict.text.endswith("75 points")


@pytest.mark.parametrize(
    ("ratios", "side", "by"),
    [
        ([0.5] * 10, "ahead", "50% less"),
        ([1.3] * 10, "behind", "30% more"),
        ([0.5, 1.5] * 5, "tie", "holds 1"),
        ([0.5] * 5, "open", "pairs: 5"),
        ([], "open", "pairs: 0"),
    ],
)
def test_ratios_count_only_if_their_median_is_surely_off_one(ratios: list[float], side: str, by: str) -> None:
    verdict = of_ratios("seconds", ratios)
    assert verdict.side == side
    assert by in verdict.text


def test_ranges_that_overlap_are_a_tie() -> None:
    assert of_ranges("memory", "MB", [10, 11, 12], [12, 13]).side == "tie"
    assert of_ranges("memory", "MB", [10, 11], [12, 13, 14]).text.endswith("3 MB less")
    assert of_ranges("memory", "MB", [20, 21], [12, 13]).side == "behind"


# --- questions --------------------------------------------------------------------------------------------------


class Log:
    """Infillers that write down who is asked what, in one list."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Request]] = []

    def contestants(self, *names: str) -> list[Contestant]:
        return [Contestant(name, Logged(name, self), Decoding("greedy")) for name in names]

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.asked]


class Logged(FakeInfiller):
    def __init__(self, name: str, log: Log) -> None:
        super().__init__("    return a + b\n", per_step=1)
        self._name, self._log = name, log

    def __call__(self, request: Request, /) -> Iterator[Draft]:
        self._log.asked.append((self._name, request))
        return super().__call__(request)


def task(number: int, kind: str = "SingleLineInfilling") -> Task:
    return Task(
        task_id=f"{kind}/HumanEval/{number}/L1",
        entry_point="add",
        prompt="def add(a, b):\n",
        suffix="\n",
        canonical="    return a + b\n",
        test="def check(candidate):\n    assert candidate(1, 2) == 3\n",
    )


def silent(message: str, fraction: float) -> None:
    assert 0 <= fraction <= 1


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs are judged by their text: running them is tested elsewhere, and takes its time."""

    def run_program(program: str, limits: Limits) -> Verdict:
        return Verdict("a + b" in program)

    monkeypatch.setattr(humaneval, "run_program", run_program)


def test_each_is_first_once_and_no_finished_row_is_asked_again(judged: None) -> None:
    log, kept = Log(), list[Row]()
    three = [Contestant(name, Logged(name, log), Decoding(name)) for name in "abc"]
    rows = peers.quality([task(n) for n in range(3)], three, [], kept.append, silent)
    assert log.names == ["a", "b", "c", "b", "c", "a", "c", "a", "b"]
    assert {name: [row.task for row in answers] for name, answers in rows.items()} == {
        name: [task(n).task_id for n in range(3)] for name in "abc"
    }
    assert len(kept) == 9 and all(row.passed for row in kept)
    del log.asked[:]
    again = peers.quality([task(n) for n in range(4)], three, kept, kept.append, silent)
    assert log.names == ["a", "b", "c"] and {request.suffix for _, request in log.asked} == {"\n"}
    assert again["b"][:3] == rows["b"]


TRACE = Trace("a.py", "python", "def f(price):\n", "    total = price * 2\n    return total", "\n\n\nf(1)\n", seed=3)


def test_a_key_asks_all_the_same_each_with_its_own_cache() -> None:
    log = Log()
    found = peers.per_key(log.contestants("a", "b"), [TRACE, TRACE], 4, 200, silent)
    questions = [log.asked[n : n + 2] for n in range(0, len(log.asked), 2)]
    assert len(questions) > 10
    for n, ((first, one), (second, two)) in enumerate(questions):
        assert (first, second) == (("a", "b") if n % 2 == 0 else ("b", "a"))
        assert (one.prefix, one.suffix) == (two.prefix, two.suffix) and one.end is not None and one.judge is not None
        assert one.document != two.document and one.document.endswith(f" {first}")
    assert len({request.document for _, request in log.asked}) == 4
    assert all(later[0][1].prefix != question[0][1].prefix for question, later in pairwise(questions))
    both = peers.pairs(found, "a", "b")
    assert len(both) == len(questions) and all(a.place == b.place for a, b in both)


def test_a_context_is_of_its_size_and_only_the_first_text_is_waited_for() -> None:
    log = Log()
    two = log.contestants("a", "b")
    document = Document("d", 1, "python", "".join(f"value_{n} = compute({n})\n" for n in range(400)))
    found = peers.by_context(two, document, [100, 400], 3, 0, silent)
    assert len(found) == 12 and {value.context for value in found} == {100, 400}
    for _, request in log.asked:
        assert request.document == ""
    sizes = [two[0].infiller.count_tokens(request.prefix + request.suffix) for _, request in log.asked]
    assert all(50 < size <= 100 for size in sizes[:2]) and all(300 < size <= 400 for size in sizes[2:4])
    assert {value.n_tokens for value in found} == {1}  # of five


def test_sizes_end_where_the_device_does() -> None:
    assert peers.contexts(384) == [256, 384]
    assert peers.contexts(100) == [100]
    assert peers.contexts(1024) == [256, 512, 1024]
    assert peers.contexts(8192) == [256, 512, 1024, 2048, 4096]


# --- plots ------------------------------------------------------------------------------------------------------


def test_a_plot_follows_the_colour_scheme_and_shows_spreads_ticks_and_names() -> None:
    drawing = curve(
        {"a < b": [(256.0, 5.0, 4.0, 7.0), (512.0, 9.0)], "c": [(4096.0, 1.0)]},
        "tokens & more",
        "ms",
        marks=True,
        log_x=True,
        ticks={256.0: "256", 4096.0: "4k"},
    )
    root = ElementTree.fromstring(drawing)
    texts = ["".join(node.itertext()) for node in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"a < b", "c", "tokens & more", "ms", "256", "4k"} <= set(texts)
    assert {"0", "2", "4", "6", "8", "10"} <= set(texts)  # round numbers around 0 and 9
    for values in ([0.0, 0.0], [1234.0, 9876.0], [0.29, 0.31]):
        steep = curve({"a": [(n, y) for n, y in enumerate(values)]}, "x", "y", log_x=False)
        assert "e+" not in steep and "nan" not in ElementTree.canonicalize(steep)
    assert "prefers-color-scheme:dark" in drawing
    assert drawing.count('stroke-opacity="0.5"') == 1
    assert drawing.count("<polyline") == 2 and "<polyline" not in curve({"a": [(1.0, 2.0)]}, "x", "y", lines=False)
    with pytest.raises(ValueError, match="nothing to draw"):
        curve({"a": []}, "x", "y")


# --- the page ---------------------------------------------------------------------------------------------------


def row(name: str, number: int, *, passed: bool, seconds: float, forwards: float) -> Row:
    policy, effort = name.split(", ")[0], "medium"
    return Row(
        "m",
        policy,
        effort,
        f"t{number}",
        "x",
        passed,
        passed,
        True,
        10,
        forwards,
        100,
        seconds * (1 + number / 64),
        "end",
    )


def measured(ours: float) -> Found:
    """Ours takes `ours` times the others' seconds everywhere."""
    rows = {
        name: [row(name, n, passed=n % 2 == 0, seconds=time, forwards=forwards) for n in range(12)]
        for name, time, forwards in ((OURS, ours, 6.0), (GREEDY, 1.0, 10.0), (PEER, 1.0, 10.0))
    }
    timed = [
        Timed(name, f"p{n}", 256, (ours if name == OURS else 1.0) * (1 + n / 64), 20, 5)
        for n in range(12)
        for name in (OURS, GREEDY, PEER)
    ]
    return Found(
        quality={"single-line": rows},
        typing=timed,
        context=timed,
        server={1000: [0.002] * 8, 10_000: [0.004] * 8},
        memory={OURS: [900 << 20] * 3, PEER: [600 << 20] * 3},
        machines={part: f"machine of {part}" for part in bench_peers.PARTS},
        notes=["Not measured: something."],
    )


def section(page: str, title: str) -> str:
    """The words of `**title**` in the first comparison."""
    return page.split("### `check, medium` beside llama-cpp-python")[1].split(f"**{title}**")[1].split("**")[0]


@pytest.mark.parametrize(("ours", "side", "by"), [(0.5, "Ahead", "50% less"), (2.0, "Behind", "100% more")])
def test_the_page_says_where_ours_is_ahead_and_behind_and_by_how_much(ours: float, side: str, by: str) -> None:
    page = peers_report.page(measured(ours), "images")
    for what in ("single-line, seconds of an answer", "key to suggestion", "first text with 256 tokens"):
        line = next(line for line in section(page, side).splitlines() if what in line)
        assert line.endswith(by)
    assert "single-line, forwards per token" in section(page, "Ahead") and "40% less" in section(page, "Ahead")
    assert "memory of a process" in section(page, "Behind") and "MB more" in section(page, "Behind")
    assert "single-line, pass@1" in section(page, "Level")
    assert "beside one-at-a-time decoding" in page
    assert all(f"machine of {part}" in page for part in bench_peers.PARTS)
    assert "> Not measured: something." in page
    for name, (_, drawing) in peers_report.plots(measured(ours)).items():
        ElementTree.fromstring(drawing)
        assert f"(images/{name})" in page
    assert len(peers_report.plots(measured(ours))) == 4


def test_what_was_not_measured_is_not_on_the_page() -> None:
    page = peers_report.page(Found(), "images")
    assert "## " not in page and peers_report.plots(Found()) == {}
    found = measured(1.0)
    for sets in found.quality.values():
        del sets[PEER]
    found.typing = [value for value in found.typing if value.contestant != PEER]
    found.context, found.memory = [], {}
    page = peers_report.page(found, "images")
    assert "Measured too little" not in page
    for rows in found.quality.values():
        rows[OURS] = rows[OURS][:3]
    assert "seconds of an answer: pairs: 3" in peers_report.page(found, "images").split("Measured too little")[1]
    assert "beside llama-cpp-python" not in page and f"times those of {GREEDY}" in page


# --- the command ------------------------------------------------------------------------------------------------


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    for name, kind in zip(bench_peers.DATA.values(), ("SingleLine", "MultiLine", "RandomSpan"), strict=True):
        item = asdict(task(0, f"{kind}Infilling"))
        item["canonical_solution"] = item.pop("canonical")
        (folder / name).write_text(json.dumps(item) + "\n")
    return folder


@pytest.fixture
def ours(monkeypatch: pytest.MonkeyPatch, judged: None) -> FakeInfiller:
    """In the place of our model, its process and the server's."""
    infiller = FakeInfiller("    return a + b\n")

    async def replay(command: Sequence[str], traces: Sequence[Trace], options: Any, speed: float) -> Measured:
        assert all(len(trace.before + trace.after) > 30_000 for trace in traces)
        return Measured([0.001, 0.002], [True, True], [True, True])

    monkeypatch.setattr(loading, "load_infiller", lambda settings, report: infiller)
    monkeypatch.setattr(peers_machine, "ours_resident", lambda *args: 900 << 20)
    monkeypatch.setattr(bench_peers, "replay", replay)
    return infiller


def command(tmp_path: Path, *more: str) -> list[str]:
    (tmp_path / "docs").mkdir(exist_ok=True)
    out = str(tmp_path / "docs" / "page.md")
    return ["bench", "peers", "--limit", "1", "--keys", "30", "--every", "10", "--places", "2", "--out", out, *more]


def test_one_command_writes_the_page_its_plots_and_goes_on_where_it_was(
    tmp_path: Path, fake_llama_cpp: Path, data: Path, ours: FakeInfiller, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_llama_cpp.write_bytes(b"    return a - b\n")
    arguments = command(
        tmp_path, "--data", str(data), "--gguf", str(fake_llama_cpp), "--resume", str(tmp_path / "kept")
    )
    assert cli.main(arguments) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'docs' / 'page.md'}\n"
    page = (tmp_path / "docs" / "page.md").read_text(encoding="utf-8")
    for name in ("bench-quality", "bench-forwards", "bench-context", "bench-file"):
        ElementTree.parse(tmp_path / "docs" / "images" / f"{name}.svg")
        assert f"images/{name}.svg" in page
    assert "### multi-line" in page and "| llama-cpp-python | 1 | 0% " in page and "| check, high | 1 | 100% " in page
    assert "llama-cpp-python 9.8.7 with tiny.gguf" in page and "fake on cpu" in page
    assert "Not measured" not in page
    assert str(tmp_path) not in page and sys.executable not in page  # nothing of this machine's folders
    n_asked = ours.runs
    assert cli.main(arguments) == 0
    assert (tmp_path / "docs" / "page.md").read_text(encoding="utf-8") == page
    assert ours.runs == n_asked + len(bench_peers.DECODINGS)  # to be warm, nothing else


def test_without_a_peer_the_page_says_why(tmp_path: Path, ours: FakeInfiller, fake_llama_cpp: Path) -> None:
    (tmp_path / "site" / "llama_cpp.py").write_text("raise ImportError('no llama_cpp here')")
    assert cli.main(command(tmp_path, "--gguf", str(fake_llama_cpp), "--only", "typing")) == 0
    page = (tmp_path / "docs" / "page.md").read_text(encoding="utf-8")
    assert "no llama_cpp here" in page and "--peer" in page
    assert "> Not measured: quality." in page and "## From key to suggestion" in page
    assert "beside llama-cpp-python" not in page and "beside one-at-a-time decoding" in page


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ((), "--data"),
        (("--only", "typing", "--gguf", "nowhere.gguf"), "nowhere.gguf"),
        (("--only", "typing", "--out", "nowhere/page.md"), "--out"),
        (("--limit", "0"), "at least 1"),
        (("--only", "everything"), "everything"),
    ],
)
def test_bad_arguments_are_one_line(
    tmp_path: Path, more: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(command(tmp_path, *more)) == 2
    error = capsys.readouterr().err
    assert said in error and len(error.splitlines()) == 1


def test_a_part_is_kept_under_its_options_and_what_is_no_part_is_refused(tmp_path: Path) -> None:
    kept = Kept(tmp_path / "kept")
    assert kept.part("typing", {"keys": 1}, lambda: [1], lambda: "here") == ([1], "here")
    assert Kept(tmp_path / "kept").part("typing", {"keys": 1}, lambda: [2], lambda: "there") == ([1], "here")
    assert kept.part("typing", {"keys": 2}, lambda: [3], lambda: "there") == ([3], "there")
    (tmp_path / "kept" / "typing.json").write_text("[]")
    with pytest.raises(UsageError, match="--resume"):
        kept.part("typing", {"keys": 2}, lambda: [4], lambda: "there")
    assert Kept(None).part("typing", {}, lambda: [5], lambda: "here") == ([5], "here")
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="another folder"):
        Kept(tmp_path / "file")
