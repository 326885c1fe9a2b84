# Lehr. "make help" lists what there is.
SHELL := bash
GO ?= go
BIN := bin
# Plugins, renderers and checking programs, and what tests run, with heavy libraries are modules of their own.
MODULES := plugins/caddy plugins/kubernetes plugins/sqlschema plugins/terraform renderers checkers test/oidcprovider test/controlplane test/helm test/opentofu

# A package that is compiled in one checkout serves all others: without it, Go compiles
# each package anew in each folder. And no program tells where it was built.
export GOFLAGS := $(filter-out -trimpath,$(GOFLAGS)) -trimpath

# Programs are static: they start sooner, run on any Linux, and packages that some of them must have without C
# are not compiled a second time with it.
export CGO_ENABLED ?= 0

# Configuration that others wrote for real use, where it lies beside the project:
# what reads it is skipped where it does not.
export LEHR_CORPUS ?= $(wildcard $(abspath ../shared/corpus))
# Small inputs that went wrong for strangers, likewise.
export LEHR_CASES ?= $(wildcard $(abspath ../shared/cases))

.DEFAULT_GOAL := help

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | column -t -s "$$(printf '\t')"

# What is built, each by "go build" in its own folder: a program that is as its sources
# are is not built again. The demo needs the first of them.
DEMO_PROGRAMS := lehr lehr-process lehr-caddy lehr-sqlschema releases/v1/frontend releases/v2/frontend releases/v3/frontend releases/v4/frontend
PROGRAMS := $(DEMO_PROGRAMS) lehr-secrets lehr-command lehr-task lehr-http lehr-workflow lehr-terraform lehr-kustomize lehr-helm \
	lehr-kubernetes-objects lehr-prometheus-rules lehr-sql-syntax lehr-terraform-types

$(BIN)/lehr: build-program = cmd/lehr
$(BIN)/lehr-secrets: build-program = cmd/lehr-secrets
$(BIN)/lehr-process: build-program = plugins/process
$(BIN)/lehr-command: build-program = plugins/command
$(BIN)/lehr-task: build-program = plugins/task
$(BIN)/lehr-http: build-program = plugins/http
$(BIN)/lehr-workflow: build-program = plugins/workflow
$(BIN)/lehr-caddy: build-program = plugins/caddy -ldflags '-s -w'
$(BIN)/lehr-sqlschema: build-program = plugins/sqlschema -ldflags '-s -w'
$(BIN)/lehr-terraform: build-program = plugins/terraform -ldflags '-s -w'
$(BIN)/lehr-kubernetes: build-program = plugins/kubernetes -ldflags '-s -w'
$(BIN)/lehr-kustomize: build-program = renderers/kustomize -ldflags '-s -w'
$(BIN)/lehr-helm: build-program = renderers/helm -ldflags '-s -w'
$(BIN)/lehr-kubernetes-objects: build-program = checkers/kubernetesobjects -ldflags '-s -w'
$(BIN)/lehr-prometheus-rules: build-program = checkers/prometheusrules -ldflags '-s -w'
$(BIN)/lehr-terraform-types: build-program = checkers/terraformtypes -ldflags '-s -w'
# Nothing of this machine is in their sandbox.
$(BIN)/lehr-kustomize $(BIN)/lehr-helm $(BIN)/lehr-kubernetes-objects $(BIN)/lehr-prometheus-rules $(BIN)/lehr-terraform-types: export CGO_ENABLED = 0
# PostgreSQL's grammar is C: without a compiler for it, the program says that it cannot check that.
C_COMPILER := $(firstword $(shell command -v gcc cc))
$(BIN)/lehr-sql-syntax: build-program = checkers/sqlsyntax -tags netgo,osusergo -ldflags '-s -w$(if $(C_COMPILER), -linkmode external -extldflags -static)'
$(BIN)/lehr-sql-syntax: export CGO_ENABLED = $(if $(C_COMPILER),1,0)
$(BIN)/releases/v1/frontend: build-program = examples/shakespeare/frontend -ldflags '-X main.version=v1'
$(BIN)/releases/v2/frontend: build-program = examples/shakespeare/frontend -ldflags '-X main.version=v2'
$(BIN)/releases/v3/frontend: build-program = examples/shakespeare/frontend -ldflags '-X main.version=v3 -X main.recordsCluster=yes'
# A release that loses a fifth of its searches, for canaries to find.
$(BIN)/releases/v4/frontend: build-program = examples/shakespeare/frontend -ldflags '-X main.version=v4 -X main.fails=0.2'

# Go knows what has changed, make does not.
.PHONY: $(PROGRAMS:%=$(BIN)/%) $(BIN)/lehr-kubernetes
$(PROGRAMS:%=$(BIN)/%) $(BIN)/lehr-kubernetes:
	@GO='$(GO)' scripts/build-program $@ $(build-program)

.PHONY: build
build: $(PROGRAMS:%=$(BIN)/%) ## build lehr, its plugins, renderers, checking programs and the example service into bin/

.PHONY: kubernetes
kubernetes: $(BIN)/lehr-kubernetes ## build lehr-kubernetes, whose libraries take minutes to compile, into bin/

.PHONY: demo
demo: ## run the Shakespeare service until Ctrl-C (DEMO=--exit plays its story and ends)
	@echo 'building what the demo runs: $(DEMO_PROGRAMS) (a few minutes, the first time)'
	@$(MAKE) --no-print-directory $(DEMO_PROGRAMS:%=$(BIN)/%)
	@$(BIN)/lehr demo $(DEMO)

.PHONY: pictures
pictures: build ## make the pictures of the README and the docs from the demo, in a real Chromium
	@LEHR_PICTURES='$(abspath docs/pictures)' $(GO) test -count=1 ./internal/web -run '^TestPictures$$'

.PHONY: test
test: tools ## all that CI runs, in stages
	@MODULES='$(MODULES)' $(GO) run ./tools/stages $(if $(ONLY),-only $(ONLY))

.PHONY: test-cost
test-cost: ## what each stage of the last test cost, beside the docs (WRITE=1 writes it there)
	@$(GO) run ./tools/stages $(if $(WRITE),-write,-show)

# The tests of PKG, whose names match RUN, N times.
N ?= 20
PKG ?= ./internal/ground/loop

.PHONY: flaky
flaky: ## run the tests of one package N=20 times under load, and print the share that failed (PKG=./internal/ground/loop RUN=Test)
	@scripts/flaky $(N) $(PKG) $(RUN)

.PHONY: tools
tools: ## install what tests start beside Lehr (as root, on Debian)
	@scripts/install-test-tools

# Not what starts real programs: in short it skips all, and would be linked for nothing.
FAST = $$($(GO) list ./... | grep -v -E '^lehr.dev/(internal/demo|test/(bench|crash|faults|login|monitoring|nemesis|rollouts|watching))(/|$$)')

.PHONY: test-fast
test-fast: ## the quick tests, of what changed; they need neither root nor the network
	@# Vetted by lint; without symbols for debuggers, for there are a hundred programs to link.
	@# More at once than there are cores: many wait for timers and processes.
	@# Compilers and tests collect less garbage, as in the stages of make test.
	GOGC=400 $(GO) test -short -vet=off -ldflags='-s -w' -p 4 -parallel 8 $(FAST)

# What runs goroutines side by side. "make race" runs all others, too.
CONCURRENT := ./internal/ground/loop ./internal/annealing/... ./internal/pluginhost/... ./internal/store/... ./internal/server ./internal/notify ./internal/app \
	./internal/prodspec $(addprefix ./internal/prodspec/,definition generate inquiry query source source/fetch validate) \
	$(addprefix ./sdk/,client keeper pace plugintest/conformance plugintest/testbed secret secret/resolver secret/secretpipe serve subprocess)
# The memory of SQLite is not Go's, so that the detector sees no race in it: not to look at
# each access halves what tests of the store take.
RACE := -race -gcflags=modernc.org/sqlite/lib=-race=false

# It has no part in make test: to compile it the first time takes minutes.
.PHONY: opentofu
opentofu: ## run the tests of root modules on OpenTofu, compiled once (RUN=Test…)
	@cd plugins/terraform && engine=$$(../../scripts/keep-tool $(abspath test/opentofu) github.com/opentofu/opentofu/cmd/tofu -ldflags '-s -w -X github.com/opentofu/opentofu/version.dev=no') \
		&& LEHR_TERRAFORM="$$engine" $(GO) test ./modules -count=1 -timeout 45m $(if $(RUN),-run $(RUN))

.PHONY: race
race: tools ## run all tests, and the programs that they start, under the race detector (PACKAGES=…); takes hours
	@CGO_ENABLED=1 LEHR_RACE='$(RACE)' scripts/race $(or $(PACKAGES),./... $(MODULES))

.PHONY: race-short
race-short: ## run the quick tests of what has goroutines under the race detector
	@# Without symbols for debuggers, as test-fast.
	CGO_ENABLED=1 $(GO) test -short $(RACE) -vet=off -ldflags=-w -timeout 80m $(CONCURRENT)

.PHONY: bench
bench: build ## measure speed and memory beside what the machine can do, all or ONLY=… of it: "name value unit" a line
	@$(GO) build -o $(BIN)/bench ./test/bench
	@$(GO) build -o $(BIN)/lehr-null ./sdk/plugintest/nullplugin
	@CGO_ENABLED=0 $(GO) build -ldflags '-s -w' -o $(BIN)/rates ./test/bench/rates
	@GOOS=wasip1 GOARCH=wasm $(GO) build -ldflags '-s -w' -o $(BIN)/rates.wasm ./test/bench/rates
	@cd renderers && CGO_ENABLED=0 $(GO) build -ldflags '-s -w' -o $(abspath $(BIN))/render-alone ./alone
	@[ "$(ONLY)" = page ] || $(BIN)/bench $(if $(ONLY),-only $(ONLY))
	@# Pages as a browser gets them, beside 100 000 assets in one partition and in 500.
	@if [ -z "$(ONLY)" ] || [ "$(ONLY)" = page ]; then $(GO) test ./internal/web -run '^$$' -bench 'Pages|Fleet|Paint|Live' -benchtime 50x -timeout 30m; fi
	@# In the module that has the API server.
	@if [ -z "$(ONLY)" ] || [ "$(ONLY)" = kubernetes ]; then cd plugins/kubernetes && $(GO) test . -run '^$$' -bench ThousandObjects -benchtime 1x -timeout 30m; fi

.PHONY: calibrate
calibrate: ## measure how often the judge is wrong, in all of its grid, and write docs/design/judge-calibration.md; minutes (SAMPLES=12000 of each cell)
	$(GO) test ./internal/ground/judge -run TestCalibration -count=1 -v -timeout 0 -whole $(if $(SAMPLES),-grid-samples $(SAMPLES))

# HOURS of virtual time in all, from SEED on (default: by the clock), WORKERS
# at a time (default: one a core).
HOURS ?= 100

.PHONY: sim
sim: ## simulate faults for HOURS=… of virtual time (SEED=… WORKERS=…); Ctrl-C ends it with the report
	@mkdir -p $(BIN)
	@$(GO) build -o $(BIN)/lehr ./cmd/lehr
	@$(BIN)/lehr sim --total-hours $(HOURS) $(if $(SEED),--seed $(SEED)) $(if $(WORKERS),--workers $(WORKERS))

.PHONY: sim-cover
sim-cover: ## choose anew the seeds with which the campaign of make test begins (RUNS=600 to choose among; take it where situations are new)
	$(GO) run ./internal/sim/campaign/choose -runs $(or $(RUNS),600) $(if $(WORKERS),-workers $(WORKERS))

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
	$(GO) run ./internal/sim/mutation/hunt -budget $(HOURS) -workers $(or $(WORKERS),2) -known -write internal/sim/mutation/known.json || missed=1; \
	$(GO) run ./internal/sim/mutation/hunt -budget $(HOURS) -defences -write internal/sim/mutation/defences.json || missed=1; \
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
