--- What the server says about itself: for the statusline, and for code that wants to know.
local client = require('mercury.client')
local config = require('mercury.config')

local M = {}

---@class mercury.Status
---@field kind 'Normal'|'Warning'|'Error'|'Inactive'
---@field message string
---@field busy boolean
---@field model string
---@field device string

---@type mercury.Status?
M.last = nil

--- Handler of `mercury/status`. Fires `User MercuryStatus`.
function M.on_status(_, params)
  M.last = params
  vim.api.nvim_exec_autocmds('User', { pattern = 'MercuryStatus', data = params })
  vim.cmd.redrawstatus({ bang = true })
end

--- One word about the current buffer: off, none, problem, inactive, busy or ready.
---@return string
function M.state()
  if not config.is_on('enabled') then
    return 'off'
  elseif not client.of() or not M.last then
    return 'none'
  elseif M.last.kind == 'Error' then
    return 'problem'
  elseif M.last.kind == 'Inactive' then
    return 'inactive'
  end
  return M.last.busy and 'busy' or 'ready'
end

local MARKS = { off = '○', problem = '!', inactive = '○', busy = '◐', ready = '●' }

--- A component for the statusline: `%{%v:lua.require'mercury.status'.statusline()%}`; empty without a server.
---@return string
function M.statusline()
  local state = M.state()
  if state == 'none' then
    return ''
  end
  local text = MARKS[state] .. ' mercury'
  if state == 'ready' or state == 'busy' then
    local where = vim.iter({ M.last.model, M.last.device }):filter(function(word)
      return word ~= ''
    end)
    text = text .. ' ' .. where:join(' ')
  elseif state ~= 'off' and M.last.message ~= '' then
    text = text .. ': ' .. M.last.message
  end
  return (text:gsub('%%', '%%%%'):gsub('\n', ' '))
end

return M
