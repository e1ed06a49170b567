--- Mercury in Neovim: what mappings and commands call. The parts are in the files beside this one.
local client = require('mercury.client')
local config = require('mercury.config')

local M = {}

local function ghost()
  return require('mercury.ghost')
end

local function nes()
  return require('mercury.nes')
end

local function rewrite()
  return require('mercury.rewrite')
end

--- Accepts what is shown: a rewrite's difference, ghost text, or the next edit (the first call jumps there).
---@return boolean whether there was something
function M.accept()
  return rewrite().accept() or ghost().accept('all') or nes().jump_or_accept()
end

--- Accepts the next word of the ghost text.
---@return boolean
function M.accept_word()
  return ghost().accept('word')
end

--- Accepts what is left of the ghost text's line.
---@return boolean
function M.accept_line()
  return ghost().accept('line')
end

--- Takes away what is shown. A next edit is not offered again.
---@return boolean
function M.dismiss()
  local seen = ghost().is_visible()
  if seen then
    ghost().dismiss()
  end
  return rewrite().reject() or nes().dismiss() or seen
end

--- Jumps to the next edit, or accepts it when the cursor is there.
---@return boolean
function M.next_edit()
  return nes().jump_or_accept()
end

--- Shows another candidate of the ghost text.
---@param count? integer
function M.cycle(count)
  ghost().cycle(count)
end

--- Asks for ghost text at once.
function M.trigger()
  ghost().trigger()
end

local PLUGS = {
  accept = '<Plug>(mercury-accept)',
  accept_word = '<Plug>(mercury-accept-word)',
  accept_line = '<Plug>(mercury-accept-line)',
  dismiss = '<Plug>(mercury-dismiss)',
  next_edit = '<Plug>(mercury-next-edit)',
}

---@param action string
---@return boolean
local function is_at_hand(action)
  local shows_ghost = ghost().is_visible()
  if action == 'accept_word' or action == 'accept_line' then
    return shows_ghost
  elseif action == 'next_edit' then
    return nes().is_visible()
  end
  return shows_ghost or nes().is_visible() or rewrite().is_proposed()
end

--- For a mapping with `expr`: the action's keys when it has something to do, else `key` itself. As <Tab> it never
--- takes the key from a snippet with a next stop, from the completion menu, or before the first word of a line.
---@param action 'accept'|'accept_word'|'accept_line'|'dismiss'|'next_edit'
---@param key string
---@return fun(): string
function M.keys(action, key)
  return function()
    local inserting = vim.api.nvim_get_mode().mode:match('^[is]')
    if inserting and key:lower() == '<tab>' then
      if vim.snippet.active({ direction = 1 }) then
        return '<Cmd>lua vim.snippet.jump(1)<CR>'
      end
      local before = vim.api.nvim_get_current_line():sub(1, vim.api.nvim_win_get_cursor(0)[2])
      if vim.fn.pumvisible() == 1 or before:match('^%s*$') then
        return key
      end
    end
    return is_at_hand(action) and PLUGS[action] or key
  end
end

--- Switches ghost text and next edits on or off at once, here and in every other buffer.
---@param wanted boolean
function M.enable(wanted)
  vim.g.mercury_enabled = wanted
  nes().hide()
  for _, served in ipairs(vim.lsp.get_clients({ name = client.name })) do
    for bufnr in pairs(served.attached_buffers) do
      ghost().enable(wanted and config.is_on('enabled', bufnr), bufnr)
    end
  end
  vim.cmd.redrawstatus({ bang = true })
end

---@param command string
---@param argument? table
---@param on_result? fun(result: any)
local function execute(command, argument, on_result)
  local served = client.of() or client.any()
  if not served then
    vim.notify('mercury: the server is not running; see :checkhealth mercury', vim.log.levels.WARN)
    return
  end
  client.execute(served, vim.api.nvim_get_current_buf(), command, argument, on_result)
end

local function quiet(command, argument)
  ghost().hide()
  nes().hide()
  execute(command, argument)
end

---@type table<string, fun(words: string, range: { line1: integer, line2: integer })>
local COMMANDS = {
  rewrite = function(words, range)
    rewrite().start(range.line1, range.line2, words)
  end,
  fill = function()
    rewrite().fill()
  end,
  accept = M.accept,
  dismiss = M.dismiss,
  next = function()
    if not M.next_edit() then
      nes().ask()
    end
  end,
  pause = function()
    quiet('mercury.pause')
  end,
  resume = function()
    execute('mercury.resume')
  end,
  snooze = function(words)
    quiet('mercury.snooze', { minutes = tonumber(words) or 30 })
  end,
  enable = function()
    M.enable(true)
  end,
  disable = function()
    M.enable(false)
  end,
  toggle = function()
    M.enable(not config.is_on('enabled'))
  end,
  model = function(words)
    execute('mercury.selectModel', { name = words })
  end,
  status = function()
    execute('mercury.status', nil, function(status)
      if status then
        local parts = { status.kind, status.model, status.device, status.message }
        local words = vim.iter(parts):filter(function(part)
          return part and part ~= ''
        end)
        vim.notify('mercury: ' .. words:join(', '))
      end
    end)
  end,
}

local function run(command)
  local name, words = command.args:match('^(%S*)%s*(.-)%s*$')
  local action = COMMANDS[name]
  if action then
    action(words, command)
  else
    local names = vim.tbl_keys(COMMANDS)
    table.sort(names)
    vim.notify('mercury: there are ' .. table.concat(names, ', '), vim.log.levels.ERROR)
  end
end

local function complete(lead, line)
  if line:match('Mercury%s+%S+%s') then
    return {}
  end
  local names = vim.tbl_filter(function(name)
    return vim.startswith(name, lead)
  end, vim.tbl_keys(COMMANDS))
  table.sort(names)
  return names
end

local function map(modes, plug, action, description)
  vim.keymap.set(modes, plug, function()
    action()
  end, { desc = 'Mercury: ' .. description })
end

--- Makes the command, the <Plug> mappings and the autocommands, and enables the server. plugin/mercury.lua calls it.
function M.start()
  vim.api.nvim_create_user_command('Mercury', run, {
    nargs = '+',
    range = true,
    complete = complete,
    desc = 'Mercury: rewrite, fill, accept, dismiss, pause ...',
  })
  map({ 'n', 'i' }, PLUGS.accept, M.accept, 'accept what is shown')
  map('i', PLUGS.accept_word, M.accept_word, 'accept the next word')
  map('i', PLUGS.accept_line, M.accept_line, 'accept the line')
  map({ 'n', 'i' }, PLUGS.dismiss, M.dismiss, 'dismiss what is shown')
  map('n', PLUGS.next_edit, M.next_edit, 'jump to the next edit, or accept it')
  map('i', '<Plug>(mercury-next)', function()
    M.cycle(1)
  end, 'next candidate')
  map('i', '<Plug>(mercury-previous)', function()
    M.cycle(-1)
  end, 'previous candidate')
  map('i', '<Plug>(mercury-trigger)', M.trigger, 'ask for ghost text')
  vim.keymap.set({ 'n', 'x' }, '<Plug>(mercury-rewrite)', ':Mercury rewrite<CR>', {
    silent = true,
    desc = 'Mercury: rewrite the lines',
  })

  local group = vim.api.nvim_create_augroup('mercury', {})
  require('mercury.diff_view').start()
  ghost().start(group)
  nes().start(group)
  rewrite().setup(group)
  vim.api.nvim_create_autocmd('LspAttach', {
    group = group,
    callback = function(event)
      local served = vim.lsp.get_client_by_id(event.data.client_id)
      if served and served.name == client.name then
        ghost().attach(event.buf)
      end
    end,
  })
  if config.is_on('auto_enable') then
    vim.lsp.enable(client.name)
  end
end

return M
