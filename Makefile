# Targets set up what they need in .venv. The environment is used again until pyproject.toml or the version of
# PYTHON changes.
PYTHON ?= python3
WHEEL_PYTHON ?= $(PYTHON)
WHEEL = build/wheel/installed-$(lastword $(shell $(WHEEL_PYTHON) --version))
VENV := .venv
BIN := $(VENV)/bin
# How dependencies are installed. CI tries the lowest ones that pyproject.toml allows.
INSTALL ?= $(BIN)/python -m pip install --quiet --disable-pip-version-check
KEY := $(shell (cat pyproject.toml; $(PYTHON) --version; echo '$(INSTALL)') | cksum | cut -d ' ' -f 1)
STAMP := $(VENV)/.installed-$(KEY)
# What runs on a second version of Python: the command line, and what computes numbers (seconds to a minute).
QUICK := tests/losses tests/metrics tests/decisions tests/test_labels.py tests/cli/test_arguments.py \
	tests/cli/test_train.py tests/cli/test_without_extras.py tests/common
# Two torch threads on a busy two-core machine are far slower than one.
export OMP_NUM_THREADS ?= 1
# Many short processes import the package: without its compiled modules, each compiles it again.
export PYTHONDONTWRITEBYTECODE :=
# Material for MkDocs prints an advertisement of its successor otherwise.
export NO_MKDOCS_2_WARNING ?= 1

.DEFAULT_GOAL := help
.PHONY: help demo test test-all wheel test-wheel lint format docs setup clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))
	@echo 'Another Python: make PYTHON=python3.12 test'

demo: setup ## Train and compare four methods on handwritten digits (minutes)
	$(BIN)/spml demo

test: setup ## Run the tests that take seconds
	$(BIN)/python -m pytest -q -n 2 --dist loadfile --no-loadscope-reorder -m "not long"

test-all: setup ## Run all tests, the long ones too, and list the slowest
	$(BIN)/python -m pytest -q -n 2 --dist loadfile --no-loadscope-reorder --durations 30

wheel: $(WHEEL) ## Build the wheel, and install it without extras under WHEEL_PYTHON

$(WHEEL): $(shell find src -type f ! -name '*.pyc') pyproject.toml
	rm -rf build/wheel
	$(WHEEL_PYTHON) -m venv build/wheel
	build/wheel/bin/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	build/wheel/bin/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir build/wheel .
	build/wheel/bin/python -m pip install --quiet --disable-pip-version-check --no-compile build/wheel/*.whl pytest pytest-timeout hypothesis
	touch $@

test-wheel: wheel ## Train with the installed wheel, and run quick tests on other instructions of the processor
	cd build/wheel && bin/spml train digits --epochs 1 --output run
	ATEN_CPU_CAPABILITY=default build/wheel/bin/python -m pytest -q -m "not long" $(QUICK)

lint: setup ## Check style (ruff) and types (mypy --strict)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy --config-file benchmarks/mypy.ini benchmarks

format: setup ## Format the code and apply the fixes that ruff considers safe
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: setup ## Build the documentation site into build/site; a broken link fails
	$(BIN)/mkdocs build --strict

setup: $(STAMP) ## Create .venv with all dependencies

$(STAMP):
	test "$$($(BIN)/python --version 2>&1)" = "$$($(PYTHON) --version 2>&1)" || $(PYTHON) -m venv --clear $(VENV)
	$(INSTALL) --upgrade pip # the one that comes with Python 3.11 takes twice as long for the rest
	$(INSTALL) -e ".[dev]"
	rm -f $(VENV)/.installed*
	touch $(STAMP)

clean: ## Remove .venv, caches and build folders
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache build dist
