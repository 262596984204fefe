# Needs only make and python3. Everything is installed into .venv with the tested versions.

PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt
RUN := env OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1

.PHONY: demo test quick lint bench clean

demo: .venv/package
	$(BIN)/romdp generate random-romdp --observations 30 --seed 0 --out demo-world.npz
	$(BIN)/romdp inspect demo-world.npz
	$(BIN)/python benchmarks/simulator.py --quick

test: .venv/tools
	$(RUN) $(BIN)/python -m pytest -n 2 --dist loadfile

quick: .venv/tools
	$(RUN) $(BIN)/python -m pytest -n 2 --dist loadfile -m "not slow"

lint: .venv/tools
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: .venv/package
	$(BIN)/python benchmarks/simulator.py
	$(BIN)/python benchmarks/environment.py
	$(BIN)/python benchmarks/planner.py

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/package: .venv/bin/python pyproject.toml constraints.txt
	$(PIP) --editable .
	touch $@

.venv/tools: .venv/package
	$(PIP) --editable '.[test,lint]'
	touch $@

clean:
	rm -rf .venv build dist demo-world.npz
	find src tests benchmarks -name __pycache__ -type d -exec rm -rf {} +
