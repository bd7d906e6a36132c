# The front door. Meson does the work; this file holds the few commands that people and CI type.
MESON ?= meson
NINJA ?= ninja
PYTHON ?= python3
PREFIX ?= /usr/local
DESTDIR ?=
FUZZ_SECONDS ?= 600
SETUP_ARGS ?=

SANITIZE := -Db_lundef=false -Db_sanitize
ASAN_ENV := ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
TSAN_ENV := TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1

.DEFAULT_GOAL := help
.PHONY: help packages build run test test-python test-long asan tsan fuzz bench bench-net coverage format errors-doc install clean

# Each folder is set up once; ninja takes later changes of the build files up by itself.
configured = test -f $(1)/build.ninja || $(MESON) setup $(1) $(2) $(SETUP_ARGS)

help: ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/\1|\2/' | \
	  while IFS='|' read -r name text; do printf '  make %-11s %s\n' "$$name" "$$text"; done

packages: ## install what the build and the tests need, if anything is missing
	@scripts/install-packages

build: ## build the library and the command into build/
	@$(call configured,build)
	@$(NINJA) -C build
	@if test -x build/tools/kvferry; then ln -sfn tools/kvferry build/kvferry; fi

run: packages ## build, then move the built-in example with `kvferry replay`
	@$(MAKE) --no-print-directory build
	@build/kvferry replay --way staged

test: packages ## build and run all tests, those of the Python package too
	@$(MAKE) --no-print-directory build
	@scripts/run-tests build

test-python: packages ## install the Python package into build-python/ and run its tests
	@scripts/test-python

test-long: packages ## the same with many more rounds of each random test (KVF_LONG=1)
	@$(MAKE) --no-print-directory build
	@KVF_LONG=1 scripts/run-tests build --timeout-multiplier 10

asan: packages ## all tests under the address and undefined behaviour sanitizers
	@$(call configured,build-asan,$(SANITIZE)=address$(comma)undefined)
	@$(NINJA) -C build-asan
	@$(ASAN_ENV) scripts/run-tests build-asan --timeout-multiplier 4

tsan: packages ## all tests under the thread sanitizer
	@$(call configured,build-tsan,$(SANITIZE)=thread)
	@$(NINJA) -C build-tsan
	@$(TSAN_ENV) scripts/run-tests build-tsan --timeout-multiplier 10

fuzz: ## run each fuzz target for FUZZ_SECONDS (600)
	@scripts/install-packages clang
	@test -f build-fuzz/build.ninja || CC=clang $(MESON) setup build-fuzz -Dfuzz=true $(SANITIZE)=address,undefined $(SETUP_ARGS)
	@scripts/run-fuzz build-fuzz $(FUZZ_SECONDS)

bench: packages ## run the benchmarks in a release build
	@$(call configured,build-bench,--buildtype=release)
	@$(NINJA) -C build-bench meson-benchmark-prereq
	@$(MESON) test -C build-bench --benchmark --no-rebuild --num-processes 1 --verbose

bench-net: packages ## transfers between two network namespaces against iperf3 in the same run (root)
	@$(call configured,build-bench,--buildtype=release)
	@scripts/install-packages iperf3
	@$(NINJA) -C build-bench
	@$(PYTHON) -B bench/veth.py build-bench/kvferry $(BENCH_ARGS)

coverage: ## line and branch coverage of layout and plan by their own tests
	@scripts/install-packages gcovr
	@$(call configured,build-coverage,-Db_coverage=true)
	@$(NINJA) -C build-coverage
	@scripts/run-tests build-coverage --suite layout --suite plan
	@gcovr --root . --object-directory build-coverage --filter src/layout/ --filter src/plan/ --txt
	@gcovr --root . --object-directory build-coverage --filter src/layout/ --filter src/plan/ --branches --txt

format: ## format every tracked C file
	@scripts/install-packages clang-format
	@git ls-files -z '*.c' '*.h' | xargs -0 clang-format -i

errors-doc: ## write docs/errors.md and the Python exceptions from src/base/errors.def
	@$(PYTHON) -B scripts/errors-doc.py

install: build ## install under PREFIX (/usr/local), below DESTDIR when set
	@$(MESON) configure build -Dprefix=$(PREFIX)
	@$(NINJA) -C build
	@DESTDIR='$(DESTDIR)' $(MESON) install -C build --no-rebuild

clean: ## remove every build folder
	rm -rf build build-asan build-tsan build-fuzz build-bench build-coverage build-python

comma := ,
