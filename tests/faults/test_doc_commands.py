"""Every shell command in the documentation is run, or stands in a table with the reason why not."""

import re
import subprocess

import pytest

from tests.faults.doc_commands import NOT_HERE, PROGRAMS, Shown, commands, folder_of, pages
from tests.lsp.editor import ROOT, server_env

FAST = ("--help", "--version", "model list", "model path")
ALL = commands()
RUN = [shown for shown in ALL if not shown.not_here]


def is_fast(shown: Shown) -> bool:
    return any(part in shown.command for part in FAST)


def test_commands_are_found_and_every_reason_is_needed() -> None:
    assert len(ALL) > 5
    names = {shown.words[0] for shown in ALL}
    assert {"make", "mercury-lsp"} <= names <= set(PROGRAMS)
    unused = [p for p in NOT_HERE if not any(re.fullmatch(p, " ".join(shown.words)) for shown in ALL)]
    assert len(unused) < len(NOT_HERE)


def test_make_has_every_target_that_is_shown() -> None:
    targets = set(re.findall(r"^([a-z][\w-]*):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    shown = {word for s in ALL if s.words[0] == "make" for word in s.words[1:] if re.fullmatch(r"[a-z][\w-]*", word)}
    inline = {name for page in pages() for name in re.findall(r"`make ([a-z][\w-]*)", page.read_text("utf-8"))}
    assert shown and inline
    assert shown | inline <= targets


@pytest.mark.parametrize("shown", [s for s in ALL if s.words[0] == "mercury-lsp"], ids=lambda s: s.command[:60])
def test_the_options_of_every_command_exist(shown: Shown) -> None:
    """Also of those that cannot be run: the parser says what it takes."""
    from mercury_lsp.cli import COMMANDS

    words = shown.words[1:]
    if not words or words[0].startswith("-") or "/" in shown.command.split()[1]:
        return
    assert words[0] in COMMANDS, shown
    kind = [w for w in words[1:2] if not w.startswith("-") and words[0] in ("model", "eval", "bench") and w.islower()]
    run = [str(folder_of("mercury-lsp")), words[0], *kind, "--help"]
    text = subprocess.run(run, capture_output=True, text=True, cwd=ROOT, env=server_env(), timeout=120).stdout
    for option in (word.split("=")[0] for word in words[1:] if word.startswith("--")):
        assert option in text, f"{shown.page}: {option}"


@pytest.mark.slow
@pytest.mark.real
@pytest.mark.timeout(900)
@pytest.mark.parametrize("shown", RUN, ids=lambda s: s.command[:60])
def test_a_command_that_is_shown_works(shown: Shown) -> None:
    program, *rest = shown.words
    done = subprocess.run(
        [str(folder_of(program)), *rest], capture_output=True, text=True, cwd=ROOT, env=server_env(), timeout=800
    )
    assert done.returncode == 0, done.stderr[-2000:]
