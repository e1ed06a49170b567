"""Stdin and stdout as the protocol needs them: out of reach of stray prints, and read by the event loop itself.

It knows nothing about messages but that they begin with lines.
"""

import asyncio
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import BinaryIO, Protocol

from pygls.io_ import StdinAsyncReader


class ByteReader(Protocol):
    async def readline(self) -> bytes: ...

    async def readexactly(self, n: int) -> bytes: ...


class MessageReader:
    """Lets the handler of one message begin before the next is looked at, however many came in one piece.

    A request must see the documents as they were when it was sent.
    """

    def __init__(self, stream: ByteReader) -> None:
        self._stream = stream

    async def readline(self) -> bytes:
        await asyncio.sleep(0)
        return await self._stream.readline()

    async def readexactly(self, n: int) -> bytes:
        try:
            body = await self._stream.readexactly(n)
        except asyncio.IncompleteReadError:
            body = b""
        return body if len(body) == n else b""  # the client went in the middle of a message


async def open_reader(stdin: BinaryIO, pool: ThreadPoolExecutor) -> MessageReader:
    """Reads in the event loop where the system can: through a thread, every line of every header is two switches
    between threads, and on a busy machine a burst of keys then takes seconds to arrive."""
    if sys.platform != "win32":
        stream = asyncio.StreamReader(limit=2**20)
        try:
            protocol = asyncio.StreamReaderProtocol(stream)
            await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, stdin)
        except ValueError:
            pass  # a file, not a pipe
        else:
            return MessageReader(stream)
    return MessageReader(_Threaded(StdinAsyncReader(stdin, pool)))


class _Threaded:
    def __init__(self, reader: StdinAsyncReader) -> None:
        self._reader = reader

    async def readline(self) -> bytes:
        return await self._reader.readline()

    async def readexactly(self, n: int) -> bytes:
        return await self._reader.readexactly(n)


def take_stdio() -> tuple[BinaryIO, BinaryIO]:
    """Copies of stdin and stdout for the protocol.

    The originals are then an empty input and stderr: no stray print, of native code neither, can get between two
    messages, and no child process eats one.
    """
    sys.stdout.flush()
    stdin, stdout = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    os.close(nothing)
    return os.fdopen(stdin, "rb"), os.fdopen(stdout, "wb")
