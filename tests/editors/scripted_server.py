"""The real server over a model that writes what the first line of the file, a comment, stands for.

For editors that cannot be told to send requests of the tests: `python -m tests.editors.scripted_server`.
"""

import os
import re
import sys

from mercury_lsp.cli.serve import configure_logging
from mercury_lsp.engine import Report
from mercury_lsp.server import build_server, serve_stdio
from mercury_lsp.settings import Settings
from mercury_model.draft import Infiller, Request
from tests.fakes import FakeInfiller

ANSWERS = {
    "ghost": "6 * 7",
    "word": "first + second",
    "fix": ":",
    "rewrite": "    return sum(values) / len(values)\n",
}
OTHERWISE = "1 + 2"


def answer(request: Request) -> str:
    """By the name in the file's first line."""
    name = re.match(r"\W*(\w+)", request.prefix + request.suffix)
    return ANSWERS.get(name[1] if name else "", OTHERWISE)


def load(_: Settings, report: Report) -> Infiller:
    report("reading the weights", 0.5)
    return FakeInfiller(answer, delay=float(os.environ.get("FAKE_DELAY", "0.05")), per_step=2)


if __name__ == "__main__":
    configure_logging("info")
    sys.exit(serve_stdio(build_server(load)))
