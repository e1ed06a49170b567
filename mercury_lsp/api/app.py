"""The application: routes, and what happens around an answer. `build` makes one, any ASGI server runs it.

A request whose client goes away stops at the model's next pass, streamed or not. This module knows nothing about
prompts.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response, StreamingResponse

from mercury_lsp import __version__
from mercury_lsp.api import catalogue, chat, edit, failures, fim, shapes
from mercury_lsp.api.answering import Answer, Question, dumps
from mercury_lsp.api.failures import ApiError
from mercury_lsp.api.guard import Guard
from mercury_lsp.api.metrics import Metrics
from mercury_lsp.api.pool import log
from mercury_lsp.api.runs import OverloadedError, Runs, UnavailableError
from mercury_model import EMBEDDED

PAGE = Path(__file__).with_name("playground")
CONTENT_POLICY = "default-src 'self'; style-src 'self' 'unsafe-inline'; base-uri 'none'; frame-ancestors 'none'"
GONE = 499
"""Status in the counters of a request whose client left before the answer."""


@dataclass(frozen=True, slots=True)
class Options:
    """name: the model's own name. n_context: tokens that a prompt and its answer may have together.
    keys, hosts, origins, max_body: see Guard.
    """

    name: str = EMBEDDED
    n_context: int = 8192
    keys: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    max_body: int = 4_000_000


class JsonResponse(Response):
    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return dumps(content)


def build(runs: Runs, options: Options | None = None) -> FastAPI:
    """The application over whoever runs its requests (a Pool, a Cluster), whom it starts and closes."""
    options = options or Options()
    metrics = Metrics(runs)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[None]:
        runs.start()
        yield
        await asyncio.to_thread(runs.close)

    app = FastAPI(
        title="mercury-lsp",
        version=__version__,
        description="A Mercury-compatible API over a masked-diffusion language model on this machine.",
        lifespan=lifespan,
        docs_url=None,  # both pages load their scripts from the net
        redoc_url=None,
        responses={status: {"model": shapes.ErrorBody} for status in (400, 401, 403, 404, 413, 422, 429, 500, 503)},
    )
    _failures(app, metrics)
    _completions(app, Answering(runs, metrics, options), options.n_context)
    _facts(app, runs, metrics, options)
    app.mount("/", StaticFiles(directory=PAGE, html=True), name="playground")
    app.add_middleware(PageHeaders)
    app.add_middleware(
        Guard, keys=options.keys, hosts=options.hosts, origins=options.origins, max_body=options.max_body
    )
    if options.origins:
        app.add_middleware(
            CORSMiddleware, allow_origins=options.origins, allow_methods=["GET", "POST"], allow_headers=["*"]
        )
    return app


class Answering:
    """Turns a question into a response: counts tokens, waits for the model, watches the client."""

    def __init__(self, runs: Runs, metrics: Metrics, options: Options) -> None:
        self._runs = runs
        self._metrics = metrics
        self._options = options

    async def __call__(self, http: Request, endpoint: str, ask: Callable[[], Question]) -> Response:
        """Raises ApiError. ask: makes the question; may raise ApiError too."""
        began = time.monotonic()
        watch = asyncio.ensure_future(_left(http))
        work = asyncio.ensure_future(self._respond(endpoint, ask, began))
        try:
            await asyncio.wait({watch, work}, return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                return work.result()
            self._metrics.failed(endpoint, GONE)
            return Response(status_code=GONE)
        except ApiError as error:
            self._metrics.failed(endpoint, error.status)
            raise
        except Exception as error:
            log(error, "a request failed")
            self._metrics.failed(endpoint, 500)
            raise failures.broken("the server failed: see its log") from None
        finally:
            for task in (watch, work):
                task.cancel()

    async def _respond(self, endpoint: str, ask: Callable[[], Question], began: float) -> Response:
        question = ask()
        catalogue.check(question.model, self._options.name)
        answer = Answer(question, self._runs, await self._count(question))
        try:
            first = await answer.first()
            if not question.stream:
                body = await answer.whole()
                self._metrics.answered(endpoint, answer, time.monotonic() - began)
                return JsonResponse(body, headers=timing(body["usage"]) | origin(answer))
        except BaseException:
            await answer.close()
            raise
        events = self._counted(endpoint, answer, answer.events(first), began)
        return StreamingResponse(events, media_type="text/event-stream", headers=STREAM_HEADERS | origin(answer))

    async def _counted(
        self, endpoint: str, answer: Answer, events: AsyncIterator[bytes], began: float
    ) -> AsyncIterator[bytes]:
        finished = False
        try:
            async for event in events:
                yield event
            finished = True
        finally:
            await answer.close()
            if finished:
                self._metrics.answered(endpoint, answer, time.monotonic() - began)
            else:
                self._metrics.failed(endpoint, GONE)

    async def _count(self, question: Question) -> int:
        """Tokens of the prompt, about: special tokens apart. Raises ApiError if there are too many."""
        limit = self._options.n_context
        try:
            n_tokens = await self._runs.count_tokens(question.shown)
        except OverloadedError:
            raise failures.too_many() from None
        except UnavailableError as error:
            raise failures.overloaded(str(error)) from None
        if n_tokens is None:
            # not loaded yet: at three characters a token nobody is refused who would not be later
            n_tokens = len(question.shown) // 3
        if n_tokens > limit:
            raise failures.too_long(n_tokens, limit, question.param)
        return n_tokens


STREAM_HEADERS = {"cache-control": "no-cache", "x-accel-buffering": "no"}


def timing(usage: dict[str, Any]) -> dict[str, str]:
    """Time to the first text as a header, for clients that drop fields they do not know."""
    first = usage["time_to_first_text_ms"]
    return {} if first is None else {"x-time-to-first-text-ms": str(first)}


def origin(answer: Answer) -> dict[str, str]:
    """Which replica of a cluster answers."""
    return {"x-mercury-replica": answer.ticket.replica} if answer.ticket.replica else {}


async def _left(http: Request) -> None:
    """Returns when the client has gone away; the body has been read before."""
    while (await http.receive())["type"] != "http.disconnect":
        pass


def _completions(app: FastAPI, answer: Answering, limit: int) -> None:
    @app.post("/v1/chat/completions", response_model=shapes.ChatAnswer)
    async def chat_completions(body: shapes.ChatRequest, http: Request) -> Response:
        return await answer(http, "chat", lambda: chat.question(body, limit))

    @app.post("/v1/fim/completions", response_model=shapes.TextAnswer)
    async def fim_completions(body: shapes.FimRequest, http: Request) -> Response:
        return await answer(http, "fim", lambda: fim.question(body))

    @app.post("/v1/completions", response_model=shapes.TextAnswer)
    async def completions(body: shapes.FimRequest, http: Request) -> Response:
        return await answer(http, "completions", lambda: fim.question(body, plain=True))

    @app.post("/v1/edit/completions", response_model=shapes.ChatAnswer)
    async def edit_completions(body: shapes.EditRequest, http: Request) -> Response:
        return await answer(http, "edit", lambda: edit.question(body))

    @app.post("/v1/apply/completions", response_model=shapes.ChatAnswer)
    async def apply_completions(body: shapes.EditRequest, http: Request) -> Response:
        return await answer(http, "apply", lambda: edit.apply_question(body))


def _facts(app: FastAPI, runs: Runs, metrics: Metrics, options: Options) -> None:
    def listing(endpoint: str | None) -> Callable[[], Awaitable[Response]]:
        async def models() -> Response:
            return JsonResponse(catalogue.models(options.name, options.n_context, endpoint))

        return models

    app.get("/v1/models", name="models")(listing(None))
    for endpoint in catalogue.ALIASES:
        app.get(f"/v1/{endpoint}/completions/models", name=f"{endpoint}_models")(listing(endpoint))

    @app.get("/health", response_model=shapes.Health)
    async def health() -> Response:
        info = runs.info
        body = {
            "state": runs.state,
            "message": runs.message,
            "model": info.name if info else None,
            "device": info.device if info else None,
            "running": runs.n_running,
            "waiting": runs.n_waiting,
        }
        return JsonResponse(body, status_code=200 if runs.state in ("ready", "loading") else 503)

    @app.get("/metrics", include_in_schema=False)
    async def counters() -> Response:
        return Response(metrics.text(), media_type="text/plain; version=0.0.4")


def _failures(app: FastAPI, metrics: Metrics) -> None:
    async def told(_: Request, error: Exception) -> Response:
        assert isinstance(error, ApiError)
        return JsonResponse(error.body, status_code=error.status, headers=error.headers)

    async def misshapen(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"][1:] if isinstance(part, str))
        failure = failures.invalid(f"{where or 'the body'}: {first['msg']}", where or None)
        metrics.failed(request.url.path.removeprefix("/v1/").split("/")[0], failure.status)
        return JsonResponse(failure.body, status_code=failure.status)

    async def plain(_: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        kind, code = ("invalid_request_error", KNOWN.get(error.status_code, "invalid_request_error"))
        failure = ApiError(error.status_code, kind, code, str(error.detail))
        return JsonResponse(failure.body, status_code=failure.status, headers=error.headers)

    app.add_exception_handler(ApiError, told)
    app.add_exception_handler(RequestValidationError, misshapen)
    app.add_exception_handler(HTTPException, plain)


KNOWN = {404: "not_found", 405: "method_not_allowed", 413: "request_too_large"}


class PageHeaders:
    """The page may load what this server has and nothing else."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async def sent(message: Any) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [
                    *message.get("headers", []),
                    (b"content-security-policy", CONTENT_POLICY.encode()),
                    (b"x-content-type-options", b"nosniff"),
                ]
            await send(message)

        await self._app(scope, receive, sent if scope["type"] == "http" else send)
