# The front door. `make help` lists the targets.
BUILD ?= build
JOBS ?= $(shell nproc)
CMAKE_FLAGS ?=
GENERATE = cmake -G Ninja -DCMAKE_BUILD_TYPE=Release $(CMAKE_FLAGS)
CLANG = -DCMAKE_CXX_COMPILER=clang++ -DCMAKE_C_COMPILER=clang
CTEST = ctest --output-on-failure --no-tests=error -j $(JOBS)
# The parts that read bytes from outside, and the units under them.
ASAN_TESTS = base_test weights_test token_test ops_test state_test store_test engine_test server_test grammar_test
FORMATTED = $(shell git ls-files 'src/*.cc' 'src/*.h' 'include/*.h' 'tests/*.cc' 'tests/*.h' 'fuzz/*.cc' 'bench/*.cc' 'bench/*.h')

.DEFAULT_GOAL := all
.PHONY: all help deps serve chat test test-release test-asan test-tsan test-neon check-all soak fuzz bench format lint deb clean

all: deps ## Build the program: build/holdfast
	@$(GENERATE) -S . -B $(BUILD) >/dev/null
	@cmake --build $(BUILD) -j $(JOBS) --target holdfast

help: ## List the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 16

deps: ## Install what is missing (Debian packages, npm packages of the tests)
	@tools/install_deps.sh

serve: all ## Serve the demo model on http://127.0.0.1:8080
	$(BUILD)/holdfast serve

chat: all ## Chat with the demo model in the terminal
	$(BUILD)/holdfast chat

test: deps test-release test-asan ## Everything CI runs

test-release:
	$(GENERATE) -S . -B $(BUILD)/test
	cmake --build $(BUILD)/test -j $(JOBS)
	$(CTEST) --test-dir $(BUILD)/test -LE check_all

test-asan: ## Unit, fault and parser tests under ASan and UBSan (clang, Debug)
	$(GENERATE) $(CLANG) -DCMAKE_BUILD_TYPE=Debug -DHOLDFAST_SANITIZE=address,undefined \
	  -S . -B $(BUILD)/asan
	cmake --build $(BUILD)/asan -j $(JOBS) --target $(ASAN_TESTS)
	$(CTEST) --test-dir $(BUILD)/asan -LE check_all -R '^($(shell echo $(ASAN_TESTS) | tr ' ' '|'))/'

test-tsan: ## All tests under TSan (g++, Release)
	$(GENERATE) -DHOLDFAST_SANITIZE=thread -S . -B $(BUILD)/tsan
	cmake --build $(BUILD)/tsan -j $(JOBS)
	$(CTEST) --test-dir $(BUILD)/tsan -LE check_all

test-neon: deps ## Kernel tests for ARM, cross-compiled, under qemu-user
	tests/neon/run.sh $(BUILD)/neon

soak: all ## Kill a real server at SOAK_ROUNDS (default 2000) random moments
	tests/scenarios/kill_loop.py $(BUILD)/holdfast $(or $(SOAK_ROUNDS),2000)

fuzz: deps ## Every fuzzer for FUZZ_SECONDS (default 30) each
	$(GENERATE) $(CLANG) -DCMAKE_BUILD_TYPE=RelWithDebInfo -DHOLDFAST_SANITIZE=address,undefined \
	  -DHOLDFAST_FUZZ=ON -DHOLDFAST_TESTS=OFF -S . -B $(BUILD)/fuzz
	cmake --build $(BUILD)/fuzz -j $(JOBS)
	tools/run_fuzzers.sh $(BUILD)/fuzz $(or $(FUZZ_SECONDS),30)

bench: deps ## Micro-benchmarks of the kernels
	$(GENERATE) -DHOLDFAST_BENCH=ON -DHOLDFAST_TESTS=OFF -S . -B $(BUILD)/bench
	cmake --build $(BUILD)/bench -j $(JOBS)
	tools/run_benchmarks.sh $(BUILD)/bench

check-all: test test-tsan test-neon fuzz ## All of it: long tests, TSan, qemu, fuzzers
	$(CTEST) --test-dir $(BUILD)/test -L check_all

format: ## Format the sources
	@clang-format -i $(FORMATTED)

lint: ## Check formatting, and clang-tidy on what it is set up for
	@clang-format --dry-run --Werror $(FORMATTED)
	@tools/lint.sh

deb: all ## A Debian package: build/holdfast_VERSION_ARCH.deb
	cd $(BUILD) && cpack -G DEB

clean:
	rm -rf $(BUILD)
