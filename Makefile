# Lehr. "make help" lists what there is.
SHELL := bash
GO ?= go
BIN := bin
# Plugins and renderers, and what tests run, with heavy libraries are modules of their own.
MODULES := plugins/caddy plugins/sqlschema renderers test/oidcprovider test/controlplane

# Configuration that others wrote for real use, where it lies beside the project:
# what reads it is skipped where it does not.
export LEHR_CORPUS ?= $(wildcard $(abspath ../shared/corpus))

.DEFAULT_GOAL := help

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | column -t -s "$$(printf '\t')"

.PHONY: build
build: ## build lehr, its plugins, renderers and the example service into bin/
	@mkdir -p $(BIN)/releases/v1 $(BIN)/releases/v2 $(BIN)/releases/v3
	$(GO) build -o $(BIN)/lehr ./cmd/lehr
	$(GO) build -o $(BIN)/lehr-process ./plugins/process
	$(GO) build -o $(BIN)/lehr-command ./plugins/command
	cd plugins/caddy && $(GO) build -ldflags '-s -w' -o $(abspath $(BIN))/lehr-caddy .
	cd plugins/sqlschema && $(GO) build -ldflags '-s -w' -o $(abspath $(BIN))/lehr-sqlschema .
	@# Static: nothing of this machine is in their sandbox.
	cd renderers && CGO_ENABLED=0 $(GO) build -ldflags '-s -w' -o $(abspath $(BIN))/lehr-kustomize ./kustomize
	cd renderers && CGO_ENABLED=0 $(GO) build -ldflags '-s -w' -o $(abspath $(BIN))/lehr-helm ./helm
	$(GO) build -ldflags '-X main.version=v1' -o $(BIN)/releases/v1/frontend ./examples/shakespeare/frontend
	$(GO) build -ldflags '-X main.version=v2' -o $(BIN)/releases/v2/frontend ./examples/shakespeare/frontend
	$(GO) build -ldflags '-X main.version=v3 -X main.recordsCluster=yes' -o $(BIN)/releases/v3/frontend ./examples/shakespeare/frontend

.PHONY: demo
demo: build ## run the Shakespeare service until Ctrl-C (DEMO=--exit plays its story and ends)
	@$(BIN)/lehr demo $(DEMO)

.PHONY: test
test: tools lint build ## all that CI runs
	@# -count=1: some tests build and run the programs, which the cache of test
	@# results does not see.
	$(GO) test -count=1 -timeout 20m ./...
	set -e; for module in $(MODULES); do (cd $$module && $(GO) test -count=1 -timeout 20m ./...); done
	scripts/check-generated
	$(BIN)/lehr demo --exit
	@# 5000 simulated hours, which must meet every situation that is required.
	$(BIN)/lehr sim --seed 1 --total-hours 5000 --hours 8 --density 4 --complete
	@# And 60 hours of three replicas that share a store.
	$(BIN)/lehr sim --seed 1 --total-hours 60 --replicas 3 --hours 2 --density 60
	@# And two minutes of three real ones, with nothing beside them.
	$(MAKE) nemesis MINUTES=2 SEED=1

.PHONY: tools
tools: ## install what tests start beside Lehr (as root, on Debian)
	@scripts/install-test-tools

.PHONY: test-fast
test-fast: ## the quick tests, of what changed
	@# Without symbols for debuggers, for there are 80 programs to link. More at once
	@# than there are cores: many wait for timers and processes.
	$(GO) test -short -ldflags=-w -p 4 -parallel 8 ./...

.PHONY: bench
bench: build ## measure speed and memory beside what the machine can do, all or ONLY=… of it: "name value unit" a line
	@$(GO) build -o $(BIN)/bench ./bench
	@$(GO) build -o $(BIN)/lehr-null ./plugin/plugintest/nullplugin
	@CGO_ENABLED=0 $(GO) build -ldflags '-s -w' -o $(BIN)/rates ./bench/rates
	@GOOS=wasip1 GOARCH=wasm $(GO) build -ldflags '-s -w' -o $(BIN)/rates.wasm ./bench/rates
	@cd renderers && CGO_ENABLED=0 $(GO) build -ldflags '-s -w' -o $(abspath $(BIN))/render-alone ./alone
	@$(BIN)/bench $(if $(ONLY),-only $(ONLY))

# HOURS of virtual time in all, from SEED on (default: by the clock), WORKERS
# at a time (default: one a core).
HOURS ?= 100

.PHONY: sim
sim: ## simulate faults for HOURS=… of virtual time (SEED=… WORKERS=…); Ctrl-C ends it with the report
	@mkdir -p $(BIN)
	@$(GO) build -o $(BIN)/lehr ./cmd/lehr
	@$(BIN)/lehr sim --total-hours $(HOURS) $(if $(SEED),--seed $(SEED)) $(if $(WORKERS),--workers $(WORKERS))

# MINUTES of faults, by SEED (default: by the clock), of the kinds FAULTS (default: all).
MINUTES ?= 2

.PHONY: nemesis
nemesis: ## break three real replicas and their database for MINUTES=… (SEED=… FAULTS=…), and judge by production
	$(GO) test ./test/nemesis -run TestNemesis -count=1 -v -timeout 0 -minutes $(MINUTES) $(if $(SEED),-seed $(SEED)) $(if $(FAULTS),-faults '$(FAULTS)')

.PHONY: mutants
mutants: HOURS = 1000
mutants: ## switch on each deliberate defect until the simulator tells, then test each defence alone (HOURS=1000 WORKERS=2)
	@# Both, whatever comes of the first.
	@missed=0; \
	$(GO) run ./sim/mutation/hunt -budget $(HOURS) -workers $(or $(WORKERS),2) -known -write sim/mutation/known.json || missed=1; \
	$(GO) run ./sim/mutation/hunt -budget $(HOURS) -defences -write sim/mutation/defences.json || missed=1; \
	exit $$missed

# How many kills and power losses to construct, and the first SEED of what a
# power loss leaves; make test takes 1100.
POINTS ?= 10000

.PHONY: crash
crash: ## kill the embedded store, take its power (at POINTS=… moments, SEED=…) and let its disk fail
	$(GO) test -count=1 -timeout 24h -v ./test/crash -points $(POINTS) $(if $(SEED),-seed $(SEED))

MINUTES ?= 1

.PHONY: fuzz
fuzz: ## fuzz every parser for MINUTES=… each
	@scripts/fuzz $(MINUTES)

.PHONY: lint
lint: ## vet, formatting, import rules
	@test -z "$$(gofmt -l $$(git ls-files '*.go' | grep -v ^gen/))" || { echo "run make fmt: "; gofmt -l $$(git ls-files '*.go' | grep -v ^gen/); exit 1; }
	$(GO) vet ./...
	@set -e; for module in $(MODULES); do (cd $$module && $(GO) vet ./...); done
	$(GO) test .

.PHONY: generate
generate: ## regenerate gen/ from proto/
	$(GO) run ./tools/protogen

.PHONY: fmt
fmt: ## format the Go code
	gofmt -w $$(git ls-files '*.go' | grep -v ^gen/)

.PHONY: clean
clean: ## remove what was built
	rm -rf $(BIN)
