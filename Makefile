# Every verb of this repository; `make help` lists them.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
CARGO ?= cargo
CRATES := sandbox-api sandbox-core sandbox-controller sandbox-server crd-gen task-executor
HARNESS := grant-model sandbox-e2e sandbox-cluster sandbox-e2e-execd sandbox-images
CLUSTER := target/debug/sandbox-cluster

# One selection of packages and features for all builds and tests: another one would compile the same libraries again.
ALL := --workspace --features sandbox-controller/plane,sandbox-e2e/node
# The programs; with a test among them, or they would be built with other features of their libraries than the tests are.
BINS := $(ALL) --bins --test protocol
# Tests by what they need; a new file of tests is named in one of these.
UNIT_TESTS := round_trip claim grant pool model schemas http protocol tasks execd
PLANE_TESTS := plane hands controller faults kinds server
NODE_TESTS := node

# One line before each long step, so that nobody wonders what is going on.
say := @printf '\n\033[1m== %s\033[0m\n'

.PHONY: help
help: ## This list
	@awk -F ':.*## ' '/^[a-z][a-z-]*:.*## /{printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

## The two commands -----------------------------------------------------------------------------------------------------

.PHONY: demo
demo: setup ## From a fresh machine to a running sandbox: cluster, operator, server, two sandboxes, their end
	target/debug/sandbox-demo

.PHONY: test
test: check test-api test-node ## What CI runs: check, the tests on a real API server, the main scenarios on a whole node

## Tiers ----------------------------------------------------------------------------------------------------------------

.PHONY: check
check: fmt tests-named lint rooms crds-check unit ## The inner loop: format, walls and lints, CRD drift, unit tests (a minute warm)

.PHONY: unit
unit: ## Unit and property tests; no cluster
	$(say) 'unit tests'
	$(CARGO) test $(ALL) --quiet --lib --bins $(UNIT_TESTS:%=--test %)
	$(CARGO) test $(ALL) --quiet --doc

.PHONY: test-api
test-api: setup ## Tests of controller, server and kinds on a real kube-apiserver
	$(say) 'building the control plane (cached)'
	$(CLUSTER) build etcd kube-apiserver kube-controller-manager
	$(say) 'tests on the real API server'
	$(CARGO) test $(ALL) $(PLANE_TESTS:%=--test %) -- --test-threads=2

.PHONY: test-node
test-node: e2e ## The main scenarios on a whole node

.PHONY: e2e
e2e: setup ## Scenarios on a whole node (kubelet, containerd, registry); T=filter runs some of them
	$(say) 'bringing the whole node up'
	$(CLUSTER) up
	target/debug/sandbox-images build-and-push
	$(CARGO) test $(ALL) $(NODE_TESTS:%=--test %) -- --test-threads=1 $(T)

.PHONY: chaos
chaos: bins ## Two operators under load and faults, audited: make chaos SEED=1 MINUTES=4
	$(CLUSTER) build etcd kube-apiserver kube-controller-manager
	target/debug/sandbox-chaos --seed $(or $(SEED),1) --minutes $(or $(MINUTES),4)

.PHONY: chaos-red
chaos-red: bins # The same audit of operators whose writes lose their condition on the version: it must report a violation.
	$(CLUSTER) build etcd kube-apiserver kube-controller-manager
	target/debug/sandbox-chaos --seed $(or $(SEED),1) --minutes $(or $(MINUTES),4) --without-versions

.PHONY: model
model: ## The grant protocol's own code, explored exhaustively in small worlds; each rule broken, and caught
	$(say) 'every small world, then every rule left out'
	$(CARGO) build $(ALL) --bin grant-model
	target/debug/grant-model

.PHONY: proof
proof: test ## Everything; run before calling anything done
	$(MAKE) model
	$(say) 'an operator that writes without versions, under faults: the audit must find it out'
	$(MAKE) chaos-red
	$(say) 'writes, reads and requests while idle, as the API server counts'
	$(MAKE) bench-check
	$(say) 'rooms: every crate of the harness alone'
	CARGO="$(CARGO)" .ci/rooms $(HARNESS)
	$(say) 'the walls, breached: each must be noticed'
	CARGO="$(CARGO)" CARGO_TARGET_DIR="$(CURDIR)/target" .ci/rooms-red

.PHONY: bench
bench: setup ## Measure the operator beside a two-write probe: CASE=serial runs one case, RUNS=3 takes medians
	$(say) 'building the operator and the bench, optimized'
	$(CARGO) build --release $(ALL) --bin opensandbox-controller --bin sandbox-bench
	target/release/sandbox-bench $(CASE)

.PHONY: bench-check
bench-check: bins ## What the bench counts (writes, reads, requests while idle), held to its limits
	$(CLUSTER) build etcd kube-apiserver kube-controller-manager
	target/debug/sandbox-bench --check

## Parts ----------------------------------------------------------------------------------------------------------------

.PHONY: fmt
fmt: ## Check the format of the code
	$(CARGO) fmt --all --check

.PHONY: tests-named
tests-named: # A file of tests that no list names would never run.
	@found=$$(find . -path ./target -prune -o -path '*/tests/*.rs' -print -o -path '*/tests/*/main.rs' -print \
		| sed -nE 's#.*/tests/([a-z_]+)(\.rs|/main\.rs)$$#\1#p' | sort); \
	named=$$(printf '%s\n' $(UNIT_TESTS) $(PLANE_TESTS) $(NODE_TESTS) | sort); \
	diff <(echo "$$found") <(echo "$$named") || { echo 'Makefile: name each file of tests in UNIT_TESTS, PLANE_TESTS or NODE_TESTS'; exit 1; }

.PHONY: lint
lint: ## Lints of all crates and all their tests
	$(say) 'lints'
	$(CARGO) clippy $(ALL) --all-targets --quiet -- -D warnings

.PHONY: rooms
rooms: ## The walls between the crates, each crate linted alone
	$(say) 'rooms: every crate alone'
	CARGO="$(CARGO)" .ci/rooms $(CRATES)

.PHONY: crds
crds: bins ## Write the CRDs into config/ and charts/
	target/debug/crd-gen --write

.PHONY: crds-check
crds-check: bins ## Fail if the written CRDs are not those of the types
	target/debug/crd-gen --check

.PHONY: bins
bins: # All programs, for those who run them from target/debug.
	$(say) 'building the programs'
	$(CARGO) build $(BINS)

.PHONY: setup
setup: bins ## Install what is missing on this machine (Debian packages; needs root)
	$(CLUSTER) setup

.PHONY: cluster
cluster: setup ## Bring up a whole Kubernetes node here, with the images of the tests
	$(CLUSTER) up
	target/debug/sandbox-images build-and-push

.PHONY: cluster-down
cluster-down: bins ## Take it down; leaves nothing behind
	$(CLUSTER) down

.PHONY: kubectl
kubectl: ## kubectl against it: make kubectl ARGS='get pools -A'
	@$(CLUSTER) kubectl -- $(ARGS)
