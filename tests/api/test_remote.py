"""Remote denoisers: what is sent and to whom, what comes back, cancelling, retries, secrets, recorded exchanges."""

import asyncio
import json
import logging
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from mercury_lsp import remote
from mercury_lsp.api.app import Options
from mercury_lsp.api.edit import read_place
from mercury_lsp.evaluation.recorded_peer import FENCE
from mercury_lsp.loading import load_infiller
from mercury_lsp.remote import RemoteError, RemoteInfiller, endpoint_of, rewritten
from mercury_lsp.settings import ModelSettings, RemoteSettings, Settings, read_settings
from mercury_model.draft import Draft, Request, Snippet
from mercury_model.errors import RequestError
from tests.api.serving import serving, serving_app, until
from tests.api.test_edit import recorded
from tests.fakes import FakeInfiller

HOST = "api.inceptionlabs.ai"
MIDDLE = Request("def f(x):\n    ", "\nprint(f(1))\n", path="a.py", context=(Snippet("b.py", "B = 1"),))


# --- names, keys, consent --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "style", "url", "model"),
    [
        ("http://localhost:8012/infill", "llama.cpp", "http://localhost:8012/infill", "mercury"),
        ("http://127.0.0.1:1/v1/completions#qwen", "openai", "http://127.0.0.1:1/v1/completions", "qwen"),
        ("http://127.0.0.1:1", "openai", "http://127.0.0.1:1/v1/completions", "mercury"),
        ("http://127.0.0.1:1/v1/", "openai", "http://127.0.0.1:1/v1/completions", "mercury"),
        ("http://[::1]:1/v1/fim/completions", "mercury", "http://[::1]:1/v1/fim/completions", "mercury"),
    ],
)
def test_what_is_spoken_follows_from_the_url(name: str, style: str, url: str, model: str) -> None:
    endpoint = endpoint_of(name, (), {})
    assert (endpoint.style, endpoint.url, endpoint.model, endpoint.key) == (style, url, model, "")


def test_mercury_is_a_name_with_a_key() -> None:
    endpoint = endpoint_of("mercury:mercury-edit-2", (HOST,), {"INCEPTION_API_KEY": "k"})
    assert endpoint.url == f"https://{HOST}/v1/fim/completions"
    assert (endpoint.base, endpoint.model, endpoint.key) == (f"https://{HOST}/v1", "mercury-edit-2", "k")


@pytest.mark.parametrize(
    ("name", "consent", "environment", "says"),
    [
        ("mercury:m", (), {"INCEPTION_API_KEY": "k"}, "remote.consent"),
        ("mercury:m", ("inceptionlabs.ai",), {"INCEPTION_API_KEY": "k"}, "remote.consent"),
        ("mercury:m", (HOST,), {}, "INCEPTION_API_KEY"),
        ("https://gpu.example/v1/completions", (HOST,), {}, "gpu.example"),
        ("http://gpu.example", ("gpu.example",), {"MERCURY_API_KEY": "k"}, "https"),
        ("http://", (), {}, "URL"),
        ("http://host:99999999/", (), {}, "URL"),
        ("https://127.0.0.1.evil.example/", (), {}, "127.0.0.1.evil.example"),
        ("https://localhost@evil.example/", (), {}, "evil.example"),
    ],
)
def test_nothing_is_sent_without_consent_key_and_a_safe_way(
    name: str, consent: tuple[str, ...], environment: Mapping[str, str], says: str
) -> None:
    with pytest.raises(RemoteError, match=re.escape(says)):
        endpoint_of(name, consent, environment)


def test_the_key_of_one_service_is_never_sent_to_another() -> None:
    both = {"INCEPTION_API_KEY": "k", "MERCURY_API_KEY": "other"}
    assert endpoint_of("https://gpu.example", ("gpu.example",), both).key == "other"
    assert endpoint_of("mercury:m", (HOST,), both).key == "k"


def test_a_project_cannot_give_consent_and_the_loader_asks_for_it() -> None:
    from mercury_lsp.settings import Source, read_layers

    raw = {"remote": {"consent": ["evil.example"]}}
    settings, problems = read_layers([Source(".mercury.toml", raw, project=True)])
    assert settings.remote.consent == ()
    assert "remote" in problems[0]
    assert read_settings(raw)[0].remote.consent == ("evil.example",)
    asked = Settings(model=ModelSettings(name="https://evil.example"), remote=RemoteSettings())
    with pytest.raises(RemoteError, match=r"remote\.consent"):
        load_infiller(asked, lambda message, fraction: None)


# --- what goes over the wire -----------------------------------------------------------------------------------------


Handler = Callable[[httpx.Request], httpx.Response]


@contextmanager
def infiller(handler: Handler, name: str = "http://127.0.0.1:1/v1/completions") -> Iterator[RemoteInfiller]:
    made = RemoteInfiller(endpoint_of(name, ("gpu.example",), {}), httpx.MockTransport(handler))
    try:
        yield made
    finally:
        made.close()


def sse(*events: object) -> httpx.Response:
    lines = [f"data: {event if isinstance(event, str) else json.dumps(event)}\n\n" for event in events]
    return httpx.Response(200, headers={"content-type": "text/event-stream"}, text="".join(lines))


def text(piece: str) -> dict[str, Any]:
    return {"choices": [{"text": piece}]}


def last(drafts: Iterator[Draft]) -> Draft:
    draft = list(drafts)[-1]
    assert draft.done
    return draft


@pytest.mark.parametrize(
    ("path", "events", "expected"),
    [
        ("/infill", [{"content": "return "}, {"content": "x", "stop": True}], "input_prefix input_suffix input_extra"),
        ("", [text("return "), text("x"), {"choices": [], "usage": {}}, "[DONE]"], "prompt suffix max_tokens"),
        ("/v1/fim/completions", [text("return x"), "[DONE]"], "prompt suffix context stop"),
        ("/v1/completions", [{"choices": [{"delta": {"content": "return x"}}]}, "[DONE]"], "prompt temperature"),
    ],
)
def test_each_style_sends_its_fields_and_its_stream_is_read(path: str, events: list[Any], expected: str) -> None:
    sent: list[dict[str, Any]] = []

    def handler(request: httpx.Request) -> httpx.Response:
        sent.append(json.loads(request.content))
        return sse(*events)

    with infiller(handler, f"http://127.0.0.1:1{path}") as remote_model:
        draft = last(remote_model(MIDDLE))
    assert (draft.text, draft.ended) == ("return x", "end")
    assert set(expected.split()) <= sent[0].keys()
    assert MIDDLE.prefix in sent[0].values()


def test_a_body_in_place_of_a_stream_is_read_too_and_a_cut_one_says_so() -> None:
    body = {"choices": [{"text": "return", "finish_reason": "length"}]}
    with infiller(lambda request: httpx.Response(200, json=body)) as remote_model:
        draft = last(remote_model(MIDDLE))
    assert (draft.text, draft.ended) == ("return", "length")


def test_the_rule_of_the_end_is_asked_at_every_word() -> None:
    asked = Request("", "", end=lambda text: 7 if text.startswith("one two") else None)
    with infiller(lambda request: sse({"choices": [{"text": "one two three four"}]}, "[DONE]")) as remote_model:
        draft = last(remote_model(asked))
    assert (draft.text, draft.ended) == ("one two", "rule")


def test_failures_that_pass_are_tried_again_and_others_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "PAUSES", (0.0, 0.0))
    statuses = [503, 429]
    n_calls = 0

    def handler(request: httpx.Request) -> httpx.Response:
        nonlocal n_calls
        n_calls += 1
        return httpx.Response(statuses.pop(0)) if statuses else sse({"choices": [{"text": "x"}]}, "[DONE]")

    with infiller(handler) as remote_model:
        assert last(remote_model(MIDDLE)).text == "x"
        assert n_calls == 3
        statuses.extend([503] * 3)
        with pytest.raises(RemoteError, match="503"):
            list(remote_model(MIDDLE))
        statuses.append(400)
        before = n_calls
        with pytest.raises(RemoteError, match="400"):
            list(remote_model(MIDDLE))
        assert n_calls == before + 1


@pytest.mark.parametrize(
    ("response", "says"),
    [
        (httpx.Response(401, json={"error": {"code": "invalid_api_key", "message": "x = SECRET"}}), "invalid_api_key"),
        (httpx.Response(404, text="SECRET"), "404"),
        (httpx.Response(307, headers={"location": "https://evil.example/"}), "not followed"),
        (httpx.Response(429, headers={"retry-after": "3600"}), "overloaded"),
        (httpx.Response(200, text="<html>SECRET</html>"), "is the URL right"),
        (sse({"error": {"message": "SECRET"}}), "failed"),
        (sse("SECRET {"), "is the URL right"),
    ],
)
def test_what_went_wrong_is_one_line_that_quotes_no_text(response: httpx.Response, says: str) -> None:
    with infiller(lambda request: response) as remote_model, pytest.raises(RemoteError, match=says) as failure:
        list(remote_model(MIDDLE))
    assert "SECRET" not in str(failure.value)
    assert "\n" not in str(failure.value)


def test_a_host_that_is_not_there_is_told() -> None:
    def handler(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectTimeout("no", request=request)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(remote, "PAUSES", (0.0,))
        with infiller(handler) as remote_model, pytest.raises(RemoteError, match="in time"):
            list(remote_model(MIDDLE))


def test_nothing_of_the_text_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with infiller(lambda request: sse({"choices": [{"text": "ANSWERED"}]}, "[DONE]")) as remote_model:
        list(remote_model(Request("PREFIXED", "SUFFIXED")))
    assert not any(word in caplog.text for word in ("PREFIXED", "SUFFIXED", "ANSWERED"))


# --- over a real connection ------------------------------------------------------------------------------------------


class Stuck:
    """An endpoint that never answers; `left` is set when the client has closed the connection."""

    def __init__(self) -> None:
        self.came, self.left = threading.Event(), threading.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        self.came.set()
        while (await receive())["type"] != "http.disconnect":
            await asyncio.sleep(0)
        self.left.set()


def test_stopping_while_an_answer_is_awaited_closes_the_connection() -> None:
    stuck = Stuck()
    with serving_app(stuck) as url:
        remote_model = RemoteInfiller(endpoint_of(url, (), {}))
        drafts = iter(remote_model(MIDDLE))
        assert next(drafts).text == ""
        until(stuck.came.is_set)
        drafts.close()  # type: ignore[attr-defined]
        until(stuck.left.is_set)
        late = last(remote_model(Request("", "", deadline=time.monotonic() + 0.1)))
        assert (late.text, late.ended) == ("", "deadline")
        remote_model.close()


def test_I6_the_language_server_s_model_can_be_our_own_api() -> None:
    def script(request: Request) -> str:
        return (request.original or "x + 1").replace("alpha", "beta")

    with serving(FakeInfiller(script), Options(name="fake")) as (url, _):
        for path in ("/v1/fim/completions", "/v1/completions", ""):
            remote_model = RemoteInfiller(endpoint_of(url + path, (), {}))
            assert last(remote_model(MIDDLE)).text == "x + 1"
            remote_model.close()
        remote_model = RemoteInfiller(endpoint_of(f"{url}/v1/fim/completions", (), {}))
        rewrite = Request("before\n", "after\n", original="alpha = 1\n", path="a.py")
        assert last(remote_model(rewrite)).text == "beta = 1\n"
        remote_model.close()


def test_an_endpoint_that_only_fills_middles_says_so_when_asked_to_rewrite() -> None:
    with infiller(lambda request: sse("[DONE]")) as remote_model, pytest.raises(RequestError, match="fim/completions"):
        list(remote_model(Request("", "", original="x")))


# --- rewriting, and the recorded exchanges ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("```\nnew\n```", "new\n"),
        ("```python\nnew\n```", "new\n"),
        ("Here you are:\n```\nnew\n```\nDone.", "new\n"),
        ("new", "new\n"),
        ("None", "old\n"),
        ("", "old\n"),
        ("```\nNone\n```", "None\n"),
    ],
)
def test_an_edit_s_answer_is_read_fenced_bare_or_none(answer: str, expected: str) -> None:
    assert rewritten(answer, "old\n") == expected


def replay() -> Starlette:
    """Answers with the recorded answer to the request whose region and file are the same."""
    answers = {}
    for _, request, response in recorded():
        place = read_place(request["messages"][0]["content"])
        answers.setdefault((place.before, place.region, place.after), response)

    async def edit(http: HttpRequest) -> Response:
        if http.headers.get("authorization") != "Bearer k":
            return JSONResponse({"error": {"code": "invalid_api_key"}}, 401)
        place = read_place((await http.json())["messages"][0]["content"])
        return JSONResponse(answers[(place.before, place.region, place.after)])

    return Starlette(routes=[Route("/v1/edit/completions", edit, methods=["POST"])])


def test_recorded_answers_of_mercury_become_rewrites(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = set()
    with serving_app(replay()) as url:
        environment = {"INCEPTION_API_KEY": "k", "INCEPTION_BASE_URL": url}
        remote_model = RemoteInfiller(endpoint_of("mercury:mercury-edit", (), environment))
        for _, request, response in recorded():
            place = read_place(request["messages"][0]["content"])
            key = (place.path, place.before, place.region, place.after)
            if key in seen:
                continue
            seen.add(key)
            asked = Request(place.before, place.after, path=place.path, original=place.region)
            answer = FENCE.match(response["choices"][0]["message"]["content"])
            assert answer is not None
            assert last(remote_model(asked)).text.strip("\n") == answer[1].strip("\n")
        remote_model.close()
    assert len(seen) >= 15
