"""What the application asks of whoever runs its requests: the pool on this machine, or denoisers on a cluster.

This module knows nothing about HTTP, threads or clusters.
"""

from collections.abc import AsyncIterator, Awaitable
from typing import Literal, Protocol

from mercury_model.draft import Draft, ModelInfo, Request

State = Literal["loading", "ready", "problem", "closed"]


class OverloadedError(Exception):
    """More requests wait than are taken."""


class UnavailableError(Exception):
    """There is no model: it could not be loaded, what ran it died, or the server is closing."""


class Run(Protocol):
    """The drafts of one request. Close it (aclose) to stop the run at its next pass.

    submitted, first_text: time.monotonic() of these moments, None before they come. replica: which denoiser of a
    cluster answers; empty on one machine and before that is known.
    Iterating raises UnavailableError, OverloadedError, RequestError or whatever the model raised.
    """

    submitted: float
    first_text: float | None
    replica: str

    def __aiter__(self) -> AsyncIterator[Draft]: ...

    def __anext__(self) -> Awaitable[Draft]: ...

    async def aclose(self) -> None: ...


class Runs(Protocol):
    """state, message: what is being done, or what is wrong and the remedy."""

    @property
    def state(self) -> State: ...

    @property
    def message(self) -> str: ...

    @property
    def info(self) -> ModelInfo | None: ...

    @property
    def n_running(self) -> int: ...

    @property
    def n_waiting(self) -> int: ...

    def start(self) -> None:
        """Begin to get ready, in the background."""
        ...

    def submit(self, request: Request) -> Run:
        """Queue a request. Raises OverloadedError, UnavailableError."""
        ...

    async def count_tokens(self, text: str) -> int | None:
        """Tokens of `text`, None while no model is loaded. Raises OverloadedError, UnavailableError."""
        ...

    def close(self) -> bool:
        """End everything; False where something would not end in time."""
        ...
