"""Whether the user wants to be left alone: paused until resumed, or snoozed for a while.

It knows nothing about the wire. Asked at every request and status, so that it is honoured at once and everywhere.
"""

import time
from collections.abc import Callable


class Pause:
    """Not paused at first. clock: seconds, monotonic."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._paused = False
        self._until: float | None = None

    def pause(self) -> None:
        """Until `resume`."""
        self._paused, self._until = True, None

    def snooze(self, minutes: float) -> None:
        """For so many minutes; a later call sets the time anew."""
        self._paused, self._until = False, self._clock() + 60 * minutes

    def resume(self) -> None:
        """Ends a pause and a snooze."""
        self._paused, self._until = False, None

    @property
    def reason(self) -> str:
        """Why nothing is offered, for people; empty when something may be."""
        if self._paused:
            return "paused: run the command mercury.resume to go on"
        if self._until is not None and self._clock() < self._until:
            return "snoozed: run the command mercury.resume to go on at once"
        return ""
