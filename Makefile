# gwanmun. `make help` says what there is.
#
# `make demo` and `make test` need Go, make and git. A C compiler adds the race
# detector, PostgreSQL adds its tests; where one is missing that is said aloud.

GO       ?= go
BIN      := bin
VERSION  := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS  := -s -w -X github.com/gwanmun/gwanmun/pkg/telemetry.version=$(VERSION)
SERVICES := payment corebank reconciler demo
MODULES  := proto pkg services bench
REPORT   := $(CURDIR)/.cache/conformance.txt

# Real processes, and many of them: they are tested when nothing else is.
ALONE    := -e gwanmun/services/integration$$ -e gwanmun/services/operations$$

# The race detector needs cgo, cgo needs a C compiler.
CC_FOUND := $(shell command -v $${CC:-cc} 2>/dev/null || command -v gcc 2>/dev/null)
ifeq ($(CC_FOUND),)
RACE     :=
RACE_SAY := no C compiler: the tests run WITHOUT the race detector
else
RACE     := -race
RACE_SAY := the tests run with the race detector
endif

.PHONY: help
help: ## Say what there is
	@echo "gwanmun: the gate between gRPC callers and a core-banking host"
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo
	@echo "Start with 'make demo'. README.md tells what it plays."

.PHONY: build
build: ## Build bin/payment, bin/corebank, bin/reconciler and bin/demo
	@mkdir -p $(BIN)
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $(BIN)/ $(addprefix ./services/,$(SERVICES))

.PHONY: demo
demo: build ## Play the story against the three real binaries and check it
	$(BIN)/demo --bin $(BIN) $(DEMO_FLAGS)

.PHONY: readme
readme: build ## Play the story and write it into README.md
	$(BIN)/demo --bin $(BIN) --readme README.md --write

.PHONY: operations-doc
operations-doc: $(BIN)/grpcurl ## Execute the lines of docs/operations.md and write what they show into it
	$(GO) test -count=1 ./services/operations -run TestOperations_ -write-page

.PHONY: up
up: build ## Run the three on their fixed ports until Ctrl-C
	$(BIN)/demo --bin $(BIN) --up

.PHONY: test
test: ## Run every test that a contributor must see pass
	@echo "$(RACE_SAY)"
	@mkdir -p $(dir $(REPORT)) && rm -f $(REPORT)
	GWANMUN_CONFORMANCE_REPORT=$(REPORT) $(GO) test $(RACE) -count=1 -timeout 15m $$($(GO) list work | grep -v $(ALONE))
	$(GO) test $(RACE) -count=1 -timeout 15m -p 1 ./services/integration ./services/operations
	cd tools/plugins && GOWORK=off $(GO) test -count=1 ./...
	@echo "the conformance suite of the ledger ran over:"
	@sort -u $(REPORT)

.PHONY: chaos
chaos: ## Kill, pause and restart services, core and database under load, ten minutes on PostgreSQL and five on SQLite (CHAOS_FLAGS='-chaos.for=1h -chaos.on=postgresql -chaos.seed=7')
	$(GO) test $(RACE) -count=1 -timeout 0 -v -run '^TestChaos$$' ./services/integration -chaos.for=10m $(CHAOS_FLAGS)

.PHONY: bench
bench: build ## Compare the payment service with a naive one and a bare bridge (BENCH_FLAGS='--only payment')
	@mkdir -p $(BIN)/bench
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $(BIN)/bench/ ./bench/naive ./bench/bridge ./bench/load
	$(BIN)/bench/load --bin $(BIN) --reference $(BIN)/bench $(BENCH_FLAGS)

.PHONY: bench-ledger
bench-ledger: ## Run the benchmarks of the ledger on its databases (BENCH_FLAGS='-benchtime 5s')
	GWANMUN_TEST_PG_DURABLE=1 $(GO) test -run '^$$' -bench . $(BENCH_FLAGS) ./pkg/ledger/gormstore

.PHONY: bench-telegrams
bench-telegrams: ## Run the benchmarks of the codec
	$(GO) test -run '^$$' -bench . -benchmem $(BENCH_FLAGS) ./pkg/telegram/... ./pkg/frame/...

.PHONY: bench-resolve
bench-resolve: build ## Measure how fast a backlog of UNKNOWN payments drains (BENCH_FLAGS='--only sqlite')
	$(GO) run ./bench/resolve --reconciler $(BIN)/reconciler --corebank $(BIN)/corebank $(BENCH_FLAGS)

.PHONY: bench-settlement
bench-settlement: ## Measure settlement: a million generated rows and their memory, and real ledgers (GWANMUN_BENCH_ROWS=10000000)
	$(GO) test -run '^$$' -bench . -benchtime 1x ./services/reconciler/settlement
	GWANMUN_TEST_PG_DURABLE=1 $(GO) test -run '^$$' -bench . -benchtime 3x ./services/reconciler/settlement/database

.PHONY: bench-link
bench-link: ## Measure what the way to the core costs, against bare sockets
	$(GO) run ./bench/link $(BENCH_FLAGS)

.PHONY: bench-memory
bench-memory: ## Measure what idle services, idle connections and 10,000 calls in flight cost, beside a bare gRPC server
	$(GO) test -count=1 -v -run '^(TestIdle_|TestConnections_Idle|TestMemory_)' ./services/hardening

.PHONY: ledger-size
ledger-size: ## Measure what a payment takes in a PostgreSQL ledger (PAYMENTS=200000)
	GWANMUN_TEST_PG_DURABLE=1 GWANMUN_LEDGER_SIZE=$(or $(PAYMENTS),200000) $(GO) test -count=1 -timeout 30m -v -run '^TestSize_' ./pkg/ledger/gormstore

.PHONY: jaeger-check
jaeger-check: $(BIN)/jaeger ## Build the real Jaeger (minutes) and read a payment's trace back through its API
	GWANMUN_JAEGER=$(CURDIR)/$(BIN)/jaeger $(GO) test -count=1 -v -run '^TestJaeger_' ./services/integration

.PHONY: mutants
mutants: ## Take the guards away one at a time: a test must notice each (MUTANTS_FLAGS='-only echo')
	cd tools/mutants && GOWORK=off $(GO) test -count=1 . && GOWORK=off $(GO) run . $(MUTANTS_FLAGS)

.PHONY: sim
sim: ## Play simulated bank days with everything dying, on all processors (SEEDS=10000 FROM=1)
	@mkdir -p .cache
	$(GO) test -c -o .cache/simulation.test ./services/simulation
	@n=$$(getconf _NPROCESSORS_ONLN); each=$$(( ($(or $(SEEDS),10000) + n - 1) / n )); pids=; failed=0; \
	  for i in $$(seq 0 $$((n - 1))); do \
	    .cache/simulation.test -test.run '^TestSeeds$$' -test.timeout 0 -seeds $$each -from $$(( $(or $(FROM),1) + i * each )) & pids="$$pids $$!"; \
	  done; \
	  for pid in $$pids; do wait $$pid || failed=1; done; exit $$failed

.PHONY: fuzz
fuzz: ## Fuzz each parser and the rpc surface for ten seconds each (FUZZTIME=1m)
	@for pkg in $$(grep -rl --include='*_test.go' '^func Fuzz' pkg services | xargs -n1 dirname | sort -u); do \
	  for f in $$(grep -h '^func Fuzz' $$pkg/*_test.go | sed 's/func \(Fuzz[A-Za-z0-9_]*\).*/\1/'); do \
	    echo "$$pkg $$f"; (cd $$pkg && $(GO) test -run '^$$' -fuzz "^$$f$$" -fuzztime $(or $(FUZZTIME),10s) .) || exit 1; \
	  done; \
	done

.PHONY: tools
tools: $(BIN)/buf $(BIN)/protoc-gen-telegram $(BIN)/golangci-lint $(BIN)/grpcurl ## Build the development tools into bin/

$(BIN)/buf: tools/buf/go.mod
	GOWORK=off $(GO) build -C tools/buf -o ../../$(BIN)/ tool

$(BIN)/protoc-gen-telegram: tools/plugins/go.mod $(wildcard tools/plugins/protoc-gen-telegram/*.go)
	GOWORK=off $(GO) build -C tools/plugins -o ../../$(BIN)/ tool

$(BIN)/golangci-lint: tools/lint/go.mod
	GOWORK=off $(GO) build -C tools/lint -o ../../$(BIN)/ tool

$(BIN)/grpcurl: tools/rpc/go.mod
	GOWORK=off $(GO) build -C tools/rpc -o ../../$(BIN)/ tool

$(BIN)/jaeger: tools/jaeger/go.mod
	GOWORK=off $(GO) build -C tools/jaeger -o ../../$(BIN)/ tool

$(BIN)/govulncheck: tools/vuln/go.mod
	GOWORK=off $(GO) build -C tools/vuln -o ../../$(BIN)/ tool

.PHONY: generate
generate: $(BIN)/buf $(BIN)/protoc-gen-telegram ## Generate stubs, telegrams and the telegram reference
	$(BIN)/buf generate
	$(BIN)/buf generate --template buf.gen.telegram.yaml

.PHONY: generated
generated: generate ## Fail if generated code is not what the contracts say
	git diff --exit-code -- proto/gen pkg/telegram/gen docs/telegram
	@test -z "$$(git status --porcelain -- proto/gen pkg/telegram/gen docs/telegram)" || \
	  { git status --porcelain -- proto/gen pkg/telegram/gen docs/telegram; exit 1; }

.PHONY: lint
lint: $(BIN)/golangci-lint $(BIN)/buf ## Lint Go and contracts
	$(BIN)/golangci-lint run $(addsuffix /...,$(addprefix ./,$(MODULES)))
	@test -z "$$($(BIN)/gofumpt -l $(MODULES) | grep -v /gen/)" || { $(BIN)/gofumpt -l $(MODULES) | grep -v /gen/; exit 1; }
	$(BIN)/buf lint
	$(BIN)/buf format --diff --exit-code

.PHONY: breaking
breaking: $(BIN)/buf ## Fail if the contracts break callers of the commit before or of the latest tag
	@git rev-parse --verify -q HEAD~1 >/dev/null || { echo "no history to compare the contracts with"; exit 1; }
	$(BIN)/buf breaking --against '.git#ref=HEAD~1'
	@tag=$$(git describe --tags --abbrev=0 2>/dev/null); \
	  if [ -n "$$tag" ]; then $(BIN)/buf breaking --against ".git#tag=$$tag"; else echo "no tag yet: compared with HEAD~1 alone"; fi

.PHONY: deployment
deployment: ## Hold docker-compose.yml and deploy/ against the binaries and the libraries of their readers
	cd tools/deploy && GOWORK=off $(GO) test -count=1 ./...

.PHONY: vulnerabilities
vulnerabilities: $(BIN)/govulncheck ## Ask the Go vulnerability database about each module (advice: it fails nothing, and needs vuln.go.dev)
	@for m in $(MODULES); do \
	  echo "$$m"; (cd $$m && timeout 300 $(CURDIR)/$(BIN)/govulncheck ./...) || echo "advice: look at what is above; or the database could not be asked"; \
	done

.PHONY: modules
modules: ## Build each module by itself, without the workspace
	for m in $(MODULES); do (cd $$m && GOWORK=off $(GO) build ./... && GOWORK=off $(GO) vet ./...) || exit 1; done

.PHONY: clean
clean: ## Remove what was built and what make demo and make up left
	rm -rf $(BIN) .cache var
