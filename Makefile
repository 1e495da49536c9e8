# Every target does its own set-up: Python >= 3.11 with pip, git and make are all it needs.
UV   := .tools/bin/uv
RUN  := $(UV) run --frozen --no-sync
ARGS ?=
SEED ?= 1
RUNS ?= 12
SKIP ?= matrix or chaos or guards or real or live

.DEFAULT_GOAL := help
.PHONY: help setup demo demo-real test guards chaos bench evals check fmt

help: ## Show what there is to do
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1|/' | column -t -s '|'

setup: .venv/.ready ## Install uv beside the project and the locked environment

$(UV):
	@python3 -m pip install --quiet --disable-pip-version-check --target .tools uv

.venv/.ready: $(UV) pyproject.toml uv.lock
	@$(UV) sync --frozen --quiet --compile-bytecode
	@touch $@

demo: setup ## Live through one whole story on loopback (ARGS="--yes --json" to let it run by itself)
	@$(RUN) python -m evals.demo $(ARGS)

demo-real: setup ## The same on released versions of real Python packages
	@$(RUN) python -m evals.real $(ARGS)

test: setup ## All tests but the long ones (SKIP says which)
	@$(RUN) python -m pytest -n 3 --dist loadfile --no-loadscope-reorder -m "not ($(SKIP))" $(ARGS)

guards: setup ## Take each guard of sandbox and judging away once; its attack must succeed then (slow)
	@$(RUN) python -m pytest -m guards $(ARGS)

chaos: setup ## Live through RUNS stories while things break, by SEED (make chaos SEED=1 RUNS=200)
	@SEED=$(SEED) RUNS=$(RUNS) $(RUN) python -m pytest -m chaos $(ARGS)

bench: setup ## Measure the bot against its peers (ARGS="ack sandbox --json" to choose)
	@$(RUN) python -m evals.bench $(ARGS)

evals: setup ## Compare one agent, a Team and this workflow on the same cases (ARGS=--json)
	@$(RUN) python -m evals.run $(ARGS)

check: setup ## Lint, format, types, import contracts
	@$(RUN) ruff check .
	@$(RUN) ruff format --check .
	@$(RUN) mypy
	@$(RUN) lint-imports --no-cache

fmt: setup ## Format and fix what can be fixed
	@$(RUN) ruff check --fix .
	@$(RUN) ruff format .
