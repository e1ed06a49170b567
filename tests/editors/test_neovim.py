"""Neovim with the plugin: ghost text, parts of it, undo and repeat, the popup menu, pause, a rewrite."""

from conftest import Start

TAB = "vim.keymap.set('i', '<Tab>', require('mercury').keys('accept', '<Tab>'), { expr = true, remap = true })"
ACCEPT = "vim.keymap.set('i', '<C-a>', '<Plug>(mercury-accept)')"
WORD = "vim.keymap.set('i', '<C-w>', '<Plug>(mercury-accept-word)')"
LINE = "vim.keymap.set('i', '<C-l>', '<Plug>(mercury-accept-line)')"
DISMISS = "vim.keymap.set('i', '<C-e>', '<Plug>(mercury-dismiss)')"


def test_ghost_text_appears_and_is_accepted(nvim: Start) -> None:
    editor = nvim("1 + 2", lua=ACCEPT, text="x = 0\n")
    editor.keys("o")
    editor.type("y = ")
    editor.until_ghost("1 + 2")
    editor.keys("<C-a>")
    assert editor.text == "x = 0\ny = 1 + 2"
    editor.until_ghost("")


def test_accepted_text_of_several_lines_is_inserted_as_it_is(nvim: Start) -> None:
    editor = nvim("b = a\n    return b", lua=ACCEPT, text="def f(a):\n    \n")
    editor.lua("vim.bo.autoindent, vim.bo.textwidth = true, 5")
    editor.keys("GA")
    editor.until_ghost("b = a\n    return b")
    editor.keys("<C-a>")
    assert editor.text == "def f(a):\n    b = a\n    return b"
    assert tuple(editor.rpc.current.window.cursor) == (3, len("    return b"))


def test_G1_one_undo_takes_back_the_accepted_text_only(nvim: Start) -> None:
    editor = nvim("1 + 2", lua=ACCEPT, text="")
    editor.keys("i")
    editor.type("total = ")
    editor.until_ghost("1 + 2")
    editor.keys("<C-a>")
    editor.type("  # sum")
    assert editor.text == "total = 1 + 2  # sum"
    editor.keys("<Esc>u")
    assert editor.text == "total = 1 + 2"
    editor.keys("u")
    assert editor.text == "total = "


def test_G2_dot_repeats_the_accepted_text(nvim: Start) -> None:
    editor = nvim("1 + 2", lua=ACCEPT, text="x = 0\n")
    editor.keys("o")
    editor.type("y = ")
    editor.until_ghost("1 + 2")
    editor.keys("<C-a><Esc>.")
    assert editor.text == "x = 0\ny = 1 + 2\ny = 1 + 2"


def test_G3_words_and_lines_are_taken_one_by_one(nvim: Start) -> None:
    answer = "b = a + 1\n    return b"
    editor = nvim(answer, lua=f"{ACCEPT}\n{WORD}\n{LINE}", text="def f(a):\n    \n")
    editor.keys("GA")
    editor.until_ghost(answer)
    editor.keys("<C-w>")
    assert editor.text == "def f(a):\n    b"
    editor.until_ghost(" = a + 1\n    return b")
    editor.keys("<C-w>")
    assert editor.text == "def f(a):\n    b ="
    editor.keys("<C-l>")
    assert editor.text == "def f(a):\n    b = a + 1"
    editor.until_ghost("\n    return b")
    editor.keys("<C-w>")
    assert editor.text == "def f(a):\n    b = a + 1\n    return"
    editor.until_ghost(" b")
    editor.keys("<C-a>")
    assert editor.text == "def f(a):\n    b = a + 1\n    return b"


def test_H1_keys_and_acceptance_in_one_burst_leave_exactly_the_text(nvim: Start) -> None:
    editor = nvim("alpha + beta", lua=ACCEPT, text="")
    editor.keys("i")
    editor.type("y = ")
    editor.until_ghost("alpha + beta")
    editor.keys("alp<C-a>  # x")
    assert editor.text == "y = alpha + beta  # x"


def test_F3_typing_what_is_suggested_keeps_the_text(nvim: Start) -> None:
    editor = nvim("alpha + beta", text="")
    editor.keys("i")
    editor.type("y = ")
    editor.until_ghost("alpha + beta")
    runs = editor.server("test/counters")["runs"]
    for typed, left in (("a", "lpha + beta"), ("lp", "ha + beta"), ("ha", " + beta")):
        editor.keys(typed)
        assert editor.ghost == left
    editor.until_ghost(" + beta")
    assert editor.server("test/counters")["runs"] == runs


def test_F2_ghost_text_goes_with_insert_mode(nvim: Start) -> None:
    editor = nvim("1 + 2", lua=DISMISS, text="")
    editor.keys("i")
    editor.type("y = ")
    editor.until_ghost("1 + 2")
    editor.keys("<Esc>")
    assert editor.ghost == ""
    editor.keys("A")
    editor.until_ghost("1 + 2")
    editor.keys("<C-e>")
    assert editor.ghost == ""
    assert editor.rpc.api.get_mode()["mode"] == "i"


def test_F2_ghost_text_goes_with_the_buffer(nvim: Start) -> None:
    editor = nvim("1 + 2", text="")
    editor.keys("i")
    editor.type("y = ")
    editor.until_ghost("1 + 2")
    first = editor.lua("return vim.api.nvim_get_current_buf()")
    editor.keys("<Cmd>enew!<CR>")
    editor.rpc.command(f"buffer {first}")
    assert editor.ghost == ""


def test_F1_the_menu_and_ghost_text_never_overlap(nvim: Start) -> None:
    editor = nvim("alpha + beta", text="alphabet = alpine = 1\n")
    editor.lua("vim.o.completeopt = 'menu,menuone,noinsert'")
    editor.keys("o")
    editor.type("y = ")
    editor.until_ghost("alpha + beta")
    editor.type("al")
    editor.keys("<C-n>")
    editor.until(lambda: editor.lua("return vim.fn.pumvisible()") == 1)
    assert editor.ghost == ""
    editor.keys("<C-e>")
    editor.until_ghost("pha + beta")


def test_A1_a_closer_that_is_there_is_replaced(nvim: Start) -> None:
    editor = nvim("a, b)", lua=ACCEPT, text="print(‸)\n")
    editor.keys("i")
    editor.until(lambda: editor.ghost, wanted=lambda g: "a, b" in g)
    editor.keys("<C-a>")
    assert editor.text == "print(a, b)"


def test_C5_tab_indents_where_it_should(nvim: Start) -> None:
    editor = nvim("pass", lua=TAB, text="")
    editor.keys("i<Tab>")
    assert editor.text == "    "
    editor.keys("<Esc>ccx = ")
    editor.until_ghost("pass")
    editor.keys("<Tab>")
    assert editor.text == "x = pass"
    editor.keys("<Esc>cc")
    editor.until_ghost("pass")
    editor.keys("<Tab>")
    assert editor.text == "    "


def test_C6_tab_in_a_snippet_goes_to_the_next_stop(nvim: Start) -> None:
    editor = nvim("zz", lua=TAB, text="")
    editor.keys("i<Cmd>lua vim.snippet.expand('f(${1:a}, ${2:b})$0')<CR>")
    editor.type("q")
    editor.until(lambda: editor.text, wanted=lambda t: t == "f(q, b)")
    editor.until(lambda: editor.ghost)
    editor.keys("<Tab>")
    editor.type("r")
    assert editor.text == "f(q, r)"


def test_no_key_is_mapped_by_the_plugin(nvim: Start) -> None:
    editor = nvim(text="")
    found = editor.lua(
        "local found = {}\n"
        "for _, mode in ipairs({ 'n', 'i', 'x', 's', 'o' }) do\n"
        "  for _, m in ipairs(vim.api.nvim_get_keymap(mode)) do\n"
        "    if tostring(m.desc):match('Mercury') and not m.lhs:match('^<Plug>') then found[#found + 1] = m.lhs end\n"
        "  end\n"
        "end\n"
        "return found"
    )
    assert found == []


def test_F6_pause_and_disable_are_honoured_at_once(nvim: Start) -> None:
    editor = nvim("1 + 2", text="")
    editor.keys("i")
    editor.type("y = ")
    editor.until_ghost("1 + 2")
    editor.keys("<Cmd>Mercury pause<CR>")
    editor.until(lambda: editor.lua("return require('mercury.status').state()"), wanted=lambda s: s == "inactive")
    runs = editor.server("test/counters")["runs"]
    editor.keys("<Esc>o")
    editor.type("z = ")
    assert editor.server("textDocument/inlineCompletion", **editor.here()) == []
    assert editor.server("test/counters")["runs"] == runs
    assert "paused" in editor.lua("return require('mercury.status').statusline()")
    editor.keys("<Cmd>Mercury resume<CR>")
    editor.until(lambda: editor.lua("return require('mercury.status').state()"), wanted=lambda s: s == "ready")
    editor.type("q + ")
    editor.until_ghost("1 + 2")
    editor.keys("<Cmd>Mercury disable<CR>")
    assert editor.ghost == ""
    assert editor.lua("return require('mercury.status').state()") == "off"


def test_G5_what_was_undone_is_not_suggested_at_once(nvim: Start) -> None:
    editor = nvim("1 + 2", lua=ACCEPT + "\nvim.g.mercury_ghost = 'own'", text="")
    editor.keys("i")
    editor.type("y = ")
    editor.until_ghost("1 + 2")
    editor.keys("<C-a><Esc>u")
    assert editor.text == "y = "
    asked = editor.lua("return vim.tbl_count(vim.lsp.get_clients({ name = 'mercury' })[1].requests)")
    editor.keys("A")
    assert editor.lua("return vim.tbl_count(vim.lsp.get_clients({ name = 'mercury' })[1].requests)") == asked
    assert editor.ghost == ""
    editor.type("3 + ")
    editor.until_ghost("1 + 2")


def test_a_rewrite_fills_in_and_is_accepted_in_one_undo_step(nvim: Start) -> None:
    before = "def add(a, b):\n    return a\n\nx = 1"
    editor = nvim("    return a + b\n", text=before + "\n", FAKE_PER_STEP="2")
    editor.lua("_G.canvases = 0")
    editor.rpc.command("autocmd User MercuryCanvas lua _G.canvases = _G.canvases + 1")
    editor.keys(":2Mercury rewrite return the sum<CR>")
    editor.until(lambda: editor.lua("return require('mercury.rewrite').is_proposed()"))
    assert editor.lua("return _G.canvases") > 0
    assert editor.text == before
    assert any("+ b" in mark["text"] for mark in editor.marks("mercury.rewrite"))
    editor.keys(":Mercury accept<CR>")
    assert editor.text == before.replace("return a", "return a + b")
    assert editor.marks("mercury.rewrite") == []
    editor.keys("u")
    assert editor.text == before


def test_a_rewrite_is_rejected_and_leaves_no_trace(nvim: Start) -> None:
    before = "def add(a, b):\n    return a\n"
    editor = nvim("    return a + b\n", text=before)
    editor.keys(":2Mercury rewrite sum<CR>")
    editor.until(lambda: editor.lua("return require('mercury.rewrite').is_proposed()"))
    editor.keys(":Mercury dismiss<CR>")
    assert editor.marks("mercury.rewrite") == []
    assert editor.text == before.rstrip("\n")


def test_a_quick_fix_mends_a_syntax_error(nvim: Start) -> None:
    editor = nvim(":", text="def f()‸\n    return 1\n")
    editor.lua(
        "_G.titles = nil\n"
        "vim.ui.select = function(items, opts, done)\n"
        "  _G.titles = vim.tbl_map(opts.format_item, items)\n"
        "  done(items[1], 1)\n"
        "end\n"
        "vim.lsp.buf.code_action({ apply = true })"
    )
    editor.until(lambda: editor.text, wanted=lambda t: t == "def f():\n    return 1")
    editor.keys("u")
    assert editor.text == "def f()\n    return 1"


def test_checkhealth_finds_nothing_wrong(nvim: Start) -> None:
    editor = nvim(text="x = 1\n")
    editor.until(
        lambda: editor.lua("return (require('mercury.status').last or {}).model"), wanted=lambda m: m == "fake"
    )
    editor.rpc.command("checkhealth mercury")
    report = editor.text
    assert "ERROR" not in report and "WARNING" not in report, report
    assert "mercury-lsp" in report and "fake" in report


def test_checkhealth_names_a_wrong_option_and_a_missing_server(nvim: Start) -> None:
    editor = nvim(text="", lua="vim.g.mercury_gost = 1\nvim.g.mercury_debounce_ms = 'fast'")
    editor.lua("vim.lsp.config('mercury', { cmd = { 'no-such-server' } })")
    editor.rpc.command("checkhealth mercury")
    report = editor.text
    assert "mercury_gost is not an option" in report
    assert "mercury_debounce_ms must be a number" in report
    assert "no-such-server cannot be run" in report


NEXT_EDIT = """
local edit = ...
local client = vim.lsp.get_clients({ name = 'mercury' })[1]
local request = client.request
client.request = function(self, method, params, handler, bufnr)
  if method ~= 'textDocument/copilotInlineEdit' then
    return request(self, method, params, handler, bufnr)
  end
  edit.textDocument = { uri = params.textDocument.uri, version = params.textDocument.version }
  vim.schedule(function() handler(nil, { edits = { edit } }) end)
  return true, 1000000
end
"""
"""The server's answer, put in its place: what this editor does with one does not depend on when the server has one."""


def test_M2_the_next_edit_is_jumped_to_accepted_and_undone_by_keys(nvim: Start) -> None:
    text = "def total(a):\n    return a\n" + "\n" * 20 + "print(sum_of(1))"
    editor = nvim(text=text + "\n")
    editor.lua(
        "vim.keymap.set('n', '<Tab>', require('mercury').keys('next_edit', '<Tab>'), { expr = true, remap = true })"
    )
    place = {"start": {"line": 22, "character": 6}, "end": {"line": 22, "character": 12}}
    editor.lua(NEXT_EDIT, {"text": "total", "range": place})
    editor.keys("x")
    editor.until(lambda: editor.lua("return require('mercury.nes').is_visible()"))
    assert any(mark["sign"].strip() == "»" and mark["row"] == 22 for mark in editor.marks("mercury.next_edit"))
    editor.keys("<Tab>")
    assert editor.rpc.current.window.cursor[0] == 23
    changed = editor.text
    editor.keys("<Tab>")
    assert editor.text == changed.replace("sum_of", "total")
    editor.keys("u")
    assert editor.text == changed


def test_F5_a_dismissed_next_edit_does_not_come_back(nvim: Start) -> None:
    editor = nvim(text="a = 1\nb = 2\n")
    editor.lua("vim.keymap.set('n', 'Q', '<Plug>(mercury-dismiss)')")
    place = {"start": {"line": 1, "character": 4}, "end": {"line": 1, "character": 5}}
    editor.lua(NEXT_EDIT, {"text": "3", "range": place})
    editor.keys("A0<Esc>")
    editor.until(lambda: editor.lua("return require('mercury.nes').is_visible()"))
    editor.keys("Q")
    assert editor.marks("mercury.next_edit") == []
    editor.lua("require('mercury.nes').ask()")
    editor.lua("vim.wait(200, function() return require('mercury.nes').is_visible() end)")
    assert editor.marks("mercury.next_edit") == []


def test_candidates_are_gone_through(nvim: Start) -> None:
    editor = nvim("one", lua=ACCEPT, text="")
    editor.lua("vim.keymap.set('i', '<C-n>', '<Plug>(mercury-next)')")
    editor.keys("i")
    editor.type("y = ")
    editor.until_ghost("one")
    editor.server("test/script", text="two", gated=False)
    editor.keys("<C-n>")
    editor.until(lambda: editor.ghost, wanted=lambda g: g.startswith("two"))
    editor.keys("<C-a>")
    assert editor.text == "y = two"
