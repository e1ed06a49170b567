"""The editors as fixtures. An editor that cannot be had here skips its tests with the reason."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from install import UnavailableError, neovim_0_11, neovim_0_12
from neovim import Neovim

from mercury_model import EMBEDDED, store

ROOT = Path(__file__).resolve().parents[2]
IMAGES = ROOT / "docs" / "images"

FLAVOURS = {
    "0.11": (neovim_0_11, "own"),
    "0.12": (neovim_0_12, "builtin"),
    "0.12-own": (neovim_0_12, "own"),
}
"""Neovim's version, and who draws its ghost text."""


def server_env(**variables: str) -> dict[str, str]:
    """The environment of a server process that can import the project and its tests, and finds the weights: an editor
    under test has a cache of its own."""
    path = os.pathsep.join(str(ROOT / part) for part in ("", "model", "kernels"))
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return {"PYTHONPATH": path, "XDG_CACHE_HOME": cache, **variables}


def scripted_server(folder: Path) -> Path:
    """A program, for editors that are told the server's name only, over the model of scripted_server.py."""
    program = folder / "mercury-lsp"
    environment = " ".join(f"{name}='{value}'" for name, value in server_env().items())
    program.write_text(
        f"#!/bin/sh\ncd {ROOT} && exec env {environment} {sys.executable} -m tests.editors.scripted_server\n"
    )
    program.chmod(0o755)
    return program


def available(find: Callable[[], Path]) -> Path:
    """Where an editor is; skips the test if it cannot be had."""
    try:
        return find()
    except UnavailableError as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="session")
def weights() -> None:
    """Skips the tests with the embedded model where its weights are not there."""
    if store.ready(EMBEDDED, "int8") is None:
        pytest.skip("the weights are not there: mercury-lsp model pull")


Start = Callable[..., Neovim]


@contextmanager
def opened(flavour: str, folder: Path, server: list[str], env: dict[str, str]) -> Iterator[Start]:
    """What starts Neovim with the plugin over a server and edits `example.py`; all of them end with the block."""
    find, ghost = FLAVOURS[flavour]
    program = available(find)
    started: list[Neovim] = []

    def start(*, lua: str = "", text: str = "", **more: str) -> Neovim:
        editor = Neovim(program, folder, server, env | more, lua=f"vim.g.mercury_ghost = '{ghost}'\n{lua}")
        started.append(editor)
        editor.open("example.py", text)
        return editor

    try:
        yield start
    finally:
        for editor in started:
            editor.close()


@pytest.fixture(params=FLAVOURS)
def nvim(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Start]:
    """Starts Neovim with the plugin, over the real server with a scripted model that writes `answer`."""
    server = [sys.executable, "-m", "tests.lsp.fake_server"]
    with opened(request.param, tmp_path, server, server_env()) as start:
        yield lambda answer="1 + 2", **more: start(FAKE_TEXT=answer, **more)
