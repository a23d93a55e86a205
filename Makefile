# `make` without a target lists the targets. All programs run on the Node that `npm ci` installs.
SHELL := /bin/bash
NODE := node_modules/.bin/node
INSTALLED := node_modules/.package-lock.json
# The folder of one package, or everything. Tests that need a cluster are skipped without KUBECONFIG.
TESTED = $(if $(PKG),$(wildcard services/$(PKG) $(filter operator crds images,$(PKG))),operator services crds images test)
FIND_TESTS = find $(TESTED) -not -path '*/node_modules/*' -name '*.test.ts'
# In reverse, so that the tests of test/, which take longest, begin first.
FAST_TESTS = $(FIND_TESTS) -not -name '*.slow.test.ts' | sort -r
SLOW_TESTS = $(FIND_TESTS) -name '*.slow.test.ts' | sort -r
# Tests have their temporary folders in /dev/shm if it has 4 GB free and allows programs to run. On a disk, databases take
# more time to create and sync their folders than the tests take.
ROOMY = [ -w /dev/shm ] && [ "$$(df -Pk /dev/shm | awk 'END {print $$4}')" -gt 4194304 ] && \
  ! grep -q ' /dev/shm .*noexec' /proc/mounts
# Mode 711, so that PostgreSQL, which runs as another account, can enter the folder.
IN_MEMORY = if $(ROOMY); then \
  export TMPDIR=$$(mktemp -d /dev/shm/tollway-tests-XXXXXX); chmod 711 "$$TMPDIR"; trap 'rm -rf "$$TMPDIR"' EXIT; fi
# Tests start the programs of Tollway from bundles, as images contain them.
BUNDLED := out/programs
IN_TESTS = NODE_COMPILE_CACHE="$$PWD/out/compile-cache" TOLLWAY_PROGRAMS=$(BUNDLED)
TEST := $(NODE) --import ./test/support/end-hung-file.ts --test

.DEFAULT_GOAL := help
.PHONY: help install run cluster-install test test-slow check golden generate bench faults stream-faults simulate chaos images \
  pictures e2e soak clean

help: ## List the targets
	@echo 'Tollway: rate limits, streams and merchants as custom resources'
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(INSTALLED) ## Install the exact dependencies of the lockfile, without running their scripts

$(INSTALLED): package-lock.json package.json
	@npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
	@# npm 9, that of Debian 12, does not link this program.
	@cd node_modules/.bin && { [ -e node ] || ln -s ../node-*/bin/node node; }
	@touch $@

run: install ## Run everything on this machine with examples/quickstart (ARGS='--replicas 3')
	@exec node_modules/.bin/tollway run -f examples/quickstart $(ARGS)

cluster-install: install ## Make the images and install Tollway in the cluster of kubectl's context (ARGS=--help)
	@exec $(NODE) charts/cluster-install.ts $(ARGS)

test: install check ## Run the tests that need no cluster, without test-slow; reports missing programs (PKG=ratelimit)
	@[ -n "$(TESTED)" ] || { echo "PKG=$(PKG) is not one of $$(ls services | xargs) operator crds images" >&2; exit 2; }
	@$(NODE) test/support/bundle-programs.ts $(BUNDLED)
	@$(IN_MEMORY); \
	  $(IN_TESTS) $(TEST) --test-concurrency=4 --test-timeout=120000 $$($(FAST_TESTS))

test-slow: install ## Run *.slow.test.ts: browsers, faults, floods, versions, the reference (PKG=broker)
	@$(NODE) test/support/bundle-programs.ts $(BUNDLED)
	@$(IN_MEMORY); \
	  $(IN_TESTS) $(TEST) --test-concurrency=4 --test-timeout=120000 $$($(SLOW_TESTS))

check: install ## Types, style, generated files
	@$(NODE) node_modules/.bin/tsc --noEmit
	@$(NODE) node_modules/.bin/tsc --noEmit -p operator/console/browser
	@node_modules/.bin/biome ci --error-on-warnings .
	@$(NODE) crds/generate.ts --check
	@$(NODE) charts/generate.ts --check
	@$(NODE) docs/generate.ts --check

golden: install ## Rewrite the golden files with the output of the code; review the diff
	@GOLDEN=write $(NODE) --test 'operator/kinds/*/*.test.ts' 'operator/workloads/**/*.test.ts' \
	  'operator/environments/kubernetes/infrastructure/objects/*.test.ts' test/charts/chart.test.ts test/gitops/argo-cd-health.test.ts

generate: install ## Regenerate the code of proto/, the manifests of crds/ and the tables of docs/
	@cd proto && PATH="$$PWD/../node_modules/.bin:$$PATH" buf generate
	@$(NODE) crds/generate.ts
	@$(NODE) charts/generate.ts
	@$(NODE) docs/generate.ts

bench: install ## Measure against yardsticks; prints tables (ARGS='--short', ARGS='hot-key envoy')
	@exec $(NODE) test/bench/bench.ts $(ARGS)

faults: install ## Inject real faults while the service is under load; prints tables (ARGS='--short')
	@exec $(NODE) test/faults/faults.ts $(ARGS)

stream-faults: install ## Inject faults while streams run; prints a table, in 15 minutes (ARGS='--short', ARGS='killed joins')
	@exec $(NODE) test/stream-faults/stream-faults.ts $(ARGS)

simulate: install ## Run random scenarios in virtual time (SEEDS=9000 or SECONDS=60, JOBS=2 WORLD=feed; SEED=7 replays; DEFECT=all)
	@exec $(NODE) test/simulation/simulate.ts $(if $(SEEDS),--seeds $(SEEDS)) $(if $(SECONDS),--seconds $(SECONDS)) \
	  $(if $(FROM),--from $(FROM)) $(if $(JOBS),--jobs $(JOBS)) $(if $(WORLD),--world $(WORLD)) $(if $(SEED),--seed $(SEED)) \
	  $(if $(DEFECT),--defect $(DEFECT)) $(ARGS)

chaos: install ## A minute of faults for payments, 1,000 histories of one transaction, 20,000 fuzzed requests
	@$(NODE) test/support/bundle-programs.ts $(BUNDLED)
	@$(IN_MEMORY); \
	  $(IN_TESTS) CHAOS_SECONDS=$${CHAOS_SECONDS:-60} HISTORIES=$${HISTORIES:-1000} \
	  HISTORY_WORKERS=$${HISTORY_WORKERS:-10} FUZZED_REQUESTS=$${FUZZED_REQUESTS:-20000} $(TEST) \
	  --test-concurrency=4 --test-name-pattern='answers get lost|calls with one key|histories of|no request of' \
	  test/payments/chaos.slow.test.ts services/payments/storage/engine/postgres.test.ts services/payments/http/http.test.ts

images: install ## Build container images as OCI archives in out/images (ARGS='operator ratelimit')
	@exec $(NODE) images/main.ts $(ARGS)

pictures: install ## Take the pictures of docs/tasks/console.md in Chromium, of an operator with live calls
	@exec $(NODE) test/console/pictures.ts $(ARGS)

e2e: install ## Test in the whole cluster of KUBECONFIG, or in one of kind (ARGS=--help)
	@exec $(NODE) test/e2e/run.ts $(ARGS)

soak: install ## The long forms of the fault and property tests (HOURS=1)
	@$(NODE) test/support/bundle-programs.ts $(BUNDLED)
	@$(IN_TESTS) SOAK=1 FC_RUNS=$${FC_RUNS:-100000} TRACES=$${TRACES:-1000000} MATCH_PAIRS=$${MATCH_PAIRS:-1000000} \
	  ROUNDS=$${ROUNDS:-1000} HOURS=$${HOURS:-1} $(TEST) --test-concurrency=1 $$($(FAST_TESTS)) $$($(SLOW_TESTS))

clean: ## Remove build results and the state of `make run`
	@rm -rf node_modules out .tollway
