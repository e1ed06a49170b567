"""Neovim with the server as it is and the embedded model, whose words nobody knows beforehand: what is checked is what
becomes of them in the buffer.
"""

import ast
import sys
from collections.abc import Iterator

import pytest
from conftest import opened, server_env
from neovim import Neovim

pytestmark = pytest.mark.real

KEYS = "\n".join(
    f"vim.keymap.set('i', '{key}', '<Plug>(mercury-{name})')"
    for key, name in {"<C-a>": "accept", "<C-w>": "accept-word"}.items()
)
AREA = 'import math\n\n\ndef circle_area(radius):\n    """Area of a circle."""\n    return \n'
MEAN = (
    "def mean(values):\n    total = 0\n    for value in values:\n        total += value\n    return total / len(values)"
)


@pytest.fixture(scope="module", params=["0.11", "0.12"])
def editor(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, weights: None) -> Iterator[Neovim]:
    """One Neovim for all tests, as the model is loaded once."""
    server = [sys.executable, "-m", "mercury_lsp", "serve", "--stdio"]
    with opened(request.param, tmp_path_factory.mktemp("neovim"), server, server_env()) as start:
        yield start(lua=KEYS)


def is_python(text: str) -> bool:
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True


def test_ghost_text_is_taken_by_words_and_as_a_whole_and_undone_step_by_step(editor: Neovim) -> None:
    editor.open("area.py", AREA)
    editor.keys("GA")
    before = editor.text
    ghost = editor.until(lambda: editor.ghost)
    editor.keys("<C-w>")
    word = editor.text
    assert len(word) > len(before) and (before + ghost).startswith(word)
    if word != before + ghost:
        editor.until(lambda: editor.ghost)
        editor.keys("<C-a>")
    whole = editor.text
    assert whole.startswith(word) and is_python(whole), whole
    editor.keys("<Esc>u")
    assert editor.text == (word if whole != word else before)


def test_a_quick_fix_mends_a_syntax_error_in_one_undo_step(editor: Neovim) -> None:
    broken = "def total(values)\n    return sum(values)\n\n\nprint(total([1, 2, 3]))"
    editor.open("total.py", broken.replace("(values)\n", "(values)‸\n", 1) + "\n")
    editor.lua(
        "vim.ui.select = function(items, opts, done) done(items[1], 1) end\nvim.lsp.buf.code_action({ apply = true })"
    )
    mended = editor.until(lambda: editor.text, wanted=is_python)
    assert mended.endswith("print(total([1, 2, 3]))")
    editor.keys("u")
    assert editor.text == broken


def test_a_rewrite_fills_in_is_accepted_and_undone_in_one_step(editor: Neovim) -> None:
    editor.open("mean.py", MEAN + "\n")
    editor.lua("_G.canvases = {}")
    editor.rpc.command("autocmd User MercuryCanvas lua _G.canvases[#_G.canvases + 1] = true")
    editor.keys(":2,5Mercury rewrite use the built-in function sum<CR>")
    editor.until(lambda: editor.lua("return require('mercury.rewrite').is_proposed()"))
    assert len(editor.lua("return _G.canvases")) > 1
    assert editor.text == MEAN
    editor.keys(":Mercury accept<CR>")
    assert editor.text != MEAN and is_python(editor.text), editor.text
    editor.keys("u")
    assert editor.text == MEAN


def test_paused_it_suggests_nothing_resumed_it_does(editor: Neovim) -> None:
    editor.open("double.py", "def double(x):\n    \n")
    editor.keys("<Cmd>Mercury pause<CR>GA")
    editor.until(lambda: editor.lua("return require('mercury.status').state()"), wanted=lambda s: s == "inactive")
    editor.type("return x ")
    assert editor.server("textDocument/inlineCompletion", **editor.here()) == []
    assert editor.ghost == ""
    editor.keys("<Cmd>Mercury resume<CR>")
    editor.until(lambda: editor.lua("return require('mercury.status').state()"), wanted=lambda s: s != "inactive")
    editor.type("* ")
    assert editor.until(lambda: editor.ghost).strip()
    editor.keys("<Esc>")
