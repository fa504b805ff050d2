# Ingot's build; `make help` lists the targets. Works with GNU make 3.81, which is what macOS ships.

GO ?= go
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)

GOLANGCI_VERSION := v2.15.0
# The linter is built again when .golangci.yml enables another one, or when .ci/golangci builds it in another way.
GOLANGCI := $(CURDIR)/.tools/golangci-lint-$(GOLANGCI_VERSION)-$(shell sh .ci/golangci linters | cat - .ci/golangci | cksum | cut -d ' ' -f 1)/golangci-lint

DEMO_MODEL ?= models/tiny-glm.q8_0.gguf
EVAL_MODELS ?= models/tiny-glm.q8_0.gguf models/tiny-llama.q4_0.gguf
DEMO_OUT := dist/demo.jsonl
FUZZTIME ?= 30s
SHARE ?= bin

# TEST runs `go test` and lists skipped tests with the reasons. RECORD names a file to which the outcomes of all tests are appended.
export GO
# Compiled packages do not contain the path of the checkout, so that all checkouts on a machine share the build cache.
export GOFLAGS += -trimpath
# The program has no cgo. With one setting for builds, tests, vet and lint, each package is compiled once.
export CGO_ENABLED := 0
# DARWIN precedes commands for Apple silicon. They only check code: compiling without optimisation takes two thirds of the time.
DARWIN := GOOS=darwin GOARCH=arm64 GOFLAGS="$(GOFLAGS) '-gcflags=all=-N -l -dwarf=false'"
# Test binaries have no symbol table, which only debuggers read: stack traces and profiles do not. Linking takes four fifths of the time.
TEST := $(GO) run ./.ci/test $(if $(RECORD),-record $(RECORD)) -ldflags=-s
# TESTED lists packages that have tests. Given other packages, `go test` compiles them and what they import, and runs nothing.
TESTED := $(GO) list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}'

.PHONY: build
build: ## build bin/ingot
	$(GO) build -ldflags '-X main.version=$(VERSION)' -o bin/ingot ./cmd/ingot

.PHONY: share
share: build ## write manual pages and shell completions to $SHARE/share (bin)
	@# The pages have the date of the commit, so that a release can be built again with the same bytes.
	rm -rf $(SHARE)/share
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) bin/ingot share $(SHARE)

.PHONY: snapshot
snapshot: ## build a release's archives in dist without publishing them, and install from them (needs goreleaser; syft for the SBOMs)
	goreleaser check
	goreleaser release --snapshot --clean --skip=docker$$(command -v syft >/dev/null || echo ,sbom)
	INGOT_ARCHIVES=$(CURDIR)/dist $(GO) test -count=1 ./systemtest/release

.PHONY: demo
demo: build ## answer models/demo.jsonl with the bundled model and show answers and figures
	@mkdir -p $(dir $(DEMO_OUT))
	@rm -f $(DEMO_OUT)
	bin/ingot run models/demo.jsonl -o $(DEMO_OUT) --model $(DEMO_MODEL)
	@bin/ingot show $(DEMO_OUT) --input models/demo.jsonl

.PHONY: eval
eval: build ## evaluate each bundled model twice and a damaged copy of it: the gate passes, then fails; writes reports
	@rm -rf dist/eval && mkdir -p dist/eval && $(GO) build -o dist/eval/damage ./systemtest/damage
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
		test $$code = 1 || { echo "the gate of the damaged model ended with code $$code instead of 1"; exit 1; }; \
		show bin/ingot eval report -o $$runs.html --runs $$runs damaged; \
	done

.PHONY: check
check: $(GOLANGCI) ## before a commit: format, vet for Linux and Apple silicon, lint, and run the fast tests
	$(GOLANGCI) fmt
	$(GO) vet ./... ./.ci/test ./.ci/types
	@# Of the other packages, the vetting of `make lint` has seen all files.
	$(DARWIN) $(GO) vet $$(sh .ci/darwin)
	@sh .ci/width
	$(GOLANGCI) run ./... ./.ci/test ./.ci/types
	@# Tests that compile GPU kernels for the CPU take minutes, so only `make test` runs them.
	$(TEST) -skip 'Emulator|Geometry' $$($(GO) list ./... | grep -Ev '/(metal|metal/apple|bench/kernels|bench/roofline)$$') ./.ci/test ./.ci/types

# SEQUENTIAL matches packages that start no goroutines. The race detector would find nothing in them and slow down their arithmetic. The tests of
# package metal only compare kernels; the tests of metal/apple run metal's Go code under the race detector.
SEQUENTIAL := /(bench/(kernels|roofline|shape)|config|config/launch|engine/(compute/computetest|grammar/(ebnf|pattern|regex|schema|source)|cpu/kernels|cpu/kernels/generate|generation|gguf|jinja|model|recommended|tokenizer)|engine/internal/(cache|chat|chat/tools|cost|draft|sample)|eval|eval/(report|statistics|task)|files/(export|prompt|table|where)|internal/(chart|filesum|manual|ordered|pyrandom)|metal|metal/(drivers|sources)|metal/internal/(kernelcache|translate)|models|models/trained|serve/console|systemtest/release)$$
# UNRACED matches tests of other packages that run without the race detector: it allocates memory, and it slows down arithmetic and long lines.
UNRACED := MultiplesAreWithinBudget|MaskOfVectors|TooManyChoices|ForcedAreCanonical|TestHostile$$|EqualArithmeticGivesEqualBits|ALineThatIsTooLong|ALineOfTextThatIsTooLong|RepairsALongTail|TheLongestLine|AllocatesNothing|DrawStatistics|DrawsFromKeptTokens|DriverConformance|ConformanceOfAllLevels|DraftingKeepsTheDistribution|MemoryOfHostileRows|OnTheEmulator|BenchWritesShapes|TheSameBitsInEveryBatch|AnyMixIsLikeOneAtATime|TinyModelsMatchTheirReferences|AResumedRequestEndsLikeAnUncutOne|TestFamilies$$|FreedWindowsChangeNothing|AnswersToRecordedSchemas|MoreSequencesFit|DraftsOfAssistantsChangeNothing|FamiliesAreLikeLoneRows|MixersAreLikeOneAtATime|MemoryOfOneSequence|MemoryDoesNotSelectRopeFactors|StatesOfBeginnings|TestRequiredCalls|AdmissionComputesLittleTwice|AdmissionLeavesPages|BusyTimesDoNotDecide|InABrowser|ConsolePictures|DescriptionHas|DescriptionFits

# ASSEMBLED matches packages that start few goroutines themselves, but import almost everything, which would have to be compiled once more for
# the race detector. The tests of the packages with the goroutines run with it, and `make long` runs those of ASSEMBLED with it.
ASSEMBLED := /(cmd/ingot|eval/schedule)$$

# In the other tests, the race detector does not see the inner loops of packages that start no goroutines and whose arithmetic is in Go.
UNSEEN := $(foreach package,engine/compute/computetest engine/cpu/kernels engine/gguf,'-gcflags=github.com/ingot-run/ingot/$(package)=-race=false -dwarf=false')

# OUTLINED compiles go-redis without inlining. It has hundreds of commands as methods of many types, and takes a tenth of the time of compiling
# everything for the race detector; without inlining, a third less. The race detector sees it as before.
OUTLINED := '-gcflags=github.com/redis/go-redis/v9=-l -dwarf=false'

.PHONY: programs
programs: ## install missing programs that the tests need
	@sh .ci/install

.PHONY: compiled
compiled: ## compile, without linking, what `make test` runs with the race detector
	CGO_ENABLED=1 $(GO) list -race $(UNSEEN) $(OUTLINED) -test -export -deps $$($(TESTED) ./... | grep -Ev '$(SEQUENTIAL)|$(ASSEMBLED)') >/dev/null

.PHONY: test
test: raced unraced ## install missing programs that the tests need, and run all tests

.PHONY: raced
raced: programs ## run the first part of `make test`: the tests with the race detector
	@# `make lint` vets. Tests of the queue mostly wait, so two packages per processor run at a time, those that wait longest first. Of the
	@# random requests, few run with the race detector (-short).
	CGO_ENABLED=1 $(TEST) -race $(UNSEEN) $(OUTLINED) -short -vet=off -p $$((2 * $$(getconf _NPROCESSORS_ONLN))) -timeout 20m -skip '$(UNRACED)' $$($(TESTED) ./worker ./engine ./serve ./... | grep -Ev '$(SEQUENTIAL)|$(ASSEMBLED)')

.PHONY: unraced
unraced: programs ## run the second part of `make test`: the tests without the race detector
	@# Of the random requests, all run. The packages that take longest come first: cmd/ingot, which often waits, and metal, which never does.
	$(TEST) -vet=off -timeout 20m $$($(GO) list ./cmd/ingot ./metal ./... | grep -E '$(SEQUENTIAL)|$(ASSEMBLED)') ./.ci/test ./.ci/types
	$(TEST) -vet=off -timeout 20m -run '$(UNRACED)|RandomRequests' $$(grep -rlE --include=*_test.go 'func Test[a-zA-Z]*($(UNRACED)|RandomRequests)' . | xargs -n 1 dirname | sort -u | grep -Ev '$(SEQUENTIAL)|$(ASSEMBLED)')

.PHONY: models-trained
models-trained: ## download the trained models for tests to $INGOT_TRAINED (the user's cache); TRAINED=smollm2 or gemma3 for one
	$(GO) run ./models/trained/fetch $(TRAINED)

.PHONY: lm-eval
lm-eval: ## install lm-evaluation-harness and packages that its tasks need in .tools
	python3 -m venv .tools/lm-eval
	.tools/lm-eval/bin/pip install -q lm-eval==0.4.13 rouge_score langdetect immutabledict sympy antlr4-python3-runtime==4.11 math-verify emoji transformers word2number jieba fuzzywuzzy rouge pymorphy3 statsmodels "jsonschema[format]"

.PHONY: harness
harness: lm-eval ## print the share of the harness's task files that Ingot runs; what the harness computes is kept in .tools/lm-eval/share.jsonl
	.tools/lm-eval/bin/python eval/testdata/share.py .tools/lm-eval/share.jsonl
	PATH="$(CURDIR)/.tools/lm-eval/bin:$$PATH" INGOT_HARNESS=$(CURDIR)/.tools/lm-eval/share.jsonl $(TEST) -v -timeout 45m -run ShareOfTaskFiles ./eval

.PHONY: long
long: programs ## run all tests, including those that take minutes, such as killing workers, and cmd/ingot with the race detector
	CGO_ENABLED=1 $(TEST) -race $(UNSEEN) $(OUTLINED) -vet=off -timeout 45m -skip '$(UNRACED)' $$($(GO) list ./... | grep -E '$(ASSEMBLED)')
	INGOT_LONG=1 $(TEST) -timeout 45m ./...
	if $(MAKE) lm-eval; then $(MAKE) harness; else echo "the share of task files is not measured: lm-eval cannot be installed"; fi

.PHONY: chaos
chaos: build ## kill, stop and disconnect workers, Redis and collectors for 3 minutes; SHORT=1 takes a minute, SEED=N repeats a run
	$(GO) run ./systemtest/chaos $(if $(SEED),-seed $(SEED)) $(if $(SHORT),-rows 100 -for 25s -stop 8s)

.PHONY: fuzz
fuzz: ## run every fuzz target for FUZZTIME (30s)
	@GO='$(GO)' sh .ci/fuzz $(FUZZTIME)

.PHONY: lint
lint: $(GOLANGCI) ## run golangci-lint for this machine and for Apple silicon; the first run builds it
	@sh .ci/width
	@sh .ci/size
	$(GOLANGCI) run ./... ./.ci/test ./.ci/types
	@# For Apple silicon, lint only packages that have files of their own there. This vets them, too.
	$(DARWIN) $(GOLANGCI) run $$(sh .ci/darwin)

$(GOLANGCI):
	@# Try three times, since the network may fail briefly.
	for try in 1 2 3; do GO='$(GO)' sh .ci/golangci build $(GOLANGCI_VERSION) $@ && break; test $$try -lt 3; done

.PHONY: cross
cross: ## check the types of all packages for Apple silicon; make lint vets those that have files of their own there
	@# A compiler finds no more errors, but takes 20 times as long.
	$(GO) run ./.ci/types

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
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
