"""The pool: fairness, cancelling, limits, failures, and that what runs beside a request does not change it."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from mercury_lsp.api.pool import KEPT_DRAFTS, Pool
from mercury_lsp.api.runs import OverloadedError, UnavailableError
from mercury_model.draft import Draft, Infiller, Request
from mercury_model.errors import FetchError, RequestError
from tests.api.serving import SECONDS, until
from tests.fakes import FakeInfiller


def ask(prefix: str = "", **fields: object) -> Request:
    return replace(Request(prefix=prefix, suffix=""), **fields)


async def text_of(pool: Pool, request: Request) -> str:
    drafts = [draft async for draft in pool.submit(request)]
    assert drafts[-1].done
    return drafts[-1].text


class Gate(FakeInfiller):
    """A FakeInfiller whose passes wait until `open` is set; `order` notes the prefix of each pass."""

    def __init__(self, script: str | Callable[[Request], str] = "", *, per_step: int = 1) -> None:
        super().__init__(script, per_step=per_step)
        self.open = threading.Event()
        self.order: list[str] = []

    def __call__(self, request: Request, /) -> Iterator[Draft]:
        for draft in super().__call__(request):
            assert self.open.wait(SECONDS)
            self.order.append(request.prefix)
            yield draft


async def test_running_requests_get_one_pass_each_in_turn() -> None:
    gate = Gate("a b c d e f")
    pool = Pool(lambda report: gate)
    texts = [asyncio.ensure_future(text_of(pool, ask(name))) for name in ("x", "y")]
    await asyncio.sleep(0)
    gate.open.set()
    assert await asyncio.gather(*texts) == ["a b c d e f"] * 2
    assert gate.order[gate.order.index("y") :][:7] == ["y", "x", "y", "x", "y", "x", "y"]
    assert pool.close(SECONDS)


async def test_a_short_request_is_not_stuck_behind_a_long_one() -> None:
    gate = Gate(lambda request: "w " * int(request.prefix))
    pool = Pool(lambda report: gate)
    texts = [asyncio.ensure_future(text_of(pool, ask(str(n)))) for n in (60, 3)]
    await asyncio.sleep(0)  # both are submitted before the first pass ends
    gate.open.set()
    await asyncio.gather(*texts)
    until_short_one_ends = len(gate.order) - gate.order[::-1].index("3")
    assert until_short_one_ends <= 2 * gate.order.count("3") + 1 < gate.order.count("60")
    assert pool.close(SECONDS)


async def test_the_model_is_loaded_once_for_requests_that_come_one_after_another() -> None:
    loads: list[Infiller] = []

    def load(report: object) -> Infiller:
        loads.append(FakeInfiller("done"))
        return loads[-1]

    pool = Pool(load)
    assert [await text_of(pool, ask(str(i))) for i in range(3)] == ["done"] * 3
    assert len(loads) == 1
    assert pool.close(SECONDS)


async def test_more_than_can_run_wait_in_the_order_they_came() -> None:
    gate = Gate("done")
    pool = Pool(lambda report: gate, n_running=1)
    tickets = [pool.submit(ask(str(i))) for i in range(5)]
    gate.open.set()
    for ticket in tickets:
        async for _ in ticket:
            pass
    assert gate.order == ["0", "1", "2", "3", "4"]
    assert pool.close(SECONDS)


async def test_a_request_that_is_closed_leaves_within_a_step_and_frees_its_place() -> None:
    gate = Gate("a b c d e f g h i j")
    pool = Pool(lambda report: gate, n_running=1)
    first = pool.submit(ask("first"))
    second = pool.submit(ask("second"))
    until(lambda: pool.n_running == 1)
    await first.aclose()
    gate.open.set()
    async for _ in second:
        pass
    assert gate.order.count("first") <= 1
    assert gate.order.count("second") == 19
    until(lambda: pool.n_running == 0)
    assert pool.close(SECONDS)


async def test_a_request_closed_before_its_turn_never_runs() -> None:
    gate = Gate("x")
    pool = Pool(lambda report: gate, n_running=1)
    first, second, third = (pool.submit(ask(name)) for name in "abc")
    await second.aclose()
    gate.open.set()
    for ticket in (first, third):
        async for _ in ticket:
            pass
    assert [request.prefix for request in gate.requests] == ["a", "c"]
    assert pool.close(SECONDS)


async def test_results_are_those_of_a_single_run() -> None:
    def script(request: Request) -> str:
        return f"answer to {request.prefix} " * 5

    alone = [await text_of(Pool(lambda report: FakeInfiller(script)), ask(str(i))) for i in range(10)]
    pool = Pool(lambda report: FakeInfiller(script), n_running=4)
    together = await asyncio.gather(*(text_of(pool, ask(str(i))) for i in range(10)))
    assert together == alone
    assert pool.close(SECONDS)


async def test_requests_that_run_together_never_share_a_cache() -> None:
    gate = Gate("x")
    pool = Pool(lambda report: gate, n_running=4)
    tickets = [pool.submit(ask("the same", document="the same")) for _ in range(8)]
    gate.open.set()
    for ticket in tickets:
        async for _ in ticket:
            pass
    assert len({request.document for request in gate.requests[:4]}) == 4
    assert pool.close(SECONDS)


async def test_one_that_fails_takes_nobody_with_it() -> None:
    def script(request: Request) -> str:
        if request.prefix == "bad":
            raise RequestError("unknown policy")
        return "fine"

    pool = Pool(lambda report: FakeInfiller(script))
    bad, good = pool.submit(ask("bad")), pool.submit(ask("good"))
    with pytest.raises(RequestError):
        await anext(bad)
    with pytest.raises(RequestError):  # and again, for whoever asks again
        await anext(bad)
    assert [draft.text async for draft in good][-1] == "fine"
    assert pool.close(SECONDS)


async def test_a_full_queue_refuses_and_those_who_left_make_room() -> None:
    gate = Gate("x")
    pool = Pool(lambda report: gate, n_running=1, n_waiting=2)
    running = pool.submit(ask("0"))
    until(lambda: pool.n_running == 1)
    waiting = [pool.submit(ask(str(i))) for i in (1, 2)]
    with pytest.raises(OverloadedError):
        pool.submit(ask("3"))
    await waiting[0].aclose()
    last = pool.submit(ask("4"))
    gate.open.set()
    for ticket in (running, waiting[1], last):
        async for _ in ticket:
            pass
    assert pool.close(SECONDS)


async def test_a_model_that_cannot_be_loaded_is_told_and_tried_again_later(monkeypatch: pytest.MonkeyPatch) -> None:
    failures = [FetchError("no network: run `mercury-lsp model pull`")]

    def load(report: object) -> Infiller:
        if failures:
            raise failures.pop()
        return FakeInfiller("works")

    pool = Pool(load)
    with pytest.raises(UnavailableError, match="model pull"):
        await anext(pool.submit(ask()))
    assert pool.state == "problem"
    with pytest.raises(UnavailableError, match="model pull"):
        pool.submit(ask())
    monkeypatch.setattr("mercury_lsp.api.pool.RETRY_SECONDS", 0.0)
    assert await text_of(pool, ask()) == "works"
    assert pool.state == "ready"
    assert pool.close(SECONDS)


async def test_closing_ends_what_waits_and_what_runs() -> None:
    gate = Gate("a b c d")
    pool = Pool(lambda report: gate, n_running=1)
    tickets = [pool.submit(ask(str(i))) for i in range(3)]
    until(lambda: pool.n_running == 1)
    closing = asyncio.ensure_future(asyncio.to_thread(pool.close, SECONDS))
    await asyncio.to_thread(until, lambda: pool.state == "closed")
    gate.open.set()  # the pass that was under way ends, and no other begins
    assert await closing
    for ticket in tickets:
        with pytest.raises(UnavailableError):
            async for _ in ticket:
                pass
    with pytest.raises(UnavailableError):
        pool.submit(ask())


async def test_a_slow_reader_loses_old_drafts_and_never_the_last() -> None:
    pool = Pool(lambda report: FakeInfiller("w " * 300, per_step=2))
    ticket = pool.submit(ask())
    while pool.n_running or pool.n_waiting or not ticket.began:
        await asyncio.sleep(0.01)
    await asyncio.sleep(0)
    drafts = [draft async for draft in ticket]
    assert len(drafts) <= KEPT_DRAFTS  # of 300; the end may come after the reader, or drop one more
    assert drafts[-1].text == "w " * 300
    assert pool.close(SECONDS)


class Shared(FakeInfiller):
    """An Infiller that brings its own way of sharing passes."""

    def batch(self) -> "SharedPasses":
        return SharedPasses()


class SharedPasses:
    def __init__(self) -> None:
        self.keys: list[object] = []

    def __len__(self) -> int:
        return len(self.keys)

    def add(self, key: object, request: Request, /) -> None:
        self.keys.append(key)

    def remove(self, key: object, /) -> None:
        self.keys.remove(key)

    def step(self) -> list[tuple[object, Draft | None]]:
        keys, self.keys = self.keys, []
        return [event for key in keys for event in ((key, Draft("shared", done=True)), (key, None))]


async def test_an_infiller_that_shares_passes_is_asked_to() -> None:
    pool = Pool(lambda report: Shared())
    assert await asyncio.gather(*(text_of(pool, ask(str(i))) for i in range(3))) == ["shared"] * 3
    assert pool.close(SECONDS)
