"""Many clients at once, and clients that leave: over a real loopback server."""

import asyncio
import json
import socket
from urllib.parse import urlsplit

import httpx
import pytest

from mercury_model.draft import Request
from tests.api.serving import SECONDS, client_of, serving, until
from tests.fakes import FakeInfiller

URL = "/v1/fim/completions"


def echo(request: Request) -> str:
    return f"answer {request.prefix}"


async def test_a_thousand_requests_at_once_all_get_their_own_answer() -> None:
    async with client_of(FakeInfiller(echo), n_running=16) as client:

        async def one(i: int) -> None:
            body = {"model": "mercury", "prompt": str(i), "stream": i % 2 == 0}
            response = await client.post(URL, json=body)
            assert response.status_code == 200, response.text
            if i % 2:
                text = response.json()["choices"][0]["text"]
            else:
                events = [line[6:] for line in response.text.split("\n\n") if line][:-1]
                text = "".join(json.loads(event)["choices"][0]["text"] for event in events)
            assert text == f"answer {i}"

        await asyncio.gather(*(one(i) for i in range(1000)))


@pytest.mark.parametrize("stream", [False, True])
async def test_a_client_that_is_killed_frees_its_place_at_the_next_pass(stream: bool) -> None:
    def script(request: Request) -> str:
        return "word " * (2000 if request.prefix == "long" else 1)

    fake = FakeInfiller(script, delay=0.01, per_step=2)
    with serving(fake, n_running=2) as (url, pool):
        body = json.dumps({"model": "mercury", "prompt": "long", "stop": [], "max_tokens": 8000, "stream": stream})
        head = (
            f"POST {URL} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        )
        address = (urlsplit(url).hostname, urlsplit(url).port)
        clients = [await asyncio.to_thread(socket.create_connection, address) for _ in range(4)]
        for client in clients:
            client.sendall((head + body).encode())
        await asyncio.to_thread(until, lambda: pool.n_running == 2 and pool.n_waiting == 2)
        for client in clients:
            client.close()
        await asyncio.to_thread(until, lambda: pool.n_running == 0)
        assert fake.passes < 2 * 2000 / 2
        async with httpx.AsyncClient(base_url=url, timeout=SECONDS) as alive:
            answer = await alive.post(URL, json={"model": "mercury", "prompt": "short", "stop": []})
            assert answer.json()["choices"][0]["text"] == "word "
            counted = (await alive.get("/metrics")).text
        assert 'mercury_requests_total{endpoint="fim",status="499"}' in counted


async def test_requests_before_the_model_is_loaded_wait_for_it() -> None:
    with serving(FakeInfiller("ready now")) as (url, _):
        async with httpx.AsyncClient(base_url=url, timeout=SECONDS) as client:
            answers = await asyncio.gather(
                *(client.post(URL, json={"model": "mercury", "prompt": str(i)}) for i in range(20))
            )
    assert {answer.json()["choices"][0]["text"] for answer in answers} == {"ready now"}
