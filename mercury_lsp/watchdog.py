"""Ends this process when the editor's process is gone, however it went.

The end of stdin is the usual sign and needs no watching; this is for editors that were killed while something else
still holds the pipe. It knows nothing about the protocol.
"""

import logging
import os
import select
import threading
import time
from collections.abc import Callable

import psutil

logger = logging.getLogger(__name__)

POLL_SECONDS = 1.0


def exit_with(pid: int, leave: Callable[[], None] = lambda: os._exit(1)) -> threading.Thread | None:
    """Calls `leave` from a thread as soon as process `pid` is gone; does nothing if it cannot be seen from here.

    An editor in another container or on another machine names a process that does not exist here: that is not a
    reason to leave.
    """
    try:
        editor = psutil.Process(pid)
        wait = _waiter(editor)
    except (psutil.Error, OSError, ValueError):
        logger.info("the editor's process is not visible here; only the end of the connection ends the server")
        return None

    def watch() -> None:
        wait()
        logger.warning("the editor is gone: leaving")
        leave()

    thread = threading.Thread(target=watch, name="mercury-watchdog", daemon=True)
    thread.start()
    return thread


def _waiter(editor: psutil.Process) -> Callable[[], None]:
    if hasattr(os, "pidfd_open"):
        descriptor = os.pidfd_open(editor.pid)  # sleeps in the kernel, no polling

        def wait_for_descriptor() -> None:
            select.select([descriptor], [], [])

        return wait_for_descriptor

    def poll() -> None:
        while editor.is_running() and editor.status() != psutil.STATUS_ZOMBIE:
            time.sleep(POLL_SECONDS)

    return poll
