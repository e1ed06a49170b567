"""Neovim: what is dismissed is gone for good, and the server knows; where a next edit is drawn; what loses no text."""

import pytest
from conftest import Start
from neovim import Neovim

DISMISS = "vim.keymap.set({ 'n', 'i' }, '<C-e>', '<Plug>(mercury-dismiss)')"
ACCEPT = "vim.keymap.set('i', '<C-a>', '<Plug>(mercury-accept)')"
AREA = "def area(w‸, h):\n    return w * h\n\n\nprint(area(2, 3))\n"


def renamed(nvim: Start) -> Neovim:
    """The parameter `w` is called `width`; below it is still `w`."""
    editor = nvim("", lua=f"{DISMISS}\nvim.o.signcolumn = 'yes'", text=AREA)
    editor.keys("iidth<Esc>")
    editor.until(lambda: editor.lua("return require('mercury.nes').is_visible()"))
    return editor


def test_B4_F5_dismissed_ghost_text_is_not_offered_again_at_this_place(nvim: Start) -> None:
    editor = nvim("1 + 2", lua=DISMISS, text="")
    editor.keys("i")
    editor.type("y = ")
    editor.until_ghost("1 + 2")
    editor.keys("<C-e>")
    assert editor.ghost == ""
    assert editor.rpc.api.get_mode()["mode"] == "i"
    assert editor.server("textDocument/inlineCompletion", **editor.here()) == []
    assert editor.server("textDocument/inlineCompletion", **editor.here(kind=1)) != []  # but to who asks for it
    editor.type("3 + ")
    editor.until_ghost("1 + 2")
    editor.keys("<Esc>")
    assert editor.text == "y = 3 + "


def test_F2_to_leave_the_buffer_is_no_rejection(nvim: Start) -> None:
    editor = nvim("1 + 2", text="")
    editor.keys("i")
    editor.type("y = ")
    editor.until_ghost("1 + 2")
    here = editor.here()
    editor.keys("<Cmd>enew!<CR>")
    assert editor.ghost == ""
    editor.rpc.command("buffer 1")
    assert editor.server("textDocument/inlineCompletion", **here) != []


def test_F4_a_next_edit_is_drawn_in_its_line_and_covers_nothing(nvim: Start) -> None:
    editor = renamed(nvim)
    before = editor.text
    (mark,) = [mark for mark in editor.marks("mercury.next_edit") if mark["text"]]
    assert (mark["row"], mark["text"]) == (1, "idth")
    assert {m["row"] for m in editor.marks("mercury.next_edit") if m["sign"]} == {1}
    row = editor.lua("return vim.fn.screenpos(0, 2, 1).row")
    screen = editor.lua(
        "vim.cmd.redraw()\n"
        "local row, found = ..., {}\n"
        "for column = 1, vim.o.columns do found[column] = vim.fn.screenstring(row, column) end\n"
        "return table.concat(found)",
        row,
    )
    assert "    return width * h" in screen  # beside the code, which is all there
    assert editor.text == before


def test_B4_F5_a_dismissed_next_edit_is_told_to_the_server(nvim: Start) -> None:
    editor = renamed(nvim)
    editor.keys("<C-e>")
    assert editor.marks("mercury.next_edit") == []
    asked = editor.here(kind=1)
    asked["textDocument"]["version"] = editor.lua("return vim.lsp.util.buf_versions[0]")
    assert editor.server("textDocument/copilotInlineEdit", **asked) == {"edits": []}


def test_E4_what_an_input_method_has_composed_is_text_like_any_other(nvim: Start) -> None:
    editor = nvim("1 + 2", lua=ACCEPT, text="")
    editor.keys("i")
    editor.type("名前 = ‘日本’ + ")  # a terminal composes by itself: Neovim gets what was chosen
    editor.until_ghost("1 + 2")
    editor.keys("<C-a>")
    assert editor.text == "名前 = ‘日本’ + 1 + 2"


COMMAND = """
vim.notify = function(text) _G.told = text end
local client = vim.lsp.get_clients({ name = 'mercury' })[1]
local request = client.request
client.request = function(self, method, params, handler, bufnr)
  if method ~= 'textDocument/inlineCompletion' then
    return request(self, method, params, handler, bufnr)
  end
  return request(self, method, params, function(err, result, ...)
    for _, item in ipairs(result or {}) do
      item.command = { title = 'fails', command = 'no.such.command' }
    end
    return handler(err, result, ...)
  end, bufnr)
end
"""
"""Puts a command that fails behind every acceptance."""


@pytest.mark.parametrize("nvim", ["0.11", "0.12-own"], indirect=True)
def test_G6_a_command_that_fails_after_the_acceptance_loses_no_text(nvim: Start) -> None:
    editor = nvim("1 + 2", lua=ACCEPT, text="x = 0\n")
    editor.lua(COMMAND)
    editor.keys("o")
    editor.type("y = ")
    editor.until_ghost("1 + 2")
    editor.keys("<C-a>")
    editor.until(lambda: editor.lua("return _G.told"), wanted=lambda said: said and "no.such.command" in said)
    assert editor.text == "x = 0\ny = 1 + 2"
