# Needs only make and python3. Everything is installed into .venv with the tested versions.

PYTHON ?= python3
SECONDS ?= 300
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt
PYTEST := $(BIN)/python -m pytest

# Hundreds of processes are started, and each would compile the sources of romdp again.
unexport PYTHONDONTWRITEBYTECODE

# Where all cores are busy, threads of linear algebra only get in each other's way.
demo test quick fuzz boundscheck test-torch test-page docs: export OMP_NUM_THREADS := 1
demo test quick fuzz boundscheck test-torch test-page docs: export OPENBLAS_NUM_THREADS := 1
demo test quick fuzz boundscheck test-torch test-page docs: export MKL_NUM_THREADS := 1

.PHONY: demo test quick fuzz boundscheck test-torch test-page guard guard-full lint docs bench results dist clean

demo: .venv/package
	rm -rf demo
	$(BIN)/romdp generate random-romdp --observations 30 --seed 0 --out demo-world.npz
	$(BIN)/romdp inspect --brief demo-world.npz
	$(BIN)/romdp compare --agents sl-ucrl,lc-psrl,ucrl3,oracle --observations 10,30 --steps 5e4 --seeds 2 \
	    --out demo/agents --workers 2
	$(BIN)/romdp report demo/agents
	$(BIN)/romdp play CliffWalking-v1 --views 5 --steps 8000 --out demo/cliff
	$(BIN)/python examples/digits_log.py demo/digits.parquet
	$(BIN)/romdp fit demo/digits.parquet --observation picture --action action --reward reward --out demo/digits
	@echo "open demo/agents/report.html (agents compared), demo/cliff/report.html (an environment learned)"
	@echo "and demo/digits/report.html (pictures grouped)"

test: .venv/tools
	$(PYTEST) -n 2 --dist loadfile --no-loadscope-reorder -m "not torch and not page"

quick: .venv/tools
	$(PYTEST) -n 2 --dist loadfile --no-loadscope-reorder -m "not slow and not torch and not page"

fuzz: .venv/tools  # every wrong argument; damaged files of every kind, for as long as SECONDS says
	ROMDP_FUZZ_SECONDS=$(SECONDS) $(PYTEST) tests/fuzz

# Compiled code that checks every index has a cache of its own. CHECKED may be a few folders.
CHECKED ?= tests/fuzz tests/clustering tests/planning tests/data tests/encoding tests/exact tests/worlds \
    tests/agents tests/theory tests/playing tests/logs
boundscheck: .venv/tools  # the tests of everything compiled, under numba's bounds checking
	NUMBA_BOUNDSCHECK=1 NUMBA_CACHE_DIR=.venv/boundscheck $(PYTEST) -m "not torch and not page" $(CHECKED)

test-torch: .venv/torch
	$(PYTEST) tests/playing tests/encoding -m torch

test-page: .venv/page
	$(PYTEST) tests -m page

guard: .venv/tools  # a sample of every figure that is claimed; fails when one leaves its band
	$(BIN)/python benchmarks/guard.py

guard-full: .venv/tools  # all repeats of all rows: an hour or two
	$(BIN)/python benchmarks/guard.py --full

lint: .venv/tools
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: .venv/docs
	$(BIN)/sphinx-build --builder html --fail-on-warning --keep-going --quiet docs docs/_build/html
	@echo open docs/_build/html/index.html

bench: .venv/package
	$(BIN)/python benchmarks/table.py  # writes docs/results/bench.md

results: .venv/tools  # what docs/results claims, as far as it fits into an hour
	$(BIN)/python benchmarks/results.py

dist: .venv/dist
	rm -rf dist
	$(BIN)/python -m build --no-isolation --outdir dist .
	$(BIN)/python .ci/smoke.py dist

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/package: .venv/bin/python pyproject.toml constraints.txt
	$(PIP) --editable '.[plot]'
	touch $@

.venv/tools: .venv/package
	$(PIP) --editable '.[test,lint]'
	touch $@

.venv/docs: .venv/package
	$(PIP) --editable '.[docs]'
	touch $@

.venv/torch: .venv/tools
	$(PIP) torch  # the constraint asks for the build without CUDA where there is one
	touch $@

.venv/dist: .venv/bin/python pyproject.toml constraints.txt
	$(PIP) 'build>=1.2' 'hatchling>=1.24'
	touch $@

.venv/page: .venv/tools
	$(PIP) --editable '.[test,page]'
	touch $@

clean:
	rm -rf .venv build dist docs/_build demo demo-world.npz results
	find src tests benchmarks -name __pycache__ -type d -exec rm -rf {} +
