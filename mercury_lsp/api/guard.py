"""What stands before every route: keys, hosts, origins and the size of bodies. Plain ASGI, so streams stay streams.

A web page that the user happens to visit can reach a server on the loopback interface. Two checks keep it out: the
Host header must be one of ours (a foreign name that resolves to 127.0.0.1 is not), and a request that a browser
marked with another Origin is refused unless that origin was allowed. This module knows nothing about the routes.
"""

import hashlib
import hmac
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any
from urllib.parse import urlsplit

from starlette.exceptions import HTTPException

from mercury_lsp.api import failures
from mercury_lsp.api.answering import dumps
from mercury_lsp.api.failures import ApiError

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

LOOPBACK = ("localhost", "127.0.0.1", "::1")
PROTECTED = ("/v1/", "/metrics")
"""Paths that need a key where there are keys; the page and its health check hold nothing of anybody's."""


class Guard:
    """keys: what clients may send as bearer tokens; none: everybody may ask. hosts: names in the Host header that are
    ours; none: any. origins: web origins beside our own. max_body: bytes.
    """

    def __init__(
        self,
        app: App,
        *,
        keys: Iterable[str] = (),
        hosts: tuple[str, ...] = (),
        origins: tuple[str, ...] = (),
        max_body: int = 4_000_000,
    ) -> None:
        self._app = app
        self._digests = [_digest(key) for key in keys]
        self._hosts = hosts
        self._origins = origins
        self._max_body = max_body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        try:
            self._check(scope["path"], headers)
        except ApiError as error:
            await refuse(error, send)
            return
        await self._app(scope, self._bounded(receive), send)

    def _check(self, path: str, headers: dict[str, str]) -> None:
        host = headers.get("host", "")
        if self._hosts and _name_of(host) not in self._hosts:
            raise failures.forbidden("this server answers under its own address only: use 127.0.0.1 or localhost")
        origin = headers.get("origin")
        if origin is not None and origin not in self._origins and _site(origin) != host:
            raise failures.forbidden("this web origin is not allowed: start the server with --cors ORIGIN")
        if self._digests and path.startswith(PROTECTED) and not self._known(headers.get("authorization", "")):
            raise failures.unauthorised()
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > self._max_body:
            raise failures.too_large(self._max_body)

    def _known(self, authorization: str) -> bool:
        scheme, _, key = authorization.partition(" ")
        if scheme.lower() != "bearer":
            return False
        given = _digest(key.strip())
        # all are compared, in constant time: neither position nor beginning of a key shows
        return any([hmac.compare_digest(given, digest) for digest in self._digests])  # noqa: C419

    def _bounded(self, receive: Receive) -> Receive:
        """A body without a length is counted while it comes."""
        n_bytes = 0

        async def bounded() -> Message:
            nonlocal n_bytes
            message = await receive()
            if message["type"] == "http.request":
                n_bytes += len(message.get("body", b""))
                if n_bytes > self._max_body:
                    error = failures.too_large(self._max_body)
                    raise HTTPException(error.status, error.message)
            return message

        return bounded


async def refuse(error: ApiError, send: Send) -> None:
    body = dumps(error.body)
    headers = {"content-type": "application/json", "content-length": str(len(body)), **error.headers}
    raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": error.status, "headers": raw})
    await send({"type": "http.response.body", "body": body})


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()


def _name_of(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower()


def _site(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc or None
    except ValueError:
        return None
