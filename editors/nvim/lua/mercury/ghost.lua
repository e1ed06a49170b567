--- Ghost text: asks while the user types, keeps it still while what it says is typed, and accepts it or a part of it.
---
--- On Neovim 0.12 vim.lsp.inline_completion asks and draws; then this module accepts parts, and draws what is left of
--- one until the built-in text is there again.
local asking = require('mercury.asking').new()
local client = require('mercury.client')
local config = require('mercury.config')
local insert = require('mercury.insert')
local suggestion = require('mercury.suggestion')

local M = {}

local METHOD = 'textDocument/inlineCompletion'
local namespace = vim.api.nvim_create_namespace('mercury.ghost')
local INVOKED, AUTOMATIC = 1, 2

---@type { bufnr: integer, items: mercury.Suggestion[], index: integer }?
local current
local undone = {} ---@type table<integer, boolean> buffers whose last change was an undo

---@return integer row 0-based
---@return integer column bytes
---@return string line
local function here()
  local row, column = unpack(vim.api.nvim_win_get_cursor(0))
  return row - 1, column, vim.api.nvim_get_current_line()
end

--- What is left to show at the cursor of the current buffer.
---@return mercury.Rest?, mercury.Suggestion?
local function showing()
  if not current or current.bufnr ~= vim.api.nvim_get_current_buf() then
    return nil
  end
  local shown = current.items[current.index]
  local row, column, line = here()
  local rest = shown and suggestion.rest(shown, row, line, column)
  if rest then
    return rest, shown
  end
end

local function clear(bufnr)
  if vim.api.nvim_buf_is_valid(bufnr) then
    vim.api.nvim_buf_clear_namespace(bufnr, namespace, 0, -1)
  end
end

local function draw()
  if current then
    clear(current.bufnr)
  end
  local rest = showing()
  if not rest or vim.fn.pumvisible() == 1 then
    return
  end
  local row, column = here()
  local inline, over, below = suggestion.drawing(rest)
  if #current.items > 1 then
    local hint = (' (%d/%d)'):format(current.index, #current.items)
    if #below > 0 then
      below[#below] = below[#below] .. hint
    else
      inline = inline .. hint
    end
  end
  vim.api.nvim_buf_set_extmark(current.bufnr, namespace, row, column, {
    virt_text = { { inline, 'MercuryGhost' } },
    virt_text_pos = over and 'overlay' or 'inline',
    virt_lines = vim.tbl_map(function(line)
      return { { line, 'MercuryGhost' } }
    end, below),
    hl_mode = 'combine',
  })
end

--- Takes the ghost text away and stops asking.
function M.hide()
  asking:stop()
  if current then
    clear(current.bufnr)
    current = nil
  end
end

---@param served vim.lsp.Client
---@param bufnr integer
---@param asked { row: integer, column: integer, line: string }
---@param result any
---@return mercury.Suggestion[]
local function read(served, bufnr, asked, result)
  local items = {}
  for _, item in ipairs(result and (result.items or result) or {}) do
    local range, text = item.range, item.insertText
    local one_line = range and range.start.line == asked.row and range['end'].line == asked.row
    if one_line and type(text) == 'string' and vim.api.nvim_buf_is_valid(bufnr) then
      local first = client.byte_column(asked.line, range.start.character, served.offset_encoding)
      local last = client.byte_column(asked.line, range['end'].character, served.offset_encoding)
      items[#items + 1] = suggestion.new(asked.row, asked.line, asked.column, first, last, text, item.command)
    end
  end
  return items
end

--- Asks the server for the cursor of the current buffer.
---@param kind integer 1: the user wants it now; 2: while typing
function M.ask(kind)
  asking:stop()
  local bufnr = vim.api.nvim_get_current_buf()
  local served = client.of(bufnr)
  if not served then
    return
  end
  local row, column, line = here()
  local params = client.here(served)
  params.context = { triggerKind = kind }
  local function answer(result)
    if vim.api.nvim_get_current_buf() ~= bufnr or not vim.api.nvim_get_mode().mode:match('^i') then
      return
    end
    local items = read(served, bufnr, { row = row, column = column, line = line }, result)
    local shown = showing()
    if kind == AUTOMATIC and shown then
      -- what is on the screen stays as it is, unless the answer goes on from it
      local now_row, now_column, now_line = here()
      local rest = items[1] and suggestion.rest(items[1], now_row, now_line, now_column)
      if not rest or not vim.startswith(rest.text, shown.text) then
        return
      end
    end
    if current then
      clear(current.bufnr)
    end
    current = #items > 0 and { bufnr = bufnr, items = items, index = 1 } or nil
    draw()
  end
  asking:now(function(answered)
    return client.request(served, bufnr, METHOD, params, answered(answer))
  end)
end

--- Draws what is left, and asks anew after a pause.
local function on_typing()
  draw()
  local bufnr = vim.api.nvim_get_current_buf()
  if config.builtin_ghost() or not config.is_on('enabled', bufnr) or not client.of(bufnr) then
    return
  end
  asking:later(config.get('debounce_ms', bufnr), function()
    if vim.api.nvim_get_mode().mode:match('^i') then
      M.ask(AUTOMATIC)
    end
  end)
end

---@return boolean
local function builtin_is_visible()
  if not config.builtin_ghost() then
    return false
  end
  local theirs = vim.api.nvim_create_namespace('nvim.lsp.inline_completion')
  return #vim.api.nvim_buf_get_extmarks(0, theirs, 0, -1, { limit = 1 }) > 0
end

--- Whether ghost text is on the screen, of this module or the built-in.
---@return boolean
function M.is_visible()
  return showing() ~= nil or builtin_is_visible()
end

--- Takes the item that the built-in ghost text shows over into this module.
local function take_over()
  local item
  local bufnr = vim.api.nvim_get_current_buf()
  local shown = vim.lsp.inline_completion.get({
    bufnr = bufnr,
    on_accept = function(found)
      item = found
    end,
  })
  -- the callback is scheduled; keys that were typed after this one must find the text in place
  if not shown or not vim.wait(200, function()
    return item ~= nil
  end, 1) then
    return
  end
  local row, column, line = here()
  local first, last = column, column
  if item.range then
    local start_row, start_column, end_row, end_column = item.range:to_extmark()
    if start_row ~= row or end_row ~= row then
      return
    end
    first, last = start_column, math.max(end_column, column)
  end
  local text = item.insert_text
  local taken = type(text) == 'string'
    and suggestion.new(row, line, column, first, math.min(last, #line), text, item.command)
  if taken then
    current = { bufnr = bufnr, items = { taken }, index = 1 }
  end
end

--- Accepts the ghost text, its next word or the rest of its line. Returns whether there was any.
---@param how? 'all'|'word'|'line'
---@return boolean
function M.accept(how)
  how = how or 'all'
  if not showing() and config.builtin_ghost() then
    take_over()
  end
  local rest, shown = showing()
  if not rest or not shown then
    return false
  end
  local part = suggestion.part(rest.text, how)
  local left = rest.text:sub(#part + 1)
  local bufnr = vim.api.nvim_get_current_buf()
  asking:stop()
  clear(bufnr)
  current = nil
  insert.at_cursor(part, left == '' and #rest.covered or 0)
  local row, column, line = here()
  if left ~= '' then
    local item = suggestion.new(row, line, column, column, column + #rest.covered, left, shown.command)
    current = { bufnr = bufnr, items = { item }, index = 1 }
    draw()
  elseif shown.command then
    local served = client.of(bufnr)
    if served then
      served:exec_cmd(shown.command, { bufnr = bufnr })
    end
  end
  return true
end

--- Takes the ghost text away until the next key, the built-in one too.
local function leave()
  M.hide()
  local bufnr = vim.api.nvim_get_current_buf()
  if builtin_is_visible() then
    vim.lsp.inline_completion.enable(false, { bufnr = bufnr })
    vim.lsp.inline_completion.enable(true, { bufnr = bufnr })
  end
end

--- Takes the ghost text away; the server does not offer it again at this place.
function M.dismiss()
  local bufnr = vim.api.nvim_get_current_buf()
  local served = M.is_visible() and client.of(bufnr)
  if served then
    client.reject(bufnr, client.here(served))
  end
  leave()
end

--- Goes through the candidates; at the last one the server is asked for another.
---@param count? integer
function M.cycle(count)
  count = count or 1
  if config.builtin_ghost() and not showing() then
    take_over()
  end
  local bufnr = vim.api.nvim_get_current_buf()
  local served = client.of(bufnr)
  local wanted = current and showing() and current.index + count
  if not served or (wanted and wanted >= 1 and wanted <= #current.items) or (wanted and count < 0) then
    if wanted then
      current.index = (wanted - 1) % #current.items + 1
      draw()
    end
    return
  end
  local row, column, line = here()
  local place = client.here(served)
  local function answer(result)
    local item = result and result.item
    local now_row, now_column, now_line = here()
    if not item or item == vim.NIL or now_row ~= row or now_column ~= column or now_line ~= line then
      return
    end
    local asked = { row = row, column = column, line = line }
    local found = read(served, bufnr, asked, { item })[1]
    if not found then
      return
    end
    local items = current and showing() and current.items or {}
    local index
    for i, known in ipairs(items) do
      index = index or (known.text:sub(column - known.start + 1) == found.text:sub(column - found.start + 1) and i)
    end
    if not index then
      items[#items + 1] = found
    end
    if current then
      clear(current.bufnr)
    end
    current = { bufnr = bufnr, items = items, index = index or #items }
    draw()
  end
  local argument = { uri = place.textDocument.uri, position = place.position }
  asking:now(function(answered)
    return client.execute(served, bufnr, 'mercury.cycle', argument, answered(answer))
  end)
end

--- Asks at once, without waiting for a pause.
function M.trigger()
  M.ask(INVOKED)
end

local function on_insert_enter(event)
  if undone[event.buf] then
    undone[event.buf] = nil -- what was just undone is not suggested again before a key is typed
    return
  end
  on_typing()
end

--- After an undo the state of the tree is behind its newest one.
local function on_change(event)
  local tree = vim.fn.undotree(event.buf)
  undone[event.buf] = tree.seq_cur < tree.seq_last or nil
end

--- The built-in text and the completion menu would cover each other: it waits until the menu is gone.
---@param wanted boolean
local function builtin(wanted, bufnr)
  if config.builtin_ghost() and config.is_on('enabled', bufnr) and client.of(bufnr) then
    local filter = { bufnr = bufnr }
    if vim.lsp.inline_completion.is_enabled(filter) ~= wanted then
      vim.lsp.inline_completion.enable(wanted, filter)
    end
  end
end

---@param bufnr integer
function M.attach(bufnr)
  builtin(true, bufnr)
  if vim.api.nvim_get_current_buf() == bufnr and vim.api.nvim_get_mode().mode:match('^i') then
    on_typing()
  end
end

--- Switches ghost text on or off at once.
---@param wanted boolean
---@param bufnr integer
function M.enable(wanted, bufnr)
  if not wanted then
    M.hide()
  end
  if config.builtin_ghost() and client.of(bufnr) then
    vim.lsp.inline_completion.enable(wanted, { bufnr = bufnr })
  end
end

---@param group integer
function M.start(group)
  vim.api.nvim_set_hl(
    0,
    'MercuryGhost',
    { link = vim.lsp.inline_completion and 'ComplHint' or 'Comment', default = true }
  )
  local function on(events, callback)
    vim.api.nvim_create_autocmd(events, { group = group, callback = callback })
  end
  on('InsertEnter', on_insert_enter)
  on({ 'CursorMovedI', 'TextChangedI', 'TextChangedP' }, on_typing)
  on('TextChanged', on_change)
  on('InsertLeave', M.hide)
  on({ 'BufLeave', 'WinLeave' }, leave)
  on('CompleteChanged', function(event)
    draw()
    builtin(false, event.buf)
  end)
  on('CompleteDone', function(event)
    builtin(true, event.buf)
    vim.schedule(draw)
  end)
  if vim.lsp.inline_completion then
    on('LspRequest', function(event)
      local request = event.data.request
      local theirs = config.builtin_ghost() and not asking:is_open()
      if request.method == METHOD and request.type == 'complete' and current and theirs then
        M.hide() -- the built-in text is drawn with this answer
      end
    end)
  end
end

return M
