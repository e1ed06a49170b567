"""A peer as an Infiller: llama-cpp-python in a process of an interpreter that has it.

One token is asked for at a time (a line there and back costs some 0.1 ms), so that the same rule ends the peer's
middles and ours, and stopping to iterate stops it. What is asked of llama.cpp is in llama_cpp_child.py; this module
knows nothing about what is measured with it.
"""

import contextlib
import json
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from mercury_lsp.errors import FailureError
from mercury_model.draft import Draft, ModelInfo, Request

CHILD = Path(__file__).with_name("llama_cpp_child.py")
STOP_SECONDS = 20.0


class LlamaCpp:
    """The peer, greedy. Starting it loads the model; FailureError with the reason where it cannot be had.

    policy and effort of a Request mean nothing to it, nor does its judge. A request's document keeps its cache while
    the requests that follow are of the same document.
    """

    def __init__(self, python: str, gguf: Path, *, threads: int, n_ctx: int = 4096) -> None:
        self._errors = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115 (closed by close)
        self._counts: dict[str, int] = {}
        # -P: this folder is not a place to import from
        command = [python, "-P", str(CHILD), str(gguf), str(threads), str(n_ctx)]
        try:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, encoding="utf-8"
            )
        except OSError as error:
            self._errors.close()
            raise FailureError(f"the interpreter of the peer cannot be started: {error.strerror}") from error
        try:
            hello = self._read()
        except FailureError:
            self.close()
            raise
        self.version = str(hello["version"])
        self.load_seconds = float(hello["load"])
        self.info = ModelInfo(
            name=f"llama-cpp-python {self.version} with {gguf.name}",
            device="cpu",
            kind="peer",
            context_tokens=n_ctx,
            policy="greedy",
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def count_tokens(self, text: str, /) -> int:
        if text not in self._counts:
            self._counts[text] = int(self._ask("count", text=text)["n"])
        return self._counts[text]

    def passes(self, text: str) -> dict[str, float]:
        """What its passes over `text` (460 tokens or more) cost, by name."""
        return self._ask("passes", text=text)

    def __call__(self, request: Request, /) -> Iterator[Draft]:
        at = request.prefix.rfind("\n") + 1
        found = self._ask(
            "begin",
            document=request.document,
            before=request.prefix[:at],
            line=request.prefix[at:],
            suffix=request.suffix,
        )
        prefilled, text, n_chosen, ended = int(found["prefilled"]), "", 0, ""
        while not ended:
            n_chosen += 1
            text += found["text"]
            if found["end"]:
                ended = "end"
            elif request.end is not None and (keep := request.end(text)) is not None:
                text, ended = text[:keep], "rule"
            elif n_chosen >= request.max_tokens:
                ended = "length"
            yield Draft(
                text=text,
                settled=len(text),
                confidence=1.0,
                n_tokens=n_chosen - int(ended == "end"),
                # as with ours: a pass that reads the prompt says the first token, and is counted as reading
                forwards=float(n_chosen - int(prefilled > 0)),
                prefilled=prefilled,
                done=bool(ended),
                ended=ended,
            )
            if not ended:
                found = self._ask("next")

    def close(self) -> None:
        """Ends the process."""
        assert self._process.stdin is not None and self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):  # what it did not read before it ended
            self._process.stdin.close()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._errors.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close()

    def _ask(self, op: str, **order: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it has ended: reading says why
            self._process.stdin.write(json.dumps({"op": op, **order}) + "\n")
            self._process.stdin.flush()
        return self._read()

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if line:
            return json.loads(line)
        self._process.wait()
        self._errors.seek(0)
        said = self._errors.read().strip().splitlines() or [f"it ended with status {self._process.returncode}"]
        raise FailureError(f"no llama-cpp-python: {said[-1]}")
