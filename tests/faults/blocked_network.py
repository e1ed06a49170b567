"""The fake server in a process that ends at the first attempt to reach anything over a network."""

import os
import sys

REACHED = 99
_EVENTS = ("socket.connect", "socket.sendto", "socket.sendmsg", "socket.getaddrinfo", "socket.gethostbyname")


def refuse(event: str, _: object) -> None:
    if event in _EVENTS:
        os._exit(REACHED)


if __name__ == "__main__":
    sys.addaudithook(refuse)
    from tests.lsp.fake_server import main

    sys.exit(main())
