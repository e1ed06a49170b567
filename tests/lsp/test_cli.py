"""The command line: which command runs, how it ends, what complete prints, what doctor finds."""

import argparse
import dataclasses
import hashlib
import importlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from mercury_lsp import __version__, cli, loading
from mercury_lsp.cli import canvas_view, complete, doctor
from mercury_lsp.cli.progress import progress
from mercury_lsp.errors import FailureError, UsageError
from mercury_lsp.region import Budget, completion_region
from mercury_lsp.text import Document
from mercury_model import store
from mercury_model.draft import MASK_GLYPH, Draft, Request, Slot
from mercury_model.errors import CheckpointError, FetchError, RequestError
from mercury_model.fetch import Published
from tests.fakes import FakeInfiller
from tests.model import tiny_gguf

Main = Callable[..., tuple[int, str, str]]


@pytest.fixture
def main(capsys: pytest.CaptureFixture[str]) -> Main:
    """Runs the command line: (exit status, stdout, stderr)."""

    def run(*arguments: str) -> tuple[int, str, str]:
        status = cli.main(arguments)
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return run


def process(*arguments: str, code: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code] if code else [sys.executable, "-m", "mercury_lsp", *arguments]
    environ = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(command, capture_output=True, text=True, env=environ, timeout=120, check=False)


# --- the frame -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_every_command_has_a_module_that_can_run_and_says_what_it_does(name: str, main: Main) -> None:
    module = importlib.import_module(cli.COMMANDS[name][0])
    assert callable(module.run) and callable(module.add_arguments)
    status, out, _ = main(name, "--help")
    assert status == 0 and f"usage: mercury-lsp {name}" in out and module.__doc__.split(".")[0].split(":")[0] in out


def test_help_lists_every_command(main: Main) -> None:
    for form in (("--help",), ("-h",), ("help",)):
        status, out, _ = main(*form)
        assert status == 0
        for name, (_, text) in cli.COMMANDS.items():
            assert f"  {name} " in out and text in out
        assert max(map(len, out.splitlines())) <= 80


def test_version_is_the_packages(main: Main) -> None:
    assert main("--version") == (0, f"mercury-lsp {__version__}\n", "")


def test_help_and_version_import_no_heavy_module() -> None:
    code = (
        "import sys; from mercury_lsp.cli import main; main(['--help']); main(['--version'])\n"
        "print([m for m in ('torch', 'transformers', 'numpy', 'pygls', 'rich', 'tokenizers') if m in sys.modules])"
    )
    done = process(code=code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "[]"


def test_looking_for_weights_and_reading_a_file_imports_no_torch() -> None:
    code = (
        "import sys; from mercury_lsp.cli import main\n"
        "main(['model', 'list']); main(['complete', 'nope', '--at', '1:1'])\n"
        "print([m for m in ('torch', 'transformers', 'pygls') if m in sys.modules])"
    )
    done = process(code=code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> list[argparse.Namespace]:
    """`serve` replaced by a command that records its arguments."""
    seen: list[argparse.Namespace] = []

    def add_arguments(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--stdio", action="store_true")
        parser.add_argument("--tcp")

    def run(args: argparse.Namespace) -> int:
        seen.append(args)
        return 0

    module = SimpleNamespace(__doc__="Fake.", add_arguments=add_arguments, run=run)
    monkeypatch.setitem(sys.modules, "fake_command", module)  # type: ignore[arg-type]
    monkeypatch.setitem(cli.COMMANDS, "serve", ("fake_command", "fake"))
    return seen


@pytest.mark.parametrize(
    ("arguments", "stdio", "tcp"),
    [
        ((), True, None),
        (("serve", "--stdio"), True, None),
        (("--stdio",), True, None),  # how many editors start any server
        (("--tcp", "127.0.0.1:1"), False, "127.0.0.1:1"),
    ],
)
def test_without_a_command_it_serves(
    arguments: tuple[str, ...], stdio: bool, tcp: str | None, main: Main, command: list[argparse.Namespace]
) -> None:
    assert main(*arguments)[0] == 0
    assert [(args.stdio, args.tcp) for args in command] == [(stdio, tcp)]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("modle",), "did you mean model?"),
        (("xyzzy",), "complete"),
        (("model",), "required"),
        (("model", "fly"), "invalid choice"),
        (("complete", "x.py"), "--at"),
        (("complete", "x.py", "--at", "1:1", "--effort", "heroic"), "heroic"),
        (("complete", "x.py", "--at", "1:1", "--max-tokens", "0"), "at least 1"),
        (("doctor", "--nonsense"), "--nonsense"),
    ],
)
def test_bad_arguments_are_one_line_and_status_2(arguments: tuple[str, ...], says: str, main: Main) -> None:
    status, out, err = main(*arguments)
    assert (status, out) == (2, "") and says in err
    assert err.count("\n") == 1 and err.startswith("mercury-lsp")


@pytest.mark.parametrize(
    ("error", "status", "says"),
    [
        (UsageError("no such file"), 2, "no such file"),
        (FailureError("port\nin use"), 1, "port in use"),
        (FetchError("disk full"), 1, "disk full"),
        (CheckpointError("corrupt"), 1, "corrupt"),
        (RequestError("unknown policy"), 2, "unknown policy"),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
)
def test_errors_are_one_line_and_a_status(
    error: BaseException, status: int, says: str, main: Main, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(args: argparse.Namespace) -> int:
        raise error

    module = SimpleNamespace(__doc__="", add_arguments=lambda parser: None, run=run)
    monkeypatch.setitem(sys.modules, "fake_command", module)  # type: ignore[arg-type]
    monkeypatch.setitem(cli.COMMANDS, "serve", ("fake_command", "fake"))
    assert main("serve") == (status, "", f"mercury-lsp: {says}\n")


def test_a_bug_is_not_hidden(main: Main, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(args: argparse.Namespace) -> int:
        raise ZeroDivisionError

    module = SimpleNamespace(__doc__="", add_arguments=lambda parser: None, run=run)
    monkeypatch.setitem(sys.modules, "fake_command", module)  # type: ignore[arg-type]
    monkeypatch.setitem(cli.COMMANDS, "serve", ("fake_command", "fake"))
    with pytest.raises(ZeroDivisionError):
        main("serve")


def test_a_closed_pipe_is_one_line() -> None:
    read, write = os.pipe()
    os.close(read)
    environ = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with os.fdopen(write, "wb") as closed:
        done = subprocess.run(
            [sys.executable, "-m", "mercury_lsp", "--help"],
            stdout=closed,
            stderr=subprocess.PIPE,
            env=environ,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 1 and done.stderr.count("\n") == 1 and "closed" in done.stderr


# --- model ---------------------------------------------------------------------------------------------------


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The default model is a tiny one that lies as a local copy; the cache is empty. Gives its folder."""
    copy = tiny_gguf.write_gguf(tmp_path / "tiny.gguf", tiny_gguf.tensors())
    data = copy.read_bytes()
    row = Published("tiny.gguf", len(data), hashlib.sha256(data).hexdigest(), "", ())
    monkeypatch.setattr(store, "MODELS", {store.DEFAULT: row})
    monkeypatch.setenv("MERCURY_LSP_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("MERCURY_LSP_GGUF", str(copy))
    return tmp_path / "cache" / store.DEFAULT


def test_pull_path_list_and_verify_agree(tiny: Path, main: Main) -> None:
    status, out, err = main("model", "path", "--dtype", "int8")
    assert (status, out) == (1, "") and "mercury-lsp model pull" in err and err.count("\n") == 1
    assert "not there yet" in main("model", "list")[1]
    status, out, err = main("model", "pull", "--dtype", "int8")
    assert (status, out) == (0, "") and "converting to int8" in err and "is ready" in err
    assert main("model", "path", "--dtype", "int8") == (0, f"{tiny / 'int8.safetensors'}\n", "")
    assert "ready: int8" in main("model", "list")[1]
    status, out, _ = main("model", "verify")
    assert status == 0 and out.count("ok ") == 2 and "BAD" not in out


def test_pull_quiet_says_nothing(tiny: Path, main: Main) -> None:
    assert main("model", "pull", "--quiet", "--dtype", "int8") == (0, "", "")


def test_verify_names_the_damaged_file_and_both_hashes(tiny: Path, main: Main) -> None:
    main("model", "pull", "--dtype", "int8")
    file = tiny / "int8.safetensors"
    good = hashlib.sha256(file.read_bytes()).hexdigest()
    file.write_bytes(file.read_bytes() + b"!")
    bad = hashlib.sha256(file.read_bytes()).hexdigest()
    status, out, err = main("model", "verify")
    assert status == 1 and f"BAD  {bad}  {file}" in out
    assert good in err.splitlines()[-1] and bad in err.splitlines()[-1] and "model pull" in err


def test_verify_without_weights_fails(tiny: Path, main: Main) -> None:
    status, _, err = main("model", "verify")
    assert status == 1 and "model pull" in err


@pytest.mark.parametrize("action", ["pull", "path", "verify"])
def test_an_unknown_model_is_bad_input(action: str, tiny: Path, main: Main) -> None:
    status, _, err = main("model", action, "gpt")
    assert status == 2 and store.DEFAULT in err


def test_progress_prints_a_stage_once_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with progress() as report:
        for fraction in (0.0, 0.5, 1.0):
            report("fetching", fraction)
        report("converting", 0.0)
    assert capsys.readouterr() == ("", "fetching\nconverting\n")


# --- complete ------------------------------------------------------------------------------------------------

SOURCE = "def total(items):\n    s = 0\n    for item in items:\n        \n    return s\n"
MIDDLE = "s += item.price"


@pytest.fixture
def infiller(monkeypatch: pytest.MonkeyPatch) -> FakeInfiller:
    fake = FakeInfiller(MIDDLE)
    monkeypatch.setattr(loading, "load_infiller", lambda settings, report: fake)
    return fake


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "total.py"
    path.write_text(SOURCE)
    return path


def test_complete_prints_the_text_and_leaves_the_file_alone(main: Main, infiller: FakeInfiller, file: Path) -> None:
    assert main("complete", str(file), "--at", "4:9") == (0, MIDDLE + "\n", "")
    assert file.read_text() == SOURCE
    request = infiller.requests[0]
    assert request.prefix.endswith("items:\n        ") and request.suffix.startswith("\n    return s")


def test_complete_json_has_exactly_the_promised_fields(main: Main, infiller: FakeInfiller, file: Path) -> None:
    options = ("--policy", "threshold", "--effort", "low", "--max-tokens", "9", "--json")
    status, out, err = main("complete", str(file), "--at", "4:9", *options)
    assert (status, err, out.count("\n")) == (0, "", 1)
    answer = json.loads(out)
    ms = answer.pop("ms")
    assert set(ms) == {"load", "prefill", "decode", "total"} and ms["total"] >= ms["load"] >= 0
    place = {"line": 4, "column": 9}
    assert answer == {
        "text": MIDDLE,
        "range": {"start": place, "end": place},
        "language": "python",
        "model": "fake",
        "policy": "threshold",
        "effort": "low",
        "valid": True,
        "confidence": 1.0,
        "tokens": 8,
        "forwards": 2.0,
        "steps": ["s +=", MIDDLE],
    }
    request = infiller.requests[0]
    assert (request.policy, request.effort, request.max_tokens) == ("threshold", "low", 9)


@pytest.mark.parametrize(
    ("source", "at", "offset"),
    [
        ("a\r\nb = (\r\n", "2:6", 8),
        ("x = '😀'; y = \n", "1:14", 13),
        ("a\x0cb\u2028c\nd = \n", "2:5", 10),  # neither a form feed nor U+2028 ends a line
        ("x = ", "1:5", 4),
        ("", "1:1", 0),
        ("x\n", "2:1", 2),
    ],
)
def test_positions_count_characters_from_1(
    source: str, at: str, offset: int, main: Main, infiller: FakeInfiller, tmp_path: Path
) -> None:
    path = tmp_path / "x.py"
    path.write_bytes(source.encode())
    document = complete.read_document(path)
    assert complete.offset_at(document, at, path) == offset
    line, column = map(int, at.split(":"))
    assert complete.position(document, offset) == {"line": line, "column": column}
    status, out, _ = main("complete", str(path), "--at", at, "--json")
    assert status == 0 and json.loads(out)["range"]["start"] == {"line": line, "column": column}


@pytest.mark.parametrize(
    ("at", "says"),
    [
        ("9:1", "lines 1 to 6"),
        ("0:1", "lines 1 to 6"),
        ("1:99", "columns 1 to 18"),
        ("1:0", "columns 1 to 18"),
        ("4", "LINE:COL"),
        ("a:b", "LINE:COL"),
        ("1:1:1", "LINE:COL"),
        ("-1:1", "LINE:COL"),
        ("٣:1", "LINE:COL"),
        ("9" * 30 + ":1", "LINE:COL"),
    ],
)
def test_a_place_that_is_not_in_the_file_is_bad_input(
    at: str, says: str, main: Main, infiller: FakeInfiller, file: Path
) -> None:
    status, out, err = main("complete", str(file), f"--at={at}")
    assert (status, out, err.count("\n")) == (2, "", 1) and says in err
    assert not infiller.requests


@pytest.mark.parametrize("kind", ["absent", "folder", "binary"])
def test_a_file_that_is_no_text_is_bad_input(kind: str, main: Main, infiller: FakeInfiller, tmp_path: Path) -> None:
    path = tmp_path / "x.py"
    if kind == "folder":
        path.mkdir()
    elif kind == "binary":
        path.write_bytes(b"\xff\xfe\x00")
    status, out, err = main("complete", str(path), "--at", "1:1")
    assert (status, out, err.count("\n")) == (2, "", 1) and str(path) in err


@pytest.mark.parametrize(("error", "status"), [(RequestError("unknown policy 'x'"), 2), (FetchError("no network"), 1)])
def test_what_the_model_refuses_is_one_line(
    error: Exception, status: int, main: Main, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(settings: object, report: object) -> FakeInfiller:
        raise error

    monkeypatch.setattr(loading, "load_infiller", refuse)
    assert main("complete", str(file), "--at", "4:9", "--json") == (status, "", f"mercury-lsp: {error}\n")


def test_an_unknown_policy_is_told_before_the_model_is_loaded(
    main: Main, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(settings: object, report: object) -> FakeInfiller:
        raise AssertionError("the model was loaded")

    monkeypatch.setattr(loading, "load_infiller", never)
    status, out, err = main("complete", str(file), "--at", "4:9", "--policy", "sorcery")
    assert (status, out, err.count("\n")) == (2, "", 1) and "sorcery" in err and "threshold" in err


@pytest.mark.parametrize("flags", [(), ("--watch",)])
def test_nothing_to_offer_is_said_and_is_no_failure(
    flags: tuple[str, ...], main: Main, infiller: FakeInfiller, file: Path
) -> None:
    inside_a_word = main("complete", str(file), "--at", "1:6", *flags)
    assert inside_a_word == (0, "", "mercury-lsp: nothing to offer at this position\n") and not infiller.requests
    infiller.script = ")))"
    status, _, err = main("complete", str(file), "--at", "4:9", *flags)
    assert status == 0 and err == "mercury-lsp: nothing to offer at this position\n"


def test_nothing_to_offer_in_json_has_the_same_fields(main: Main, infiller: FakeInfiller, file: Path) -> None:
    status, out, _ = main("complete", str(file), "--at", "1:6", "--json")
    answer = json.loads(out)
    assert status == 0 and (answer["text"], answer["valid"], answer["steps"]) == ("", None, [])
    assert answer["range"]["start"] == answer["range"]["end"] == {"line": 1, "column": 6}
    assert set(answer["ms"]) == {"load", "prefill", "decode", "total"}


def test_the_range_is_what_the_text_replaces(main: Main, infiller: FakeInfiller, tmp_path: Path) -> None:
    path = tmp_path / "x.py"
    path.write_text("value = max()\nprint(value)\n")
    infiller.script = "[1, 2])"
    answer = json.loads(main("complete", str(path), "--at", "1:13", "--json")[1])
    start, end = answer["range"]["start"], answer["range"]["end"]
    line = "value = max()"
    assert start["line"] == end["line"] == 1
    assert line[: start["column"] - 1] + answer["text"] + line[end["column"] - 1 :] == "value = max([1, 2])"


# --- watching ------------------------------------------------------------------------------------------------


def test_watch_outside_a_terminal_prints_a_line_per_pass_and_the_completed_lines(
    main: Main, infiller: FakeInfiller, file: Path
) -> None:
    status, out, err = main("complete", str(file), "--at", "4:9", "--watch")
    lines = out.splitlines()
    assert (status, err) == (0, "")
    assert lines[0] == f"forward 1: s +={MASK_GLYPH * 4}" and lines[1] == f"forward 2: {MIDDLE}"
    assert lines[2] == f"4 │         {MIDDLE}"
    assert lines[3] == "forward 2 · 8 tokens · 4.0 tokens per forward · ended by the model"
    assert "\x1b" not in out


def test_watch_and_json_keep_the_drawing_out_of_the_object(main: Main, infiller: FakeInfiller, file: Path) -> None:
    status, out, err = main("complete", str(file), "--at", "4:9", "--watch", "--json")
    assert status == 0 and json.loads(out)["text"] == MIDDLE and MASK_GLYPH in err


def region_at(text: str, cursor: int) -> canvas_view.EditRegion:
    document = Document("file:///x.py", None, "python", text)
    region = completion_region(document, cursor, Budget(500, 100), len)
    assert region is not None
    return region


def screen(renderable: object, width: int = 80, *, terminal: bool = False) -> str:
    file = io.StringIO()
    Console(file=file, width=width, force_terminal=terminal, color_system="standard" if terminal else None).print(
        renderable
    )
    return file.getvalue()


SLOTS = (
    Slot("s", "settled", 1.0),
    Slot(" +=", "tentative", 0.6),
    Slot(" 1", "settled", 0.9, revised=True),
    Slot("", "masked", 0.0),
    Slot("", "masked", 0.0),
)
HALF = Draft("s += 1", SLOTS, n_open=2, n_tokens=3, forwards=2.0)


def test_a_frame_shows_the_canvas_between_numbered_lines() -> None:
    rows = screen(canvas_view.frame(region_at(SOURCE, SOURCE.index("        \n") + 8), HALF, 80)).splitlines()
    assert rows[:7] == [
        " 1 │ def total(items):",
        " 2 │     s = 0",
        " 3 │     for item in items:",
        f" 4 ┃         s += 1{MASK_GLYPH * 4}",
        " 5 │     return s",
        " 6 │ ",
        "",
    ]
    assert rows[7] == "forward 2 · 3 tokens · 1.5 tokens per forward · 2 masked"


def test_slots_are_drawn_by_their_state() -> None:
    drawn = screen(canvas_view.frame(region_at(SOURCE, SOURCE.index("        \n") + 8), HALF, 80), terminal=True)
    row = next(line for line in drawn.splitlines() if "┃" in line)
    assert "\x1b[1;32ms\x1b[0m" in row  # settled: bold green
    assert "\x1b[2m +=\x1b[0m" in row  # tentative: dim
    assert "\x1b[30;43m 1\x1b[0m" in row  # revised: marked
    assert f"\x1b[34m{MASK_GLYPH * 2}" in row  # masked: a block


def test_lines_below_move_when_the_middle_has_several() -> None:
    draft = Draft(
        "s += 1\n        s", (Slot("s += 1\n", "settled", 1.0), Slot("        s", "settled", 1.0)), n_tokens=2
    )
    rows = screen(canvas_view.frame(region_at(SOURCE, SOURCE.index("        \n") + 8), draft, 80)).splitlines()
    assert rows[3:6] == [" 4 ┃         s += 1", " 5 ┃         s", " 6 │     return s"]


def test_what_a_token_repeats_of_the_text_before_the_cursor_is_not_drawn_twice() -> None:
    healed = Draft("int(x)", (Slot("print", "settled", 1.0), Slot("(x)", "settled", 1.0), Slot("", "masked", 0.0)))
    assert [slot.text for slot in canvas_view.trimmed(healed)] == ["int", "(x)", ""]
    assert canvas_view.plain(healed) == f"forward 0: int(x){MASK_GLYPH}"


def test_control_characters_do_not_reach_the_terminal() -> None:
    text = "a = '\x1b[31m\x07\x7f'\nb = \n"
    draft = Draft("\x1b]0;x\x07", (Slot("\x1b]0;x\x07", "settled", 1.0),), n_tokens=1)
    drawn = screen(canvas_view.frame(region_at(text, len(text) - 1), draft, 80))
    assert not set(drawn) & {"\x1b", "\x07", "\x7f"} and "\u241b[31m\u2407\u2421" in drawn
    assert "\x1b" not in canvas_view.plain(draft)


UGLY = st.text(alphabet="ab(){}:=# \t\n\r\x0c\x1b你😀é\u0301\u2028", max_size=120)


@settings(max_examples=150, deadline=None)
@given(UGLY, UGLY, st.lists(st.one_of(st.none(), UGLY), max_size=12), st.sampled_from([40, 80]))
def test_any_canvas_fits_the_width(before: str, after: str, middle: list[str | None], width: int) -> None:
    region = completion_region(Document("file:///x.py", 1, "python", before + after), len(before), Budget(99, 99), len)
    if region is None:
        return
    slots = tuple(Slot("", "masked", 0.0) if text is None else Slot(text, "settled", 1.0) for text in middle)
    draft = Draft("".join(slot.text for slot in slots), slots, n_open=middle.count(None), forwards=1.0)
    drawn = screen(canvas_view.frame(region, draft, width), 10_000)
    frame = drawn.split("\n")[:-4] if width == 40 else drawn.split("\n")  # the footer is made for 80 columns
    assert all(canvas_view.Text(line).cell_len <= width for line in frame)
    assert drawn.count(MASK_GLYPH) == 2 * middle.count(None) + 2  # and the legend's
    assert "\x1b" not in drawn and len(canvas_view.plain(draft)) <= 80


def test_watching_in_a_terminal_draws_in_place_and_cleans_up() -> None:
    file = io.StringIO()
    console = Console(file=file, width=80, height=30, force_terminal=True)
    with canvas_view.watching(region_at(SOURCE, SOURCE.index("        \n") + 8), console) as show:
        show(HALF)
        show(dataclasses.replace(HALF, forwards=3.0))
    written = file.getvalue()
    assert "forward 2 " in written and "forward 3 " in written
    assert "\x1b[?25l" in written and written.rindex("\x1b[?25h") > written.rindex("\x1b[?25l")  # the cursor is back
    assert written.rindex("\x1b[2K") > written.rindex("forward 3 ")  # the canvas was wiped


def test_the_result_is_the_file_after_the_edit() -> None:
    source = SOURCE.replace("\n", "\r\n")
    region = region_at(source, source.index("        \r\n") + 8)
    edit = complete.completion_edit(region, "s += 1\n        s += 2")
    assert edit is not None
    assert canvas_view.completed(region, edit) == ["4 │         s += 1", "5 │         s += 2"]
    rows = screen(canvas_view.result(region, edit, HALF, 80)).splitlines()
    assert rows[3:6] == [" 4 ┃         s += 1", " 5 ┃         s += 2", " 6 │     return s"]


# --- doctor --------------------------------------------------------------------------------------------------


def report(main: Main, *flags: str) -> tuple[int, dict[str, dict[str, object]]]:
    status, out, _ = main("doctor", "--json", *flags)
    answer = json.loads(out)
    assert answer["ok"] == (status == 0)
    return status, {check["name"]: check for check in answer["checks"]}


def test_doctor_without_weights_names_the_remedy(tiny: Path, main: Main) -> None:
    status, checks = report(main)
    assert status == 1 and checks["weights"]["status"] == "wrong" and str(tiny) in str(checks["weights"]["value"])
    assert checks["weights"]["remedy"] == "mercury-lsp model pull"
    assert checks["memory"]["status"] == "note"


def test_doctor_with_everything_there_finds_nothing_wrong(tiny: Path, main: Main) -> None:
    main("model", "pull", "--dtype", "int8")
    status, checks = report(main, "--quick")
    assert status == 0, [check for check in checks.values() if check["status"] == "wrong"]
    assert {"python", "package", "torch", "cpu", "cuda", "packages", "grammars", "weights", "disk", "adapter"} <= set(
        checks
    )
    assert "memory" not in checks
    assert checks["weights"]["data"]["ready"] == ["int8"]  # type: ignore[index]
    assert checks["python"]["value"].startswith(".".join(map(str, sys.version_info[:3])))  # type: ignore[attr-defined]
    status, out, err = main("doctor", "--quick")
    assert (status, err) == (0, "") and out.splitlines()[-1] == "nothing is wrong"
    assert all(line.startswith("ok") for line in out.splitlines()[:3])


def test_doctor_counts_and_marks_what_is_wrong(main: Main, monkeypatch: pytest.MonkeyPatch) -> None:
    findings = [doctor.Finding("a", "wrong", "broken", "mend it"), doctor.Finding("b", "note", "so so", "better")]
    monkeypatch.setattr(doctor, "CHECKS", (lambda: findings,))
    status, out, _ = main("doctor", "--quick")
    assert status == 1
    assert " ".join(out.split()) == "!! a broken -> mend it -- b so so -> better 1 wrong: see the lines marked !!"


def test_a_grammar_that_cannot_be_loaded_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from mercury_lsp import languages, syntax

    broken = dataclasses.replace(languages.GRAMMARS["python"], name="cobol", module="tree_sitter_cobol")
    rows = {"cobol": broken, **languages.GRAMMARS}
    monkeypatch.setattr(languages, "GRAMMARS", rows)
    monkeypatch.setattr(syntax, "GRAMMARS", rows)
    (finding,) = doctor.grammars()
    assert finding.status == "wrong" and finding.remedy == "pip install tree-sitter-cobol"


def test_a_torch_that_cannot_be_imported_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    assert [(found.name, found.status) for found in doctor.device()] == [("torch", "wrong")]


def test_a_full_disk_says_how_much_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda path: SimpleNamespace(free=500_000_000))
    found = doctor.room(tmp_path / "not" / "there" / "yet")
    assert found.status == "wrong" and "1.4 GB" in found.remedy and str(tmp_path) in found.value


def test_an_unreadable_adapter_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor.importlib.resources, "files", lambda package: tmp_path)
    assert doctor.adapter()[0].status == "wrong"
    (tmp_path / "adapter.safetensors").write_bytes(b"\0" * 64)
    assert doctor.adapter()[0].status == "wrong"


def child(status: int, out: str = "", err: str = "") -> Callable[..., subprocess.CompletedProcess[str]]:
    return lambda *args, **options: subprocess.CompletedProcess([], status, out, err)


FIGURES = {"rss": 1_200_000_000, "load": 1.5, "request": 0.2, "model": "m", "device": "cpu", "adapter": ""}


@pytest.mark.parametrize(
    ("answer", "status", "says"),
    [
        (child(0, json.dumps(FIGURES) + "\n"), "ok", "1200 MB resident with m on cpu"),
        (child(0, json.dumps(FIGURES | {"rss": 2_000_000_000}) + "\n"), "note", "2000 MB"),
        (child(0, json.dumps(FIGURES | {"rss": 2_000_000_000, "device": "cuda:0"}) + "\n"), "ok", "cuda:0"),
        (child(1, "", "mercury-lsp: adapter is corrupt\n"), "wrong", "adapter is corrupt"),
        (child(-9), "wrong", "-9"),
    ],
)
def test_memory_is_what_a_process_of_its_own_reports(
    answer: Callable[..., object], status: str, says: str, tiny: Path, main: Main, monkeypatch: pytest.MonkeyPatch
) -> None:
    main("model", "pull", "--dtype", "int8")
    monkeypatch.setattr(doctor.subprocess, "run", answer)
    found = doctor.memory()
    assert found.status == status and says in found.value


def test_a_model_that_does_not_load_in_time_is_wrong(tiny: Path, main: Main, monkeypatch: pytest.MonkeyPatch) -> None:
    def late(*args: object, **options: object) -> object:
        raise subprocess.TimeoutExpired("doctor", 1)

    main("model", "pull", "--dtype", "int8")
    monkeypatch.setattr(doctor.subprocess, "run", late)
    assert doctor.memory().status == "wrong"


def test_measuring_runs_a_request_through_the_loaded_model(main: Main, infiller: FakeInfiller) -> None:
    status, out, _ = main("doctor", "--measure")
    figures = json.loads(out)
    assert status == 0 and set(figures) == set(FIGURES) and figures["model"] == "fake"
    assert figures["rss"] > 10_000_000 and len(infiller.requests) == 1


def test_a_model_that_never_finishes_a_request_is_a_failure(main: Main, monkeypatch: pytest.MonkeyPatch) -> None:
    class Silent(FakeInfiller):
        def __call__(self, request: Request, /) -> Iterator[Draft]:
            return iter(())

    monkeypatch.setattr(loading, "load_infiller", lambda settings, report: Silent())
    assert main("doctor", "--measure")[0] == 1


@pytest.mark.real
def test_doctor_measures_the_real_model_below_its_limit() -> None:
    if not store.ready(store.DEFAULT, "int8"):
        pytest.skip("the weights are not there: mercury-lsp model pull")
    done = process("doctor", "--json")
    checks = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    assert done.returncode == 0, done.stdout + done.stderr
    memory = checks["memory"]
    assert memory["data"]["device"] != "cpu" or 5e8 < memory["data"]["rss"] <= doctor.MEMORY_LIMIT, memory
