# `make demo` and `make test` set everything up in .venv and run. Another Python: make PYTHON=python3.12 test
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# Two torch threads on a busy two-core machine are far slower than one.
export OMP_NUM_THREADS ?= 1

.PHONY: demo test test-all lint setup clean

demo: setup
	$(BIN)/spml demo

test: setup
	$(BIN)/python -m pytest -q -n 2 -m "not long"

test-all: setup
	$(BIN)/python -m pytest -q -n 2

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

setup: $(STAMP)

# The environment is made again only if the dependencies or the Python version changed.
$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[dev]"
	touch $(STAMP)

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache
