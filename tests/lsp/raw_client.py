"""A client that sends what it is told, right or wrong, and keeps every answer: for servers that are treated badly.

It knows the framing of messages and nothing about their meaning, but for the questions that a server asks: those
about settings it answers with `configuration`, all others with null.
"""

import contextlib
import json
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.lsp.editor import ROOT, SECONDS, SERVER, initialize_params, server_env


class ServerDiedError(AssertionError):
    """The process ended, or does not answer any more."""


class RefusedError(Exception):
    """An error instead of an answer; code: as the server sent it."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def frame(message: dict[str, Any]) -> bytes:
    return framed(json.dumps({"jsonrpc": "2.0", **message}).encode())


def framed(body: bytes) -> bytes:
    return b"Content-Length: %d\r\n\r\n%s" % (len(body), body)


def hello(process_id: int | None, client: str = "neovim_0.12", **changes: Any) -> bytes:
    """`initialize` with the id 1 and `initialized`; changes: other parameters, as on the wire."""
    from pygls.protocol import default_converter

    encodings = changes.pop("encodings", None)
    params = default_converter().unstructure(initialize_params(client, encodings=encodings))
    params["processId"] = process_id
    initialize = frame({"id": 1, "method": "initialize", "params": {**params, **changes}})
    return initialize + frame({"method": "initialized", "params": {}})


class RawClient:
    """A server process with both ends of its conversation. log: the file that its stderr goes to.
    journal: what was written last.
    answers: whole messages by id. twice: pairs of answers to one of `request`.
    notes: notifications of the server, oldest first.
    """

    def __init__(self, log: Path, command: Sequence[str] = SERVER, **variables: str) -> None:
        self.log = log
        self.configuration: Any = None
        self.answers: dict[Any, dict[str, Any]] = {}
        self.notes: list[dict[str, Any]] = []
        self.twice: list[tuple[dict[str, Any], dict[str, Any]]] = []
        self.journal: deque[bytes] = deque(maxlen=80)
        self._next, self._logged, self._ended = 1, 0, False
        self._changed, self._writing = threading.Condition(), threading.Lock()
        with log.open("wb") as stderr:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env=server_env(**variables),
                cwd=ROOT,
            )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def write(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.journal.append(data[:400])
        try:
            with self._writing:
                self.process.stdin.write(data)
                self.process.stdin.flush()
        except OSError as error:
            raise ServerDiedError(f"the server is gone: {error}") from None

    def notify(self, method: str, params: Any = None) -> None:
        self.write(frame({"method": method, "params": params}))

    def request(self, method: str, params: Any = None) -> int:
        """Sends it; the id under which the answer will be kept."""
        self._next += 1
        self.write(frame({"id": self._next, "method": method, "params": params}))
        return self._next

    def call(self, method: str, params: Any = None) -> Any:
        """The result. RefusedError for an error, ServerDiedError if there is no answer."""
        return self.result(self.request(method, params))

    def result(self, message_id: Any) -> Any:
        self.until(lambda: message_id in self.answers, f"no answer to {message_id}")
        with self._changed:
            answer = self.answers.pop(message_id)
        if "error" in answer:
            raise RefusedError(answer["error"]["code"], answer["error"]["message"])
        return answer["result"]

    def until(self, condition: Callable[[], bool], what: str) -> None:
        with self._changed:
            there = self._changed.wait_for(lambda: condition() or self._ended, SECONDS)
            if not condition():
                raise ServerDiedError(f"{what}: the server " + ("has ended" if there else "hangs"))

    def greet(self, client: str = "neovim_0.12", **changes: Any) -> dict[str, Any]:
        """initialize and initialized; the capabilities."""
        self.write(hello(None, client, **changes))
        return self.result(1)["capabilities"]

    def leave(self) -> int:
        """Says goodbye; the exit status."""
        self.call("shutdown")
        self.notify("exit")
        status = self.process.wait(SECONDS)
        self.close()
        return status

    def faults(self) -> list[str]:
        """What the log, since the last call, tells of faults of ours: failed handlers, and runs that failed."""
        text = self.log.read_bytes()[self._logged :]
        self._logged += len(text)
        lines = text.decode("utf-8", "replace").splitlines()
        ours = [n for n, line in enumerate(lines) if " mercury_lsp." in line and " failed" in line]
        return ["\n".join(lines[n : n + 40]) for n in ours]

    def sent(self, message_id: Any) -> bool:
        """Whether an id is one of `request`'s."""
        return type(message_id) is int and 1 < message_id <= self._next

    def close(self) -> None:
        """Whatever state it is in."""
        self.process.kill()
        self.process.wait(SECONDS)
        self._reader.join(SECONDS)
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            with contextlib.suppress(OSError):  # what was not written any more
                pipe.close()

    def _read(self) -> None:
        stream = self.process.stdout
        assert stream is not None
        while header := stream.readline():
            length = int(header.split(b":")[1])
            while stream.readline().strip():
                pass
            message = json.loads(stream.read(length))
            if "method" in message and "id" in message:
                self._answer(message)
                continue
            with self._changed:
                if "method" in message:
                    self.notes.append(message)
                else:
                    said = message.get("id")  # an answer to nobody has none
                    key = said if isinstance(said, int | str) else json.dumps(said)
                    if self.sent(key) and key in self.answers:
                        self.twice.append((self.answers[key], message))
                    self.answers[key] = message
                self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def _answer(self, question: dict[str, Any]) -> None:
        result = None
        if question["method"] == "workspace/configuration":
            result = [self.configuration for _ in question["params"]["items"]]
        elif question["method"] == "workspace/applyEdit":
            result = {"applied": False}
        with contextlib.suppress(ServerDiedError):  # it is going
            self.write(frame({"id": question["id"], "result": result}))
