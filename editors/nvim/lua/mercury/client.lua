--- The language client of this plugin, and requests to it that can be cancelled.
local M = {}

M.name = 'mercury'

--- The client that serves a buffer, if one does.
---@param bufnr? integer
---@return vim.lsp.Client?
function M.of(bufnr)
  return vim.lsp.get_clients({ name = M.name, bufnr = bufnr or 0 })[1]
end

--- Any running client.
---@return vim.lsp.Client?
function M.any()
  return vim.lsp.get_clients({ name = M.name })[1]
end

--- Sends a request for a buffer. The real buffer number goes with it: Neovim then sends pending changes first, which
--- it does not for 0. Returns what cancels it, or nil if the server does not answer any more.
---@param client vim.lsp.Client
---@param bufnr integer
---@param method string
---@param params table
---@param on_result fun(result: any)
---@param on_error? fun(err: lsp.ResponseError)
---@return fun()? cancel
function M.request(client, bufnr, method, params, on_result, on_error)
  local open = true
  local sent, id = client:request(method, params, function(err, result)
    if not open then
      return
    end
    open = false
    if err and on_error then
      on_error(err)
    else
      on_result(not err and result or nil)
    end
  end, bufnr)
  if not sent then
    return nil
  end
  return function()
    if open then
      open = false
      client:cancel_request(id)
    end
  end
end

--- Runs a command of the server.
---@param client vim.lsp.Client
---@param bufnr integer
---@param command string
---@param argument? table
---@param on_result? fun(result: any)
---@return fun()? cancel
function M.execute(client, bufnr, command, argument, on_result)
  local params = { command = command, arguments = argument and { argument } or {} }
  return M.request(client, bufnr, 'workspace/executeCommand', params, on_result or function() end, function(err)
    vim.notify('mercury: ' .. err.message, vim.log.levels.ERROR)
    if on_result then
      on_result(nil)
    end
  end)
end

--- The cursor of the current buffer, as the server counts: what most requests begin with.
---@param served vim.lsp.Client
---@return { textDocument: lsp.TextDocumentIdentifier, position: lsp.Position }
function M.here(served)
  local row, column = unpack(vim.api.nvim_win_get_cursor(0))
  local line = vim.api.nvim_get_current_line()
  return {
    textDocument = { uri = vim.uri_from_bufnr(0) },
    position = { line = row - 1, character = vim.str_utfindex(line, served.offset_encoding, column) },
  }
end

--- Tells the server what the user does not want: with an `item` a next edit, with a `position` the ghost text there.
---@param bufnr integer
---@param what { item: table }|{ textDocument: lsp.TextDocumentIdentifier, position: lsp.Position }
function M.reject(bufnr, what)
  local served = M.of(bufnr)
  if served then
    served:notify('mercury/rejected', what)
  end
end

--- A byte column of a line for a column that the server counts in its own units.
---@param line string
---@param column integer
---@param encoding 'utf-8'|'utf-16'|'utf-32'
---@return integer
function M.byte_column(line, column, encoding)
  return vim.str_byteindex(line, encoding, column, false)
end

return M
