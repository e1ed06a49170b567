--- What the user can switch: `vim.g.mercury_NAME`, and `vim.b.mercury_NAME` for one buffer, which wins.
local M = {}

--- Every option and its default.
M.defaults = {
  --- Ghost text and next edits. The server's own switch is the setting `enabled`.
  enabled = true,
  --- Who draws ghost text: 'builtin' (vim.lsp.inline_completion, Neovim 0.12), 'own', or 'auto': the built-in one if
  --- there is one.
  ghost = 'auto',
  --- Milliseconds after a key before the server is asked by the plugin's own ghost text. The server waits by itself
  --- until typing pauses, so this only joins keys that arrive together.
  debounce_ms = 40,
  --- Look for the next edit after a change.
  next_edit = true,
  --- Milliseconds after a change before it is looked for.
  next_edit_debounce_ms = 150,
  --- Call `vim.lsp.enable('mercury')` at start.
  auto_enable = true,
}

--- The value of an option for a buffer.
---@param name string
---@param bufnr? integer 0 or nil: the current one
function M.get(name, bufnr)
  local value = vim.b[bufnr or 0]['mercury_' .. name]
  if value == nil then
    value = vim.g['mercury_' .. name]
  end
  if value == nil then
    value = M.defaults[name]
  end
  return value ~= vim.NIL and value or nil
end

--- Whether a switch is on; 0 and false are off.
---@param name string
---@param bufnr? integer
function M.is_on(name, bufnr)
  local value = M.get(name, bufnr)
  return value ~= nil and value ~= false and value ~= 0
end

--- Whether Neovim's own inline completion draws the ghost text.
function M.builtin_ghost()
  local choice = M.get('ghost')
  return choice ~= 'own' and vim.lsp.inline_completion ~= nil
end

--- Options that are set but do not exist or do not fit, one line each (for :checkhealth).
---@return string[]
function M.problems()
  local found = {}
  for name, default in pairs(M.defaults) do
    local value = vim.g['mercury_' .. name]
    local fits = value == nil
      or type(value) == type(default)
      or (type(default) == 'boolean' and type(value) == 'number')
    if not fits then
      found[#found + 1] = ('vim.g.mercury_%s must be a %s'):format(name, type(default))
    end
  end
  for name in pairs(vim.fn.eval('g:')) do
    local option = type(name) == 'string' and name:match('^mercury_(.+)$')
    if option and M.defaults[option] == nil then
      found[#found + 1] = ('vim.g.mercury_%s is not an option; see :help mercury-options'):format(option)
    end
  end
  if not vim.list_contains({ 'auto', 'builtin', 'own' }, M.get('ghost')) then
    found[#found + 1] = "vim.g.mercury_ghost must be 'auto', 'builtin' or 'own'"
  end
  table.sort(found)
  return found
end

return M
