"""Neovim in a terminal, as a user sees it: ghost text, a rewrite with its canvas, a quick fix. With MERCURY_IMAGES set
in the environment the screens become the pictures of the README.
"""

import os
import re
import sys
from collections.abc import Callable, Iterator
from copy import copy
from pathlib import Path

import pytest
from conftest import FLAVOURS, IMAGES, available, server_env
from neovim import init_lua, runtime_env
from rich.color_triplet import ColorTriplet
from rich.console import Console
from rich.terminal_theme import SVG_EXPORT_THEME
from rich.text import Text
from terminal import Terminal, tmux

COLUMNS, LINES = 84, 18
THEME = copy(SVG_EXPORT_THEME)
THEME.background_color = ColorTriplet(28, 28, 28)  # habamax
LUA = """
vim.o.termguicolors, vim.o.number, vim.o.laststatus, vim.o.ruler, vim.o.showcmd = true, true, 3, false, false
vim.o.statusline = " %f  %=%{%v:lua.require'mercury.status'.statusline()%} "
vim.cmd.colorscheme('habamax')
vim.keymap.set('n', '<F5>', vim.lsp.buf.code_action)
vim.keymap.set('i', '<C-a>', '<Plug>(mercury-accept)')
"""
SCRIPTED = [sys.executable, "-m", "tests.editors.scripted_server"]
REAL = [sys.executable, "-m", "mercury_lsp", "serve", "--stdio"]
CODE = """\
def mean(values):
    total = 0
    for value in values:
        total += value
    return total / len(values)


def circle_area(radius):
    return \
"""
Open = Callable[..., Terminal]


@pytest.fixture
def screen(tmp_path: Path) -> Iterator[Open]:
    """Opens a file of the given text in the newest Neovim there is."""
    available(tmux)
    program = available(FLAVOURS["0.11"][0])
    opened: list[Terminal] = []

    def start(text: str, server: list[str] = SCRIPTED, model: str = "fake") -> Terminal:
        init = tmp_path / "init.lua"
        init.write_text(init_lua(server, server_env(FAKE_DELAY="0.4"), LUA))
        (tmp_path / "mean.py").write_text(text)
        home = {f"XDG_{kind}_HOME": str(tmp_path / kind.lower()) for kind in ("CONFIG", "DATA", "STATE", "CACHE")}
        words = ["sh", "-c", f"cd {tmp_path} && exec {program} -u {init} mean.py"]
        terminal = Terminal(tmp_path, words, home | runtime_env(program), columns=COLUMNS, lines=LINES)
        opened.append(terminal)
        terminal.until(f"● mercury {model} cpu")
        return terminal

    yield start
    for terminal in opened:
        terminal.close()


def picture(terminal: Terminal, name: str) -> None:
    if "MERCURY_IMAGES" not in os.environ:
        return
    with Path(os.devnull).open("w") as nowhere:
        console = Console(record=True, width=COLUMNS, file=nowhere, force_terminal=True, color_system="truecolor")
        console.print(Text.from_ansi(terminal.coloured.rstrip("\n")), no_wrap=True)
        IMAGES.mkdir(parents=True, exist_ok=True)
        console.save_svg(str(IMAGES / name), title="Neovim", theme=THEME, unique_id=name.split(".", 1)[0])


def test_ghost_text_is_on_the_screen(screen: Open) -> None:
    terminal = screen("# ghost\n")
    terminal.type("oanswer = ")
    terminal.until("answer = 6 * 7")
    terminal.press("C-a", "Escape")
    terminal.until("answer = 6 * 7")


def test_a_rewrite_fills_in_and_shows_its_difference(screen: Open) -> None:
    body = "    total = 0\n    for value in values:\n        total += value\n    return total / len(values)\n"
    terminal = screen(f"# rewrite\ndef mean(values):\n{body}")
    terminal.type(":3,6Mercury rewrite use sum")
    terminal.press("Enter")
    terminal.until(lambda text: "passes" in text and "return sum" in text and "░" in text)
    picture(terminal, "nvim-rewrite-canvas.svg")
    terminal.until(":Mercury accept")
    terminal.type(":Mercury accept")
    terminal.press("Enter")
    terminal.until(lambda text: "total = 0" not in text and "return sum(values) / len(values)" in text)


def test_a_quick_fix_is_offered_and_applied(screen: Open) -> None:
    terminal = screen("# fix\ndef total(values)\n    return sum(values)\n")
    terminal.type("jA")
    terminal.press("Escape", "F5")
    terminal.until("Fix this syntax error")
    terminal.type("1")
    terminal.press("Enter")
    terminal.until("def total(values):")


def test_a_next_edit_is_drawn_where_it_is(screen: Open) -> None:
    terminal = screen("# next\ndef area(w, h):\n    return w * h\n\n\nprint(area(2, 3))\n")
    terminal.type("j9laidth")
    terminal.press("Escape")
    terminal.until(lambda text: "»" in text and "return width * h" in text)
    picture(terminal, "nvim-next-edit.svg")
    terminal.type(":Mercury accept")
    terminal.press("Enter")
    terminal.type(":Mercury accept")  # there
    terminal.press("Enter")
    terminal.until(lambda text: "»" not in text and "return width * h" in text)


@pytest.mark.real
def test_the_embedded_model_is_seen_at_work(screen: Open, weights: None) -> None:
    terminal = screen(CODE, REAL, "quicksilver-0.5b")
    terminal.type(":2,5Mercury rewrite use the built-in function sum")
    terminal.press("Enter")
    terminal.until("passes")
    terminal.until(":Mercury accept")
    picture(terminal, "nvim-rewrite-diff.svg")
    terminal.type(":Mercury accept")
    terminal.press("Enter")
    terminal.until(lambda text: "+= value" not in text and ":Mercury accept  " not in text)
    terminal.type("GA")
    terminal.until(lambda text: re.search(r"circle_area.*\n.*return \S", text) is not None)
    picture(terminal, "nvim-ghost-text.svg")
    terminal.press("C-a", "Escape")
    terminal.type("Gk:s/:$//")
    terminal.press("Enter")
    terminal.type("A")
    terminal.press("Escape", "F5")
    terminal.until("Fix this syntax error")
    picture(terminal, "nvim-quick-fix.svg")
    terminal.type("1")
    terminal.press("Enter")
    terminal.until("def circle_area(radius):")
