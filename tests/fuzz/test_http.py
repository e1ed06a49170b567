"""Bodies of any kind to every endpoint of the HTTP server: an answer or an error of the client, never one of ours."""

import asyncio
import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.api.serving import client_of
from tests.fakes import FakeInfiller
from tests.fuzz.messages import JSON, TEXTS

PATHS = (
    "/v1/chat/completions",
    "/v1/fim/completions",
    "/v1/completions",
    "/v1/edit/completions",
    "/v1/apply/completions",
)
MESSAGES = st.lists(
    st.fixed_dictionaries({"role": st.sampled_from(("user", "assistant", "x")), "content": TEXTS | JSON})
)
FIELDS = {
    "messages": MESSAGES, "prompt": TEXTS, "suffix": TEXTS, "max_tokens": st.integers(-1, 40) | JSON,
    "stop": TEXTS | JSON,
    "temperature": st.floats() | JSON, "stream": st.booleans() | JSON, "seed": JSON, "tools": JSON, "path": TEXTS,
    "response_format": JSON, "context": JSON, "original": TEXTS, "policy": TEXTS, "diffusing": JSON, "n": JSON,
}  # fmt: skip
BODIES = st.fixed_dictionaries({"model": st.just("fake")}, optional=FIELDS) | JSON


async def send(asked: list[tuple[str, Any]]) -> None:
    async with client_of(FakeInfiller("words and words")) as client:
        for path, body in asked:
            content = body if isinstance(body, bytes) else json.dumps(body).encode()
            response = await client.post(path, content=content, headers={"Content-Type": "application/json"})
            assert response.status_code < 500, (path, body, response.text)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(PATHS), BODIES | st.binary(max_size=30)), max_size=8))
def test_no_body_is_an_error_of_the_server(asked: list[tuple[str, Any]]) -> None:
    asyncio.run(send(asked))
