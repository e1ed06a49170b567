"""A denoiser on another machine as an Infiller: Mercury itself, or any endpoint that fills middles over HTTP.

Names: `mercury:MODEL` (key in INCEPTION_API_KEY), or a URL. What is spoken follows from the URL's end: `/infill`
(llama.cpp), `/fim/completions` (Mercury's API, ours too; it can rewrite), `/completions` (OpenAI's, with a suffix);
anything else gets `/v1/completions` added. `URL#NAME` names the model there; a key for it is in MERCURY_API_KEY.

Nothing is sent to another machine before the setting `remote.consent` names its host. Redirects are not followed, a
key never goes over plain HTTP to another machine, proxies come from the environment and certificates from the system.
While an answer is awaited the last draft is given again every TICK seconds, so that whoever iterates can stop; then
the connection is closed at once. This module knows nothing about editors, and never puts text into a message.
"""

import asyncio
import json
import os
import queue
import random
import re
import ssl
import threading
import time
import weakref
from collections.abc import AsyncIterator, Coroutine, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any, Literal
from urllib.parse import SplitResult, urlsplit

import httpx
import truststore

from mercury_model.draft import Draft, Ended, ModelInfo, Request, Slot
from mercury_model.errors import ModelError, RequestError

MERCURY = "mercury:"
MERCURY_BASE = "https://api.inceptionlabs.ai"
CHAT_MODEL = "mercury-2"
"""What is asked in words, where the endpoint is Mercury's: its edit models take no instructions."""
KEYS = {"mercury": "INCEPTION_API_KEY", "other": "MERCURY_API_KEY"}
LOOPBACK = ("localhost", "127.0.0.1", "::1")

TICK = 0.05
"""Seconds between two drafts while nothing comes: how long a cancelled request may go on."""
TIMEOUT = httpx.Timeout(30.0, connect=5.0)
PAUSES = (0.25, 1.0)
"""Seconds before the second and the third try; up to half as much again, so that clients do not march in step."""
LONGEST_PAUSE = 5.0
"""Seconds; a server that asks for more patience is given up."""
AGAIN = (408, 429, 500, 502, 503, 504)
CONTEXT_TOKENS = 2048
CHARACTERS_PER_TOKEN = 3
"""Of code, a little under the mean: windows are then rather too small than too large."""

Style = Literal["mercury", "openai", "llama.cpp"]
_PIECE = re.compile(r"\w+|\W")
_FENCED = re.compile(r"```[^\n]*\n(.*?)\n?```", re.DOTALL)


class RemoteError(ModelError):
    """The endpoint cannot be used, or did not answer. The message names host and remedy, never text."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """url: where middles are filled. base: what the other paths of Mercury's API are added to. host: for consent."""

    style: Style
    url: str
    base: str
    host: str
    model: str
    key: str

    @property
    def local(self) -> bool:
        return self.host in LOOPBACK


def endpoint_of(name: str, consent: Sequence[str], environment: Mapping[str, str]) -> Endpoint:
    """What a name means. RemoteError without the key, the consent or a usable URL, saying what to set."""
    mercury = name.startswith(MERCURY)
    if mercury:
        base = environment.get("INCEPTION_BASE_URL", MERCURY_BASE).rstrip("/")
        name = f"{base}/v1/fim/completions#{name.removeprefix(MERCURY)}"
    parts = _parts(name)
    host = parts.hostname or ""
    path, style = _spoken(parts.path)
    root = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
    variable = KEYS["mercury" if mercury else "other"]
    endpoint = Endpoint(
        style=style,
        url=root + path,
        base=root + path.removesuffix("/fim/completions"),
        host=host,
        model=parts.fragment or "mercury",
        key=environment.get(variable, "").strip(),
    )
    if not endpoint.local and host not in consent:
        raise RemoteError(
            f"text of your files would be sent to {host}: to allow it, set remote.consent to [{json.dumps(host)}] in "
            "the editor's settings"
        )
    if mercury and not endpoint.key:
        raise RemoteError(f"Mercury needs a key: set the environment variable {variable}")
    if endpoint.key and parts.scheme == "http" and not endpoint.local:
        raise RemoteError(f"the key in {variable} would go to {host} in the clear: use https, or unset it")
    return endpoint


def _parts(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        if parts.hostname and (parts.port is None or parts.port):
            return parts
    except ValueError:
        pass
    raise RemoteError("model.name is no usable URL: write http://HOST:PORT/v1/completions, for example")


def _spoken(path: str) -> tuple[str, Style]:
    path = path.rstrip("/")
    if path.endswith("/infill"):
        return path, "llama.cpp"
    if path.endswith("/fim/completions"):
        return path, "mercury"
    if path.endswith("/completions"):
        return path, "openai"
    return f"{path if path.endswith('/v1') else path + '/v1'}/completions", "openai"


class RemoteInfiller:
    """Asks `endpoint`. One request at a time; stopping the iteration closes the connection.

    transport: a test's own; None for the network.
    """

    def __init__(self, endpoint: Endpoint, transport: httpx.AsyncBaseTransport | None = None) -> None:
        self.endpoint = endpoint
        self.info = ModelInfo(name=endpoint.model, device=endpoint.host, kind="remote", context_tokens=CONTEXT_TOKENS)
        self._loop = asyncio.new_event_loop()
        self._transport = transport
        self._client: httpx.AsyncClient | None = None
        # a daemon: an answer that never comes must not keep the process alive
        self._thread = threading.Thread(target=_run, args=(self._loop,), name="mercury-remote", daemon=True)
        self._thread.start()
        # an engine drops a model it does not need any more without a word
        weakref.finalize(self, _stop, self._loop)

    def count_tokens(self, text: str, /) -> int:
        return -(-len(text) // CHARACTERS_PER_TOKEN)

    def __call__(self, request: Request, /) -> Iterator[Draft]:
        if request.messages:
            raise RequestError("a remote model is asked for code only")
        if request.original is not None:
            return self._rewrite(request)
        return self._fill(request)

    def close(self, timeout: float = 5.0) -> None:
        """Closes connections and ends the thread."""

        async def bye() -> None:
            if self._client is not None:
                await self._client.aclose()

        if not self._loop.is_closed():
            asyncio.run_coroutine_threadsafe(bye(), self._loop).result(timeout)
            _stop(self._loop)
            self._thread.join(timeout)

    def _fill(self, request: Request) -> Iterator[Draft]:
        text, n_passes, ended = "", 0, ""
        for piece in self._pieces(self.endpoint.url, middle_body(self.endpoint, request), request.deadline):
            if isinstance(piece, str):
                n_passes += 1
                text, ended = _grown(text, piece, request)
            elif piece.done:
                ended = piece.ended
            yield _draft(text, n_passes, "")
            if ended:
                break
        yield _draft(text, n_passes, ended or "end")

    def _rewrite(self, request: Request) -> Iterator[Draft]:
        if self.endpoint.style != "mercury":
            raise RequestError(
                "this remote model fills middles only: to rewrite code, use mercury:MODEL or a URL that ends in "
                "/v1/fim/completions"
            )
        original = request.original or ""
        name = "chat" if request.instruction else "edit"
        body = instruction_body(request) if request.instruction else edit_body(self.endpoint.model, request)
        answer, ended = "", ""
        for piece in self._pieces(f"{self.endpoint.base}/{name}/completions", body, request.deadline):
            if isinstance(piece, str):
                answer += piece
            elif piece.done:
                ended = piece.ended
            yield _draft(original, 0, "")
        # half an answer would delete the rest of the region
        yield _draft(original if ended else rewritten(answer, original), 1, ended or "end")

    def _pieces(self, url: str, body: dict[str, Any], deadline: float | None) -> Generator["str | Draft"]:
        """Texts as they come, and between them empty drafts; one with done=True when it was cut off."""
        came: queue.SimpleQueue[str | Exception | Draft | None] = queue.SimpleQueue()

        async def read() -> None:
            try:
                async for item in self._answers(url, body):
                    came.put(item)
                came.put(None)
            except Exception as error:
                came.put(error)

        task = self._start(read())
        try:
            while True:
                try:
                    item = came.get(timeout=TICK)
                except queue.Empty:
                    if deadline is not None and time.monotonic() >= deadline:
                        yield Draft("", done=True, ended="deadline")
                        return
                    yield Draft("")
                    continue
                if item is None:
                    return
                if isinstance(item, Exception):
                    raise _told(item, self.endpoint)
                yield item
        finally:
            task.cancel()

    def _start(self, work: Coroutine[Any, Any, None]) -> "Future[None]":
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    async def _answers(self, url: str, body: dict[str, Any]) -> AsyncIterator["str | Draft"]:
        """One answer, asked for again where that makes sense and nothing has come yet."""
        for attempt in range(len(PAUSES) + 1):
            pause = PAUSES[attempt] * random.uniform(1.0, 1.5) if attempt < len(PAUSES) else None
            try:
                async with self._http().stream("POST", url, json=body) as response:
                    if response.status_code in AGAIN and pause is not None:
                        pause = max(pause, _patience(response))
                    if response.status_code != 200 and (pause is None or response.status_code not in AGAIN):
                        raise await _refused(response, self.endpoint)
                    if response.status_code == 200:
                        async for item in _texts(response):
                            yield item
                        return
            except (httpx.ConnectError, httpx.ConnectTimeout, httpx.RemoteProtocolError):
                # the last one: a kept connection that the server has closed meanwhile
                if pause is None:
                    raise
            if pause is not None:
                if pause > LONGEST_PAUSE:
                    raise RemoteError(f"{self.endpoint.host} is overloaded: try again later")
                await asyncio.sleep(pause)

    def _http(self) -> httpx.AsyncClient:
        if self._client is None:
            headers = {"authorization": f"Bearer {self.endpoint.key}"} if self.endpoint.key else {}
            verify = truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            self._client = httpx.AsyncClient(
                headers=headers, timeout=TIMEOUT, verify=verify, transport=self._transport, follow_redirects=False
            )
        return self._client


def _run(loop: asyncio.AbstractEventLoop) -> None:
    """The thread of a RemoteInfiller: its event loop until it is stopped, then nothing is left open."""

    async def tidy() -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    loop.run_forever()
    loop.run_until_complete(tidy())
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()


def _stop(loop: asyncio.AbstractEventLoop) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(loop.stop)


def load_remote(name: str, consent: Sequence[str]) -> RemoteInfiller:
    """The Infiller of a remote name. Raises RemoteError; nothing is sent yet."""
    return RemoteInfiller(endpoint_of(name, consent, os.environ))


# --- what is sent ----------------------------------------------------------------------------------------------------


def middle_body(endpoint: Endpoint, request: Request) -> dict[str, Any]:
    if endpoint.style == "llama.cpp":
        return {
            "input_prefix": request.prefix,
            "input_suffix": request.suffix,
            "input_extra": [{"filename": s.path, "text": s.text} for s in request.context],
            "n_predict": request.max_tokens,
            "temperature": request.temperature,
            "cache_prompt": True,
            "stream": True,
        }
    body: dict[str, Any] = {
        "model": endpoint.model,
        "prompt": request.prefix,
        "suffix": request.suffix,
        "max_tokens": request.max_tokens,
        "stream": True,
    }
    if endpoint.style == "openai":
        return body | {"temperature": request.temperature}
    # in place of the default, two line breaks: where a middle ends is decided here
    body |= {"stop": ["\n\n\n"], "presence_penalty": 0.0}
    if endpoint.host != urlsplit(MERCURY_BASE).hostname:
        body |= {"path": request.path, "context": [{"path": s.path, "text": s.text} for s in request.context]}
        body |= {"reasoning_effort": request.effort}
    return body


def edit_body(model: str, request: Request) -> dict[str, Any]:
    """An edit prompt with the region inside the file, the cursor at what is doubtful first."""
    original = request.original or ""
    at = min((start for start, _ in request.doubtful), default=0)
    snippets = "".join(
        f"<|recently_viewed_code_snippet|>\ncode_snippet_file_path: {s.path}\n{s.text}\n"
        "<|/recently_viewed_code_snippet|>\n"
        for s in request.context
    )
    after = request.suffix if original.endswith("\n") or not request.suffix else "\n" + request.suffix
    marked = f"{original[:at]}<|cursor|>{original[at:]}".removesuffix("\n")
    prompt = (
        f"<|recently_viewed_code_snippets|>\n{snippets}<|/recently_viewed_code_snippets|>\n\n"
        f"<|current_file_content|>\ncurrent_file_path: {request.path}\n{request.prefix}<|code_to_edit|>\n{marked}\n"
        f"<|/code_to_edit|>\n{after}<|/current_file_content|>\n\n"
        "<|edit_diff_history|>\n<|/edit_diff_history|>\n"
    )
    return {
        "model": model,
        "messages": [{"role": "user", "content": prompt}],
        "max_tokens": max(request.max_tokens, 256),
        "stream": False,
    }


def instruction_body(request: Request) -> dict[str, Any]:
    question = (
        f"Rewrite the code between the marks. {request.instruction.strip()}\n"
        "Keep what need not change. Answer with the new code in one fence and nothing else.\n\n"
        f"{request.prefix}<<<\n{request.original}\n>>>{request.suffix}"
    )
    return {
        "model": CHAT_MODEL,
        "messages": [{"role": "user", "content": question}],
        "reasoning_effort": request.effort,
        "max_tokens": max(request.max_tokens, 1024),
        "stream": False,
    }


# --- what comes back -------------------------------------------------------------------------------------------------


async def _texts(response: httpx.Response) -> AsyncIterator["str | Draft"]:
    """The texts of a stream or of a whole body, and a draft with done=True where the answer was cut off."""
    if "event-stream" not in response.headers.get("content-type", ""):
        text, reason = read_choice(json.loads(await response.aread()))
        yield text
        if reason == "length":
            yield Draft("", done=True, ended="length")
        return
    async for line in response.aiter_lines():
        if not line.startswith("data:"):
            continue
        data = line[5:].strip()
        if data == "[DONE]":
            return
        event = json.loads(data)
        if isinstance(event, dict) and "error" in event:
            raise RemoteError("the remote model failed in the middle of an answer: try again")
        text, reason = read_choice(event)
        if text:
            yield text
        if reason == "length":
            yield Draft("", done=True, ended="length")


def read_choice(body: Any) -> tuple[str, str]:
    """(text, finish reason) of a body or an event of any of the styles; empty where there is none."""
    if not isinstance(body, dict):
        raise ValueError("not an object")
    if "content" in body and "choices" not in body:  # llama.cpp
        return str(body["content"] or ""), "length" if body.get("stop_type") == "limit" else ""
    choices = body.get("choices") or []
    if not choices:
        return "", ""
    choice = choices[0]
    message = choice.get("delta") or choice.get("message") or {}
    return str(choice.get("text") or message.get("content") or ""), str(choice.get("finish_reason") or "")


def rewritten(answer: str, original: str) -> str:
    """The new text of a region from an edit's answer: fenced or bare, `None` or nothing for no change."""
    fenced = _FENCED.search(answer)
    text = fenced[1] if fenced else answer
    if not text.strip() or (not fenced and answer.strip() == "None"):
        return original
    return text.replace("<|cursor|>", "").rstrip("\n") + original[len(original.rstrip("\n")) :]


def _grown(text: str, piece: str, request: Request) -> tuple[str, Ended]:
    """The text with what came, up to its end: the rule is asked at every word, as it is where words are made."""
    for word in _PIECE.findall(piece):
        text += word
        if request.end is not None and (keep := request.end(text)) is not None:
            return text[:keep], "rule"
    return text, ""


def _draft(text: str, n_passes: int, ended: str) -> Draft:
    draft = Draft(
        text=text,
        slots=(Slot(text, "settled", 1.0),) if text else (),
        settled=len(text),
        confidence=1.0 if text else 0.0,
        n_tokens=-(-len(text) // CHARACTERS_PER_TOKEN),
        forwards=float(n_passes),
    )
    return replace(draft, done=True, ended=ended) if ended else draft  # pyright: ignore[reportArgumentType]


def _patience(response: httpx.Response) -> float:
    """Seconds the server asks to wait."""
    try:
        return float(response.headers.get("retry-after", "0"))
    except ValueError:
        return 0.0


async def _refused(response: httpx.Response, endpoint: Endpoint) -> RemoteError:
    try:
        code = json.loads(await response.aread())["error"]["code"]
    except (ValueError, KeyError, TypeError, httpx.HTTPError):
        code = None
    said = f" ({code})" if isinstance(code, str) and re.fullmatch(r"\w{1,40}", code) else ""
    remedies = {
        401: "set the right key in the environment",
        402: "look after the account",
        403: "it does not let you in",
        404: "check the URL and the model's name behind its #",
        429: "too many requests: wait a little",
    }
    remedy = remedies.get(response.status_code, "see its log, or choose another model")
    if 300 <= response.status_code < 400:
        remedy = "it points elsewhere, and that is not followed: set the final URL"
    return RemoteError(f"{endpoint.host} answered {response.status_code}{said}: {remedy}")


def _told(error: Exception, endpoint: Endpoint) -> ModelError:
    if isinstance(error, ModelError):
        return error
    if isinstance(error, httpx.TimeoutException):
        return RemoteError(f"{endpoint.host} did not answer in time: is it busy, or behind a proxy?")
    if isinstance(error, httpx.ConnectError) and "CERTIFICATE" in str(error).upper():
        return RemoteError(
            f"{endpoint.host} has a certificate that this system does not trust: put its CA, or the proxy's, "
            "into the system's store"
        )
    if isinstance(error, httpx.HTTPError):
        return RemoteError(f"{endpoint.host} cannot be reached ({type(error).__name__}): check the URL and the network")
    return RemoteError(f"{endpoint.host} gave an answer that is none ({type(error).__name__}): is the URL right?")
