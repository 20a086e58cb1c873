# Two commands do everything on a fresh machine with Python 3.11 or newer: `make demo` and `make test`.
PYTHON ?= $(firstword $(foreach name,python3 python3.13 python3.12 python3.11,$(shell \
            $(name) -c 'import sys; print("$(name)" if sys.version_info >= (3, 11) else "")' 2>/dev/null)))
VENV   := .venv
BIN    := $(VENV)/bin

# Kernels are cached beside their modules, and so is bytecode: tests start hundreds of processes.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help demo test chaos bounds check format bench lab docs wheel versions jdk kernels clean
.DEFAULT_GOAL := help

help:            ## what there is
	@grep -E '^[a-z]+: .*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 12

demo: $(VENV)/spark jdk ## a pipeline on Spark with live subscriptions of every kind: who gets what, how fast
	$(BIN)/distributary demo

test: $(VENV)/dev jdk kernels ## all tests: properties against the oracles, worked examples, fuzzing
	$(BIN)/pytest -q -n 3 --dist loadgroup

chaos: $(VENV)/dev jdk kernels ## kill pipelines, break networks by the thousand: all heals (SEED=7 TIMES=4 PART=tests/sim)
	@$(if $(PART),true,rm -f build/chaos.json)
	@export DISTRIBUTARY_SEED=$(or $(SEED),1) DISTRIBUTARY_CHAOS_REPORT=build/chaos.json \
	    DISTRIBUTARY_CHAOS_TIMES=$(TIMES) DISTRIBUTARY_CHAOS_FULL=$(FULL); \
	$(BIN)/pytest -q -n 2 --dist loadgroup -m chaos $(or $(PART),tests); status=$$?; \
	$(if $(if $(PART),$(findstring properties,$(PART)),all),DISTRIBUTARY_EXAMPLES=$(if $(FULL),20,3) \
	    $(BIN)/pytest -q -n 2 --dist worksteal tests/properties || status=$$?;) exit $$status

bounds: $(VENV)/dev     ## the tests of the kernels with every array access checked
	NUMBA_BOUNDSCHECK=1 NUMBA_CACHE_DIR=build/bounds $(BIN)/pytest -q -n 2 --dist worksteal tests/matching tests/properties

check: $(VENV)/dev      ## lint, format and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/dev     ## let the formatter have its way
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/spark jdk ## how fast it is: a table here, the numbers in build/bench.json
	$(BIN)/python -m bench $(BENCH)

lab: $(VENV)/lab jdk    ## measure again what the papers claim: build/lab/report.html (FULL=1 for the full grids)
	$(BIN)/distributary lab run all $(if $(FULL),,--quick); \
	status=$$?; $(BIN)/distributary lab report && exit $$status

docs: $(VENV)/docs      ## the documentation as a site, with search and references: build/site/index.html
	$(BIN)/python scripts/docs_site.py
	$(BIN)/zensical build --strict --config-file build/mkdocs.yml

wheel: $(VENV)/dev      ## sdist and wheel in dist/, checked, and tried in an environment with nothing else
	rm -rf dist
	$(BIN)/python -m build
	DISTRIBUTARY_DIST=dist $(BIN)/pytest -q -m 'chaos or not chaos' tests/house/test_wheel.py

versions: $(VENV)/dev jdk ## some tests with the lowest and the highest versions we allow, in every Python there is (ENDS=lowest PYTHON=python3.12)
	$(BIN)/python scripts/versions.py $(ENDS) $(if $(findstring file,$(origin PYTHON)),,--python $(PYTHON))

jdk:                    ## see that a Java 17 or newer is there, for the parts that run on Spark
	@sh scripts/jdk

kernels: $(VENV)/core   ## compile what Numba compiles, once for this machine: two minutes
	@DISTRIBUTARY_PROGRESS=1 $(BIN)/python -m distributary.systems.rehearsal --jobs 2

clean:                  ## forget everything that can be made again
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find src tests bench -name __pycache__ -prune -exec rm -rf {} +

$(VENV)/core: pyproject.toml
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed: make PYTHON=/path/to/python3.11 ..."; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/spark: $(VENV)/core
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[spark]'
	@touch $@

$(VENV)/docs: $(VENV)/core
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[docs]'
	@touch $@

$(VENV)/lab: $(VENV)/core
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[spark,lab]'
	@touch $@

$(VENV)/dev: $(VENV)/core
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@
