# Targets set up what they need in .venv. The environment is used again until pyproject.toml or the version of
# PYTHON changes.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# How dependencies are installed. CI tries the lowest ones that pyproject.toml allows.
INSTALL ?= $(BIN)/python -m pip install --quiet --disable-pip-version-check
KEY := $(shell (cat pyproject.toml; $(PYTHON) --version; echo '$(INSTALL)') | cksum | cut -d ' ' -f 1)
STAMP := $(VENV)/.installed-$(KEY)
# Two torch threads on a busy two-core machine are far slower than one.
export OMP_NUM_THREADS ?= 1
# Material for MkDocs prints an advertisement of its successor otherwise.
export NO_MKDOCS_2_WARNING ?= 1

.DEFAULT_GOAL := help
.PHONY: help demo test test-all lint format docs setup clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))
	@echo 'Another Python: make PYTHON=python3.12 test'

demo: setup ## Train and compare four methods on handwritten digits (3 minutes)
	$(BIN)/spml demo

test: setup ## Run the tests that take seconds
	$(BIN)/python -m pytest -q -n 2 -m "not long"

test-all: setup ## Run all tests, the long ones too
	$(BIN)/python -m pytest -q -n 2

lint: setup ## Check style (ruff) and types (mypy --strict)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: setup ## Format the code and apply the fixes that ruff considers safe
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: setup ## Build the documentation site into build/site; a broken link fails
	$(BIN)/mkdocs build --strict

setup: $(STAMP) ## Create .venv with all dependencies

$(STAMP):
	test "$$($(BIN)/python --version 2>&1)" = "$$($(PYTHON) --version 2>&1)" || $(PYTHON) -m venv --clear $(VENV)
	$(INSTALL) -e ".[dev]"
	rm -f $(VENV)/.installed*
	touch $(STAMP)

clean: ## Remove .venv, caches and build folders
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache build dist
