"""Drives a headless Neovim with the plugin of editors/nvim over its own RPC. Nothing here sleeps and hopes: `until`
asks again and again until something is so, or the test fails.
"""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pynvim

T = TypeVar("T")

PLUGIN = Path(__file__).resolve().parents[2] / "editors" / "nvim"
ROOT = PLUGIN.parents[1]
SECONDS = 300.0  # a hang is a failure; nothing is asserted about how fast anything is

_GHOST = """
local found = {}
for _, name in ipairs({ 'mercury.ghost', 'nvim.lsp.inline_completion' }) do
  local ns = vim.api.nvim_create_namespace(name)
  for _, mark in ipairs(vim.api.nvim_buf_get_extmarks(0, ns, 0, -1, { details = true })) do
    local text = vim.iter(mark[4].virt_text or {}):map(function(p) return p[1] end):join('')
    for _, line in ipairs(mark[4].virt_lines or {}) do
      text = text .. '\\n' .. vim.iter(line):map(function(p) return p[1] end):join('')
    end
    found[#found + 1] = text
  end
end
return table.concat(found, '|')
"""

_MARKS = """
local ns, found = vim.api.nvim_create_namespace(...), {}
for _, mark in ipairs(vim.api.nvim_buf_get_extmarks(0, ns, 0, -1, { details = true })) do
  local d, pieces = mark[4], {}
  for _, p in ipairs(d.virt_text or {}) do pieces[#pieces + 1] = p[1] end
  for _, line in ipairs(d.virt_lines or {}) do
    pieces[#pieces + 1] = '\\n'
    for _, p in ipairs(line) do pieces[#pieces + 1] = p[1] end
  end
  found[#found + 1] = {
    row = mark[2], text = table.concat(pieces), gone = d.hl_group == 'MercuryDelete' or d.line_hl_group ~= nil,
    sign = d.sign_text or '',
  }
end
return found
"""


def init_lua(server: list[str], env: dict[str, str], lua: str) -> str:
    """An init.lua that has the plugin and starts the server by `server` with `env` added to its environment."""
    return "\n".join(
        [
            f"vim.opt.runtimepath:prepend({json.dumps(str(PLUGIN))})",
            "vim.o.swapfile, vim.o.more, vim.o.shortmess = false, false, vim.o.shortmess .. 'I'",
            "vim.o.expandtab, vim.o.shiftwidth = true, 4",
            f"local cmd, env = vim.json.decode({json.dumps(json.dumps(server))}),"
            f" vim.json.decode({json.dumps(json.dumps(env))})",
            f"vim.lsp.config('mercury', {{ cmd = cmd, cmd_env = env, cmd_cwd = {json.dumps(str(ROOT))} }})",
            lua,
            "",
        ]
    )


class Neovim:
    """One Neovim and its one window."""

    def __init__(self, program: Path, folder: Path, server: list[str], env: dict[str, str], *, lua: str = "") -> None:
        self.folder = folder
        init = folder / "init.lua"
        init.write_text(init_lua(server, env, lua))
        home = {f"XDG_{kind}_HOME": str(folder / kind.lower()) for kind in ("CONFIG", "DATA", "STATE", "CACHE")}
        words = [f"{name}={value}" for name, value in (home | runtime_env(program)).items()]
        self.rpc = pynvim.attach("child", argv=["env", *words, str(program), "--embed", "--headless", "-u", str(init)])

    def open(self, name: str, text: str) -> None:
        """Edits a file with this text, and waits for its server; the cursor stands at `‸`, if there is one."""
        file = self.folder / name
        file.write_text(text.replace("‸", ""))
        self.rpc.command(f"edit {file}")
        self.until(lambda: self.lua("return #vim.lsp.get_clients({ name = 'mercury', bufnr = 0 }) == 1"))
        self.until(lambda: self.lua("return vim.lsp.get_clients({ name = 'mercury' })[1].initialized == true"))
        if "‸" in text:
            before = text[: text.index("‸")]
            self.rpc.current.window.cursor = (before.count("\n") + 1, len(before.rsplit("\n", 1)[-1].encode()))

    def lua(self, code: str, *arguments: Any) -> Any:
        return self.rpc.exec_lua(code, *arguments)

    def until(self, what: Callable[[], T], *, wanted: Callable[[T], bool] = bool) -> T:
        """What `what` answers once it is as wanted."""
        end = time.monotonic() + SECONDS
        while True:
            value = what()
            if wanted(value):
                return value
            if time.monotonic() > end:
                raise AssertionError(f"still {value!r}; messages: {self.rpc.command_output('messages')}")
            time.sleep(0.01)

    def keys(self, keys: str) -> None:
        """Typed by the user; done with when all of them are worked off."""
        before = self.lua("_G.worked = (_G.worked or 0) return _G.worked")
        self.lua("vim.keymap.set({ 'n', 'i', 'x', 's' }, '<F12>', '<Cmd>lua _G.worked = _G.worked + 1<CR>')")
        self.rpc.input(keys + "<F12>")
        self.until(lambda: self.lua("return _G.worked"), wanted=lambda n: n > before)

    def type(self, text: str) -> None:
        self.keys(text.replace("<", "<lt>"))

    @property
    def text(self) -> str:
        return "\n".join(self.rpc.current.buffer[:])

    @property
    def ghost(self) -> str:
        """What stands on the screen as ghost text, its lines joined."""
        return self.lua(_GHOST)

    def until_ghost(self, text: str) -> None:
        self.until(lambda: self.ghost, wanted=lambda shown: shown == text)

    def marks(self, namespace: str) -> list[dict[str, Any]]:
        """The marks of a namespace: row, virtual text, whether text is struck out, and the sign."""
        return self.lua(_MARKS, namespace)

    def here(self, kind: int = 2) -> dict[str, Any]:
        """The cursor as parameters of a request. kind: 1 if the user asks for it, 2 while typing."""
        row, column = self.rpc.current.window.cursor
        return {
            "textDocument": {"uri": self.lua("return vim.uri_from_bufnr(0)")},
            "position": {"line": row - 1, "character": column},
            "context": {"triggerKind": kind},
        }

    def server(self, method: str, **params: Any) -> Any:
        """Sends a request of the tests to the server and returns its answer."""
        answer = self.lua(
            "local c = vim.lsp.get_clients({ name = 'mercury' })[1]\n"
            "local method, params = ...\n"
            "return c:request_sync(method, params, 300000, vim.api.nvim_get_current_buf())",
            method,
            params,
        )
        assert answer is not None and not (answer and answer.get("err")), answer
        return answer.get("result") if answer else None  # an empty table is an empty list over the RPC

    def close(self) -> None:
        """Ends it; the server goes with it."""
        try:
            self.rpc.command("qall!")
        except (OSError, EOFError):
            pass
        finally:
            self.rpc.close()


def runtime_env(program: Path) -> dict[str, str]:
    """What an unpacked Neovim must be told about where it lies."""
    runtime = program.parents[1] / "share" / "nvim" / "runtime"
    unpacked = "editors" in program.parts
    return {"VIMRUNTIME": str(runtime)} if unpacked and runtime.is_dir() else {}
