# Every verb of this repository; `make help` lists them.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
CARGO ?= cargo
CRATES := sandbox-api sandbox-core sandbox-controller sandbox-server crd-gen task-executor sandbox-e2e sandbox-cluster sandbox-e2e-execd sandbox-images
CLUSTER := target/debug/sandbox-cluster

# One line before each long step, so that nobody wonders what is going on.
say := @printf '\n\033[1m== %s\033[0m\n'

.PHONY: help
help: ## This list
	@awk -F ':.*## ' '/^[a-z][a-z-]*:.*## /{printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

## The two commands -----------------------------------------------------------------------------------------------------

.PHONY: demo
demo: setup ## From a fresh machine to a running sandbox: cluster, operator, server, two sandboxes, their end
	$(say) 'building the operator, the server and what runs in the cluster'
	$(CARGO) build -p sandbox-controller -p sandbox-server -p sandbox-cluster -p sandbox-images -p sandbox-e2e
	target/debug/sandbox-demo

.PHONY: test
test: check test-api test-node ## What CI runs: check, the tests on a real API server, the main scenarios on a whole node

## Tiers ----------------------------------------------------------------------------------------------------------------

.PHONY: check
check: fmt rooms crds-check unit ## The inner loop: format, walls and lints, CRD drift, unit tests (a minute warm)

.PHONY: unit
unit: ## Unit and property tests; no cluster
	$(say) 'unit tests'
	$(CARGO) test --quiet -p sandbox-api -p sandbox-core -p sandbox-server -p crd-gen -p task-executor -p sandbox-e2e-execd -p sandbox-images
	$(CARGO) test --quiet -p sandbox-controller -p sandbox-cluster --lib --bins

.PHONY: test-api
test-api: setup bins ## Tests of controller, server and kinds on a real kube-apiserver
	$(say) 'building the control plane (cached)'
	$(CLUSTER) build etcd kube-apiserver kube-controller-manager
	$(say) 'tests on the real API server'
	$(CARGO) test -p sandbox-cluster -p sandbox-controller -p sandbox-e2e --features sandbox-controller/plane --tests -- --test-threads=2

.PHONY: test-node
test-node: e2e ## The main scenarios on a whole node

.PHONY: e2e
e2e: setup bins ## Scenarios on a whole node (kubelet, containerd, registry); T=filter runs some of them
	$(say) 'bringing the whole node up'
	$(CLUSTER) up
	target/debug/sandbox-images build-and-push
	$(CARGO) test -p sandbox-e2e --features node --test node -- --test-threads=1 $(T)

.PHONY: proof
proof: test ## Everything; run before calling anything done

## Parts ----------------------------------------------------------------------------------------------------------------

.PHONY: fmt
fmt: ## Check the format of the code
	$(CARGO) fmt --all --check

.PHONY: rooms
rooms: ## The walls between the crates, each crate linted alone
	$(say) 'rooms: every crate alone'
	CARGO="$(CARGO)" .ci/rooms $(CRATES)

.PHONY: crds
crds: ## Write the CRDs into config/ and charts/
	$(CARGO) run --quiet -p crd-gen -- --write

.PHONY: crds-check
crds-check: ## Fail if the written CRDs are not those of the types
	$(CARGO) run --quiet -p crd-gen -- --check

.PHONY: bins
bins:
	$(say) 'building the programs'
	$(CARGO) build -p sandbox-controller -p sandbox-server -p sandbox-cluster -p sandbox-images -p sandbox-e2e

.PHONY: setup
setup: ## Install what is missing on this machine (Debian packages; needs root)
	$(CARGO) build --quiet -p sandbox-cluster
	$(CLUSTER) setup

.PHONY: cluster
cluster: setup bins ## Bring up a whole Kubernetes node here, with the images of the tests
	$(CLUSTER) up
	target/debug/sandbox-images build-and-push

.PHONY: cluster-down
cluster-down: ## Take it down; leaves nothing behind
	$(CARGO) build --quiet -p sandbox-cluster
	$(CLUSTER) down

.PHONY: kubectl
kubectl: ## kubectl against it: make kubectl ARGS='get pools -A'
	@$(CLUSTER) kubectl -- $(ARGS)
