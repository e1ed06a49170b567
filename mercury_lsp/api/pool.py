"""The pool: many requests, one model thread, one pass for each in turn.

A short request is never stuck behind a long one: every step gives each running request one pass. Requests start in
the order they came; at most `n_running` run at a time, each with a KV cache of its own (a lane), chosen so that a
request that goes on where an earlier one was reuses its cache. A request whose iterator is closed leaves within one
step. What a request gets does not depend on what runs beside it.

This module knows nothing about HTTP; it is the only caller of the Infiller in this package.
"""

import asyncio
import logging
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, replace
from typing import Protocol

from mercury_lsp.api.runs import OverloadedError, State, UnavailableError
from mercury_lsp.engine import RETRY_SECONDS, explain
from mercury_model.draft import Draft, Infiller, ModelInfo, Request
from mercury_model.errors import RequestError

logger = logging.getLogger(__name__)

Report = Callable[[str, float], None]
Event = Draft | Exception | None
"""What happened to a run: a draft, an error that ended it, or its end."""

KEPT_DRAFTS = 256
"""Drafts kept for a reader that is slower than the model; older ones are dropped (each holds the whole text)."""


class Passes(Protocol):
    """How the runs under way get their passes. Keys are the pool's."""

    def add(self, key: Hashable, request: Request, /) -> None: ...

    def remove(self, key: Hashable, /) -> None: ...

    def step(self) -> list[tuple[Hashable, Event]]:
        """One pass for every run; the last event of a run is an error or None."""
        ...


class Interleaved:
    """One pass of each run after the other: works with every Infiller."""

    def __init__(self, infiller: Infiller) -> None:
        self._infiller = infiller
        self._runs: dict[Hashable, Iterator[Draft]] = {}

    def add(self, key: Hashable, request: Request, /) -> None:
        self._runs[key] = self._infiller(request)

    def remove(self, key: Hashable, /) -> None:
        run = self._runs.pop(key, None)
        close = getattr(run, "close", None)
        if close is not None:
            close()

    def step(self) -> list[tuple[Hashable, Event]]:
        events: list[tuple[Hashable, Event]] = []
        for key, run in list(self._runs.items()):
            try:
                event: Event = next(run, None)
            except Exception as error:
                event = error
            if not isinstance(event, Draft):
                del self._runs[key]
            events.append((key, event))
        return events


class Ticket:
    """An async iterator over the drafts of one request. Close it (aclose) to stop the run at its next pass.

    submitted, began, first_text: time.monotonic() of these moments, None before they come. See runs.Run.
    """

    replica = ""

    def __init__(self, request: Request, loop: asyncio.AbstractEventLoop) -> None:
        self.request = request
        self.submitted = time.monotonic()
        self.began: float | None = None
        self.first_text: float | None = None
        self.cancelled = False
        self._loop = loop
        self._events: deque[Event] = deque(maxlen=KEPT_DRAFTS)
        self._came = asyncio.Event()

    def __aiter__(self) -> "Ticket":
        return self

    async def __anext__(self) -> Draft:
        while not self._events:
            self._came.clear()
            await self._came.wait()
        event = self._events.popleft()
        if isinstance(event, Draft):
            return event
        self._events.append(event)  # whoever asks again gets the same answer
        if event is None:
            raise StopAsyncIteration
        raise event

    async def aclose(self) -> None:
        self.cancelled = True

    def tell(self, event: Event) -> None:
        """Called in the model's thread."""
        if self.first_text is None and isinstance(event, Draft) and event.text:
            self.first_text = time.monotonic()
        try:
            self._loop.call_soon_threadsafe(self._put, event)
        except RuntimeError:  # the loop is closed: nobody reads any more
            self.cancelled = True

    def _put(self, event: Event) -> None:
        self._events.append(event)
        self._came.set()


@dataclass(slots=True)
class _Lane:
    """A document name of the model's, and what its cache was made of last."""

    name: str
    text: str = ""
    used: int = 0


class Lanes:
    """Hands out KV caches by name.

    The free one whose last text shares the longest beginning with the new text, if that is half of one of the two;
    else the one that was not used for the longest time.
    """

    def __init__(self, n: int) -> None:
        self._free = [_Lane(f"api:{i}") for i in range(n)]
        self._taken: dict[str, _Lane] = {}
        self._clock = 0

    def take(self, request: Request) -> str:
        text = cached_text(request)
        lane = max(self._free, key=lambda lane: (shared(lane.text, text), -lane.used))
        self._free.remove(lane)
        self._clock += 1
        lane.text, lane.used = text, self._clock
        self._taken[lane.name] = lane
        return lane.name

    def give_back(self, name: str) -> None:
        self._free.append(self._taken.pop(name))


def cached_text(request: Request) -> str:
    """What the KV cache of a request begins with, in the prompt's own order."""
    if request.messages:
        return "\0".join(f"{role}\n{text}" for role, text in request.messages)
    context = "\0".join(f"{s.path}\n{s.text}" for s in request.context)
    return f"{context}\0{request.suffix}\0{request.prefix}"


def shared(a: str, b: str) -> int:
    """Length of the common beginning where it is worth keeping, else 0."""
    n = common(a, b)
    return n if 2 * n >= min(len(a), len(b)) else 0


def common(a: str, b: str) -> int:
    """Length of the longest common beginning."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if a[low:middle] == b[low:middle] else (low, middle - 1)
    return low


class Pool:
    """load: called in the model's thread, at the start and again RETRY_SECONDS after it failed.

    n_running: requests that get passes; n_waiting: requests that may wait beside them.
    """

    def __init__(self, load: Callable[[Report], Infiller], *, n_running: int = 8, n_waiting: int = 2048) -> None:
        self._load = load
        self._n_running = n_running
        self._n_waiting = n_waiting
        self._wake = threading.Condition()
        self._waiting: deque[Ticket] = deque()
        self._running: dict[str, Ticket] = {}
        self._lanes = Lanes(n_running)
        self._infiller: Infiller | None = None
        self._closed = False
        self._failed_at: float | None = None
        self._thread: threading.Thread | None = None
        self.state: State = "loading"
        self.message = ""

    @property
    def info(self) -> ModelInfo | None:
        return self._infiller.info if self._infiller is not None else None

    async def count_tokens(self, text: str) -> int | None:
        if self._infiller is None:
            return None
        return await asyncio.to_thread(self._infiller.count_tokens, text)

    @property
    def n_waiting(self) -> int:
        return len(self._waiting)

    @property
    def n_running(self) -> int:
        return len(self._running)

    def start(self) -> None:
        """Load the model in the background."""
        with self._wake:
            if self._thread is None and not self._closed:
                # a daemon: a pass inside native code must not keep the process alive
                self._thread = threading.Thread(target=self._loop, name="mercury-api-model", daemon=True)
                self._thread.start()

    def submit(self, request: Request) -> Ticket:
        """Queue a request. Its document name is the pool's own choice. Raises OverloadedError, UnavailableError."""
        ticket = Ticket(request, asyncio.get_running_loop())
        self.start()
        with self._wake:
            if self._closed:
                raise UnavailableError("the server is stopping")
            if self._failed_at is not None and time.monotonic() - self._failed_at < RETRY_SECONDS:
                raise UnavailableError(self.message)
            # those whose readers are gone hold no place
            if len(self._waiting) >= self._n_waiting:
                self._waiting = deque(t for t in self._waiting if not t.cancelled)
            if len(self._waiting) >= self._n_waiting:
                raise OverloadedError
            self._waiting.append(ticket)
            self._wake.notify()
        return ticket

    def close(self, timeout: float = 2.0) -> bool:
        """End everything; False when a pass still ran after `timeout` seconds."""
        with self._wake:
            self._closed, self.state = True, "closed"
            self._wake.notify()
        if self._thread is None:
            return True
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _loop(self) -> None:
        passes = self._ready()
        while True:
            with self._wake:
                while not (self._closed or self._waiting or self._running):
                    self._wake.wait()
                if self._closed:
                    gone = [*self._waiting, *self._running.values()]
                    break
            if passes is None:
                passes = self._ready()
            if passes is None:
                self._refuse(UnavailableError(self.message))
                continue
            self._leave(passes)
            self._admit(passes)
            for key, event in passes.step():
                self._deliver(str(key), event)
        for ticket in gone:
            ticket.tell(UnavailableError("the server is stopping"))

    def _ready(self) -> Passes | None:
        if self._failed_at is not None and time.monotonic() - self._failed_at < RETRY_SECONDS:
            return None
        self.state, self.message, self._failed_at = "loading", "loading the model", None
        try:
            self._infiller = self._load(self._report)
        except Exception as error:
            self._failed_at = time.monotonic()
            self.state, self.message = "problem", explain(error)
            log(error, self.message)
            return None
        if not self._closed:
            self.state, self.message = "ready", ""
        return passes_of(self._infiller)

    def _report(self, message: str, fraction: float) -> None:
        self.message = f"{message} ({fraction:.0%})"

    def _refuse(self, error: Exception) -> None:
        with self._wake:
            refused, self._waiting = self._waiting, deque()
        for ticket in refused:
            ticket.tell(error)

    def _leave(self, passes: Passes) -> None:
        for name, ticket in list(self._running.items()):
            if ticket.cancelled:
                passes.remove(name)
                self._free(name)

    def _admit(self, passes: Passes) -> None:
        while len(self._running) < self._n_running:
            with self._wake:
                if not self._waiting:
                    return
                ticket = self._waiting.popleft()
            if ticket.cancelled:
                continue
            name = self._lanes.take(ticket.request)
            self._running[name] = ticket
            ticket.began = time.monotonic()
            try:
                passes.add(name, replace(ticket.request, document=name))
            except Exception as error:
                self._deliver(name, error)

    def _deliver(self, name: str, event: Event) -> None:
        ticket = self._running.get(name)
        if ticket is None:
            return
        if isinstance(event, Exception) and not isinstance(event, RequestError):
            log(event, explain(event))
        if not isinstance(event, Draft):
            self._free(name)
        if isinstance(event, Exception):
            event.__traceback__ = None
        ticket.tell(event)

    def _free(self, name: str) -> None:
        del self._running[name]
        self._lanes.give_back(name)


def passes_of(infiller: Infiller) -> Passes:
    """Shared passes where the Infiller has them (a method `batch` that returns Passes), else one after the other."""
    shared: Callable[[], Passes] | None = getattr(infiller, "batch", None)
    return shared() if shared is not None else Interleaved(infiller)


def log(error: Exception, message: str) -> None:
    """Frames only: the text of an unexpected exception may quote what a client sent."""
    frames = "".join(traceback.format_tb(error.__traceback__))
    logger.error("%s (%s)\n%s", message, type(error).__name__, frames)
