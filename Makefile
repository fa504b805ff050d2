# Ingot's build; `make help` lists the targets. Works with GNU make 3.81, which is what macOS ships.

GO ?= go
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)

GOLANGCI_VERSION := v2.15.0
GOLANGCI_DIR := $(CURDIR)/.tools/golangci-lint-$(GOLANGCI_VERSION)
GOLANGCI := $(GOLANGCI_DIR)/golangci-lint

DEMO_MODEL ?= models/tiny-glm.q8_0.gguf
DEMO_OUT := dist/demo.jsonl
FUZZTIME ?= 30s

.PHONY: build
build: ## build bin/ingot
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-X main.version=$(VERSION)' -o bin/ingot ./cmd/ingot

.PHONY: demo
demo: build ## answer models/demo.jsonl with the bundled model and show answers and figures
	@mkdir -p $(dir $(DEMO_OUT))
	@rm -f $(DEMO_OUT)
	bin/ingot run models/demo.jsonl -o $(DEMO_OUT) --model $(DEMO_MODEL)
	@bin/ingot show $(DEMO_OUT) --input models/demo.jsonl

.PHONY: test
test: ## install what the tests need where it is missing, vet, and run all tests
	@sh .ci/install-redis
	$(GO) vet ./...
	@# The time limit is for tests that hang: a slow machine may take long.
	$(GO) test -race -timeout 45m $$($(GO) list ./... | grep -v '/metal$$')
	@# Package metal compares kernels, of which the race detector sees nothing; metal/apple's tests run its Go code under it.
	$(GO) test -timeout 45m ./metal
	@# The race detector allocates by itself.
	$(GO) test -run AllocatesNothing ./engine ./engine/cpu ./metal/apple

.PHONY: long
long: ## run the tests with those that take minutes, such as killing workers
	@sh .ci/install-redis
	INGOT_LONG=1 $(GO) test -timeout 45m ./...

.PHONY: fuzz
fuzz: ## run every fuzz target for FUZZTIME (30s)
	@GO='$(GO)' sh .ci/fuzz $(FUZZTIME)

.PHONY: lint
lint: $(GOLANGCI) ## run golangci-lint for this machine and for Apple silicon, building it first where needed
	$(GOLANGCI) run ./...
	GOOS=darwin GOARCH=arm64 CGO_ENABLED=0 $(GOLANGCI) run ./...

$(GOLANGCI):
	@# A network may fail for a moment.
	for try in 1 2 3; do \
		GOBIN=$(GOLANGCI_DIR) $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION) && break; \
		test $$try -lt 3; \
	done

.PHONY: cross
cross: ## build and vet for Apple silicon
	GOOS=darwin GOARCH=arm64 CGO_ENABLED=0 $(GO) build ./...
	GOOS=darwin GOARCH=arm64 CGO_ENABLED=0 $(GO) vet ./...

.PHONY: generate
generate: ## compile the CPU kernels anew (needs clang-19 and lld-19)
	$(GO) generate ./engine/cpu/kernels

.PHONY: arm
arm: ## test the arm64 kernels under qemu-aarch64-static (Debian: qemu-user-static)
	GOARCH=arm64 CGO_ENABLED=0 $(GO) test -exec qemu-aarch64-static ./engine/cpu/kernels
	GOARCH=arm64 CGO_ENABLED=0 $(GO) test -exec qemu-aarch64-static -run Steady ./engine/cpu

.PHONY: clean
clean: ## remove what was built
	rm -rf bin dist .tools

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "%-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
