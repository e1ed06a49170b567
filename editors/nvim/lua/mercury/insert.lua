--- Puts accepted text into the buffer in insert mode: one undo step of its own, repeated by `.` with what was typed.
local M = {}

--- Undo takes back what comes after this call, and not what came before.
local function break_undo()
  vim.cmd('let &l:undolevels = &l:undolevels')
end

--- Inserts text at the cursor in place of `covered` bytes right of it, and leaves the cursor behind it.
---@param text string
---@param covered integer
function M.at_cursor(text, covered)
  local row, column = unpack(vim.api.nvim_win_get_cursor(0))
  break_undo()
  if covered > 0 then
    vim.api.nvim_buf_set_text(0, row - 1, column, row - 1, column + covered, {})
  end
  -- a paste goes into the redo buffer, which nvim_buf_set_text does not, and no indenting or mapping touches it
  vim.api.nvim_paste(text, false, -1)
  break_undo()
end

--- Replaces lines from `first` up to `last` (0-based, exclusive), as one undo step in any mode.
---@param bufnr integer
---@param first integer
---@param last integer
---@param lines string[]
function M.lines(bufnr, first, last, lines)
  vim.api.nvim_buf_call(bufnr, break_undo)
  vim.api.nvim_buf_set_lines(bufnr, first, last, false, lines)
  vim.api.nvim_buf_call(bufnr, break_undo)
end

return M
