"""Requests on a cluster, without one: sessions, a replica that dies, one that is full, and what travels to it."""

import asyncio
import itertools
import pickle
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest

from mercury_lsp.api import chat, edit, fim, shapes
from mercury_lsp.api.answering import Question
from mercury_lsp.api.app import Options, build
from mercury_lsp.api.cluster import ATTEMPTS, Cluster, Denoiser, Denoisers, Item, session_of
from mercury_lsp.api.runs import OverloadedError, UnavailableError
from mercury_lsp.cli import main
from mercury_model.draft import Draft, Infiller, ModelInfo, Request
from mercury_model.errors import RequestError
from tests.api.serving import SECONDS
from tests.api.test_chat import contents, events_of
from tests.api.test_edit import NESTED
from tests.fakes import FakeInfiller

INFO = ModelInfo("fake", "cpu", "block")


class DiedError(Exception):
    """What a cluster raises for a replica that is gone."""


class FullError(Exception):
    """What a cluster raises where nobody has room."""


class Stream:
    """A replica's answer; `cancelled` is told."""

    def __init__(self, items: AsyncIterator[Item]) -> None:
        self._items = items
        self.cancelled = False

    def __aiter__(self) -> AsyncIterator[Item]:
        return self

    def __anext__(self) -> Any:
        return anext(self._items)

    def cancel(self) -> None:
        self.cancelled = True


def cluster(drafts: Callable[[Request, str], AsyncIterator[Item]], left: list[int] | None = None) -> Cluster:
    async def count(text: str) -> int:
        return len(text)

    ended = left if left is not None else []
    denoisers = Denoisers(lambda request, session: Stream(drafts(request, session)), count, (DiedError,), (FullError,))
    return Cluster(denoisers, INFO, lambda: ended.append(1))


def replicas(infiller: Infiller, *lives: int) -> Callable[[Request, str], AsyncIterator[Item]]:
    """Replicas r0, r1... that die after so many drafts; what comes after the last of `lives` lives on."""
    names = itertools.count()

    async def drafts(request: Request, session: str) -> AsyncIterator[Item]:
        i = next(names)
        denoiser = Denoiser(lambda report: infiller, n_running=4, name=f"r{i}")
        left = lives[i] if i < len(lives) else -1
        async for item in denoiser.drafts(request):
            if left == 0 and isinstance(item, Draft):
                raise DiedError
            left -= isinstance(item, Draft)
            yield item

    return drafts


def talking_to(app: Any) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1:1", timeout=SECONDS)


async def drafts_of(runs: Cluster, request: Request) -> list[Draft]:
    return [draft async for draft in runs.submit(request)]


async def test_a_run_whose_replica_dies_is_begun_again_elsewhere() -> None:
    runs = cluster(replicas(FakeInfiller("a b c d", per_step=2), 2, 0))
    run = runs.submit(Request("", ""))
    texts = [draft.text async for draft in run]
    assert texts == ["a ", "a b ", "a ", "a b ", "a b c ", "a b c d"]
    assert run.replica == "r2"
    assert runs.n_running == 0


async def test_what_kills_every_replica_it_meets_does_not_go_on_for_ever() -> None:
    runs = cluster(replicas(FakeInfiller("a b"), *[0] * 20))
    run = runs.submit(Request("", ""))
    with pytest.raises(UnavailableError, match=str(ATTEMPTS)):
        await anext(run)
    assert runs.n_running == 0


async def test_a_stream_goes_on_where_it_was_when_the_replica_dies() -> None:
    app = build(cluster(replicas(FakeInfiller("one two three four", per_step=1), 3)), Options(name="fake"))
    async with talking_to(app) as client:
        body = {"model": "fake", "messages": [{"role": "user", "content": "count"}], "stream": True}
        response = await client.post("/v1/chat/completions", json=body)
        counted = (await client.get("/metrics")).text
    assert "".join(contents(events_of(response.text))) == "one two three four"
    assert response.headers["x-mercury-replica"] == "r0"  # told with the first text
    assert 'mercury_replica_requests_total{replica="r1"} 1.0' in counted


async def test_a_successor_that_writes_another_text_is_an_error_and_no_mixture() -> None:
    texts = iter(["one two three", "uno due tre"])
    app = build(cluster(replicas(FakeInfiller(lambda _: next(texts), per_step=1), 3)), Options(name="fake"))
    async with talking_to(app) as client:
        body = {"model": "fake", "prompt": "x", "stream": True}
        lines = (await client.post("/v1/fim/completions", json=body)).text
    assert "another text" in lines
    assert "uno" not in lines


async def test_what_is_wrong_with_a_request_is_told_and_not_tried_again() -> None:
    def script(request: Request) -> str:
        raise RequestError("unknown policy")

    fake = FakeInfiller(script)
    runs = cluster(replicas(fake))
    with pytest.raises(RequestError, match="unknown policy"):
        await drafts_of(runs, Request("", ""))
    assert fake.runs == 1


async def test_where_nobody_has_room_the_client_is_told_to_wait() -> None:
    async def full(request: Request, session: str) -> AsyncIterator[Item]:
        raise FullError
        yield ""

    runs = cluster(full)
    with pytest.raises(OverloadedError):
        await drafts_of(runs, Request("", ""))
    app = build(runs, Options(name="fake"))
    async with talking_to(app) as client:
        response = await client.post("/v1/fim/completions", json={"model": "fake", "prompt": "x"})
    assert response.status_code == 429


async def test_a_run_that_is_closed_is_cancelled_at_its_replica() -> None:
    left: list[int] = []
    runs = cluster(replicas(FakeInfiller("a b c d", per_step=1)), left)
    run = runs.submit(Request("", ""))
    await anext(run)
    stream = run._stream
    assert runs.n_running == 1
    await run.aclose()
    await run.aclose()
    assert runs.n_running == 0
    assert isinstance(stream, Stream)
    assert stream.cancelled
    assert runs.close()
    assert runs.close()
    assert left == [1]
    with pytest.raises(UnavailableError):
        runs.submit(Request("", ""))


async def test_a_replica_that_is_cancelled_frees_its_place() -> None:
    denoiser = Denoiser(lambda report: FakeInfiller("w " * 500, per_step=1), n_running=1, name="r")
    drafts = denoiser.drafts(Request("long", ""))
    assert await anext(drafts) == "r"
    await anext(drafts)
    await drafts.aclose()  # pyright: ignore[reportAttributeAccessIssue]
    again = [item async for item in denoiser.drafts(Request("again", ""))]
    assert isinstance(again[-1], Draft)
    assert again[-1].done


FILE = "import os\n\n\ndef main():\n    " * 20


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        (Request(FILE, "rest", path="a.py"), Request(FILE + "x = 1", "rest", path="a.py"), True),
        (Request(FILE, "rest"), Request(FILE + "x", "another rest"), True),
        (Request(FILE, "", path="a.py"), Request(FILE, "", path="b.py"), False),
        (Request("import a\n", ""), Request("import b\n", ""), False),
        (Request("", "def f(): ..."), Request("", "def g(): ..."), False),
        (
            Request("", "", messages=(("system", "s"), ("user", "hello"))),
            Request("", "", messages=(("system", "s"), ("user", "hello"), ("assistant", "hi"), ("user", "and?"))),
            True,
        ),
        (
            Request("", "", messages=(("system", "s"), ("user", "hello"))),
            Request("", "", messages=(("system", "s"), ("user", "good day"))),
            False,
        ),
    ],
)
def test_a_session_is_a_document_or_a_conversation(a: Request, b: Request, same: bool) -> None:
    assert (session_of(a) == session_of(b)) is same


SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def questions() -> list[Question]:
    said = [{"role": "user", "content": "hello"}]
    form = {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}}
    return [
        fim.question(shapes.FimRequest.model_validate({"model": "m", "prompt": "a", "suffix": "b"})),
        chat.question(shapes.ChatRequest.model_validate({"model": "m", "messages": said, "response_format": form}), 99),
        edit.question(
            shapes.EditRequest.model_validate(
                {"model": "m", "messages": [{"role": "user", "content": NESTED}], "stop": "x"}
            )
        ),
    ]


@pytest.mark.parametrize("question", questions())
def test_a_request_travels_with_its_rules(question: Question) -> None:
    sent = pickle.loads(pickle.dumps(question.request))
    for text in ('{"n": 1}', '{"n": "one"}', "a\n\nb", "ab"):
        for rule in ("end", "judge"):
            before, after = getattr(question.request, rule), getattr(sent, rule)
            assert (before is None) == (after is None)
            assert before is None or before(text) == after(text)


def test_without_the_extra_the_command_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    monkeypatch.delitem(__import__("sys").modules, "mercury_lsp.api.ray_serve", raising=False)
    assert main(["api", "--replicas", "2", "--port", "0"]) == 2
    assert "pip install 'mercury-lsp[cluster]'" in capsys.readouterr().err


async def test_counting_survives_a_death_too() -> None:
    fails = iter([True, False])

    async def count(text: str) -> int:
        await asyncio.sleep(0)
        if next(fails):
            raise DiedError
        return len(text)

    denoisers = Denoisers(lambda request, session: Stream(aiter_nothing()), count, (DiedError,), (FullError,))
    assert await Cluster(denoisers, INFO, lambda: None).count_tokens("four") == 4


async def aiter_nothing() -> AsyncIterator[Item]:
    return
    yield ""
