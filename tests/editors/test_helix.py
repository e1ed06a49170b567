"""Helix with the configuration of editors/README.md: a completion, and a code action."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import available, scripted_server
from install import helix
from terminal import Terminal, tmux

LANGUAGES = """
[language-server.mercury]
command = "{server}"
timeout = 60

[[language]]
name = "python"
language-servers = ["mercury"]
"""


@pytest.fixture
def hx(tmp_path: Path) -> Iterator[Terminal]:
    """Helix on a file with a fault in its second line."""
    available(tmux)
    program = available(helix)
    server = scripted_server(tmp_path)
    config = tmp_path / "config" / "helix"
    config.mkdir(parents=True)
    (config / "languages.toml").write_text(LANGUAGES.format(server=server))
    (config / "config.toml").write_text('theme = "default"\n[editor]\ncompletion-timeout = 5\n')
    file = tmp_path / "example.py"
    file.write_text("# fix\ndef total(values)\n    return sum(values)\n")
    env = {
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "HELIX_RUNTIME": str(program.parent / "runtime"),
    }
    terminal = Terminal(tmp_path, [str(program), str(file)], env)
    yield terminal
    terminal.close()


def test_helix_completes(hx: Terminal) -> None:
    hx.until("return sum")
    hx.type("geo")
    hx.type("x = ")
    hx.insist(lambda: hx.press("C-x"), "snippet")
    hx.press("C-n", "Enter")
    hx.until("x = :")


def test_helix_applies_a_quick_fix(hx: Terminal) -> None:
    hx.until("return sum")
    hx.type("jgl")
    hx.insist(lambda: hx.type(" a"), "Fix this syntax error")  # the first entry is selected
    hx.press("Enter")
    hx.until("def total(values):")
