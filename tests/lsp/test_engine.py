"""The engine with a fake model whose passes the test lets through one by one."""

import gc
import random
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future

import pytest

from mercury_lsp.engine import RETRY_SECONDS, Engine, Report, Status
from mercury_model.draft import Draft, Infiller, Request
from mercury_model.errors import FetchError
from tests.fakes import FakeInfiller

REQUEST = Request(prefix="x = ", suffix="\n")
LONG = "a b c d e f g h i j k l m n o p"
SECONDS = 20  # a hang is a failure; nothing is asserted about how fast anything is


class Gated(FakeInfiller):
    """Each pass waits for a permit of the test."""

    def __init__(self, script: str = LONG) -> None:
        super().__init__(script, per_step=1)
        self.permits = threading.Semaphore(0)
        self.began = threading.Semaphore(0)

    def __call__(self, request: Request, /) -> Iterator[Draft]:
        drafts = super().__call__(request)
        self.began.release()
        while True:
            assert self.permits.acquire(timeout=SECONDS)
            try:
                yield next(drafts)
            except StopIteration:
                return

    def allow(self, n: int = 1) -> None:
        self.permits.release(n)

    def wait_began(self) -> None:
        assert self.began.acquire(timeout=SECONDS)


class Listener:
    """Collects statuses, and waits for one."""

    def __init__(self) -> None:
        self.statuses: list[Status] = []
        self.changed = threading.Condition()

    def __call__(self, status: Status) -> None:
        with self.changed:
            self.statuses.append(status)
            self.changed.notify_all()

    def wait(self, accept: Callable[[Status], bool]) -> Status:
        with self.changed:
            assert self.changed.wait_for(lambda: any(map(accept, self.statuses)), SECONDS)
            return next(filter(accept, self.statuses))

    @property
    def states(self) -> list[str]:
        return [status.state for status in self.statuses]


def text(future: "Future[Draft | None]") -> str | None:
    draft = future.result(SECONDS)
    return draft.text if draft is not None else None


@pytest.fixture
def engines() -> Iterator[Callable[..., Engine]]:
    made: list[Engine] = []

    def make(infiller: Infiller | Callable[[Report], Infiller], **options: object) -> Engine:
        load = infiller if not isinstance(infiller, FakeInfiller) else (lambda _: infiller)
        made.append(Engine(load, **options))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for engine in made:
        engine.close()


def test_the_last_draft_is_the_answer_and_every_draft_is_shown(engines: Callable[..., Engine]) -> None:
    shown: list[str] = []
    engine = engines(FakeInfiller("one two", per_step=1))
    future = engine.submit("a", REQUEST, lambda draft: shown.append(draft.text))
    assert text(future) == "one two"
    assert shown == ["one", "one ", "one two"]


def test_loading_happens_once_in_the_engines_own_thread_and_reports_progress(
    engines: Callable[..., Engine],
) -> None:
    threads: list[str] = []
    listener = Listener()

    def load(report: Report) -> Infiller:
        threads.append(threading.current_thread().name)
        report("half of it", 0.5)
        return FakeInfiller("ok")

    engine = engines(load, listen=listener)
    assert text(engine.submit("a", REQUEST)) == text(engine.submit("b", REQUEST)) == "ok"
    assert threads == ["mercury-model"]
    assert listener.states[:4] == ["loading", "loading", "ready", "running"]
    assert listener.statuses[1].fraction == 0.5
    assert listener.statuses[2].info == FakeInfiller().info


def test_start_loads_before_any_request(engines: Callable[..., Engine]) -> None:
    listener = Listener()
    engines(FakeInfiller("ok"), listen=listener).start()
    listener.wait(lambda status: status.state == "ready")


def test_H4_the_newest_request_of_a_document_wins_and_the_older_stops_at_its_next_pass(
    engines: Callable[..., Engine],
) -> None:
    model = Gated()
    engine = engines(model)
    older = engine.submit("a", REQUEST)
    model.wait_began()
    model.allow(3)
    waiting = [engine.submit("a", REQUEST) for _ in range(5)]
    assert older.cancelled()
    assert all(future.cancelled() for future in waiting[:-1])
    model.allow(100)
    assert text(waiting[-1]) == LONG
    assert model.runs == 2
    assert model.passes <= 4 + len(LONG)  # at most 4 of the older one


def test_documents_do_not_disturb_each_other(engines: Callable[..., Engine]) -> None:
    model = Gated()
    engine = engines(model)
    futures = [engine.submit(uri, REQUEST) for uri in "abc"]
    model.allow(1000)
    assert [text(future) for future in futures] == [LONG] * 3


def test_H5_a_cancelled_run_stops_within_one_pass(engines: Callable[..., Engine]) -> None:
    model = Gated()
    engine = engines(model)
    future = engine.submit("a", REQUEST)
    model.wait_began()
    model.allow(2)
    future.cancel()
    with pytest.raises(CancelledError):
        future.result(SECONDS)
    before = model.passes
    model.allow(1)
    other = engine.submit("b", REQUEST)
    model.wait_began()  # the thread is free for the other document
    assert model.passes <= before + 3
    other.cancel()
    model.allow(1)


def test_a_request_cancelled_while_it_waits_never_starts(engines: Callable[..., Engine]) -> None:
    model = Gated()
    engine = engines(model)
    first = engine.submit("a", REQUEST)
    model.wait_began()
    second = engine.submit("b", REQUEST)
    second.cancel()
    third = engine.submit("c", REQUEST)
    model.allow(1000)
    assert text(first) == text(third) == LONG
    assert model.runs == 2


def test_a_request_is_built_only_when_its_turn_comes(engines: Callable[..., Engine]) -> None:
    built: list[str] = []
    engine = engines(FakeInfiller("ok"))

    def prepare(infiller: Infiller) -> Request | None:
        built.append(f"{infiller.info.name} in {threading.current_thread().name}")
        return None

    assert text(engine.submit("a", prepare)) is None
    assert built == ["fake in mercury-model"]


def test_J3_an_error_of_the_model_is_a_status_and_the_next_request_runs(engines: Callable[..., Engine]) -> None:
    listener = Listener()
    answers = iter([ValueError("secret source text"), "fine"])

    def script(_: Request) -> str:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    engine = engines(FakeInfiller(script), listen=listener)
    assert text(engine.submit("a", REQUEST)) is None
    problem = engine.status
    assert problem.state == "problem"
    assert "ValueError" in problem.message
    assert "secret" not in problem.message
    assert text(engine.submit("a", REQUEST)) == "fine"
    listener.wait(lambda status: status.state == "ready" and status is listener.statuses[-1])


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("CUDA out of memory. Tried to allocate")])
def test_out_of_memory_names_a_remedy_and_drops_the_model(engines: Callable[..., Engine], error: Exception) -> None:
    loads: list[int] = []

    def load(_: Report) -> Infiller:
        loads.append(1)

        def script(_: Request) -> str:
            if len(loads) == 1:
                raise error
            return "fine"

        return FakeInfiller(script)

    engine = engines(load)
    assert text(engine.submit("a", REQUEST)) is None
    assert "smaller model" in engine.status.message
    assert text(engine.submit("a", REQUEST)) == "fine"
    assert len(loads) == 2


def test_a_failed_loading_is_told_and_not_repeated_at_every_key(engines: Callable[..., Engine]) -> None:
    now = [0.0]
    attempts: list[int] = []

    def load(_: Report) -> Infiller:
        attempts.append(1)
        if len(attempts) == 1:
            raise FetchError("No network: run `mercury-lsp model pull` when there is one.")
        return FakeInfiller("ok")

    engine = engines(load, clock=lambda: now[0])
    assert [text(engine.submit("a", REQUEST)) for _ in range(3)] == [None] * 3
    assert len(attempts) == 1
    assert engine.status.message == "No network: run `mercury-lsp model pull` when there is one."
    now[0] += RETRY_SECONDS
    assert text(engine.submit("a", REQUEST)) == "ok"


def test_reload_is_the_way_out_of_a_failure(engines: Callable[..., Engine]) -> None:
    attempts: list[int] = []
    listener = Listener()

    def load(_: Report) -> Infiller:
        attempts.append(1)
        if len(attempts) == 1:
            raise FetchError("no weights")
        return FakeInfiller("ok")

    engine = engines(load, listen=listener)
    assert text(engine.submit("a", REQUEST)) is None
    engine.reload()
    listener.wait(lambda status: status.state == "ready")
    assert text(engine.submit("a", REQUEST)) == "ok"


def test_I4_an_idle_model_is_dropped_and_comes_back(engines: Callable[..., Engine]) -> None:
    alive: list[weakref.ref[FakeInfiller]] = []
    listener = Listener()

    def load(_: Report) -> Infiller:
        model = FakeInfiller("ok")
        alive.append(weakref.ref(model))
        return model

    engine = engines(load, listen=listener, idle_seconds=0.05)
    assert text(engine.submit("a", REQUEST)) == "ok"
    listener.wait(lambda status: status.state == "unloaded")
    gc.collect()
    assert alive[0]() is None
    assert text(engine.submit("a", REQUEST)) == "ok"
    assert len(alive) >= 2


def test_close_cancels_everything_and_ends_the_thread(engines: Callable[..., Engine]) -> None:
    model = Gated()
    engine = engines(model)
    running = engine.submit("a", REQUEST)
    model.wait_began()
    waiting = engine.submit("b", REQUEST)
    assert not engine.close(timeout=0)  # a pass still runs
    assert running.cancelled()
    assert waiting.cancelled()
    model.allow(1)
    assert engine.close(timeout=SECONDS)
    assert text(engine.submit("a", REQUEST)) is None


def test_every_future_ends_however_requests_and_cancellations_cross(engines: Callable[..., Engine]) -> None:
    model = FakeInfiller(LONG, per_step=3)
    engine = engines(model)
    futures: list[Future[Draft | None]] = []

    def client(seed: int) -> None:
        choose = random.Random(seed)
        for _ in range(150):
            futures.append(engine.submit(choose.choice("abc"), REQUEST))
            if choose.random() < 0.4:
                choose.choice(futures).cancel()
            if choose.random() < 0.1:
                engine.cancel(choose.choice("abc"))

    threads = [threading.Thread(target=client, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
    last = engine.submit("d", REQUEST)
    assert text(last) == LONG
    for future in futures:
        if not future.cancelled():
            assert text(future) == LONG
    assert model.runs <= len(futures) + 1
