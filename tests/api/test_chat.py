"""/v1/chat/completions over a scripted Infiller: shapes, streams, tools, JSON answers, errors."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from mercury_lsp.api.app import Options
from mercury_model.draft import MASK_GLYPH, Draft, Request, Slot
from mercury_model.errors import RequestError
from tests.api.serving import client_of
from tests.fakes import FakeInfiller

URL = "/v1/chat/completions"


def chat(content: str = "hello", **fields: Any) -> dict[str, Any]:
    return {"model": "mercury-2", "messages": [{"role": "user", "content": content}], **fields}


def events_of(text: str) -> list[dict[str, Any]]:
    """The events of a stream that ended as it should."""
    lines = [line.removeprefix("data: ") for line in text.split("\n\n") if line]
    assert lines[-1] == "[DONE]"
    return [json.loads(line) for line in lines[:-1]]


def contents(events: list[dict[str, Any]]) -> list[str]:
    deltas = [event["choices"][0]["delta"] for event in events if event["choices"]]
    return [delta["content"] for delta in deltas if delta.get("content")]


async def test_a_whole_answer_has_the_published_shape() -> None:
    async with client_of(FakeInfiller("a fine answer")) as client:
        response = await client.post(URL, json=chat())
    body = response.json()
    assert response.status_code == 200
    assert float(response.headers["x-time-to-first-text-ms"]) == body["usage"]["time_to_first_text_ms"]
    assert body["id"].startswith("chatcmpl-")
    assert (body["object"], body["model"], body["warning"]) == ("chat.completion", "mercury-2", None)
    choice = body["choices"][0]
    assert choice["message"] == {
        "role": "assistant", "content": "a fine answer", "tool_calls": [], "tool_call_id": None,
    }  # fmt: skip
    assert choice["finish_reason"] == "stop"
    usage = body["usage"]
    assert usage["completion_tokens"] == 5
    assert usage["total_tokens"] == usage["prompt_tokens"] + 5
    assert usage["forwards"] == 2.0


async def test_a_conversation_reaches_the_model_with_its_roles_and_fields() -> None:
    fake = FakeInfiller("x")
    body = chat(
        messages=[
            {"role": "system", "content": "be brief"},
            {"role": "user", "content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]},
            {"role": "assistant", "content": "three"},
            {"role": "user", "content": "four"},
        ],
        max_completion_tokens=7, max_tokens=9, reasoning_effort="high", seed=3, top_p=0.5, top_k=4, temperature=0.6,
    )  # fmt: skip
    async with client_of(fake) as client:
        assert (await client.post(URL, json=body)).status_code == 200
    asked = fake.requests[0]
    assert asked.messages == (
        ("system", "be brief"), ("user", "one\ntwo"), ("assistant", "three"), ("user", "four"),
    )  # fmt: skip
    assert (asked.max_tokens, asked.effort, asked.seed, asked.top_p, asked.top_k) == (7, "high", 3, 0.5, 4)
    assert asked.temperature == 0.6


@pytest.mark.parametrize(
    ("temperature", "used", "warned"),
    [(None, 0.75, False), (0.9, 0.9, False), (0, 0.0, False), (0.2, 0.75, True), (1.9, 0.75, True), (-1, 0.75, True)],
)
async def test_a_temperature_out_of_range_is_the_default_and_a_warning(
    temperature: float | None, used: float, warned: bool
) -> None:
    fake = FakeInfiller("x")
    async with client_of(fake) as client:
        body = (await client.post(URL, json=chat(temperature=temperature))).json()
    assert fake.requests[0].temperature == used
    assert (body["warning"] is not None) == warned


async def test_a_stream_appends_settled_text_and_ends_with_usage() -> None:
    fake = FakeInfiller("one two three four five six", per_step=2)
    async with client_of(fake) as client:
        response = await client.post(URL, json=chat(stream=True, stream_options={"include_usage": True}))
    events = events_of(response.text)
    assert response.headers["content-type"].startswith("text/event-stream")
    assert {event["object"] for event in events} == {"chat.completion.chunk"}
    assert events[0]["choices"][0]["delta"]["role"] == "assistant"
    assert len(contents(events)) > 2
    assert "".join(contents(events)) == "one two three four five six"
    assert events[-2]["choices"][0]["finish_reason"] == "stop"
    assert events[-1]["choices"] == []
    assert events[-1]["usage"]["completion_tokens"] == 11


async def test_a_diffusing_stream_shows_the_whole_text_each_time_with_its_masks() -> None:
    async with client_of(FakeInfiller("one two three", per_step=1)) as client:
        events = events_of((await client.post(URL, json=chat(stream=True, diffusing=True))).text)
    shown = contents(events)
    assert shown[0] == "one" + MASK_GLYPH * 4
    assert shown[-1] == "one two three"
    assert all(MASK_GLYPH in text for text in shown[:-1])


class Reviser(FakeInfiller):
    """Shows a tentative word that it takes back."""

    def __call__(self, request: Request, /) -> Iterator[Draft]:
        wrong = Slot("wrong", "tentative", 0.4)
        yield Draft("so wrong", (Slot("so ", "settled", 1.0), wrong), settled=3, n_tokens=2, forwards=1.0)
        yield Draft("so right", (), settled=8, n_tokens=2, forwards=2.0, done=True, ended="end")


async def test_tentative_text_is_never_appended_to_a_stream() -> None:
    async with client_of(Reviser()) as client:
        events = events_of((await client.post(URL, json=chat(stream=True))).text)
        drawn = events_of((await client.post(URL, json=chat(stream=True, diffusing=True))).text)
    assert contents(events) == ["so ", "right"]
    assert contents(drawn) == ["so wrong", "so right"]


@pytest.mark.parametrize("stream", [False, True])
async def test_a_stop_sequence_ends_the_text_and_no_part_of_it_gets_out(stream: bool) -> None:
    fake = FakeInfiller("keep this END not this", per_step=1)
    fields = {"stop": [" END", "never"], "stream": stream}
    async with client_of(fake) as client:
        response = await client.post(URL, json=chat(**fields))
    if stream:
        assert "".join(contents(events_of(response.text))) == "keep this"
    else:
        assert response.json()["choices"][0]["message"]["content"] == "keep this"
    assert fake.passes < 10


class Endless(FakeInfiller):
    def __call__(self, request: Request, /) -> Iterator[Draft]:
        yield replace(list(super().__call__(request))[-1], ended="length")


async def test_a_text_cut_off_at_max_tokens_says_so() -> None:
    async with client_of(Endless("half an ans")) as client:
        body = (await client.post(URL, json=chat(max_tokens=3))).json()
    assert body["choices"][0]["finish_reason"] == "length"


WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Weather of a city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
}
CALL = '{"name": "get_weather", "arguments": {"city": "Paris"}}'


@pytest.mark.parametrize(
    "text", [f"<tool_call>\n{CALL}\n</tool_call>", CALL, f"```json\n{CALL}\n```", f"<tool_call>{CALL}"]
)
@pytest.mark.parametrize("stream", [False, True])
async def test_a_tool_call_is_read_whatever_marks_the_model_forgot(text: str, stream: bool) -> None:
    fake = FakeInfiller(text, per_step=3)
    async with client_of(fake) as client:
        response = await client.post(URL, json=chat(tools=[WEATHER], stream=stream))
    if stream:
        events = events_of(response.text)
        assert contents(events) == []
        deltas = [event["choices"][0]["delta"] for event in events]
        calls = next(delta["tool_calls"] for delta in deltas if "tool_calls" in delta)
        assert calls[0]["index"] == 0
        assert events[-1]["choices"][0]["finish_reason"] == "tool_calls"
    else:
        choice = response.json()["choices"][0]
        assert choice["message"]["content"] is None
        assert choice["finish_reason"] == "tool_calls"
        calls = choice["message"]["tool_calls"]
    assert (calls[0]["type"], calls[0]["function"]["name"]) == ("function", "get_weather")
    assert json.loads(calls[0]["function"]["arguments"]) == {"city": "Paris"}
    system = fake.requests[0].messages[0]
    assert system[0] == "system"
    assert '"get_weather"' in system[1]


async def test_words_before_a_call_are_streamed_and_what_only_looks_like_a_call_is_text() -> None:
    async with client_of(FakeInfiller(f"Let me see. <tool_call>\n{CALL}\n</tool_call>", per_step=1)) as client:
        events = events_of((await client.post(URL, json=chat(tools=[WEATHER], stream=True))).text)
    assert "".join(contents(events)).strip() == "Let me see."
    async with client_of(FakeInfiller('{"name": "other", "arguments": {}}')) as client:
        body = (await client.post(URL, json=chat(tools=[WEATHER]))).json()
    assert body["choices"][0]["message"]["tool_calls"] == []
    assert body["choices"][0]["message"]["content"].startswith("{")


async def test_a_named_tool_is_called_and_earlier_calls_are_shown_as_the_model_writes_them() -> None:
    fake = FakeInfiller('{"city": "Rome"}}')
    earlier = [
        {"role": "user", "content": "Paris?"},
        {"role": "assistant", "content": None, "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Paris"}'}}]},
        {"role": "tool", "tool_call_id": "c1", "content": "sunny"},
        {"role": "tool", "tool_call_id": "c2", "content": "warm"},
        {"role": "user", "content": "and Rome?"},
    ]  # fmt: skip
    choice = {"type": "function", "function": {"name": "get_weather"}}
    async with client_of(fake) as client:
        body = (await client.post(URL, json=chat(messages=earlier, tools=[WEATHER], tool_choice=choice))).json()
    assert json.loads(body["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"]) == {"city": "Rome"}
    roles = [role for role, _ in fake.requests[0].messages]
    assert roles == ["system", "user", "assistant", "user", "user", "assistant"]
    assert "<tool_call>" in fake.requests[0].messages[2][1]
    assert fake.requests[0].messages[3][1].count("<tool_response>") == 2


SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"],
    "additionalProperties": False,
}


def form(schema: object) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "person", "schema": schema, "strict": True}}


class SecondThoughts(FakeInfiller):
    """Gives the next of its texts whenever the judge objects to one."""

    def __init__(self, *texts: str) -> None:
        super().__init__()
        self.texts = texts
        self.objections: list[list[tuple[int, int]]] = []

    def __call__(self, request: Request, /) -> Iterator[Draft]:
        assert request.judge is not None
        text = ""
        for text in self.texts:
            found = list(request.judge(text))
            self.objections.append(found)
            if not found:
                break
        yield Draft(text, settled=len(text), n_tokens=3, forwards=2.0, done=True, ended="end")


async def test_json_is_judged_where_it_breaks_the_schema_and_masked_again() -> None:
    fake = SecondThoughts('"name": "Ada", "age": "old"}', '"name": "Ada", "age": 36}')
    async with client_of(fake) as client:
        body = (await client.post(URL, json=chat(response_format=form(SCHEMA)))).json()
    assert json.loads(body["choices"][0]["message"]["content"]) == {"name": "Ada", "age": 36}
    ((start, end),) = fake.objections[0]
    assert fake.texts[0][start:end] == '"old"'


@pytest.mark.parametrize("stream", [False, True])
async def test_json_that_stays_wrong_is_an_error_and_never_an_answer(stream: bool) -> None:
    async with client_of(SecondThoughts('"name": 1}')) as client:
        response = await client.post(URL, json=chat(response_format=form(SCHEMA), stream=stream))
    error = events_of(response.text)[-1]["error"] if stream else response.json()["error"]
    assert error["code"] == "json_validate_failed"
    assert response.status_code == (200 if stream else 400)


ORDER = {
    "type": "object",
    "properties": {
        "status": {"enum": ["open", "paid"]},
        "to": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "zip": {"type": ["string", "null"], "maxLength": 5}},
            "required": ["city"],
        },
        "items": {"type": "array", "items": {"$ref": "#/$defs/item"}, "minItems": 1, "maxItems": 2},
    },
    "required": ["status", "items"],
    "additionalProperties": False,
    "$defs": {"item": {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}, "required": ["n"]}},
}


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ('"status": "open", "items": [{"n": 1}]}', []),
        ('"status": "open", "items": [{"n": 2}], "to": {"city": "Paris", "zip": null}}', []),
        ('"status": "lost", "items": [{"n": 1}]}', ['"lost"']),
        ('"status": "open", "items": [{"n": 1}, {"n": 0}]}', ["0"]),
        ('"status": "open", "items": [{"n": 1}, {"m": 1}]}', ['{"m": 1}']),
        ('"status": "open", "items": []}', ["[]"]),
        ('"status": "paid", "items": [{"n": 1}], "to": {"city": 7, "zip": "123456"}}', ["7", '"123456"']),
        ('"status": "paid" "items": [{"n": 1}]}', ['"']),
        ('"status": "open", "items": ' + "[" * 600 + "]" * 600 + "}", None),
    ],
)
async def test_of_a_nested_answer_only_what_is_wrong_is_masked_again(text: str, wrong: list[str] | None) -> None:
    fake = SecondThoughts(text)
    async with client_of(fake) as client:
        response = await client.post(URL, json=chat(response_format=form(ORDER)))
    assert response.status_code == (200 if wrong == [] else 400)
    if wrong is not None:
        assert [text[start:end] for start, end in fake.objections[0]] == wrong


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"a": False}, "required": ["a"]},
        {
            "type": "object",
            "properties": {"a": {"enum": [1]}},
            "required": ["a"],
            "allOf": [{"properties": {"a": {"enum": [2]}}}],
        },
        {"type": "object", "minProperties": 2, "maxProperties": 1},
    ],
)
async def test_a_schema_that_nothing_fits_ends_in_a_400(schema: object) -> None:
    async with client_of(SecondThoughts('"a": 1}', '"a": 2}')) as client:
        response = await client.post(URL, json=chat(response_format=form(schema)))
    assert (response.status_code, response.json()["error"]["code"]) == (400, "json_validate_failed")


async def test_an_answer_that_is_cut_off_says_so_and_is_no_error() -> None:
    class Cut(FakeInfiller):
        def __call__(self, request: Request, /) -> Iterator[Draft]:
            yield Draft('"name": "Ad', settled=11, n_tokens=3, done=True, ended="length")

    async with client_of(Cut()) as client:
        body = (await client.post(URL, json=chat(response_format=form(SCHEMA)))).json()
    assert body["choices"][0]["finish_reason"] == "length"


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "nonsense"},
        {"$ref": "https://example.com/schema.json"},
        {"properties": {"a": {"$ref": "file:///etc/passwd"}}},
        None,
    ],
)
async def test_a_schema_that_cannot_be_kept_is_refused_before_the_model_runs(schema: object) -> None:
    fake = FakeInfiller("{}")
    async with client_of(fake) as client:
        response = await client.post(URL, json=chat(response_format=form(schema)))
    assert response.status_code == 400
    assert response.json()["error"]["param"] == "response_format"
    assert fake.runs == 0


async def test_a_reference_in_a_circle_ends_in_an_error_of_the_client() -> None:
    async with client_of(SecondThoughts("{}")) as client:
        response = await client.post(URL, json=chat(response_format=form({"$ref": "#"})))
    assert response.status_code == 400


@pytest.mark.parametrize(
    ("fields", "status", "code", "param"),
    [
        ({"model": "gpt-9"}, 404, "model_not_found", "model"),
        ({"messages": []}, 400, "invalid_request_error", "messages"),
        ({"messages": [{"role": "user", "content": "x " * 3000}]}, 400, "context_length_exceeded", "messages"),
        ({"max_tokens": 0}, 400, "invalid_request_error", "max_tokens"),
        ({"reasoning_effort": "extreme"}, 400, "invalid_request_error", "reasoning_effort"),
        ({"policy": "none such"}, 400, "invalid_request_error", None),
        ({"tool_choice": "required"}, 400, "invalid_request_error", "tool_choice"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
            400,
            "invalid_request_error",
            "messages",
        ),
    ],
)
async def test_what_is_wrong_is_told_in_the_published_envelope(
    fields: dict[str, Any], status: int, code: str, param: str | None
) -> None:
    def script(request: Request) -> str:
        if request.policy != "auto":
            raise RequestError("unknown policy 'none such': choose one of check, threshold")
        return "x"

    async with client_of(FakeInfiller(script), Options(name="fake", n_context=1000)) as client:
        response = await client.post(URL, json=chat(**fields))
    error = response.json()["error"]
    assert response.status_code == status
    assert (error["code"], error["param"]) == (code, param)
    assert error["message"]
    assert error["type"] == "invalid_request_error"


async def test_a_model_that_fails_is_a_500_that_quotes_nothing() -> None:
    def script(_: Request) -> str:
        raise ValueError("secret text of the user")

    async with client_of(FakeInfiller(script)) as client:
        response = await client.post(URL, json=chat())
        streamed = await client.post(URL, json=chat(stream=True))
    assert (response.status_code, streamed.status_code) == (500, 500)
    assert response.json()["error"]["type"] == "server_error"
    assert "secret" not in response.text


async def test_lone_surrogates_and_odd_numbers_break_nothing() -> None:
    def body(text: str) -> bytes:
        message = f'{{"role": "user", "content": "{text}"}}'
        return f'{{"model": "mercury", "messages": [{message}], "temperature": NaN}}'.encode()

    async with client_of(FakeInfiller("\ud800 ok")) as client:
        client.headers["content-type"] = "application/json"
        odd = await client.post(URL, content=body("x"))
        bad = await client.post(URL, content=body("\\ud800"))
    assert odd.json()["choices"][0]["message"]["content"] == "? ok"
    assert bad.status_code == 400
