"""The API over the embedded model: concurrent requests get what they get alone, and what the model writes is read."""

import asyncio
import json
import time
from collections.abc import Iterator

import httpx
import pytest

from mercury_lsp.api.app import Options
from mercury_model import load
from mercury_model.draft import Infiller
from tests.api.serving import serving
from tests.api.test_chat import SCHEMA, WEATHER, chat, form

pytestmark = [pytest.mark.real, pytest.mark.slow]
N_REQUESTS = 32


@pytest.fixture(scope="module")
def model() -> Infiller:
    return load(device="cpu")


@pytest.fixture(scope="module")
def url(model: Infiller) -> Iterator[str]:
    with serving(model, Options(name=model.info.name), n_running=8) as (url, _):
        yield url


def middle(i: int) -> dict[str, object]:
    prompt = f"def add_{i}(a, b):\n    return a + {i}\n\n\ndef scale_{i}(values, factor):\n    return"
    return {"model": "mercury", "prompt": prompt, "suffix": "\n", "max_tokens": 24, "reasoning_effort": "low"}


async def test_thirty_two_requests_at_once_lose_nothing_and_equal_those_one_by_one(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    async with httpx.AsyncClient(base_url=url, timeout=1200) as client:

        async def one(i: int) -> tuple[str, float]:
            began = time.monotonic()
            response = await client.post("/v1/fim/completions", json=middle(i))
            assert response.status_code == 200, response.text
            return response.json()["choices"][0]["text"], time.monotonic() - began

        began = time.monotonic()
        alone = [await one(i) for i in range(N_REQUESTS)]
        between = time.monotonic()
        together = await asyncio.gather(*(one(i) for i in range(N_REQUESTS)))
        ended = time.monotonic()
    assert [text for text, _ in together] == [text for text, _ in alone]
    with capsys.disabled():
        for name, answers, seconds in (("alone", alone, between - began), ("together", together, ended - between)):
            times = sorted(t for _, t in answers)
            p95 = times[int(0.95 * len(times))]
            print(f"\n{name}: {N_REQUESTS / seconds:.2f} requests/s, p95 {p95:.2f} s", end="")


async def test_a_schema_and_a_tool_are_kept_by_the_model(url: str) -> None:
    async with httpx.AsyncClient(base_url=url, timeout=600) as client:
        content = "Ada Lovelace was 36 years old. Give her name and age."
        body = chat(content, temperature=0, response_format=form(SCHEMA), max_tokens=60)
        person = (await client.post("/v1/chat/completions", json=body)).json()["choices"][0]["message"]["content"]
        body = chat("What is the weather in Paris?", temperature=0, tools=[WEATHER], max_tokens=60)
        choice = (await client.post("/v1/chat/completions", json=body)).json()["choices"][0]
    assert json.loads(person)["age"] == 36
    assert choice["finish_reason"] == "tool_calls"
    assert json.loads(choice["message"]["tool_calls"][0]["function"]["arguments"]) == {"city": "Paris"}
