--- Rewrites lines by an instruction: the draft is seen filling in, then the difference, to accept or to reject.
local client = require('mercury.client')
local diff_view = require('mercury.diff_view')

local M = {}

local namespace = vim.api.nvim_create_namespace('mercury.rewrite')
local MASK = '░'

---@class mercury.Rewrite
---@field bufnr integer
---@field uri string
---@field mark integer extmark over the lines that are rewritten
---@field tick? integer changedtick for which the edits are right, once they are there
---@field edits? lsp.TextEdit[]
---@field encoding string
---@field cancel? fun()

local current ---@type mercury.Rewrite?

--- Takes down whatever is shown; a rewrite that still runs is stopped.
---@return boolean whether there was one
function M.reject()
  local rewrite = current
  current = nil
  if not rewrite then
    return false
  end
  if rewrite.cancel then
    rewrite.cancel()
  end
  if vim.api.nvim_buf_is_valid(rewrite.bufnr) then
    vim.api.nvim_buf_clear_namespace(rewrite.bufnr, namespace, 0, -1)
  end
  return true
end

--- Whether there is a difference to accept.
---@return boolean
function M.is_proposed()
  return current ~= nil and current.edits ~= nil and current.bufnr == vim.api.nvim_get_current_buf()
end

---@param rewrite mercury.Rewrite
---@return integer first, integer last 0-based rows, both inclusive
local function rows(rewrite)
  local mark = vim.api.nvim_buf_get_extmark_by_id(rewrite.bufnr, namespace, rewrite.mark, { details = true })
  return mark[1], math.max(mark[1], mark[3].end_row - (mark[3].end_col == 0 and 1 or 0))
end

---@param rewrite mercury.Rewrite
---@param below [string, string][][]
local function draw_below(rewrite, below)
  local first, last = rows(rewrite)
  vim.api.nvim_buf_set_extmark(rewrite.bufnr, namespace, first, 0, {
    id = rewrite.mark,
    end_row = math.min(last + 1, vim.api.nvim_buf_line_count(rewrite.bufnr)),
    end_col = 0,
    strict = false,
    hl_group = 'MercuryOld',
    priority = 50,
  })
  vim.api.nvim_buf_set_extmark(rewrite.bufnr, namespace, last, 0, { id = rewrite.mark + 1, virt_lines = below })
end

local GROUPS = { masked = 'MercuryMasked', tentative = 'MercuryTentative', settled = 'MercurySettled' }

--- The canvas as lines of highlighted pieces. The first line has the indentation that the code has.
---@param slots { text: string, state: string, revised: boolean }[]
---@param indentation string
---@return [string, string][][]
function M.canvas_lines(slots, indentation)
  local lines = { { { indentation, 'MercurySettled' } } } ---@type [string, string][][]
  local begun = false
  for _, slot in ipairs(slots) do
    local text = slot.state == 'masked' and MASK or slot.text
    if not begun then
      text = text:gsub('^[ \t]+', '')
      begun = text ~= ''
    end
    local group = slot.revised and 'MercuryRevised' or GROUPS[slot.state] or 'MercurySettled'
    for index, piece in ipairs(vim.split(text, '\n', { plain = true })) do
      if index > 1 then
        lines[#lines + 1] = {}
      end
      if piece ~= '' then
        table.insert(lines[#lines], { piece, group })
      end
    end
  end
  for _, line in ipairs(lines) do
    if #line == 0 then
      line[1] = { ' ', 'MercurySettled' }
    end
  end
  return lines
end

--- Handler of `mercury/canvas`: draws a step's draft below the lines that it would replace.
function M.on_canvas(_, params)
  local rewrite = current
  if not rewrite or rewrite.edits or rewrite.uri ~= params.uri or not vim.api.nvim_buf_is_valid(rewrite.bufnr) then
    return
  end
  local open = vim.iter(params.slots):fold(0, function(n, slot)
    return n + (slot.state == 'masked' and 1 or 0)
  end)
  local first = rows(rewrite)
  local code = vim.api.nvim_buf_get_lines(rewrite.bufnr, first, first + 1, false)[1] or ''
  local lines = M.canvas_lines(params.slots, code:match('^%s*'))
  local title = ('mercury: %d passes, %d open'):format(params.forwards, open)
  table.insert(lines, 1, { { title, 'MercuryTitle' } })
  draw_below(rewrite, lines)
  vim.api.nvim_exec_autocmds('User', { pattern = 'MercuryCanvas', data = params })
end

---@param edit lsp.WorkspaceEdit
---@param uri string
---@return lsp.TextEdit[] edits, integer? version
local function edits_of(edit, uri)
  for _, change in ipairs(edit.documentChanges or {}) do
    if change.textDocument and change.textDocument.uri == uri then
      return change.edits, change.textDocument.version
    end
  end
  return (edit.changes or {})[uri] or {}, nil
end

---@param rewrite mercury.Rewrite
---@param edit lsp.WorkspaceEdit
local function propose(rewrite, edit)
  local bufnr = rewrite.bufnr
  local edits, version = edits_of(edit, rewrite.uri)
  if #edits == 0 or (version and version ~= vim.NIL and version ~= vim.lsp.util.buf_versions[bufnr]) then
    M.reject()
    vim.notify('mercury: the text has changed meanwhile; ask again', vim.log.levels.WARN)
    return
  end
  local old = vim.api.nvim_buf_get_lines(bufnr, 0, -1, false)
  local scratch = vim.api.nvim_create_buf(false, true)
  vim.api.nvim_buf_set_lines(scratch, 0, -1, false, old)
  vim.lsp.util.apply_text_edits(vim.deepcopy(edits), scratch, rewrite.encoding)
  local new = vim.api.nvim_buf_get_lines(scratch, 0, -1, false)
  vim.api.nvim_buf_delete(scratch, { force = true })
  vim.api.nvim_buf_clear_namespace(bufnr, namespace, 0, -1)
  rewrite.edits, rewrite.tick, rewrite.cancel = edits, vim.api.nvim_buf_get_changedtick(bufnr), nil
  local row = diff_view.draw(bufnr, namespace, 0, old, new)
  if not row then
    M.reject()
    return
  end
  vim.api.nvim_buf_set_extmark(bufnr, namespace, row, 0, {
    virt_text = { { ' :Mercury accept  :Mercury dismiss ', 'MercuryTitle' } },
    virt_text_pos = 'eol',
  })
  vim.api.nvim_exec_autocmds('User', { pattern = 'MercuryProposal' })
end

---@param bufnr integer
---@param first integer 0-based
---@param last integer 0-based, inclusive
---@param command string
---@param arguments table
local function ask(bufnr, first, last, command, arguments)
  M.reject()
  local served = client.of(bufnr)
  if not served then
    vim.notify('mercury: no server serves this buffer; see :checkhealth mercury', vim.log.levels.WARN)
    return
  end
  local rewrite = { bufnr = bufnr, uri = vim.uri_from_bufnr(bufnr), encoding = served.offset_encoding, mark = 1 }
  current = rewrite
  rewrite.mark = vim.api.nvim_buf_set_extmark(bufnr, namespace, first, 0, {
    id = 1,
    end_row = math.min(last + 1, vim.api.nvim_buf_line_count(bufnr)),
    strict = false,
  })
  draw_below(rewrite, { { { 'mercury: working', 'MercuryTitle' } } })
  rewrite.cancel = client.execute(
    served,
    bufnr,
    command,
    vim.tbl_extend('error', { uri = rewrite.uri, apply = false }, arguments),
    function(result)
      if current ~= rewrite then
        return
      end
      local edit = result and result.edit
      if edit and edit ~= vim.NIL then
        propose(rewrite, edit)
      else
        rewrite.cancel = nil
        M.reject()
      end
    end
  )
end

--- Rewrites lines of the current buffer (1-based, both inclusive). Without an instruction the user is asked for one.
---@param first integer
---@param last integer
---@param instruction? string
function M.start(first, last, instruction)
  local bufnr = vim.api.nvim_get_current_buf()
  local function go(text)
    if text == nil then
      return -- the prompt was cancelled
    end
    local line = vim.api.nvim_buf_get_lines(bufnr, last - 1, last, false)[1] or ''
    local served = client.of(bufnr)
    local finish = served and vim.str_utfindex(line, served.offset_encoding) or 0
    local range = { start = { line = first - 1, character = 0 }, ['end'] = { line = last - 1, character = finish } }
    ask(bufnr, first - 1, last - 1, 'mercury.rewrite', { range = range, instruction = text })
  end
  if instruction and instruction ~= '' then
    go(instruction)
  else
    vim.ui.input({ prompt = 'Rewrite (empty: improve): ' }, go)
  end
end

--- Fills the hole at the cursor.
function M.fill()
  local bufnr = vim.api.nvim_get_current_buf()
  local row = vim.api.nvim_win_get_cursor(0)[1] - 1
  local served = client.of(bufnr)
  ask(bufnr, row, row, 'mercury.fill', served and { position = client.here(served).position } or {})
end

--- Applies the difference that is shown, as one undo step. Returns whether there was one.
---@return boolean
function M.accept()
  local rewrite = current
  if not rewrite or not M.is_proposed() then
    return false
  end
  local is_current = rewrite.tick == vim.api.nvim_buf_get_changedtick(rewrite.bufnr)
  M.reject()
  if not is_current then
    vim.notify('mercury: the text has changed since; ask again', vim.log.levels.WARN)
    return false
  end
  vim.cmd('let &l:undolevels = &l:undolevels') -- a step of its own
  vim.lsp.util.apply_text_edits(rewrite.edits, rewrite.bufnr, rewrite.encoding)
  return true
end

---@param group integer
function M.setup(group)
  local links = {
    MercuryOld = 'Comment',
    MercuryMasked = 'NonText',
    MercuryTentative = 'DiagnosticWarn',
    MercurySettled = 'DiagnosticOk',
    MercuryRevised = 'DiagnosticInfo',
    MercuryTitle = 'Title',
  }
  for name, link in pairs(links) do
    vim.api.nvim_set_hl(0, name, { link = link, default = true })
  end
  vim.api.nvim_create_autocmd({ 'TextChanged', 'TextChangedI' }, {
    group = group,
    callback = function(event)
      local proposed = current and current.edits and current.bufnr == event.buf
      if proposed and current.tick ~= vim.api.nvim_buf_get_changedtick(event.buf) then
        M.reject() -- it is about a text that is gone
      end
    end,
  })
end

return M
