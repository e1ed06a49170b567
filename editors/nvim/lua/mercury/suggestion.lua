--- A suggestion as a value: where it stands, and what is left of it when a part of it has been typed. Pure functions
--- over strings; it knows nothing about buffers or requests.
local M = {}

---@class mercury.Suggestion
---@field row integer 0-based line of the buffer
---@field start integer byte column where the text begins
---@field text string everything from `start` on, what the user typed of it included
---@field before string the line up to `start`
---@field covered string what stands right of the cursor and is replaced
---@field after string the rest of the line behind that
---@field command? lsp.Command run after the whole is accepted

local CLOSERS = { [')'] = true, [']'] = true, ['}'] = true, ['"'] = true, ["'"] = true, ['`'] = true }

--- From an item of the server; nil if the item does not fit the line.
---@param row integer
---@param line string the line for which the item was computed
---@param cursor integer byte column of the cursor in it
---@param first integer byte column where the item's range begins
---@param last integer byte column where it ends
---@param text string
---@param command? lsp.Command
---@return mercury.Suggestion?
function M.new(row, line, cursor, first, last, text, command)
  if first > cursor or last < cursor or last > #line then
    return nil
  end
  if text:sub(1, cursor - first) ~= line:sub(first + 1, cursor) then
    return nil
  end
  return {
    row = row,
    start = first,
    text = text,
    before = line:sub(1, first),
    covered = line:sub(cursor + 1, last),
    after = line:sub(last + 1),
    command = command,
  }
end

---@class mercury.Rest
---@field text string what is still to be inserted at the cursor
---@field covered string what it replaces right of the cursor

--- What is left of a suggestion, if nothing but its beginning was typed. A closer that the editor put behind the
--- cursor by itself is replaced too, if the rest closes it.
---@param shown mercury.Suggestion
---@param row integer
---@param line string
---@param cursor integer
---@return mercury.Rest?
function M.rest(shown, row, line, cursor)
  if row ~= shown.row or cursor < shown.start or line:sub(1, shown.start) ~= shown.before then
    return nil
  end
  local typed = line:sub(shown.start + 1, cursor)
  local left = shown.text:sub(#typed + 1)
  if left == '' or shown.text:sub(1, #typed) ~= typed then
    return nil
  end
  local tail = line:sub(cursor + 1)
  if tail == shown.covered .. shown.after then
    return { text = left, covered = shown.covered }
  end
  local closer = tail:sub(1, 1)
  if CLOSERS[closer] and tail:sub(2) == shown.covered .. shown.after and left:find(closer, 1, true) then
    return { text = left, covered = closer .. shown.covered }
  end
  return nil
end

--- The part of the rest that one acceptance takes: 'all', the next 'word', or what is left of the 'line'; both walk
--- on over line ends.
---@param rest string
---@param how 'all'|'word'|'line'
---@return string
function M.part(rest, how)
  if how == 'word' then
    local word = rest:match('^%s*[%w_\128-\255]+') or rest:match('^%s*[^%w_%s\128-\255]+')
    return word or rest
  elseif how == 'line' then
    return rest:match('^\n*[^\n]+') or rest
  end
  return rest
end

--- What is drawn: text on the cursor's line (over `covered`, if it cannot be drawn before it), and the lines below.
---@param rest mercury.Rest
---@return string inline, boolean over, string[] below
function M.drawing(rest)
  local lines = vim.split(rest.text, '\n', { plain = true })
  local first = table.remove(lines, 1)
  if rest.covered == '' then
    return first, false, lines
  end
  if #lines == 0 and vim.endswith(first, rest.covered) then
    return first:sub(1, #first - #rest.covered), false, lines
  end
  local missing = vim.fn.strdisplaywidth(rest.covered) - vim.fn.strdisplaywidth(first)
  return first .. (' '):rep(missing), true, lines
end

return M
