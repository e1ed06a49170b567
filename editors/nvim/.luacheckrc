std = "luajit"
read_globals = { "vim" }
globals = { "vim.g", "vim.b", "vim.bo", "vim.wo", "vim.o", "vim.go", "vim.env" }
max_line_length = 120
