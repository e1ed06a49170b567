--- One question to the server at a time: asked after a pause, given up when the next one comes.
local M = {}

---@class mercury.Asking
---@field private timer? uv.uv_timer_t
---@field private cancel? fun()
local Asking = {}
Asking.__index = Asking

---@return mercury.Asking
function M.new()
  return setmetatable({}, Asking)
end

--- Gives up what is asked or waits to be.
function Asking:stop()
  if self.timer then
    self.timer:stop()
    self.timer:close()
    self.timer = nil
  end
  if self.cancel then
    self.cancel()
    self.cancel = nil
  end
end

--- Calls `ask` after a pause, if the buffer is the current one still.
---@param milliseconds integer
---@param ask fun()
function Asking:later(milliseconds, ask)
  self:stop()
  local bufnr = vim.api.nvim_get_current_buf()
  self.timer = vim.defer_fn(function()
    self.timer = nil
    if vim.api.nvim_get_current_buf() == bufnr then
      ask()
    end
  end, milliseconds)
end

--- Asks now. `send` is given what the question's callbacks go through, which forgets the question when one is called,
--- and returns what cancels it.
---@param send fun(answered: fun(callback: fun(value: any)): fun(value: any)): fun()?
function Asking:now(send)
  self:stop()
  self.cancel = send(function(callback)
    return function(value)
      self.cancel = nil
      callback(value)
    end
  end)
end

--- Whether an answer is awaited.
---@return boolean
function Asking:is_open()
  return self.cancel ~= nil
end

return M
