# The commands of README.md. Needs Python >= 3.11 with venv, and make; everything else is fetched.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PYTHON_VERSION := $(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)
READY := $(VENV)/.ready-$(PYTHON_VERSION)
MODEL ?= local:smollm2

# On a busy machine torch's workers must not hold a core while they wait for each other; on an idle
# one this costs a tenth (docs/benchmarks.md).
demo test: export OMP_WAIT_POLICY ?= passive

.DEFAULT_GOAL := help
.PHONY: help demo test lint bench clean lock

help:  ## Show the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 10

demo: $(READY)  ## Run a team of agents over examples/documents (MODEL=local:... takes another model)
	@$(BIN)/python -m examples.review_team --model '$(MODEL)'

# One worker for each core, a file's tests together; each computes with one thread.
test: export OMP_NUM_THREADS ?= 1
test: $(READY)  ## Run all tests
	@$(BIN)/python -m pytest -n auto --maxprocesses 8 --dist loadfile

lint: $(READY)  ## Formatting, lint and types
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy

bench: $(READY)  ## Slow measurements; see docs/benchmarks.md (SESSIONS=, PEERS=, TRACES= add rows)
	@$(BIN)/python tests/bench/plan_cost.py $(if $(SESSIONS),--sessions '$(SESSIONS)')
	@$(BIN)/python tests/bench/deferred_tools.py --write
	@$(BIN)/python tests/bench/turn_overhead.py --write $(if $(PEERS),--peers '$(PEERS)') \
		$(if $(INSTALL_PEERS),--install-peers '$(INSTALL_PEERS)')
	@$(BIN)/python tests/bench/crash_points.py
	@$(BIN)/python tests/bench/mcp_overhead.py --write
	@$(BIN)/python runtime/bench/serve_overhead.py --write
	@$(BIN)/python runtime/bench/serve_load.py --write
	@$(BIN)/python runtime/bench/serve_overload.py --write
	@$(BIN)/python runtime/bench/run.py $(if $(PEERS),--peers '$(PEERS)') \
		$(if $(INSTALL_PEERS),--install-peers '$(INSTALL_PEERS)') $(if $(TRACES),--traces '$(TRACES)')

lock: ## Write requirements.lock anew from pyproject.toml
	@PYTHON="$(PYTHON)" sh .ci/lock

clean:  ## Remove the environment and build output (the model stays in your cache directory)
	rm -rf $(VENV) dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(READY): pyproject.toml requirements.lock
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(None if v >= (3, 11) else f"agentkit needs Python 3.11 or newer, this is {v[0]}.{v[1]}: use make PYTHON=python3.11 ...")'
	@$(PYTHON) -m venv --clear $(VENV)
	@echo "Installing the pinned packages into $(VENV) (once, a few minutes, about 1.2 GB) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@
