# Developer's doors. Every target sets up .venv by itself: from nothing, and again when pyproject.toml has changed.
# One environment with all extras serves every target, although `demo` needs the extras spark and java alone.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

export PIP_DISABLE_PIP_VERSION_CHECK := 1
export NO_MKDOCS_2_WARNING := 1

.DEFAULT_GOAL := help
.PHONY: help demo test test-long test-all check lint types imports
.PHONY: soak mutants coverage docs dist matrix
.PHONY: bench-kernels bench-engine bench-multiway bench-cluster bench-spark bench-peers bench-papers format clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(READY) ## See a stream join at work on a local Spark
	@$(BIN)/watersmeet demo

test: $(READY) ## Run the fast tests
	@$(BIN)/pytest --timeout=1200 -n 2 --dist worksteal

test-long: $(READY) ## Run what `make test` leaves out: long tests, and property tests with many more examples
	@WATERSMEET_HYPOTHESIS_PROFILE=long $(BIN)/pytest --timeout=3000 -m "long or hypothesis"

test-all: ## Run everything: `make test`, then `make test-long`
	@$(MAKE) --no-print-directory test
	@$(MAKE) --no-print-directory test-long

check: ## Run format, lint, types, imports and the fast tests, as CI does
	@$(MAKE) --no-print-directory lint
	@$(MAKE) --no-print-directory types
	@$(MAKE) --no-print-directory imports
	@$(MAKE) --no-print-directory test

soak: $(READY) ## Join at random for hours, in-process and on Spark with kills (ONLY=cases|queries CASES= KILLS= MINUTES= WORKERS=)
	@$(BIN)/python -m soak $(if $(ONLY),--only $(ONLY)) $(if $(CASES),--cases $(CASES)) $(if $(KILLS),--kills $(KILLS)) \
	  $(if $(MINUTES),--minutes $(MINUTES)) $(if $(WORKERS),--workers $(WORKERS))

mutants: $(READY) ## Change the package in one place at a time and see whether the tests notice (ONLY=kernels WORKERS=2)
	@$(BIN)/python -m mutants $(if $(ONLY),--only $(ONLY)) $(if $(WORKERS),--workers $(WORKERS))

coverage: $(READY) ## Run the kernels' tests uncompiled and show which branches they take
	@NUMBA_DISABLE_JIT=1 $(BIN)/pytest -q --timeout=900 --cov=src/watersmeet/kernels --cov-branch --cov-report=term-missing \
	  tests/kernels tests/subwindow tests/columns tests/window

docs: $(READY) ## Build the documentation site into build/site, strictly, and check its links
	@PYTHONPATH=. $(BIN)/mkdocs build --strict --quiet
	@$(BIN)/python -m docsite.links build/site

dist: $(READY) ## Build wheel and source archive into dist/, from one commit always the same bytes
	@rm -rf dist
	@SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(BIN)/python -m build --no-isolation --quiet
	@$(BIN)/pip hash dist/*

matrix: dist ## Run tests with each PySpark under each Python, from the wheel (ONLY="4.1-3.12 4.3-3.13")
	@$(BIN)/python -m matrix $(if $(ONLY),--only $(ONLY))

lint: $(READY) ## Check format and lint (ruff)
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check --no-cache . # a cached verdict does not know which modules have moved

types: $(READY) ## Check types (mypy --strict), of the tests too
	@$(BIN)/mypy
	@$(BIN)/mypy --config-file tests/mypy.ini

imports: $(READY) ## Check who imports whom (import-linter)
	@$(BIN)/lint-imports --no-logo

BENCH = @$(BIN)/python -m benchmarks $(1) $(if $(ONLY),--only $(ONLY)) $(if $(QUICK),--quick)

bench-kernels: $(READY) ## Measure structures and the in-process join against peers (ONLY="push memory" QUICK=1, as all bench-…)
	$(call BENCH,kernels)

bench-engine: $(READY) ## Measure the topologies on all cores
	$(call BENCH,engine)

bench-multiway: $(READY) ## Measure joins of many streams
	$(call BENCH,multiway)

bench-cluster: $(READY) ## Measure balance on many machines, in a model
	$(call BENCH,cluster)

bench-spark: $(READY) ## Measure the join on Spark
	$(call BENCH,spark)

bench-peers: $(READY) ## Measure the same joins with Flink, Pathway, Spark, DuckDB and Polars (installs the first two, 1.5 GB)
	$(call BENCH,peers)

bench-papers: $(READY) ## Draw the papers' figures, ours beside theirs; run what has no result yet (ONLY="splitjoin panjoin/13a")
	$(call BENCH,papers)

format: $(READY) ## Format the code and mend what ruff can mend
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

clean: ## Remove .venv, caches and build results
	@rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .coverage htmlcov
	@find src tests -type d -name __pycache__ -prune -exec rm -rf {} +

# The stamp is written last, so an interrupted set-up is taken up again.
$(READY): pyproject.toml
	@echo "setting up $(VENV) (a minute or two) ..."
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "watersmeet needs Python 3.11 or newer, $(PYTHON) is older or missing: name another, e.g. make PYTHON=python3.12 test" >&2; exit 1; }
	@test -x $(BIN)/pip || $(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install --quiet --editable '.[dev,docs,connect,java]'
	@touch $@
