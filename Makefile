# Ingot's build; `make help` lists the targets. Works with GNU make 3.81, which is what macOS ships.

GO ?= go
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)

GOLANGCI_VERSION := v2.15.0
GOLANGCI_DIR := $(CURDIR)/.tools/golangci-lint-$(GOLANGCI_VERSION)
GOLANGCI := $(GOLANGCI_DIR)/golangci-lint

DEMO_MODEL ?= models/tiny-glm.q8_0.gguf
EVAL_MODELS ?= models/tiny-glm.q8_0.gguf models/tiny-llama.q4_0.gguf
DEMO_OUT := dist/demo.jsonl
FUZZTIME ?= 30s
SHARE ?= bin

# TEST is `go test` that lists skipped tests and why; RECORD names a file that the outcomes of several runs go to.
export GO
# Without the path of the checkout in compiled packages, all checkouts on a machine share them.
export GOFLAGS += -trimpath
# The program has no cgo. With one setting for builds, tests, vet and lint, each package is compiled once.
export CGO_ENABLED := 0
# DARWIN precedes commands for Apple silicon. They only check code: compiling without optimisation takes two thirds of the time.
DARWIN := GOOS=darwin GOARCH=arm64 GOFLAGS="$(GOFLAGS) '-gcflags=all=-N -l'"
TEST := $(GO) run ./.ci/test $(if $(RECORD),-record $(RECORD))

.PHONY: build
build: ## build bin/ingot
	$(GO) build -ldflags '-X main.version=$(VERSION)' -o bin/ingot ./cmd/ingot

.PHONY: share
share: build ## write manual pages and shell completions to $SHARE/share (bin)
	@# The date of the pages is the commit's, so that a release can be built again with the same bytes.
	rm -rf $(SHARE)/share
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) bin/ingot share $(SHARE)

.PHONY: snapshot
snapshot: ## build a release's archives in dist without publishing them, and install from them (needs goreleaser; syft for the SBOMs)
	goreleaser check
	goreleaser release --snapshot --clean --skip=docker$$(command -v syft >/dev/null || echo ,sbom)
	INGOT_ARCHIVES=$(CURDIR)/dist $(GO) test -count=1 ./release

.PHONY: demo
demo: build ## answer models/demo.jsonl with the bundled model and show answers and figures
	@mkdir -p $(dir $(DEMO_OUT))
	@rm -f $(DEMO_OUT)
	bin/ingot run models/demo.jsonl -o $(DEMO_OUT) --model $(DEMO_MODEL)
	@bin/ingot show $(DEMO_OUT) --input models/demo.jsonl

.PHONY: eval
eval: build ## evaluate each bundled model twice and a damaged copy of it: the gate passes, then fails; writes reports
	@rm -rf dist/eval && mkdir -p dist/eval && $(GO) build -o dist/eval/damage ./models/damage
	@set -e; show() { echo "$$ $$*"; "$$@"; }; \
	for model in $(EVAL_MODELS); do \
		runs=dist/eval/$$(basename $$model .gguf); damaged=$$runs.damaged.gguf; \
		show dist/eval/damage -bits 2 $$model $$damaged; \
		show bin/ingot eval run models/tasks/*.yaml -o $$runs/baseline --model $$model; \
		show bin/ingot eval run models/tasks/*.yaml -o $$runs/again --model $$model --concurrency 5 --draft off; \
		show bin/ingot eval run models/tasks/*.yaml -o $$runs/damaged --model $$damaged; \
		show bin/ingot eval baseline set bundled baseline --runs $$runs; \
		show bin/ingot eval gate --baseline bundled again --runs $$runs; \
		code=0; show bin/ingot eval gate --baseline bundled damaged --runs $$runs || code=$$?; \
		test $$code = 1 || { echo "the gate ended with code $$code, and the damaged model should fail it with 1"; exit 1; }; \
		show bin/ingot eval report -o $$runs.html --runs $$runs damaged; \
	done

.PHONY: check
check: $(GOLANGCI) ## before a commit: format, vet for Linux and Apple silicon, lint, and run the fast tests
	$(GOLANGCI) fmt
	$(GO) vet ./... ./.ci/test
	$(DARWIN) $(GO) vet ./...
	$(GOLANGCI) run ./... ./.ci/test
	@# Compiling GPU kernels for the processor takes minutes: `make test` does.
	$(TEST) -skip 'Emulator|Geometry' $$($(GO) list ./... | grep -Ev '/(metal|metal/apple|bench/kernels|bench/roofline)$$') ./.ci/test

# SEQUENTIAL matches packages without goroutines of their own. The race detector finds nothing in them, and makes their arithmetic slow.
# Package metal only compares kernels; metal/apple's tests run its Go code under the race detector.
SEQUENTIAL := /(bench/(kernels|roofline|shape)|config|engine/(cache|chat|compute/computetest|cost|cpu/kernels|cpu/kernels/generate|draft|gguf|jinja|model|sample|tokenizer)|eval|eval/(report|statistics|task)|export|generation|metal|metal/(drivers|kernelcache|translate)|models|ordered|prompt|release|serve/console|table)$$
# UNRACED matches tests of other packages that run without the race detector: it allocates, or arithmetic takes most of their time.
# With the race detector, the random requests are those of -short.
UNRACED := AllocatesNothing|DriverConformance|ConformanceOfOtherLevels|DraftingKeepsTheDistribution

.PHONY: test
test: ## install what the tests need where it is missing, and run all tests
	@sh .ci/install
	@# The time limit is for tests that hang: a slow machine may take long. Tests of the queue mostly wait, so two packages run at a time
	@# per processor. `make lint` vets.
	CGO_ENABLED=1 $(TEST) -race -short -vet=off -p $$((2 * $$(getconf _NPROCESSORS_ONLN))) -timeout 45m -skip '$(UNRACED)' $$($(GO) list ./... | grep -Ev '$(SEQUENTIAL)') ./.ci/test
	$(TEST) -vet=off -timeout 45m $$($(GO) list ./... | grep -E '$(SEQUENTIAL)')
	$(TEST) -vet=off -timeout 45m -run '$(UNRACED)|RandomRequests' $$(grep -rlE --include=*_test.go 'func Test[a-zA-Z]*($(UNRACED)|RandomRequests)' . | xargs -n 1 dirname | sort -u)

.PHONY: long
long: ## run the tests with those that take minutes, such as killing workers
	@sh .ci/install
	INGOT_LONG=1 $(TEST) -timeout 45m ./...

.PHONY: chaos
chaos: build ## kill, stop and disconnect workers, Redis and collectors for 3 minutes; SHORT=1 for a minute in all, SEED=N to repeat
	$(GO) run ./chaos $(if $(SEED),-seed $(SEED)) $(if $(SHORT),-rows 400 -for 25s -stop 8s)

.PHONY: fuzz
fuzz: ## run every fuzz target for FUZZTIME (30s)
	@GO='$(GO)' sh .ci/fuzz $(FUZZTIME)

.PHONY: lint
lint: $(GOLANGCI) ## run golangci-lint for this machine and for Apple silicon; the first run builds it
	@# Every package has a rule about its imports; the program may import all, and packages of tests alone are free.
	@$(GO) list -f '{{if .GoFiles}}{{.ImportPath}}{{end}}' ./... | sed 's,github.com/ingot-run/ingot/,,' | grep -v '^cmd/ingot$$' | \
		while read -r package; do \
			grep -qF "\"**/$$package/*.go\"" .golangci.yml || { echo "$$package has no depguard rule in .golangci.yml"; exit 1; }; \
		done
	$(GOLANGCI) run ./... ./.ci/test
	@# Packages that have the same files on both systems are linted once.
	$(DARWIN) $(GOLANGCI) run $$(sh .ci/darwin)

$(GOLANGCI):
	@# A network may fail for a moment.
	for try in 1 2 3; do \
		GOBIN=$(GOLANGCI_DIR) $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION) && break; \
		test $$try -lt 3; \
	done

.PHONY: cross
cross: ## build and vet for Apple silicon
	$(DARWIN) $(GO) build ./...
	$(DARWIN) $(GO) vet ./...

.PHONY: generate
generate: ## compile the CPU kernels again (needs clang-19 and lld-19)
	$(GO) generate ./engine/cpu/kernels

.PHONY: arm
arm: ## test the arm64 kernels under qemu-aarch64-static (Debian: qemu-user-static)
	GOARCH=arm64 $(GO) test -exec qemu-aarch64-static ./engine/cpu/kernels
	GOARCH=arm64 $(GO) test -exec qemu-aarch64-static -run Steady ./engine/cpu

.PHONY: clean
clean: ## remove what was built
	rm -rf bin dist .tools

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "%-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
