# Every target makes the virtual environment it needs; nothing else has to be installed by hand.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
INSTALLED := $(VENV)/.installed
READY := $(VENV)/.ready

.PHONY: demo test lint bench soak clean

demo: $(INSTALLED)
	$(BIN)/python -m stakes.demo

test: lint
	$(BIN)/python -m pytest -n auto --dist worksteal

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(READY)
	$(BIN)/python -m benchmarks.run
	$(BIN)/python -m benchmarks.sweep_cpu --json benchmarks/results/sweep_cpu.json

soak: $(READY)
	$(BIN)/python -m benchmarks.accuracy --sets 5000000
	$(BIN)/python tests/soak/training_kills.py

$(INSTALLED): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(INSTALL) torch
	$(INSTALL) --editable .
	touch $(INSTALLED)

$(READY): $(INSTALLED)
	$(INSTALL) --editable ".[test]"
	touch $(READY)

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache
