--- Draws the difference between lines of a buffer and lines that would take their place. It changes no text.
local M = {}

local diff = vim.text and vim.text.diff or vim.diff

---@param lines string[]
---@return string
local function joined(lines)
  return #lines == 0 and '' or table.concat(lines, '\n') .. '\n'
end

--- Bytes that two texts have in common at their ends, never a part of a character.
---@param old string
---@param new string
---@return integer head, integer tail
local function common(old, new)
  local shorter = math.min(#old, #new)
  local head = 0
  while head < shorter and old:byte(head + 1) == new:byte(head + 1) do
    head = head + 1
  end
  local tail = 0
  while tail < shorter - head and old:byte(#old - tail) == new:byte(#new - tail) do
    tail = tail + 1
  end
  while head > 0 and vim.str_utf_start(old .. ' ', head + 1) ~= 0 do
    head = head - 1
  end
  while tail > 0 and vim.str_utf_start(old, #old - tail + 1) ~= 0 do
    tail = tail - 1
  end
  return head, tail
end

---@class mercury.Hunk
---@field old_first integer 0-based first line that goes
---@field n_old integer
---@field new string[] lines that come

--- The changed lines. Rows are relative to the first line.
---@param old string[]
---@param new string[]
---@return mercury.Hunk[]
function M.hunks(old, new)
  local found = {}
  local result = diff(joined(old), joined(new), { result_type = 'indices', algorithm = 'histogram' })
  for _, hunk in
    ipairs(result --[[@as integer[][] ]])
  do
    local from, n_old, to, n_new = unpack(hunk)
    found[#found + 1] = {
      old_first = n_old == 0 and from or from - 1,
      n_old = n_old,
      new = vim.list_slice(new, to, to + n_new - 1),
    }
  end
  return found
end

---@param bufnr integer
---@param namespace integer
---@param row integer
---@param old string
---@param new string
local function draw_line(bufnr, namespace, row, old, new)
  local head, tail = common(old, new)
  if #old - tail > head then
    vim.api.nvim_buf_set_extmark(bufnr, namespace, row, head, {
      end_col = #old - tail,
      hl_group = 'MercuryDelete',
    })
  end
  if #new - tail > head then
    vim.api.nvim_buf_set_extmark(bufnr, namespace, row, #old - tail, {
      virt_text = { { new:sub(head + 1, #new - tail), 'MercuryAdd' } },
      virt_text_pos = 'inline',
    })
  end
end

--- Draws the difference: what goes is struck out, what comes stands behind or below it. `first` is the 0-based row of
--- old[1]. Returns the 0-based row of the first change, or nil if there is none.
---@param bufnr integer
---@param namespace integer
---@param first integer
---@param old string[]
---@param new string[]
---@return integer?
function M.draw(bufnr, namespace, first, old, new)
  local first_changed
  local last_row = vim.api.nvim_buf_line_count(bufnr) - 1
  for _, hunk in ipairs(M.hunks(old, new)) do
    local row = first + hunk.old_first
    first_changed = first_changed or math.min(row, last_row)
    if hunk.n_old == 1 and #hunk.new == 1 then
      draw_line(bufnr, namespace, row, old[hunk.old_first + 1], hunk.new[1])
    else
      for gone = row, row + hunk.n_old - 1 do
        vim.api.nvim_buf_set_extmark(bufnr, namespace, gone, 0, { line_hl_group = 'MercuryDelete' })
      end
      if #hunk.new > 0 then
        local above = row + hunk.n_old == 0
        local anchor = math.max(0, math.min(row + hunk.n_old - 1, last_row))
        vim.api.nvim_buf_set_extmark(bufnr, namespace, anchor, 0, {
          virt_lines_above = above,
          virt_lines = vim.tbl_map(function(line)
            return { { line == '' and ' ' or line, 'MercuryAdd' } }
          end, hunk.new),
        })
      end
    end
  end
  return first_changed
end

function M.start()
  for name, link in pairs({ MercuryAdd = 'DiffAdd', MercuryDelete = 'DiffDelete' }) do
    vim.api.nvim_set_hl(0, name, { link = link, default = true })
  end
end

return M
