# `make help` lists the commands. All that need it install ELE first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses auto --dist worksteal
RUN ?= runs/bench
SMALL := task.size=6000 task.test=200 task.validation=200 surrogate.encoder.width=32 surrogate.training.epochs=2 \
	regressor.backbone.layers=1 regressor.backbone.width=64 regressor.training.epochs=2
MEASURED := $(filter-out benchmarks/common.py benchmarks/tables.py,$(wildcard benchmarks/*.py))
OF_A_RUN := $(shell grep -l 'add_argument."run"' $(MEASURED))

.PHONY: install help demo test test-quick test-slow check docs notebooks bench drill release clean

install: $(STAMP)  ## make .venv with ELE, all extras and the development tools

$(STAMP): pyproject.toml constraints.txt $(wildcard models/*/pyproject.toml)
	@echo "Installing ELE with all extras and tools into $(VENV). Torch is large: this takes minutes."
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --constraint constraints.txt --editable '.[all]'
	$(BIN)/python -m pip install --quiet --no-deps ./models/smi2mol ./models/fp2mol
	touch $(STAMP)

help:  ## list these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-10s %s\n", $$1, $$2}' Makefile

demo: install  ## SMILES to molecule on a part of QM9: training, table, pictures
	$(BIN)/python -m ele_graphs.smi2mol.demo

test: check  ## make check, then all tests but the slow ones
	$(PYTEST)

test-quick: install  ## the tests that need no page of the documentation, no browser and no installed package
	$(PYTEST) -m 'not slow and not pages'

test-slow: install  ## the tests that take minutes
	$(BIN)/python -m pytest -m slow

check: install  ## ruff, mypy and the import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: install  ## build the documentation into docs/_build/html
	$(BIN)/sphinx-build --fail-on-warning --keep-going docs docs/_build/html

notebooks: install  ## run the notebooks of the documentation and save their outputs
	$(BIN)/python docs/notebooks/build.py

bench: install $(RUN)/model/manifest.json  ## run every benchmark, on RUN=FOLDER, a finished run of smi2mol, or on a small one that is trained first
	set -e; for file in $(filter-out $(OF_A_RUN),$(MEASURED)); do $(BIN)/python $$file; done
	set -e; for file in $(OF_A_RUN); do $(BIN)/python $$file $(RUN); done

drill: install  ## kills, stops, full disks, hostile folders and random inputs, for an hour or more; continues after a stop
	$(BIN)/python benchmarks/drill --output docs/results/drill.json
	$(BIN)/python benchmarks/tables.py

runs/bench/model/manifest.json: | $(STAMP)
	$(BIN)/ele train smi2mol $(addprefix --set ,$(SMALL)) -o runs/bench

release: install  ## with VERSION=0.2.0: set the version, build the changelog, commit, tag
	$(BIN)/python .ci/release.py $(VERSION)

clean:  ## remove .venv and everything that was built
	rm -rf $(VENV) docs/_build build *.egg-info
