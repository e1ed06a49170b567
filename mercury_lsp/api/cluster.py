"""Runs requests on the denoisers of a cluster: which one a request goes to, and what happens when it dies there.

Requests of one document name the same session, so that the request router sends them to the replica whose KV cache
begins with it. A run whose replica dies is begun again on another one; its drafts begin anew, so a reader that keeps
what was settled goes on where it was. This module knows nothing about Ray: `ray_serve.py` deploys what it calls.
"""

import hashlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

from mercury_lsp.api.pool import Pool
from mercury_lsp.api.runs import OverloadedError, State, UnavailableError
from mercury_lsp.engine import explain
from mercury_model.draft import Draft, Infiller, ModelInfo, Request
from mercury_model.errors import ModelError, RequestError

ATTEMPTS = 3
"""Replicas that one request may see die: what kills each one it meets must not kill them all."""
KEY_CHARACTERS = 400
"""How much of a prompt's beginning says which document it is of; typing further down does not change it."""

Item = str | Draft | Exception
"""What a replica sends: its name first, then drafts, and an exception at the end of a run that failed."""


class Stream(Protocol):
    def __aiter__(self) -> AsyncIterator[Item]: ...

    def __anext__(self) -> Awaitable[Item]: ...

    def cancel(self) -> Any: ...


@dataclass(frozen=True, slots=True)
class Denoisers:
    """The way to the replicas.

    drafts: (request, session) -> its items, from the replica of that session. count: tokens of a text.
    died: what iterating raises when the replica is gone; full: when all of them have enough to do.
    """

    drafts: Callable[[Request, str], Stream]
    count: Callable[[str], Any]
    died: tuple[type[Exception], ...]
    full: tuple[type[Exception], ...]


class Denoiser:
    """One replica: a model and the requests that run on it. Raises what loading raises."""

    def __init__(self, load: Callable[[Callable[[str, float], None]], Infiller], *, n_running: int, name: str) -> None:
        infiller = load(lambda message, fraction: None)
        self._name = name
        self._pool = Pool(lambda report: infiller, n_running=n_running)
        self._pool.start()
        self.info: ModelInfo = infiller.info

    async def drafts(self, request: Request) -> AsyncIterator[Item]:
        yield self._name
        run = self._pool.submit(request)
        try:
            async for draft in run:
                yield draft
        except (RequestError, UnavailableError) as error:
            yield error
        except Exception as error:  # in one line: the type may exist on this machine only
            yield ModelError(explain(error))
        finally:
            await run.aclose()

    async def count_tokens(self, text: str) -> int:
        return await self._pool.count_tokens(text) or 0

    async def n_running(self) -> int:
        return self._pool.n_running


def session_of(request: Request) -> str:
    """A name that requests of one document share while somebody types in it, and other documents do not.

    The beginning of what is edited, and its path; of a conversation, what was said first.
    """
    if request.messages:
        first = [f"{role}\n{text[:KEY_CHARACTERS]}" for role, text in request.messages[:2]]
    else:
        first = [request.path, (request.prefix or request.original or request.suffix)[:KEY_CHARACTERS].lstrip()]
    return hashlib.sha256("\0".join(first).encode("utf-8", "surrogatepass")).hexdigest()[:24]


class ClusterRun:
    """See runs.Run."""

    def __init__(self, request: Request, denoisers: Denoisers, ended: Callable[[], None]) -> None:
        self.submitted = time.monotonic()
        self.first_text: float | None = None
        self.replica = ""
        self._request = request
        self._session = session_of(request)
        self._denoisers = denoisers
        self._ended: Callable[[], None] | None = ended
        self._deaths = 0
        self._stream: Stream | None = None

    def __aiter__(self) -> "ClusterRun":
        return self

    async def __anext__(self) -> Draft:
        try:
            while True:
                item = await self._item()
                if isinstance(item, Exception):
                    raise item
                if isinstance(item, Draft):
                    if self.first_text is None and item.text:
                        self.first_text = time.monotonic()
                    return item
                self.replica = item
        except BaseException:
            self._end()
            raise

    async def _item(self) -> Item:
        try:
            if self._stream is None:
                self._stream = self._denoisers.drafts(self._request, self._session)
            return await anext(self._stream)
        except self._denoisers.full:
            raise OverloadedError from None
        except self._denoisers.died:
            self._stream = None
            self._deaths += 1
            if self._deaths == ATTEMPTS:
                raise UnavailableError(f"{ATTEMPTS} denoisers died while they answered this: see their logs") from None
            return ""  # of the successor nothing is known yet

    async def aclose(self) -> None:
        if self._stream is not None and self._ended is not None:
            self._stream.cancel()
        self._end()

    def _end(self) -> None:
        if self._ended is not None:
            self._ended()
            self._ended = None


class Cluster:
    """The denoisers of a cluster as whoever runs the application's requests; see runs.Runs.

    leave: called once, at the end.
    """

    def __init__(self, denoisers: Denoisers, info: ModelInfo, leave: Callable[[], None]) -> None:
        self._denoisers = denoisers
        self._leave = leave
        self._n_running = 0
        self.info: ModelInfo | None = replace(info, device=f"{info.device} (cluster)")
        self.state: State = "ready"
        self.message = ""

    @property
    def n_running(self) -> int:
        return self._n_running

    @property
    def n_waiting(self) -> int:
        """Requests that wait do so at the replicas, which count for themselves."""
        return 0

    def start(self) -> None:
        """Replicas are ready before anybody has their handle."""

    def submit(self, request: Request) -> ClusterRun:
        if self.state != "ready":
            raise UnavailableError("the server is stopping")
        self._n_running += 1
        return ClusterRun(request, self._denoisers, self._one_ended)

    def _one_ended(self) -> None:
        self._n_running -= 1

    async def count_tokens(self, text: str) -> int:
        for _ in range(ATTEMPTS):
            try:
                return await self._denoisers.count(text)
            except self._denoisers.full:
                raise OverloadedError from None
            except self._denoisers.died:
                continue
        raise UnavailableError("the denoisers of the cluster die: see their logs")

    def close(self) -> bool:
        if self.state != "closed":
            self.state = "closed"
            self._leave()
        return True
