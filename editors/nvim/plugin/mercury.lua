-- Loaded by Neovim at start: commands, <Plug> mappings and the autocommands that wait for the server. No mapping of
-- a real key is made here.

if vim.g.loaded_mercury then
  return
end
vim.g.loaded_mercury = true

if vim.fn.has('nvim-0.11') == 0 then
  vim.notify_once('mercury: Neovim 0.11 or newer is needed', vim.log.levels.WARN)
  return
end

require('mercury').start()
