"""The editors as fixtures. An editor that cannot be had here skips its tests with the reason."""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from install import UnavailableError, neovim_0_11, neovim_0_12
from neovim import Neovim

ROOT = Path(__file__).resolve().parents[2]
IMAGES = ROOT / "docs" / "images"

FLAVOURS = {
    "0.11": (neovim_0_11, "own"),
    "0.12": (neovim_0_12, "builtin"),
    "0.12-own": (neovim_0_12, "own"),
}
"""Neovim's version, and who draws its ghost text."""


def server_env(**variables: str) -> dict[str, str]:
    """The environment of a server process that can import the project and its tests."""
    path = os.pathsep.join(str(ROOT / part) for part in ("", "model", "kernels"))
    return {"PYTHONPATH": path, **variables}


def available(find: Callable[[], Path]) -> Path:
    """Where an editor is; skips the test if it cannot be had."""
    try:
        return find()
    except UnavailableError as reason:
        pytest.skip(str(reason))


Start = Callable[..., Neovim]


@pytest.fixture(params=FLAVOURS)
def nvim(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Start]:
    """Starts Neovim with the plugin, over the real server with a scripted model that writes `answer`."""
    find, ghost = FLAVOURS[request.param]
    program = available(find)
    started: list[Neovim] = []

    def start(answer: str = "1 + 2", *, lua: str = "", text: str = "", **env: str) -> Neovim:
        server = [sys.executable, "-m", "tests.lsp.fake_server"]
        editor = Neovim(
            program,
            tmp_path,
            server,
            server_env(FAKE_TEXT=answer, **env),
            lua=f"vim.g.mercury_ghost = '{ghost}'\n{lua}",
        )
        started.append(editor)
        editor.open("example.py", text)
        return editor

    yield start
    for editor in started:
        editor.close()
