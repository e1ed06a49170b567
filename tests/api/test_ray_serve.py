"""Two replicas of a fake model on a Ray of this machine: sessions stay, a killed replica loses no request.

`make test-cluster` installs the extra `cluster` and runs these; without it they are skipped.
"""

import asyncio
import json
import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from mercury_lsp.api.app import Options, build
from mercury_lsp.errors import FailureError, UsageError
from mercury_model.draft import Infiller, Request
from mercury_model.errors import FetchError, RequestError
from tests.api.serving import serving_app
from tests.fakes import FakeInfiller

pytest.importorskip("ray.serve", reason="Ray Serve is not installed: make test-cluster installs it")

from mercury_lsp.api import ray_serve

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]
N_WORDS = 15
ROOT = Path(__file__).parents[2]


def answer(request: Request) -> str:
    if request.prefix == "bad":
        raise RequestError("unknown policy")
    name = request.prefix.partition("\n")[0]
    return f"{os.getpid() if name == 'pid' else name}:" + " word" * (N_WORDS if name.startswith("long") else 2)


def load(report: Callable[[str, float], None]) -> Infiller:
    return FakeInfiller(answer, delay=0.005, per_step=2)


def load_nothing(report: Callable[[str, float], None]) -> Infiller:
    raise FetchError("no network: run `mercury-lsp model pull`")


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    """A Ray that was started for these tests."""
    with pytest.MonkeyPatch.context() as patch:
        # the replicas unpickle `load` from here
        patch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
        assert "no --address" in ray_serve.connect(None)
        yield
        ray_serve.leave()


@pytest.fixture(scope="module")
def url(cluster: None) -> Iterator[str]:
    """An API whose two denoisers run there."""
    runs = ray_serve.deploy(load, n_replicas=2, n_running=8, n_waiting=2000, name="mercury-test")
    with serving_app(build(runs, Options(name="fake"))) as url:
        yield url


@dataclass(frozen=True, slots=True)
class Answered:
    text: str
    replica: str


async def ask(client: httpx.AsyncClient, prompt: str, stream: bool = False) -> Answered:
    body = {"model": "fake", "prompt": prompt, "stop": [], "stream": stream}
    response = await client.post("/v1/fim/completions", json=body)
    assert response.status_code == 200, response.text
    if not stream:
        return Answered(response.json()["choices"][0]["text"], response.headers["x-mercury-replica"])
    events = [json.loads(line[6:]) for line in response.text.split("\n\n") if line and line != "data: [DONE]"]
    assert not any("error" in event for event in events), response.text
    text = "".join(event["choices"][0]["text"] for event in events)
    return Answered(text, response.headers["x-mercury-replica"])


def client_of(url: str) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=url, timeout=600, limits=httpx.Limits(max_connections=None))


def test_a_model_that_cannot_be_loaded_is_one_line(cluster: None) -> None:
    with pytest.raises(FailureError, match="model pull"):
        ray_serve.deploy(load_nothing, n_replicas=1, n_running=1, n_waiting=1, name="mercury-broken")


async def test_requests_of_one_document_go_to_one_replica_and_documents_to_both(url: str) -> None:
    documents = [f"# document {i}\n" + "x = 1\n" * 100 for i in range(24)]
    async with client_of(url) as client:
        # each is typed in four times; fewer at once than a replica takes before it passes them on
        typed = [[document + "y = 2\n" * n for document in documents] for n in range(4)]
        answers = [await asyncio.gather(*(ask(client, text) for text in texts)) for texts in typed]
        metrics = (await client.get("/metrics")).text
    places = [{a.replica for a in of_one} for of_one in zip(*answers, strict=True)]
    assert all(len(place) == 1 for place in places)
    everywhere = set[str]().union(*places)
    assert len(everywhere) == 2
    for replica in everywhere:
        assert f'mercury_replica_requests_total{{replica="{replica}"}}' in metrics


async def test_a_replica_that_is_killed_under_load_loses_no_request(url: str) -> None:
    async with client_of(url) as client:
        prompts = [f"long {i}" for i in range(48)]
        victim = await ask(client, "pid")
        load = [asyncio.ensure_future(ask(client, p, stream=i % 2 == 0)) for i, p in enumerate(prompts)]
        await asyncio.wait(load, return_when=asyncio.FIRST_COMPLETED)
        n_left = sum(not task.done() for task in load)
        os.kill(int(victim.text.partition(":")[0]), signal.SIGKILL)
        answers = await asyncio.gather(*load)
        assert n_left > 0
        assert [a.text for a in answers] == [f"{p}:" + " word" * N_WORDS for p in prompts]
        # and what was the dead one's is answered by the other, or by the one that takes its place
        after = await ask(client, "pid")
    assert after.replica != victim.replica


async def test_what_a_replica_refuses_is_told_as_on_one_machine(url: str) -> None:
    async with client_of(url) as client:
        response = await client.post("/v1/fim/completions", json={"model": "fake", "prompt": "bad"})
        health = (await client.get("/health")).json()
    assert response.status_code == 400
    assert "unknown policy" in response.json()["error"]["message"]
    assert (health["state"], health["device"]) == ("ready", "cpu (cluster)")


@pytest.mark.parametrize(
    ("nodes", "n_replicas", "share"),
    [
        ([{"CPU": 8, "GPU": 2}, {"CPU": 8, "GPU": 2}], 4, (1, 1)),
        ([{"CPU": 8}], 2, (4, 0)),
        ([{"CPU": 4}, {"CPU": 4}, {"CPU": 4}], 2, (4, 0)),
        ([{"CPU": 2}], 2, (1, 0)),
    ],
)
def test_a_replica_gets_a_gpu_or_its_share_of_the_cpus(
    nodes: list[dict[str, float]], n_replicas: int, share: tuple[int, int]
) -> None:
    free = {kind: sum(node.get(kind, 0) for node in nodes) for kind in ("CPU", "GPU")}
    got = ray_serve.share_of(nodes, free, n_replicas)
    assert (got.n_cpus, got.n_gpus) == share


@pytest.mark.parametrize(
    ("nodes", "free"),
    [
        ([{"CPU": 64, "GPU": 2}], {"CPU": 64, "GPU": 2}),
        ([{"CPU": 64, "GPU": 4}], {"CPU": 64, "GPU": 1}),
        ([{"CPU": 2}], {"CPU": 2}),
        ([], {}),
    ],
)
def test_more_replicas_than_there_is_room_for_are_refused(
    nodes: list[dict[str, float]], free: dict[str, float]
) -> None:
    with pytest.raises(UsageError, match="at most"):
        ray_serve.share_of(nodes, free, 3)
