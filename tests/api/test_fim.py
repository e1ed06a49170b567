"""/v1/fim/completions and /v1/completions over a scripted Infiller."""

import json
from typing import Any

import pytest

from mercury_lsp.api.answering import canvas_text, drawn
from mercury_model.draft import MASK_GLYPH, Draft, Request, Slot, Snippet
from tests.api.serving import client_of
from tests.api.test_chat import events_of
from tests.fakes import FakeInfiller

URL = "/v1/fim/completions"


def fim(**fields: Any) -> dict[str, Any]:
    return {"model": "mercury-edit-2", "prompt": "def f(x):\n    ", "suffix": "\nprint(f(1))\n", **fields}


async def test_a_middle_has_the_published_shape() -> None:
    fake = FakeInfiller("return x + 1")
    async with client_of(fake) as client:
        body = (await client.post(URL, json=fim())).json()
    assert (body["object"], body["id"][:5]) == ("text_completion", "cmpl-")
    assert body["choices"] == [{"index": 0, "text": "return x + 1", "finish_reason": "stop"}]
    asked = fake.requests[0]
    assert (asked.prefix, asked.suffix, asked.max_tokens) == ("def f(x):\n    ", "\nprint(f(1))\n", 512)
    assert asked.temperature == 0.0


async def test_the_published_stop_sequences_hold_unless_others_are_sent() -> None:
    async with client_of(FakeInfiller("a\n\nb;c", per_step=1)) as client:
        default = (await client.post(URL, json=fim())).json()
        other = (await client.post(URL, json=fim(stop=[";"]))).json()
        none = (await client.post(URL, json=fim(stop=[]))).json()
        plain = (await client.post("/v1/completions", json={"model": "mercury", "prompt": "x"})).json()
    assert default["choices"][0]["text"] == "a"
    assert other["choices"][0]["text"] == "a\n\nb"
    assert none["choices"][0]["text"] == "a\n\nb;c"
    assert plain["choices"][0]["text"] == "a\n\nb;c"


async def test_the_middle_ends_where_it_begins_to_repeat_what_follows() -> None:
    fake = FakeInfiller("return x\nprint(f(1))\nprint(f(1))", per_step=1)
    async with client_of(fake) as client:
        body = (await client.post(URL, json=fim())).json()
    assert body["choices"][0]["text"] == "return x"


@pytest.mark.parametrize("suffix", [None, "", "<|endoftext|>"])
async def test_a_blank_suffix_is_none(suffix: str | None) -> None:
    fake = FakeInfiller("x")
    async with client_of(fake) as client:
        assert (await client.post(URL, json=fim(suffix=suffix))).status_code == 200
    assert fake.requests[0].suffix == ""


async def test_a_stream_appends_text_and_holds_back_what_may_become_a_stop() -> None:
    fake = FakeInfiller("one\ntwo\n\nthree", per_step=1)
    async with client_of(fake) as client:
        events = events_of((await client.post(URL, json=fim(stream=True))).text)
    texts = [event["choices"][0]["text"] for event in events]
    assert "".join(texts) == "one\ntwo"
    assert texts[0] == "one"
    assert texts[1] == "\ntwo"
    assert events[-1]["choices"][0]["finish_reason"] == "stop"


async def test_the_canvas_comes_with_each_draft_and_the_verdict_with_the_last_event() -> None:
    body = fim(stream=True, diffusing=True, canvas=True, language="python")
    async with client_of(FakeInfiller("return x", per_step=1)) as client:
        events = events_of((await client.post(URL, json=body)).text)
    states = [[slot[1] for slot in event["mercury"]["slots"]] for event in events[:-1]]
    assert states[0] == ["settled", "masked", "masked"]
    assert states[-1] == ["settled"] * 3
    assert events[-1]["mercury"]["valid"] is True
    assert events[-1]["mercury"]["usage"]["forwards"] == 3.0


async def test_our_own_fields_reach_the_model() -> None:
    fake = FakeInfiller("y")
    fields = fim(
        path="a.py", context=[{"path": "b.py", "text": "B = 1"}], original="x = 1\n", instruction="rename",
        policy="threshold", reasoning_effort="instant", presence_penalty=1.5, repetition_penalty=1, top_k=-1,
    )  # fmt: skip
    async with client_of(fake) as client:
        body = (await client.post(URL, json=fields)).json()
    asked = fake.requests[0]
    assert (asked.original, asked.instruction, asked.path) == ("x = 1\n", "rename", "a.py")
    assert asked.context == (Snippet("b.py", "B = 1"),)
    assert (asked.policy, asked.effort, asked.top_k) == ("threshold", "instant", 0)
    assert body["mercury"]["valid"] is True


async def test_two_requests_for_the_same_place_share_a_cache() -> None:
    fake = FakeInfiller("x")
    async with client_of(fake, n_running=3) as client:
        for prompt in ("def alpha():", "class Beta:", "def alpha(): ", "class Beta: "):
            await client.post(URL, json=fim(prompt=prompt, suffix=f"# end of {prompt.strip()}"))
    lanes = [request.document for request in fake.requests]
    assert lanes[0] == lanes[2]
    assert lanes[1] == lanes[3]
    assert lanes[0] != lanes[1]


@pytest.mark.parametrize(
    "fields",
    [
        {"top_k": -2}, {"top_k": 5000}, {"top_p": 0}, {"max_tokens": 9000}, {"prompt": None}, {"prompt": ["a", "b"]},
        {"n": 2}, {"stop": 5}, {"seed": 10**30}, {"presence_penalty": 9},
    ],
)  # fmt: skip
async def test_a_field_out_of_its_range_is_named(fields: dict[str, Any]) -> None:
    fake = FakeInfiller("x")
    async with client_of(fake) as client:
        response = await client.post(URL, json=fim(**fields))
    assert response.status_code == 400
    assert next(iter(fields)) in response.json()["error"]["param"]
    assert fake.runs == 0


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'"x"', b"\xff\xfe", b'{"model": ' + b"[" * 100_000])
async def test_a_body_that_is_no_json_object_is_a_400(content: bytes) -> None:
    async with client_of(FakeInfiller("x")) as client:
        response = await client.post(URL, content=content, headers={"content-type": "application/json"})
    assert response.status_code == 400
    assert json.loads(response.content)["error"]["type"] == "invalid_request_error"


async def test_cached_tokens_are_those_that_needed_no_prefill() -> None:
    def script(_: Request) -> str:
        return "x"

    async with client_of(FakeInfiller(script)) as client:
        usage = (await client.post(URL, json=fim())).json()["usage"]
    assert usage["cached_input_tokens"] == usage["prompt_tokens_details"]["cached_tokens"] == usage["prompt_tokens"]


@pytest.mark.parametrize(
    ("slots", "text", "expected"),
    [
        ((" re", "turn", " x"), "return x", ["re", "turn", " x"]),
        ((" ", "return", " x", ")", ")"), "return x", ["return", " x"]),
        (("a", "b"), "ab", ["a", "b"]),
        (("a",), "", []),
    ],
)
def test_the_drawn_slots_spell_the_text_and_nothing_around_it(
    slots: tuple[str, ...], text: str, expected: list[str]
) -> None:
    draft = Draft(text, tuple(Slot(piece, "settled", 1.0) for piece in slots))
    assert [slot.text for slot in drawn(draft)] == expected


def test_masks_keep_their_places_between_the_words() -> None:
    masked = Slot("", "masked", 0.0)
    slots = (Slot(" re", "settled", 1.0), masked, Slot(" x", "tentative", 0.5), masked)
    assert canvas_text(Draft("re x", slots, n_open=2)) == f"re{MASK_GLYPH} x{MASK_GLYPH}"
