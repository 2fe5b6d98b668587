# Five verbs: setup, demo, test, check, docs. Everything lives in .venv; nothing is installed outside it
# except what `make test` tests with: a browser for the reports, PostgreSQL and Redis for the server, Slurm, Prometheus,
# Podman and Charliecloud for clusters. The model servers and vector databases that it measures live in .venv-servers,
# PyTorch (`make test-torch`) in .venv-torch; Kubernetes (`make test-kubernetes`) in ~/.cache/assay/kubernetes; images of
# the whole system (`make test-system`) in ~/.cache/assay/system. The dashboard is built with Node: the system's, or one
# in .venv-web; its packages live in web/node_modules.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# Most live tests wait more than they work, so there are more processes than the two cores that this is measured on.
# Tests start hundreds of processes; compiled once, each is there a quarter sooner.
unexport PYTHONDONTWRITEBYTECODE
PARALLEL := -n $(or $(TESTS_AT_ONCE),3) --no-loadscope-reorder

.PHONY: setup web demo components test test-all test-torch test-vllm test-milvus test-system test-kubernetes check check-supply docs reference bench lock clean
.DEFAULT_GOAL := setup

setup: $(STAMP)

$(STAMP): pyproject.toml requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2])' || \
	  { echo "assay needs Python 3.11 or newer; this is $$($(PYTHON) --version). Try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

# The dashboard, into the package; done anew only when something in it has changed.
web: setup
	@scripts/web.sh

demo: web
	@$(BIN)/assay run examples/demo.yaml --fresh --out demo-results
	@echo
	@echo "assay is $(BIN)/assay here; . $(BIN)/activate puts it on the PATH"

test: components
	$(BIN)/python -m pytest $(PARALLEL) -m 'not quiet and not nightly' --durations=40 --junitxml=test-results/tests.xml
	$(BIN)/python -m pytest -m quiet --junitxml=test-results/quiet.xml

# The second tier: every page of the documentation, every size and theme, both databases, every release, 500 jobs, and
# new examples for each property.
test-all: export ASSAY_NEW_EXAMPLES := 1
test-all: components
	$(BIN)/python -m pytest $(PARALLEL) -m 'not quiet' --durations=40 --junitxml=test-results/all.xml
	$(BIN)/python -m pytest -m quiet --junitxml=test-results/quiet.xml

components: setup
	@scripts/browser.sh
	@scripts/web.sh
	@scripts/postgresql.sh
	@scripts/redis.sh
	@scripts/slurm.sh
	@scripts/prometheus.sh
	@scripts/containers.sh
	@scripts/servers.sh
	@scripts/deploy.sh
	@mkdir -p test-results

test-vllm: setup
	@scripts/vllm.sh
	$(BIN)/python -m pytest --confcutdir=tests/tiers/vllm tests/tiers/vllm

test-milvus: setup
	scripts/milvus.sh env ASSAY_MILVUS=.venv-milvus/bin/python $(BIN)/python -m pytest tests/unit/run/targets/vector/test_milvus.py

test-system: setup
	scripts/system_images.sh $(BIN)/python -m pytest --confcutdir=tests/tiers/system tests/tiers/system

test-kubernetes: setup
	scripts/kubernetes.sh $(BIN)/python -m pytest --confcutdir=tests/tiers/kubernetes tests/tiers/kubernetes

test-torch: setup
	@scripts/torch.sh
	.venv-torch/bin/python -m pytest --confcutdir=tests/tiers/torch tests/tiers/torch

check: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	$(BIN)/mypy
	$(BIN)/python -m pytest -q -m 'not live' -n 2

# Hashes, images, known vulnerabilities. Status 4 of the script: not every package could be looked up.
check-supply: setup
	@test -x .venv-supply/bin/pip-audit || { $(PYTHON) -m venv .venv-supply && \
	  .venv-supply/bin/python -m pip install --quiet --disable-pip-version-check pip-audit; }
	$(BIN)/python scripts/check_supply.py --pip-audit .venv-supply/bin/pip-audit

docs: setup
	$(BIN)/mkdocs build --strict

# The pages of docs/reference that are written from the code.
reference: setup
	$(BIN)/python scripts/reference.py

bench: setup
	$(BIN)/python -m benches

lock: setup
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --no-emit-index-url --no-annotate --no-header \
	  --extra dev pyproject.toml -o constraints.txt
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --no-emit-index-url --no-annotate --no-header \
	  --generate-hashes --constraint constraints.txt --extra dev pyproject.toml scripts/build.in -o requirements.lock

clean:
	rm -rf $(VENV) .venv-servers .venv-torch .venv-vllm .venv-milvus .venv-deploy .venv-web .venv-supply web/node_modules \
	  src/assay/serve/dashboard/built demo-results site
