"""A terminal that tests type into and read from: one tmux session of its own."""

import json
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from install import UnavailableError

SECONDS = 300.0  # a hang is a failure; nothing is asserted about how fast anything is


def tmux() -> Path:
    """The system's."""
    found = shutil.which("tmux")
    if found is None:
        raise UnavailableError("tmux is not installed")
    return Path(found)


class Terminal:
    """Runs a program in a terminal of its own. columns, lines: its size."""

    def __init__(self, folder: Path, program: list[str], env: dict[str, str], *, columns: int = 90, lines: int = 24):
        self._socket = str(folder / "tmux.sock")
        words = ["env", "TERM=xterm-256color", "COLORTERM=truecolor", *(f"{k}={v}" for k, v in env.items()), *program]
        self._tmux("-f", "/dev/null", "new-session", "-d", "-x", str(columns), "-y", str(lines), *words)
        self._tmux("set", "-g", "escape-time", "0")

    def _tmux(self, *words: str) -> str:
        done = subprocess.run(["tmux", "-S", self._socket, *words], capture_output=True, text=True, check=True)
        return done.stdout

    def type(self, text: str) -> None:
        """Types text as it is."""
        self._tmux("send-keys", "-l", text)

    def press(self, *keys: str) -> None:
        """Presses keys by tmux's names: Enter, Escape, C-n ..."""
        self._tmux("send-keys", *keys)

    @property
    def screen(self) -> str:
        return self._tmux("capture-pane", "-p")

    @property
    def coloured(self) -> str:
        """The screen with its colours, as a terminal would be sent it."""
        return self._tmux("capture-pane", "-p", "-e")

    def until(self, wanted: str | Callable[[str], bool]) -> str:
        """The screen once it has what is wanted."""
        end = time.monotonic() + SECONDS
        while True:
            screen = self.screen
            if wanted in screen if isinstance(wanted, str) else wanted(screen):
                return screen
            if time.monotonic() > end:
                raise AssertionError(f"still no {json.dumps(str(wanted))} in\n{screen}")
            time.sleep(0.05)

    def insist(self, keys: Callable[[], None], wanted: str) -> None:
        """Presses keys again until something is on the screen: for a server that does not say when it is ready."""
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            keys()
            soon = time.monotonic() + 2
            while time.monotonic() < soon:
                if wanted in self.screen:
                    return
                time.sleep(0.05)
        raise AssertionError(f"still no {wanted!r} in\n{self.screen}")

    def close(self) -> None:
        """Ends it and what runs in it."""
        subprocess.run(["tmux", "-S", self._socket, "kill-server"], capture_output=True, check=False)
