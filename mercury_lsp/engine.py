"""The model's own thread: loads the model, runs the newest request of each document, stops what nobody wants.

It knows nothing about editors, positions, syntax or what the text is used for. It is the only caller of an Infiller,
and it never lets an error of the model end its thread: an error is a status, and the next request tries again.
"""

import gc
import logging
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Literal

from mercury_model.draft import Draft, Infiller, ModelInfo, Request
from mercury_model.errors import ModelError

logger = logging.getLogger(__name__)

Report = Callable[[str, float], None]
"""(what is being done, fraction of it from 0 to 1): progress of loading."""

Load = Callable[[Report], Infiller]
Prepare = Callable[[Infiller], Request | None]
"""Builds the request in the model's thread, when its turn comes; None when there is nothing to ask."""

State = Literal["unloaded", "loading", "ready", "running", "problem"]

RETRY_SECONDS = 20.0
"""After loading failed, requests are answered with None for so long before one of them tries again."""


@dataclass(frozen=True, slots=True)
class Status:
    """What the engine is doing. message: one line for people; fraction: of loading, 0 to 1."""

    state: State = "unloaded"
    message: str = ""
    fraction: float = 0.0
    info: ModelInfo | None = None


@dataclass(frozen=True, slots=True)
class _Job:
    uri: str
    prepare: Prepare
    on_draft: Callable[[Draft], None] | None
    future: "Future[Draft | None]"


class Engine:
    """One model, one thread, at most one run per document; the newest request of a document wins.

    load: called in the engine's thread with a progress callback. listen: told every change of the status, in whichever
    thread caused it; it must return quickly. idle_seconds: the model is dropped after so long without a request
    (0: never) and loaded again by the next one.
    """

    def __init__(
        self,
        load: Load,
        *,
        listen: Callable[[Status], None] | None = None,
        idle_seconds: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._load = load
        self._listen = listen
        self._idle_seconds = idle_seconds
        self._clock = clock
        self._wake = threading.Condition()
        self._waiting: dict[str, _Job] = {}
        self._running: _Job | None = None
        self._infiller: Infiller | None = None
        self._wanted = False
        self._reload = False
        self._closed = False
        self._failed_at: float | None = None
        self._status = Status()
        self._n_runs = 0
        self._thread: threading.Thread | None = None

    @property
    def status(self) -> Status:
        return self._status

    @property
    def n_runs(self) -> int:
        """How many runs have begun since the start."""
        return self._n_runs

    def start(self) -> None:
        """Begins to load the model in the background; without it the first request does."""
        with self._wake:
            self._wanted = True
            self._ensure_thread()
            self._wake.notify()

    def configure(self, *, idle_seconds: float) -> None:
        """Changes after how long without a request the model is dropped (0: never)."""
        with self._wake:
            self._idle_seconds = idle_seconds
            self._wake.notify()

    def reload(self) -> None:
        """Drops the model and loads it again: after a change of settings, and the way out of a failure."""
        with self._wake:
            self._reload, self._wanted, self._failed_at = True, True, None
            self._ensure_thread()
            self._wake.notify()

    def submit(
        self,
        uri: str,
        request: Request | Prepare,
        on_draft: Callable[[Draft], None] | None = None,
    ) -> "Future[Draft | None]":
        """Queues a request; an older one of the same document is cancelled at once and stops at its next pass.

        The future gives the last Draft, or None when there was nothing to ask or the model failed (see `status`).
        Cancelling the future stops the run at its next pass, or before it starts. on_draft is called in the engine's
        thread after every pass.
        """
        future: Future[Draft | None] = Future()
        prepare = _prepared(request) if isinstance(request, Request) else request
        with self._wake:
            older = [self._waiting.pop(uri, None), self._running if self._running_is(uri) else None]
            if self._closed or self._resting():
                future.set_result(None)
            else:
                self._waiting[uri] = _Job(uri, prepare, on_draft, future)
                self._ensure_thread()
                self._wake.notify()
        for job in older:
            if job is not None:
                job.future.cancel()  # outside the lock: its callbacks run here
        return future

    def cancel(self, uri: str) -> None:
        """Cancels whatever waits or runs for a document."""
        with self._wake:
            older = [self._waiting.pop(uri, None), self._running if self._running_is(uri) else None]
        for job in older:
            if job is not None:
                job.future.cancel()

    def close(self, timeout: float = 0.5) -> bool:
        """Cancels everything and ends the thread; False when a pass still ran after `timeout` seconds."""
        with self._wake:
            self._closed = True
            older = [*self._waiting.values(), self._running]
            self._waiting.clear()
            self._wake.notify()
        for job in older:
            if job is not None:
                job.future.cancel()
        if self._thread is None or self._thread is threading.current_thread():
            return True
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _running_is(self, uri: str) -> bool:
        return self._running is not None and self._running.uri == uri

    def _resting(self) -> bool:
        return self._failed_at is not None and self._clock() - self._failed_at < RETRY_SECONDS

    def _ensure_thread(self) -> None:
        if self._thread is None and not self._closed:
            # a daemon: a pass inside native code must not keep the process alive
            self._thread = threading.Thread(target=self._loop, name="mercury-model", daemon=True)
            self._thread.start()

    def _loop(self) -> None:
        while True:
            with self._wake:
                self._running = None
                idle = self._wait_for_work()
                if self._closed:
                    return
                if idle or self._reload:
                    self._infiller, self._reload = None, False
                job = self._waiting.pop(next(iter(self._waiting))) if self._waiting else None
                self._running = job
            if idle:
                self._drop()
            elif job is None or not job.future.cancelled():
                self._serve(job)

    def _wait_for_work(self) -> bool:
        """Blocks until there is something to do; True when the model was idle for too long. Needs the lock."""
        while not (self._closed or self._waiting or self._reload or self._wanted):
            timeout = self._idle_seconds if self._infiller is not None and self._idle_seconds > 0 else None
            if not self._wake.wait(timeout) and not (self._closed or self._waiting or self._reload):
                return True
        return False

    def _drop(self) -> None:
        gc.collect()
        self._tell(Status("unloaded", "the model was unloaded after a quiet time; the next request loads it"))

    def _serve(self, job: _Job | None) -> None:
        draft: Draft | None = None
        infiller = self._ready()
        if infiller is not None and job is not None and not job.future.cancelled():
            try:
                self._tell(Status("running", info=infiller.info))
                draft = self._run(infiller, job)
                self._tell(Status("ready", info=infiller.info))
            except Exception as error:
                self._fail(error, infiller.info)
        if job is not None and job.future.set_running_or_notify_cancel():
            job.future.set_result(draft)

    def _ready(self) -> Infiller | None:
        """The model, loaded now if it is not; None when it cannot be."""
        self._wanted = False
        if self._infiller is not None or self._resting():
            return self._infiller
        self._failed_at = None
        try:
            self._tell(Status("loading", "loading the model"))
            infiller = self._load(self._report)
        except Exception as error:
            self._failed_at = self._clock()
            self._fail(error, None)
            return None
        self._infiller = infiller
        self._tell(Status("ready", info=infiller.info))
        return infiller

    def _report(self, message: str, fraction: float) -> None:
        self._tell(Status("loading", message, min(1.0, max(0.0, fraction))))

    def _run(self, infiller: Infiller, job: _Job) -> Draft | None:
        request = job.prepare(infiller)
        if request is None or job.future.cancelled():
            return None
        draft: Draft | None = None
        self._n_runs += 1
        drafts: Iterator[Draft] = infiller(request)
        try:
            for draft in drafts:
                if job.future.cancelled():
                    return None
                if job.on_draft is not None:
                    job.on_draft(draft)
        finally:
            close = getattr(drafts, "close", None)
            if close is not None:
                close()
        return draft

    def _fail(self, error: Exception, info: ModelInfo | None) -> None:
        message = explain(error)
        frames = "".join(traceback.format_tb(error.__traceback__))
        # frames only: the text of an unexpected exception may quote the document
        logger.error("%s (%s)\n%s", message, type(error).__name__, frames)
        error.__traceback__ = None
        if out_of_memory(error):
            self._infiller = None
            gc.collect()
        self._tell(Status("problem", message, info=info))

    def _tell(self, status: Status) -> None:
        if status == self._status:
            return
        self._status = replace(status, info=status.info or (self._infiller.info if self._infiller else None))
        if self._listen is not None:
            try:
                self._listen(self._status)
            except Exception:
                logger.exception("a listener of the engine failed")


def _prepared(request: Request) -> Prepare:
    def prepare(_: Infiller) -> Request:
        return request

    return prepare


def out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out, on the machine or on the accelerator (whose exception type is not imported here)."""
    return (
        isinstance(error, MemoryError)
        or type(error).__name__ == "OutOfMemoryError"
        or (isinstance(error, RuntimeError) and "out of memory" in str(error).lower())
    )


def explain(error: Exception) -> str:
    """One line for people that says what to do; quotes only errors whose text is the project's own."""
    if out_of_memory(error):
        return (
            "The model ran out of memory: close other programs, choose a smaller model (model.name), "
            "or set model.device to cpu."
        )
    if isinstance(error, ModelError):
        return str(error)
    if isinstance(error, ImportError):
        return f"A part of the installation is missing ({error.name}): run `mercury-lsp doctor`."
    return f"The model failed with {type(error).__name__}: see the server's log, or run `mercury-lsp doctor`."
