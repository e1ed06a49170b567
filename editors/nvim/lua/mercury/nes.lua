--- The next edit: after a change, what the server would change next. Shown where it is; the first key jumps there, the
--- second accepts it, one key dismisses it for good.
---
--- Staleness is checked twice: by request, and by the buffer's version when the answer is drawn or accepted.
local asking = require('mercury.asking').new()
local client = require('mercury.client')
local config = require('mercury.config')
local diff_view = require('mercury.diff_view')
local insert = require('mercury.insert')

local M = {}

local METHOD = 'textDocument/copilotInlineEdit'
local METHOD_NOT_FOUND = -32601
local MOST_DISMISSED = 100
local namespace = vim.api.nvim_create_namespace('mercury.next_edit')

---@class mercury.NextEdit
---@field bufnr integer
---@field tick integer changedtick for which it is right
---@field first integer 0-based first line
---@field last integer exclusive
---@field lines string[] what takes the lines' place
---@field row integer 0-based row of its first change
---@field command? lsp.Command
---@field key string
---@field item { id?: string, textDocument?: table } what the server knows it by

local current ---@type mercury.NextEdit?
local dismissed = {} ---@type string[]
local unanswered = {} ---@type table<integer, boolean> clients that do not know the method

--- Takes the edit off the screen; it may be shown again.
function M.hide()
  asking:stop()
  if current and vim.api.nvim_buf_is_valid(current.bufnr) then
    vim.api.nvim_buf_clear_namespace(current.bufnr, namespace, 0, -1)
  end
  current = nil
end

--- From an edit of the server to whole lines; nil if it changes nothing, is for another version, or was dismissed.
---@param served vim.lsp.Client
---@param bufnr integer
---@param edit table
---@return mercury.NextEdit?
local function read(served, bufnr, edit)
  local from, to = edit.range.start, edit.range['end']
  local n_lines = vim.api.nvim_buf_line_count(bufnr)
  local uri = edit.textDocument and edit.textDocument.uri or vim.uri_from_bufnr(bufnr)
  if vim.uri_to_bufnr(uri) ~= bufnr or from.line >= n_lines then
    return nil
  end
  local last = math.min(to.line + 1, n_lines)
  local old = vim.api.nvim_buf_get_lines(bufnr, from.line, last, false)
  local head = old[1]:sub(1, client.byte_column(old[1], from.character, served.offset_encoding))
  local tail = ''
  if to.line < n_lines then
    tail = old[#old]:sub(client.byte_column(old[#old], to.character, served.offset_encoding) + 1)
  end
  local lines = vim.split(head .. edit.text .. tail, '\n', { plain = true })
  local hunks = diff_view.hunks(old, lines)
  local key = table.concat({ uri, table.concat(old, '\n'), table.concat(lines, '\n') }, '\0')
  if #hunks == 0 or vim.list_contains(dismissed, key) then
    return nil
  end
  return {
    bufnr = bufnr,
    tick = vim.api.nvim_buf_get_changedtick(bufnr),
    first = from.line,
    last = last,
    lines = lines,
    row = math.min(from.line + hunks[1].old_first, n_lines - 1),
    command = edit.command,
    key = key,
    item = { id = edit.id, textDocument = edit.textDocument },
  }
end

---@param edit mercury.NextEdit
local function show(edit)
  current = edit
  local old = vim.api.nvim_buf_get_lines(edit.bufnr, edit.first, edit.last, false)
  diff_view.draw(edit.bufnr, namespace, edit.first, old, edit.lines)
  vim.api.nvim_buf_set_extmark(edit.bufnr, namespace, edit.row, 0, {
    sign_text = '»',
    sign_hl_group = 'MercurySign',
  })
end

--- Asks for the next edit of the current buffer.
function M.ask()
  M.hide()
  local bufnr = vim.api.nvim_get_current_buf()
  local served = client.of(bufnr)
  if not served or unanswered[served.id] then
    return
  end
  local tick = vim.api.nvim_buf_get_changedtick(bufnr)
  local params = client.here(served)
  params.textDocument.version = vim.lsp.util.buf_versions[bufnr]
  params.context = { triggerKind = 2 }
  local function answer(result)
    local edit = result and result.edits and result.edits[1]
    local is_current = vim.api.nvim_get_current_buf() == bufnr and vim.api.nvim_buf_get_changedtick(bufnr) == tick
    if not edit or not is_current or vim.api.nvim_get_mode().mode:match('^i') then
      return
    end
    local found = read(served, bufnr, edit)
    if found then
      show(found)
    end
  end
  local function failed(err)
    unanswered[served.id] = err.code == METHOD_NOT_FOUND or nil
  end
  asking:now(function(answered)
    return client.request(served, bufnr, METHOD, params, answered(answer), answered(failed))
  end)
end

local function soon()
  M.hide()
  local bufnr = vim.api.nvim_get_current_buf()
  if not (config.is_on('enabled', bufnr) and config.is_on('next_edit', bufnr)) or not client.of(bufnr) then
    return
  end
  asking:later(config.get('next_edit_debounce_ms', bufnr), M.ask)
end

--- Whether a next edit is on the screen and right for the buffer.
---@return boolean
function M.is_visible()
  return current ~= nil
    and current.bufnr == vim.api.nvim_get_current_buf()
    and current.tick == vim.api.nvim_buf_get_changedtick(current.bufnr)
end

--- Jumps to the edit if the cursor is elsewhere, else accepts it. Returns whether there was one.
---@return boolean
function M.jump_or_accept()
  local edit = current
  if not edit or not M.is_visible() then
    return false
  end
  local row = vim.api.nvim_win_get_cursor(0)[1] - 1
  if row < edit.first or row > math.max(edit.last - 1, edit.row) then
    vim.cmd("normal! m'") -- Ctrl-O comes back
    vim.api.nvim_win_set_cursor(0, { edit.row + 1, 0 })
    return true
  end
  M.hide()
  insert.lines(edit.bufnr, edit.first, edit.last, edit.lines)
  local served = client.of(edit.bufnr)
  if edit.command and served then
    served:exec_cmd(edit.command, { bufnr = edit.bufnr })
  end
  vim.api.nvim_exec_autocmds('User', { pattern = 'MercuryNextEditDone' })
  soon()
  return true
end

--- Takes the edit away; neither this plugin nor the server offers it again. Returns whether there was one.
---@return boolean
function M.dismiss()
  if not current or not M.is_visible() then
    return false
  end
  dismissed[#dismissed + 1] = current.key
  if #dismissed > MOST_DISMISSED then
    table.remove(dismissed, 1)
  end
  client.reject(current.bufnr, { item = current.item })
  M.hide()
  return true
end

---@param group integer
function M.start(group)
  vim.api.nvim_set_hl(0, 'MercurySign', { link = 'DiagnosticHint', default = true })
  local function on(events, callback)
    vim.api.nvim_create_autocmd(events, { group = group, callback = callback })
  end
  on({ 'TextChanged', 'InsertLeave' }, soon)
  on({ 'InsertEnter', 'BufLeave' }, M.hide)
end

return M
