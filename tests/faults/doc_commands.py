"""The shell commands that the documentation shows: read out of its fenced blocks, and run by tests.

It knows nothing about what the commands do; NOT_HERE says which cannot be run by a test, and why.
"""

import re
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.lsp.editor import ROOT

PAGES = ("README.md", "CONTRIBUTING.md", "docs/*.md", "editors/*.md")
_BLOCK = re.compile(r"^```(?:sh|bash|shell|console)?[ \t]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
PROGRAMS = ("mercury-lsp", "make", "python", "pip")

NOT_HERE = {
    r"make [\w-]+": "installs, or is what runs this test",
    r"pip (install|download) .*": "installs",
    r"mercury-lsp api( .*)?": "serves until it is stopped; tests/api has it",
    r"mercury-lsp( serve.*)?": "serves until it is stopped; tests/lsp has it",
    r"mercury-lsp model pull.*": "fetches half a gigabyte; tests/model/test_store.py has it",
    r"mercury-lsp (eval|bench) .*": "takes minutes; tests/lsp/test_evaluation.py and test_bench.py have them",
    r"mercury-lsp .*\b(FILE|LINE:COL|A-B|TEXT)\b.*": "stands for what the reader puts in",
    r"python (-m )?(tests|model|kernels|editors)[./].*": "measures for minutes",
}
"""Patterns of whole commands."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A command and the page it stands on."""

    page: str
    command: str

    @property
    def words(self) -> list[str]:
        return shlex.split(self.command, comments=True)

    @property
    def not_here(self) -> str:
        """Why it cannot be run; empty if it can."""
        whole = " ".join(self.words)
        return next((why for pattern, why in NOT_HERE.items() if re.fullmatch(pattern, whole)), "")


def pages() -> list[Path]:
    return sorted({path for pattern in PAGES for path in ROOT.glob(pattern)})


def commands() -> list[Shown]:
    """All of them, in the order of the pages. In a block that shows a dialogue only what follows `$ ` is one."""
    found: list[Shown] = []
    for page in pages():
        for block in _BLOCK.findall(page.read_text("utf-8")):
            lines = block.replace("\\\n", " ").splitlines()
            asked = [line[2:] for line in lines if line.startswith("$ ")]
            for line in asked or lines:
                name = page.relative_to(ROOT).as_posix()
                found += [Shown(name, line.strip())] if line.split()[:1] in [[program] for program in PROGRAMS] else []
    return found


def folder_of(program: str) -> Path:
    """Where the program of this environment lies."""
    return Path(sys.executable).with_name(program)
