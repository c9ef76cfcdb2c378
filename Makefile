# The two commands of the README are `make demo` and `make test`; both install first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: install demo test test-slow check docs notebooks bench clean

install: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[all]'
	touch $(STAMP)

demo: install
	$(BIN)/python -m ele_graphs.smi2mol.demo

test: check
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses auto --dist loadfile

test-slow: install
	$(BIN)/python -m pytest -m slow

check: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: install
	$(BIN)/sphinx-build --fail-on-warning --keep-going docs docs/_build/html

notebooks: install
	$(BIN)/python docs/notebooks/build.py

bench: install
	$(BIN)/python benchmarks/projection.py
	$(BIN)/python benchmarks/ged.py

clean:
	rm -rf $(VENV) docs/_build build *.egg-info
