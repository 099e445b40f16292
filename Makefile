# Everything here needs only Python 3.11+, pip and make. `make e2e` also needs Go.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
# What runs, and what also tests: a demo need not wait for the test tools.
RUNS   := $(VENV)/.runs
STAMP  := $(VENV)/.installed
# The site generator has dependencies that the tests do not need.
DOCS   := .venv-docs
VERSION_OF_PACKAGE = $(shell sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
# Where the control plane for e2e is built, once per machine.
export DOVETAIL_E2E_CACHE ?= $(HOME)/.cache/dovetail-e2e
# Each has a control plane of its own. Its tests wait more than they work: there may be more of them than cores.
E2E_WORKERS ?= 3

.DEFAULT_GOAL := help
.PHONY: help demo test check unit fuzz torture planted e2e e2e-binaries load conformance compare browser browser-binary wheel screenshots docs image bench format generate changelog picture lock sbom audit clean

help: ## list the targets
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Dovetail needs Python 3.11 or newer; set PYTHON=python3.x"; exit 1; }
	@$(PYTHON) -m venv $(VENV)

$(RUNS): requirements/run.lock pyproject.toml | $(VENV)/bin/python
	@echo "Installing locked dependencies into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet --require-hashes -r requirements/run.lock
	@$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation -e .
	@touch $@

$(STAMP): requirements/dev.lock $(RUNS)
	@echo "Installing the test tools into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet --require-hashes -r requirements/dev.lock
	@touch $@

demo: $(RUNS) ## watch a cluster live on the embedded world
	@$(BIN)/dovetail demo $(ARGS)

test: check unit ## static checks, then every test that needs no control plane

check: $(STAMP) ## format, lint, types, layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

unit: $(STAMP) ## the test suite
	$(BIN)/pytest -n auto -m "not e2e and not browser and not wheel" $(ARGS)

fuzz: $(STAMP) ## mutated inputs for SECONDS from SEED; TARGET and CASE run one again
	@PYTHONPATH=tests $(BIN)/python -m fuzz --seconds $(or $(SECONDS),60) --seed $(or $(SEED),0) $(addprefix --target ,$(TARGET)) $(addprefix --case ,$(CASE)) $(ARGS)

torture: $(RUNS) ## run SEEDS simulated clusters with injected faults
	@$(BIN)/dovetail torture --seeds $(or $(SEEDS),50) $(ARGS)

planted: $(STAMP) ## plant bugs in a copy of the sources, and check that tests or torture trials catch them
	@PYTHONPATH=tests $(BIN)/python -m planted.run $(ARGS)

e2e-binaries: $(STAMP) ## build the control plane into the cache, once per machine
	@$(BIN)/python tests/e2e/components/build.py

e2e: $(STAMP) e2e-binaries ## the suite against a real control plane
	$(BIN)/pytest -n $(E2E_WORKERS) --dist loadfile --no-loadscope-reorder -m e2e tests/e2e $(ARGS)

wheel: $(STAMP) ## build the wheel, install it into a fresh environment and use it
	$(BIN)/pytest -m wheel tests/distribution $(ARGS)

browser-binary: $(STAMP) ## get a Chromium for the browser tests, where there is none
	@$(BIN)/python tests/browser/chromium.py

browser: $(STAMP) browser-binary ## the page in a headless Chromium
	$(BIN)/pytest -n 2 --dist loadfile -m browser tests/browser $(ARGS)

screenshots: $(STAMP) browser-binary ## take the pictures of the page anew
	DOVETAIL_SCREENSHOTS=docs/images $(BIN)/pytest -m browser tests/browser/test_screenshots.py

$(DOCS)/.installed: requirements/docs.lock | $(VENV)/bin/python
	@echo "Installing the site generator into $(DOCS) ..."
	@$(PYTHON) -m venv $(DOCS)
	@$(DOCS)/bin/python -m pip install --quiet --require-hashes -r requirements/docs.lock
	@touch $@

docs: $(DOCS)/.installed ## build the documentation site into build/site, with a check of every link
	@$(DOCS)/bin/python docs/build_site.py

load: $(STAMP) e2e-binaries ## 500 nodes and 5,000 pods on a real control plane, with figures
	@PYTHONPATH=tests $(BIN)/python -m e2e.loading $(ARGS)

conformance: $(STAMP) e2e-binaries ## Karpenter's own regression suite: SPECS=regexp CONTROLLER=dovetail|karpenter|both SHARDS=n
	@PYTHONPATH=tests $(BIN)/python -m conformance $(if $(SPECS),--specs '$(SPECS)') --controller $(or $(CONTROLLER),dovetail) --shards $(or $(SHARDS),2) $(if $(MINUTES),--minutes $(MINUTES)) $(ARGS)

compare: $(STAMP) e2e-binaries ## the same workload on Dovetail and on Karpenter, as a table
	@PYTHONPATH=tests $(BIN)/python -m conformance.compare $(ARGS)

bench: $(STAMP) ## every benchmark with its bars
	@for each in decode scheduling packing sizing sweep plan simulate; do $(BIN)/python bench/$$each.py || exit 1; done

format: $(STAMP) ## format and fix
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

generate: $(STAMP) ## rewrite the generated files (CRDs, schemas, reference pages, tables of values, list of modules)
	$(BIN)/python -m dovetail.manifest.generate
	$(BIN)/python -m dovetail.cli.generate_reference
	$(BIN)/python tests/architecture/modules.py
	$(BIN)/python charts/values_table.py

changelog: $(STAMP) ## move the fragments of changelog.d into CHANGELOG.md: VERSION=0.2.0
	@test -n "$(VERSION)" || { echo "name the release: make changelog VERSION=0.2.0"; exit 1; }
	@$(BIN)/python changelog.d/assemble.py "$(VERSION)"

picture: $(STAMP) ## draw the demo's picture for the README anew
	$(BIN)/python docs/images/make_demo_picture.py

lock: | $(VENV)/bin/python ## resolve dependencies anew
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate --no-header pyproject.toml --group dev -o requirements/dev.lock
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate --no-header --constraint requirements/dev.lock pyproject.toml --extra aws --extra highs --extra otel --group build -o requirements/run.lock
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate --no-header --group docs -o requirements/docs.lock

image: ## build the container image dovetail:VERSION, and start it; needs docker
	docker build --tag dovetail:$(VERSION_OF_PACKAGE) .
	docker run --rm --read-only dovetail:$(VERSION_OF_PACKAGE) --version

sbom: requirements/run.lock ## write a CycloneDX SBOM of what the image installs: dist/dovetail.cdx.json
	@$(PYTHON) -m venv --clear dist/image && $(PYTHON) -m venv dist/tools
	@dist/image/bin/pip install --quiet --require-hashes -r requirements/run.lock
	@dist/image/bin/pip install --quiet --no-deps --no-build-isolation .
	@dist/image/bin/pip uninstall --quiet --yes editables hatchling
	@dist/tools/bin/pip install --quiet cyclonedx-bom==7.5.0
	@dist/tools/bin/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible --of JSON -o dist/dovetail.cdx.json dist/image

audit: requirements/run.lock ## look up known vulnerabilities of the image's dependencies; needs the internet
	@$(PYTHON) requirements/check_database.py
	@$(PYTHON) -m venv dist/tools
	@dist/tools/bin/pip install --quiet pip-audit==2.10.1
	@$(PYTHON) requirements/check_database.py dist/tools/bin/pip-audit
	@dist/tools/bin/pip-audit --strict --require-hashes --disable-pip -r requirements/run.lock

clean: ## remove what make installed
	rm -rf $(VENV) $(DOCS) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
