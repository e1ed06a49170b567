"""The real server over a model that writes what the first line of the file, a comment, stands for.

For editors that cannot be told to send requests of the tests: `python -m tests.editors.scripted_server`. Environment:
FAKE_DELAY (seconds a pass takes), FAKE_LOG (a file that gets a line of JSON for each message, with `sent` if it is the
server's, and for each run of the model).
"""

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

from pygls.protocol import default_converter

from mercury_lsp.cli.serve import configure_logging
from mercury_lsp.engine import Report
from mercury_lsp.features.working import plain
from mercury_lsp.server import MercuryServer, build_server, serve_stdio
from mercury_lsp.settings import Settings
from mercury_model.draft import Infiller, Request
from tests.fakes import FakeInfiller

ANSWERS = {
    "ghost": "6 * 7",
    "word": "first + second",
    "fix": ":",
    "menu": "alphabet + 1",
    "next": "",
    "rewrite": "    return sum(values) / len(values)\n",
}
OTHERWISE = "1 + 2"
LATE = {"late": "6 * 7"}
"""Not as ghost text, as a next edit only."""
FIELDS = ("id", "method", "params", "result", "error")


def log(what: dict[str, Any]) -> None:
    """A line of FAKE_LOG, if there is one."""
    if "FAKE_LOG" in os.environ:
        with Path(os.environ["FAKE_LOG"]).open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(what, default=default_converter().unstructure) + "\n")


def answer(request: Request) -> str:
    """By the name in the file's first line. A run is a line of the log too."""
    log({"run": request.prefix[-20:]})
    name = re.match(r"\W*(\w+)", request.prefix + request.suffix)
    what = name[1] if name else ""
    if what in LATE:
        return LATE[what] if request.document.endswith("#next") else ""
    return ANSWERS.get(what, OTHERWISE)


def load(_: Settings, report: Report) -> Infiller:
    report("reading the weights", 0.5)
    return FakeInfiller(answer, delay=float(os.environ.get("FAKE_DELAY", "0.05")), per_step=2)


def record(server: MercuryServer) -> None:
    """Has each message logged: what the editor sends before it is handled, what it is sent before it leaves."""
    protocol = server.protocol
    handle, send = protocol.handle_message, protocol._send_data  # no hook of pygls sees both directions

    def fields(message: Any) -> dict[str, Any]:
        if isinstance(message, dict):
            return message
        return {name: plain(getattr(message, name)) for name in FIELDS if hasattr(message, name)}

    def handled(message: Any) -> None:
        log(fields(message))
        handle(message)

    def sent(message: Any) -> None:
        log(fields(message) | {"sent": True})
        send(message)

    protocol.handle_message, protocol._send_data = handled, sent


def main() -> int:
    configure_logging("info")
    server = build_server(load)
    record(server)
    return serve_stdio(server)


if __name__ == "__main__":
    sys.exit(main())
