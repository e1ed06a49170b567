-- The configuration that `vim.lsp.enable('mercury')` reads. Change it with `vim.lsp.config('mercury', {...})`.

---@type vim.lsp.Config
return {
  cmd = { 'mercury-lsp', 'serve', '--stdio' },
  root_markers = { '.mercury.toml', '.git', 'pyproject.toml', 'package.json', 'Cargo.toml', 'go.mod' },
  -- options of the server (docs/settings.md), e.g. { mercury = { inline = { effort = 'high' } } }
  settings = { mercury = vim.empty_dict() },
  capabilities = {
    textDocument = {
      -- Neovim 0.11 does not say so itself; the ghost text of this plugin can do it there
      inlineCompletion = { dynamicRegistration = false },
    },
  },
  before_init = function(params, config)
    -- the drafts of a rewrite are shown while they fill in (lua/mercury/rewrite.lua)
    local options = vim.tbl_extend('keep', config.settings.mercury or {}, { canvas = true })
    params.initializationOptions = { mercury = options }
  end,
  handlers = {
    ['mercury/status'] = function(...)
      return require('mercury.status').on_status(...)
    end,
    ['mercury/canvas'] = function(...)
      return require('mercury.rewrite').on_canvas(...)
    end,
  },
}
