"""Types traces into a server process as an editor would, key by key in real time, and measures its answers.

It knows nothing about the server but the protocol and the command `mercury.status`, whose answer counts model runs.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from lsprotocol import types
from pygls.lsp.client import LanguageClient

from mercury_lsp.errors import FailureError
from mercury_lsp.evaluation.aggregate import percentile
from mercury_lsp.evaluation.typing_traces import Trace, Typist

ANSWER_SECONDS = 120.0
"""A request that takes longer has hung."""
_QUIET = ("mercury/status", types.WINDOW_SHOW_MESSAGE, types.WINDOW_LOG_MESSAGE)


@dataclass(slots=True)
class Measured:
    """seconds: of every key, from the key to its answer. shown: whether the answer held a suggestion.

    reused: whether no run of the model began between the key and the answer.
    """

    seconds: list[float] = field(default_factory=list[float])
    shown: list[bool] = field(default_factory=list[bool])
    reused: list[bool] = field(default_factory=list[bool])
    taken: int = 0
    runs: int = 0
    model: str = ""

    def figures(self) -> dict[str, Any]:
        """Shares are 0 to 1; answers in which nothing is suggested (overtaken by the next key) count as keys only."""
        suggested = [(s, r) for s, shown, r in zip(self.seconds, self.shown, self.reused, strict=True) if shown]
        n_keys = len(self.seconds)
        return {
            "model": self.model,
            "keys": n_keys,
            "suggestions": len(suggested),
            "taken": self.taken,
            "key_to_answer_ms": milliseconds(self.seconds),
            "key_to_suggestion_ms": milliseconds([s for s, _ in suggested]),
            "answered_without_a_run": sum(r for _, r in suggested) / len(suggested) if suggested else 0.0,
            "runs_per_100_keys": 100 * self.runs / n_keys if n_keys else 0.0,
        }


def milliseconds(seconds: Sequence[float]) -> dict[str, float]:
    """p50, p95 and p99."""
    return {f"p{share}": 1000 * percentile(seconds, share / 100) for share in (50, 95, 99)}


async def replay(
    command: Sequence[str], traces: Iterable[Trace], options: dict[str, Any], speed: float = 1.0
) -> Measured:
    """Types the traces into a new process of `command`, `speed` times as fast as they say.

    Raises FailureError if the server has no model or does not answer.
    """
    measured = Measured()
    async with _server(command, options) as client:
        measured.model = await _loaded(client)
        first = (await _in_time(_status(client)))["runs"]
        for number, trace in enumerate(traces):
            await _Screen(client, trace, f"file:///typing/{number}/{trace.name}", measured).type(speed)
        measured.runs = (await _in_time(_status(client)))["runs"] - first
    return measured


class _Screen:
    """One buffer with its cursor; what is suggested for the state it is in."""

    def __init__(self, client: LanguageClient, trace: Trace, uri: str, measured: Measured) -> None:
        self._client, self._trace, self._uri, self._measured = client, trace, uri, measured
        self._before, self._version, self._shown = trace.before, 1, ""
        self._counted = 0

    async def type(self, speed: float) -> None:
        item = types.TextDocumentItem(self._uri, self._trace.language, 1, self._before + self._trace.after)
        self._client.text_document_did_open(types.DidOpenTextDocumentParams(item))
        typist, asked = Typist(self._trace), set[asyncio.Task[None]]()
        while True:
            await asyncio.sleep(typist.wait() / speed)
            self._counted = (await _in_time(_status(self._client)))["runs"]  # over before the key comes
            action = typist.act(self._shown)
            if action is None:
                break
            if action.kind == "delete":
                self._replace(len(action.text), "")
            else:
                self._measured.taken += action.kind == "take"
                self._replace(0, action.text)
            asked.add(asyncio.ensure_future(self._answered(self._ask())))
        await asyncio.gather(*asked)
        closed = types.TextDocumentIdentifier(self._uri)
        self._client.text_document_did_close(types.DidCloseTextDocumentParams(closed))

    def _replace(self, n_back: int, text: str) -> None:
        start, end = _position(self._before[: len(self._before) - n_back]), _position(self._before)
        change = types.TextDocumentContentChangePartial(range=types.Range(start, end), text=text)
        self._before = self._before[: len(self._before) - n_back] + text
        self._version, self._shown = self._version + 1, ""
        identifier = types.VersionedTextDocumentIdentifier(version=self._version, uri=self._uri)
        self._place = _position(self._before)  # counting lines is the editor's work, not to be measured
        self._changed = time.perf_counter()
        self._client.text_document_did_change(types.DidChangeTextDocumentParams(identifier, [change]))

    def _ask(self) -> "asyncio.Future[Any]":
        params = types.InlineCompletionParams(
            text_document=types.TextDocumentIdentifier(self._uri),
            position=self._place,
            context=types.InlineCompletionContext(types.InlineCompletionTriggerKind.Automatic),
        )
        return _sent(self._client, types.TEXT_DOCUMENT_INLINE_COMPLETION, params)

    async def _answered(self, answer: "asyncio.Future[Any]") -> None:
        changed, counted, version = self._changed, self._counted, self._version
        items = await _in_time(answer)
        seconds = time.perf_counter() - changed
        after = await _in_time(_status(self._client))
        self._measured.seconds.append(seconds)
        self._measured.shown.append(bool(items))
        self._measured.reused.append(counted == after["runs"])
        if items and version == self._version and items[0].range.start == items[0].range.end:
            self._shown = items[0].insert_text


def _position(before: str) -> types.Position:
    """The end of `before`, in code points."""
    return types.Position(before.count("\n"), len(before) - before.rfind("\n") - 1)


def _status(client: LanguageClient) -> "asyncio.Future[Any]":
    return _sent(client, types.WORKSPACE_EXECUTE_COMMAND, types.ExecuteCommandParams("mercury.status"))


def _sent(client: LanguageClient, method: str, params: Any) -> "asyncio.Future[Any]":
    """A request that is on its way already: the client's own coroutines would wait for the event loop first."""
    return asyncio.wrap_future(client.protocol.send_request(method, params))


async def _in_time(answer: Any) -> Any:
    try:
        return await asyncio.wait_for(answer, ANSWER_SECONDS)
    except TimeoutError:
        raise FailureError("the server does not answer; `mercury-lsp doctor` may say why") from None


async def _loaded(client: LanguageClient) -> str:
    """The model's name, once it is loaded."""
    while True:
        status = await _in_time(_status(client))
        if status["kind"] == "Error":
            raise FailureError(status["message"])
        if status["device"] and not status["busy"]:
            return str(status["model"])
        await asyncio.sleep(0.05)


@asynccontextmanager
async def _server(command: Sequence[str], options: dict[str, Any]) -> AsyncGenerator[LanguageClient]:
    client = LanguageClient("typing", "1")
    for method in _QUIET:
        client.feature(method)(_nothing)
    await client.start_io(*command)
    try:
        inline = types.InlineCompletionClientCapabilities()
        general = types.GeneralClientCapabilities(position_encodings=[types.PositionEncodingKind.Utf32])
        capabilities = types.ClientCapabilities(
            text_document=types.TextDocumentClientCapabilities(inline_completion=inline), general=general
        )
        params = types.InitializeParams(capabilities=capabilities, initialization_options=options)
        await _in_time(client.initialize_async(params))
        client.initialized(types.InitializedParams())
        yield client
        await _in_time(client.shutdown_async(None))
    finally:
        client.exit(None)  # whatever happened: `stop` waits for the process
        with contextlib.suppress(asyncio.CancelledError):
            await client.stop()


def _nothing(_: Any) -> None:
    """Notifications that nobody measures."""
