# Everything from a fresh clone: Python 3.11 or later (with venv), make, git and a package index are enough.
# uv is put into .venv and installs exactly what uv.lock names; it runs again only when the lock changes.

PYTHON ?= python3
BIN    := .venv/bin
READY  := .venv/.ready
UV     := env -u VIRTUAL_ENV UV_SYSTEM_CERTS=1 UV_NATIVE_TLS=1 $(BIN)/uv
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check

# Tests start hundreds of short processes: they must not compile the program anew each time.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help demo up test check native soak reference dashboards messages man audit policies sbom clean
.DEFAULT_GOAL := help

help:  ## show these targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1|\2/p' $(MAKEFILE_LIST) | column -t -s '|' 2>/dev/null || grep '##' $(MAKEFILE_LIST)

demo: $(READY)  ## watch gangs wait, start and run on named GPU cards (half a minute); PRESET=sharing: parts of cards
	@$(BIN)/t9ksched demo $(if $(PRESET),--preset $(PRESET))

up: $(READY)  ## everything in one process, with a simulated GPU cluster
	@$(BIN)/t9ksched up

test: $(READY)  ## every test but the long ones
	@$(BIN)/python hatch_build.py
	@$(BIN)/python -m pytest -m "not soak" -n auto --dist loadfile

check: $(READY)  ## formatting, lint, types and who may import whom
	@$(BIN)/ruff format --check --quiet . || { echo "Not formatted: run '$(BIN)/ruff format .'"; exit 1; }
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/lint-imports --no-cache >.venv/imports.log 2>&1 || { cat .venv/imports.log; exit 1; }
	@echo "check: format, lint, types and imports are in order"

# The engine runs without it, only slower; installing t9ksched compiles it too, where there is a C compiler.
native: $(READY)  ## compile the engine's native kernel, if need be with a compiler from the package index (100 MB)
	@$(BIN)/python hatch_build.py --required 2>.venv/native.log || { \
	  { $(UV) sync --frozen --inexact --quiet --only-group native 2>.venv/uv.log || { \
	    $(UV) export --frozen --quiet --only-group native --output-file .venv/native.txt >/dev/null \
	    && $(PIP) --no-deps -r .venv/native.txt; } || { cat .venv/native.log .venv/uv.log; exit 1; }; } \
	  && $(BIN)/python hatch_build.py --required; }

soak: $(READY)  ## the long tests
	@T9KSCHED_EXAMPLES=5 $(BIN)/python -m pytest -m "soak or hypothesis"

reference: $(READY)  ## write docs/reference/ and deploy/crds anew: commands, REST, metrics and kinds from their sources
	@$(BIN)/python -m t9ksched.cli.reference > docs/reference/cli.md
	@$(BIN)/python -m t9ksched.cli.settingsreference > docs/reference/settings.md
	@$(BIN)/python -m t9ksched.api.reference > docs/reference/rest.md
	@$(BIN)/python -m t9ksched.cli.metricsreference > docs/reference/metrics.md
	@$(BIN)/python deploy/schemas/definitions.py
	@$(BIN)/python -c "from t9ksched import packaged; from t9ksched.kube.setup import crds; print(crds.shipped(packaged.folder('crds')), end='')" > t9ksched/kube/setup/crds.json
	@$(BIN)/python -m t9ksched.cli.kindsreference docs/reference/workloads.md
	@$(BIN)/python -m t9ksched.kube.setup.foreign_rights deploy/foreign
	@$(BIN)/python -m t9ksched.cli.foreignreference > docs/reference/foreign-jobs.md
	@$(BIN)/python -m t9ksched.cli.manifests.writing deploy
	@$(BIN)/python -c "from t9ksched.store import fresh; print(fresh.written(), end='')" > migrations/sqlite.sql

dashboards: $(READY)  ## write the Grafana dashboards of deploy/monitoring anew
	@$(BIN)/python deploy/monitoring/dashboards.py

messages: $(READY)  ## bring the Chinese catalogue up to date with the code; says which messages have no translation
	@$(BIN)/python -m tests.messages

MAN ?= dist/man/man1
man: $(READY)  ## write man pages of all commands; MAN=FOLDER
	@$(BIN)/python -m t9ksched.cli.manpages $(MAN)
	@echo "$(MAN)"

audit: $(READY)  ## ask the OSV database about every package that uv.lock names (needs a network)
	@$(UV) audit --frozen --preview-features audit

# Not asked for: limits of CPU (they slow a scheduler when it is needed most), secrets as files (settings come from
# variables), and pods without a token of their account (each role speaks to the API server).
policies: $(READY)  ## ask the policy linter checkov about all manifests (needs a package index)
	@$(BIN)/t9ksched manifests --set image.digest=sha256:$$(printf '%064d' 0) --set image.repository=registry.example/t9ksched \
	  --set rights.foreign={kuberay} --set ingress.enabled=true --set ingress.host=t9ksched.example > .venv/manifests.yaml
	@$(UV) tool run checkov@3.3.30 --framework kubernetes --compact --quiet \
	  --skip-check CKV_K8S_11,CKV_K8S_35,CKV_K8S_38 --file .venv/manifests.yaml

SBOM ?= dist/sbom.cdx.json
sbom: $(READY)  ## write a bill of materials (CycloneDX) of what is shipped, from uv.lock
	@mkdir -p $(dir $(SBOM))
	@$(UV) export --frozen --quiet --no-dev --extra server --format cyclonedx1.5 --preview-features sbom-export --output-file $(SBOM) >/dev/null
	@echo "$(SBOM)"

clean:  ## remove the environment, the compiled kernel and every cache
	@rm -rf .venv dist build .mypy_cache .ruff_cache .import_linter_cache .hypothesis t9ksched/engine/kernel/_kernel.*
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# uv reads the index of uv.lock and the system's certificates. Where only pip is told how to reach an index (a mirror,
# a proxy's certificate), pip installs the same versions: all that uv.lock names, so pip looks for no others.
# Last, what a start imports is compiled, so that the first one is as short as later ones.
$(READY): uv.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "t9ksched needs Python 3.11 or later; '$(PYTHON)' is $$($(PYTHON) -V 2>&1)."; \
	  echo "Name a newer one: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@test -x $(BIN)/uv || { echo "Preparing .venv (once) ..."; $(PYTHON) -m venv .venv && $(PIP) uv; }
	@$(UV) sync --frozen --inexact --quiet 2>.venv/uv.log || { \
	  $(UV) export --frozen --quiet --no-emit-project --output-file .venv/requirements.txt >/dev/null \
	  && $(PIP) --no-deps -r .venv/requirements.txt && $(PIP) hatchling editables \
	  && $(PIP) --no-deps --no-build-isolation --editable .; } || { cat .venv/uv.log; exit 1; }
	@$(BIN)/python -c 'import t9ksched.cli.commands.demo, t9ksched.cli.runtime'
	@touch $@
