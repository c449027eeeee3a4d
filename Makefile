# Every target does its own set-up: `make demo` and `make test` are enough on a new machine.
SHELL := /bin/sh
VENV := .venv
PYTHON := $(VENV)/bin/python
SET_UP := $(VENV)/.set-up
BPF := build/.bpf
SIM := build/sim/.built
TESTS ?= tests
export PYTHONDONTWRITEBYTECODE := 1

.PHONY: help setup demo test test-long test-gpu lint format generate bpf sim bench incidents soak tools pin clean
.DEFAULT_GOAL := help

help: ## Show the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1\t\2/p' Makefile | while IFS="$$(printf '\t')" read -r n t; do printf '  %-10s %s\n' "$$n" "$$t"; done

setup: $(SET_UP) ## Install what is needed: Debian packages (named on screen), then .venv

$(SET_UP): pyproject.toml tools/setup.sh
	@sh tools/setup.sh $(VENV)
	@touch $@

bpf: $(BPF) ## Compile the BPF programs

$(BPF): $(SET_UP) $(wildcard bpf/*) tools/build_bpf.py
	@$(PYTHON) tools/build_bpf.py
	@mkdir -p build && touch $@

sim: $(SIM) ## Build the simulated driver libraries into build/sim

$(SIM): $(SET_UP) $(wildcard sim/c/* sim/*.py) sim/symbols.txt
	@$(PYTHON) -m sim.build build/sim
	@touch $@

demo: $(BPF) $(SIM) ## Show gpugauge at work, on the real driver where there is one, else on the simulated one
	@$(PYTHON) -m gpugauge demo

test: $(BPF) $(SIM) tools ## Run the tests, BPF included (root)
	@sh tools/own_root.sh $(PYTHON) -m pytest $(TESTS)

test-long: $(BPF) $(SIM) tools ## Run the tests, and those that take minutes
	@sh tools/own_root.sh $(PYTHON) -m pytest -m "not gpu and not soak" --hypothesis-profile=long $(TESTS)

test-gpu: $(BPF) ## Run the tests that need a real GPU
	@$(PYTHON) -m pytest -m gpu tests/gpu

lint: $(SET_UP) .tools/bin/helm ## Check style, types, import layers and generated files
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/ruff format --check .
	@$(VENV)/bin/clang-format --dry-run --Werror $$(git ls-files 'bpf/*.[ch]' 'sim/c/*.[ch]')
	@$(VENV)/bin/mypy
	@$(VENV)/bin/lint-imports
	@for each in tools/generate_*.py; do $(PYTHON) $$each --check || exit 1; done

format: $(SET_UP) ## Rewrite Python and C in the house style
	@$(VENV)/bin/ruff check --fix .
	@$(VENV)/bin/ruff format .
	@$(VENV)/bin/clang-format -i $$(git ls-files 'bpf/*.[ch]' 'sim/c/*.[ch]')

generate: $(SET_UP) .tools/bin/helm ## Rewrite what is made from tables: model/abi.py, docs, the golden metrics
	@for each in tools/generate_*.py; do $(PYTHON) $$each || exit 1; done

bench: $(BPF) $(SIM) ## Run the benchmarks, as ratios within one run
	@$(PYTHON) -m benchmarks

incidents: $(SET_UP) ## Replay the incidents that the diagnosis must name, and healthy hours
	@PYTHONPATH=src:. $(PYTHON) -m tests.incidents

soak: $(BPF) $(SIM) ## Run the agent under load for a long time and watch its memory
	@$(PYTHON) -m pytest -m soak --timeout=0 $(TESTS)

PIN := $(VENV)/bin/pip-compile -q --generate-hashes --allow-unsafe --strip-extras --no-emit-index-url \
	--no-emit-find-links --no-emit-trusted-host --no-emit-options
pin: $(SET_UP) ## Pin the image's packages anew, with their hashes, and write its SBOM
	@CUSTOM_COMPILE_COMMAND="make pin" $(PIN) $(UPGRADE) --extra kubernetes --extra stacks -o deploy/image/requirements.txt pyproject.toml
	@CUSTOM_COMPILE_COMMAND="make pin" $(PIN) $(UPGRADE) -o deploy/image/build.txt deploy/image/build.in
	@$(PYTHON) tools/generate_sbom.py

tools: .tools/bin/prometheus .tools/bin/helm ## Fetch prometheus, promtool, helm and kubectl, without installing them

.tools/bin/helm: tools/fetch_helm.py $(SET_UP)
	@$(PYTHON) tools/fetch_helm.py .tools

.tools/bin/prometheus: tools/fetch_prometheus.sh
	@sh tools/fetch_prometheus.sh .tools

clean: ## Remove everything that was made
	rm -rf $(VENV) build dist .tools .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	rm -f src/gpugauge/ebpf/objects/*.o
