--- :checkhealth mercury
local client = require('mercury.client')
local config = require('mercury.config')

local M = {}

local INSTALL = 'pip install mercury-lsp, or set cmd: vim.lsp.config("mercury", { cmd = { "/path/to/mercury-lsp" } })'

local function editor()
  local health = vim.health
  health.start('mercury: Neovim')
  if vim.fn.has('nvim-0.11') == 0 then
    health.error('Neovim 0.11 or newer is needed')
    return
  end
  health.ok('Neovim ' .. tostring(vim.version()))
  if config.builtin_ghost() then
    health.ok('ghost text: vim.lsp.inline_completion')
  else
    health.ok("ghost text: the plugin's own")
  end
  for _, problem in ipairs(config.problems()) do
    health.warn(problem)
  end
end

local function server()
  local health = vim.health
  health.start('mercury: server')
  local cmd = vim.lsp.config[client.name].cmd
  local program = type(cmd) == 'table' and cmd[1] or nil
  if program and vim.fn.executable(program) == 0 then
    health.error(program .. ' cannot be run', INSTALL)
    return
  elseif program then
    health.ok(('%s is %s'):format(program, vim.fn.exepath(program)))
  end
  local served = client.any()
  if not served then
    local advice = vim.lsp.is_enabled and vim.lsp.is_enabled(client.name) and 'Open a file, then look again'
      or "vim.lsp.enable('mercury')"
    health.warn('not running', advice)
    return
  end
  local info = served.server_info or {}
  health.ok(('running: %s %s, positions in %s'):format(info.name or '?', info.version or '?', served.offset_encoding))
  local status = require('mercury.status').last
  if not status then
    health.warn('it has not said yet how it is')
  elseif status.kind == 'Error' then
    health.error(status.message, 'Run `mercury-lsp doctor`')
  elseif status.kind == 'Inactive' then
    health.warn(status.message)
  else
    health.ok(('model %s %s %s'):format(status.model, status.device, status.message))
  end
end

function M.check()
  editor()
  server()
end

return M
