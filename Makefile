# Bare `make` prints what there is. Everything runs on the Node that `npm ci` brings along.
SHELL := /bin/bash
NODE := node_modules/.bin/node
INSTALLED := node_modules/.package-lock.json
UNIT := 'operator/**/*.test.ts' 'services/**/*.test.ts' 'crds/**/*.test.ts' 'images/**/*.test.ts'
# What needs a whole cluster skips itself where KUBECONFIG names none.
ACROSS := 'test/**/*.test.ts'
# Where tests have their folders: in memory, where a place for that has 4 GB of room and lets programs run. To make and
# sync the folders of databases on a disk costs more than what is asked of them.
ROOMY = [ -w /dev/shm ] && [ "$$(df -Pk /dev/shm | awk 'END {print $$4}')" -gt 4194304 ] && \
  ! grep -q ' /dev/shm .*noexec' /proc/mounts
# The account that PostgreSQL runs as has to get through.
IN_MEMORY = if $(ROOMY); then \
  export TMPDIR=$$(mktemp -d /dev/shm/tollway-tests-XXXXXX); chmod 711 "$$TMPDIR"; trap 'rm -rf "$$TMPDIR"' EXIT; fi

.DEFAULT_GOAL := help
.PHONY: help install run test check golden generate bench faults images e2e soak clean

help: ## This list
	@echo 'Tollway: rate limits, streams and merchants as custom resources'
	@echo
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(INSTALLED) ## Install the exact dependencies of the lockfile, without running their scripts

$(INSTALLED): package-lock.json package.json
	@npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
	@touch $@

run: install ## Run everything on this machine with examples/quickstart (ARGS='--replicas 3')
	@exec node_modules/.bin/tollway run -f examples/quickstart $(ARGS)

test: install check ## Run every test that needs no cluster; names what the machine lacks
	@$(IN_MEMORY); \
	  NODE_COMPILE_CACHE="$$PWD/out/compile-cache" $(NODE) --test --test-concurrency=3 --test-timeout=120000 $(UNIT) $(ACROSS)

check: install ## Types, style, generated files
	@$(NODE) node_modules/.bin/tsc --noEmit
	@node_modules/.bin/biome ci --error-on-warnings .
	@$(NODE) crds/generate.ts --check
	@$(NODE) charts/generate.ts --check
	@$(NODE) docs/generate.ts --check

golden: install ## Rewrite the golden files from what the code makes; look at the diff
	@GOLDEN=write $(NODE) --test 'operator/translate/*.test.ts' 'operator/infrastructure/kubernetes/objects/*.test.ts' \
	  operator/cluster/services.test.ts test/charts/chart.test.ts

generate: install ## Make the code of proto/, the manifests of crds/ and the tables of docs/ anew
	@cd proto && PATH="$$PWD/../node_modules/.bin:$$PATH" buf generate
	@$(NODE) crds/generate.ts
	@$(NODE) charts/generate.ts
	@$(NODE) docs/generate.ts

bench: install ## Measure against yardsticks; prints tables (ARGS='--short', ARGS='hot-key envoy')
	@exec $(NODE) test/bench/bench.ts $(ARGS)

faults: install ## Make faults for real while the service is under load; prints tables (ARGS='--short')
	@exec $(NODE) test/faults/faults.ts $(ARGS)

images: install ## Make container images as OCI archives in out/images (ARGS='operator ratelimit')
	@exec $(NODE) images/main.ts $(ARGS)

e2e: install ## Test in the whole cluster of KUBECONFIG, or in one of kind (ARGS=--help)
	@exec $(NODE) test/e2e/run.ts $(ARGS)

soak: install ## The long forms of the fault and property tests (HOURS=1)
	@NODE_COMPILE_CACHE="$$PWD/out/compile-cache" SOAK=1 FC_RUNS=$${FC_RUNS:-100000} HOURS=$${HOURS:-1} $(NODE) --test --test-concurrency=1 $(UNIT) $(ACROSS)

clean: ## Remove what was built and the state of `make run`
	@rm -rf node_modules out .tollway
