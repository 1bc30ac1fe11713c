# Everything runs in .venv, which is made on first use and again when the dependencies change.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CORE := $(VENV)/.core-installed
DEV := $(VENV)/.dev-installed
CHROMIUM := $(VENV)/.chromium-asked
DICOM := $(VENV)/.dicom-tools-asked
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
# One BLAS thread per test process, two processes; bytecode is kept, for tests start many processes. Each process
# begins with a half of the tests in their order, so that what the tests of a module share is made once.
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=
PYTEST := $(ONE_THREAD) $(BIN)/python -m pytest -n 2 --dist worksteal --durations=10

.DEFAULT_GOAL := help
.PHONY: assumption heat-maps neighbours help demo test test-full coverage lint format bench reproduction scaling security mutants gap bound-order novelty conformance docs clean

help:  ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(CORE): pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) --editable '.[viewer]'
	@touch $@

$(DEV): pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) --editable '.[dev,docs]'
	@touch $(CORE) $@

# Without it the browser tests are skipped, but under CI they fail.
$(CHROMIUM): scripts/install_chromium.sh | $(BIN)/python
	sh scripts/install_chromium.sh || echo "chromium was not installed; see scripts/install_chromium.sh"
	@touch $@

# Without them the conformance tests are skipped, but under CI they fail.
$(DICOM): scripts/install_dicom_tools.sh | $(BIN)/python
	sh scripts/install_dicom_tools.sh || echo "no DICOM tools were installed; see scripts/install_dicom_tools.sh"
	@touch $@

demo: $(CORE)  ## Train on embedded data, show a table, save figures
	$(BIN)/psimil demo

lint: $(DEV)  ## Formatting, lint rules and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(DEV)  ## Rewrite files in the house format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

test: lint $(CHROMIUM) $(DICOM)  ## Lint, all tests but the slow ones, the numerical ones again as other processors
	$(PYTEST) -m "not slow"
	$(ONE_THREAD) $(BIN)/python scripts/core_types.py Haswell Nehalem Prescott -- -n 2 --dist worksteal -m "not slow"

test-full: lint $(CHROMIUM) $(DICOM)  ## Lint, every test with more examples, then every test as every other processor
	PSIMIL_FAULTS=full PSIMIL_PROPERTIES=full $(PYTEST)
	$(ONE_THREAD) $(BIN)/python scripts/core_types.py --every -- -n 2

coverage: $(DEV)  ## All tests but the slow ones, with branch coverage
	$(PYTEST) -m "not slow" --cov --cov-report=term

bench: $(DEV)  ## Run every benchmark; each ends with one JSON line
	@set -e; for script in benchmarks/bench_*.py; do echo "== $$script"; $(BIN)/python "$$script"; done

reproduction: $(DEV)  ## Write the pages of the reproduction and the README's table from results/
	$(BIN)/python scripts/write_reproduction.py results docs/results README.md

scaling: $(DEV)  ## Write the table of docs/results/scaling.md from results/benchmarks.jsonl
	$(BIN)/python scripts/write_benchmarks.py results/benchmarks.jsonl docs/results/scaling.md

security: $(DEV)  ## Write the table of docs/trust/security.md from fuzz/campaigns.json
	$(BIN)/python scripts/write_fuzzing.py fuzz/campaigns.json docs/trust/security.md

mutants: $(DEV)  ## Write the tables of docs/trust/testing.md from docs/trust/mutants.csv
	$(BIN)/python scripts/write_mutants.py docs/trust/mutants.csv docs/trust/testing.md

gap: $(DEV)  ## Measure the gap of the posteriors, write docs/mathematics/inference-gap.md; DATA=folder adds RSNA, CQ500 and MNIST
	$(ONE_THREAD) $(BIN)/python scripts/write_gap.py docs $(if $(DATA),--data $(DATA))

bound-order: $(DEV)  ## Measure whether the bound orders kernels, write docs/mathematics/bound-order.md; DATA=folder adds all but MUSK1
	$(ONE_THREAD) $(BIN)/python scripts/write_bound_order.py docs $(if $(DATA),--data $(DATA))

novelty: $(DEV)  ## Measure novelty and referral, write docs/trust/far-from-the-data.md; DATA=folder adds all but MUSK1
	$(ONE_THREAD) $(BIN)/python scripts/write_novelty.py docs $(if $(DATA),--data $(DATA))

neighbours: $(DEV)  ## Measure links between slices and context of bags, write docs/mathematics/neighbours-and-context.md; needs DATA=folder
	$(ONE_THREAD) $(BIN)/python scripts/write_neighbours.py docs --data $(DATA)

assumption: $(DEV)  ## Put models through tests of the MIL assumption, write docs/trust/mil-assumption.md
	$(ONE_THREAD) $(BIN)/python scripts/write_assumption.py docs

heat-maps: $(DEV)  ## Measure how often heat maps point at blood in phantoms, write docs/trust/heat-maps.md
	$(ONE_THREAD) $(BIN)/python scripts/write_heat_maps.py docs

conformance: $(DEV) $(DICOM)  ## Put written DICOM objects through dciodvfy, PixelMed's DicomSRValidator, dsrdump and Orthanc
	CI=1 $(ONE_THREAD) $(BIN)/python -m pytest tests/ct tests/cli -k "conform or archive"

docs: $(DEV)  ## Build the site in site/, run every block of README and docs/, check notation
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	$(ONE_THREAD) $(BIN)/python -m pytest tests/house/test_docs.py tests/house/test_notation.py

clean:  ## Remove the environment and everything generated
	rm -rf $(VENV) build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage .coverage.* htmlcov
	find src tests benchmarks examples scripts fuzz -type d -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true
