"""Clients of others, unmodified, against a loopback server: the SDKs, and the request shapes of editors."""

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import inceptionai
import openai
import pytest

from mercury_lsp.api.app import Options
from mercury_model.draft import Request
from tests.api.serving import SECONDS, serving
from tests.api.test_chat import WEATHER
from tests.api.test_edit import NESTED
from tests.fakes import FakeInfiller

KEY = "test-key"


def script(request: Request) -> str:
    if request.original is not None:
        return request.original.replace("b.B", "b.BB")
    if request.messages and "get_weather" in request.messages[0][1]:
        return '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'
    return "a fine and rather long answer"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving(FakeInfiller(script), Options(name="fake", keys=(KEY,))) as (url, _):
        yield url


# --- openai ----------------------------------------------------------------------------------------------------------


@pytest.fixture
async def gpt(url: str) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0) as client:
        yield client


async def test_openai_chat_whole_and_streamed(gpt: openai.AsyncOpenAI) -> None:
    messages: Any = [{"role": "user", "content": "hi"}]
    whole = await gpt.chat.completions.create(model="mercury-2", messages=messages, temperature=0.75)
    assert whole.choices[0].message.content == "a fine and rather long answer"
    assert whole.usage is not None
    stream: Any = await gpt.chat.completions.create(
        model="mercury-2", messages=messages, stream=True, stream_options={"include_usage": True}
    )
    chunks = [chunk async for chunk in stream]
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == whole.choices[0].message.content
    assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens


async def test_openai_tools_completions_models_and_errors(gpt: openai.AsyncOpenAI) -> None:
    tools: Any = [WEATHER]
    called: Any = await gpt.chat.completions.create(
        model="mercury-2", messages=[{"role": "user", "content": "weather?"}], tools=tools
    )
    assert called.choices[0].finish_reason == "tool_calls"
    assert json.loads(called.choices[0].message.tool_calls[0].function.arguments) == {"city": "Paris"}
    middle = await gpt.completions.create(model="mercury-coder", prompt="x =", suffix="\n", max_tokens=20)
    assert middle.choices[0].text == "a fine and rather long answer"
    assert "mercury-2" in [model.id async for model in gpt.models.list()]
    with pytest.raises(openai.NotFoundError) as missing:
        await gpt.completions.create(model="davinci", prompt="x")
    assert missing.value.code == "model_not_found"
    with pytest.raises(openai.AuthenticationError):
        await gpt.with_options(api_key="wrong").models.list()


# --- inceptionai -----------------------------------------------------------------------------------------------------


@pytest.fixture
async def mercury(url: str) -> AsyncIterator[inceptionai.AsyncInception]:
    async with inceptionai.AsyncInception(base_url=url, api_key=KEY, max_retries=0) as client:
        yield client


async def test_inceptionai_chat_streamed_and_diffusing(mercury: inceptionai.AsyncInception) -> None:
    messages: Any = [{"role": "user", "content": "hi"}]
    whole = await mercury.chat.completions.create(model="mercury-2", messages=messages, reasoning_effort="instant")
    assert whole.choices[0].message.content == "a fine and rather long answer"
    appended: Any = await mercury.chat.completions.create(model="mercury-2", messages=messages, stream=True)
    assert "".join([c.choices[0].delta.content or "" async for c in appended if c.choices]) == (
        "a fine and rather long answer"
    )
    drawn: Any = await mercury.chat.completions.create(
        model="mercury-2", messages=messages, stream=True, diffusing=True
    )
    texts = [c.choices[0].delta.content async for c in drawn if c.choices and c.choices[0].delta.content]
    assert texts[-1] == "a fine and rather long answer"
    assert len(texts[0]) != len(texts[-1])


async def test_inceptionai_middles_edits_and_lists(mercury: inceptionai.AsyncInception) -> None:
    middle = await mercury.fim.completions.create(model="mercury-edit-2", prompt="x =", suffix="\n")
    assert middle.choices[0].text == "a fine and rather long answer"
    stream: Any = await mercury.fim.completions.create(model="mercury-edit-2", prompt="x =", suffix="\n", stream=True)
    assert "".join([c.choices[0].text or "" async for c in stream if c.choices]) == "a fine and rather long answer"
    edit = await mercury.edit.completions.create(
        model="mercury-edit-2", messages=[{"role": "user", "content": NESTED}], presence_penalty=1.0
    )
    assert edit.choices[0].message.content == "```\nx = b.BB\n```"
    assert edit.object == "edit.completion"
    for listed in (mercury.models.list, mercury.models.list_chat, mercury.models.list_fim, mercury.models.list_edit):
        models = await listed()
        assert all(model.context_length > 0 for model in models.data)
    with pytest.raises(inceptionai.BadRequestError):
        await mercury.edit.completions.create(model="mercury-edit-2", messages=[{"role": "user", "content": "x"}])


# --- litellm ---------------------------------------------------------------------------------------------------------


LITELLM = """
import json, sys, litellm
url, key = sys.argv[1:]
chat = dict(messages=[{"role": "user", "content": "hi"}], api_key=key)
answers = [
    litellm.completion(model="openai/mercury-2", api_base=f"{url}/v1", **chat),
    litellm.completion(model="inception/mercury-2", api_base=f"{url}/v1", **chat),
]
middle = litellm.text_completion(
    model="text-completion-openai/mercury-edit-2", prompt="x =", suffix="\\n", api_base=f"{url}/v1", api_key=key
)
print(json.dumps([answer.choices[0].message.content for answer in answers] + [middle.choices[0].text]))
"""


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("litellm") is None, reason="litellm is not installed (extra dev-litellm)")
def test_litellm_speaks_to_it_under_two_names(url: str) -> None:
    # a process of its own: importing it takes long and warns a lot
    environment = {**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    command = [sys.executable, "-c", LITELLM, url, KEY]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240, check=False)
    assert run.returncode == 0, run.stderr[-2000:]
    assert json.loads(run.stdout.splitlines()[-1]) == ["a fine and rather long answer"] * 3


# --- editors: the shapes they send -----------------------------------------------------------------------------------

CONTINUE_FIM = {
    "model": "mercury-coder", "prompt": "def f():\n    ", "suffix": "<|endoftext|>", "max_tokens": 150,
    "temperature": 0.01, "stop": ["<|fim_prefix|>", "\n\n", "\n \n"], "stream": True, "presence_penalty": 1.5,
    "nextEdit": False,
}  # fmt: skip
CONTINUE_EDIT = {
    "model": "mercury-coder", "stream": True, "nextEdit": True, "temperature": 0.0, "max_tokens": 1024,
    "messages": [{"role": "system", "content": "You are an edit model."}, {"role": "user", "content": NESTED}],
}  # fmt: skip
ZED = {"model": "mercury-coder", "messages": [{"role": "user", "content": NESTED}], "max_completion_tokens": 512}
MINUET = {
    "model": "mercury-coder", "prompt": "# language: python\nx = ", "suffix": "\n", "max_tokens": 256, "top_p": 0.9,
    "stream": True, "stop": ["\n\n"],
}  # fmt: skip
CURSORTAB = {"model": "mercury-edit", "messages": [{"role": "user", "content": NESTED}], "stream": False}


@pytest.mark.parametrize(
    ("path", "body", "expected"),
    [
        ("/v1/completions", CONTINUE_FIM, "a fine and rather long answer"),
        ("/v1/edit/completions", CONTINUE_EDIT, "```\nx = b.BB\n```"),
        ("/v1/edit/completions", ZED, "```\nx = b.BB\n```"),
        ("/v1/fim/completions", MINUET, "a fine and rather long answer"),
        ("/v1/edit/completions", CURSORTAB, "```\nx = b.BB\n```"),
    ],
    ids=["continue-fim", "continue-edit", "zed", "minuet", "cursortab"],
)
async def test_what_an_editor_sends_is_answered(url: str, path: str, body: dict[str, Any], expected: str) -> None:
    async with httpx.AsyncClient(base_url=url, headers={"authorization": f"Bearer {KEY}"}, timeout=SECONDS) as client:
        response = await client.post(path, json=body)
    assert response.status_code == 200, response.text
    if body.get("stream"):
        events = [json.loads(line[6:]) for line in response.text.split("\n\n") if line and line != "data: [DONE]"]
        choices = [event["choices"][0] for event in events if event["choices"]]
        text = "".join(choice["text"] if "text" in choice else choice["delta"].get("content", "") for choice in choices)
    else:
        text = response.json()["choices"][0]["message"]["content"]
    assert text == expected
