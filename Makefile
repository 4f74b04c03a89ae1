# Weft. `make` builds; `make demo` shows; `make test` proves. `make help` lists the rest.
#
# Variables: CC, O (optimisation, default -O2), TEST_O (that of tests, default O), G (default -g1:
# lines; -g for debuggers), SAN (e.g. address,undefined), WERROR=1, BUILD (default build), JOBS,
# FUZZ_SECONDS, CCACHE= to build without a compiler cache, TEST_LD= to link tests without lld, V=1 to
# see the commands. No configure step: what the compiler is told is remembered in $(BUILD)/flags, and
# a change rebuilds.

ifeq ($(origin CC),default)
CC := gcc
endif
CLANG ?= clang
O ?= -O2
TEST_O ?= $(O)
G ?= -g1
SAN ?=
BUILD ?= build
ARCH ?=
PREFIX ?= /usr/local
DESTDIR ?=
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
FUZZ_SECONDS ?= 60
FUZZ_RUNS ?= 1
FINDINGS ?= 25
FINDINGS_SEED ?=
SAMPLE ?= commit
COVERAGE_MIN ?= 90
V ?=
Q := $(if $(V),,@)

# A compiler cache, where one is installed. Paths of the tree are relative in what it keeps, so that
# clones share it.
CCACHE ?= $(shell command -v ccache 2>/dev/null)
export CCACHE_BASEDIR := $(CURDIR)
export CCACHE_DEPEND := 1

# Programs of tests are linked by lld, where it is installed (ci/deps test does), which takes little
# more than half of what ld does. What is installed is linked by the compiler's own.
TEST_LD ?= $(if $(shell command -v ld.lld 2>/dev/null),-fuse-ld=lld)

VERSION := $(shell cat VERSION 2>/dev/null || echo 0.1.0)

WARN := -Wall -Wextra -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes \
        -Wswitch-enum -Wvla -Wformat=2 -Wundef -Wpointer-arith -Wcast-qual \
        $(if $(findstring clang,$(CC)),-Wno-string-conversion)
LEVEL := $(O)
CPPFLAGS += -Isrc -I. -D_POSIX_C_SOURCE=200809L
CFLAGS_ALL = -std=c11 $(LEVEL) $(G) -fdebug-prefix-map=$(CURDIR)=. -fPIC -fno-semantic-interposition \
             -fno-strict-aliasing $(if $(SAN)$(COVERAGE),,-ffunction-sections) $(WARN) $(if $(WERROR),-Werror) \
             $(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer \
             -fno-sanitize-recover=all) $(COVERAGE) $(CFLAGS)
LDFLAGS_ALL = $(if $(SAN),-fsanitize=$(SAN)) $(COVERAGE) $(LDFLAGS)
# libnl-route asks the kernel for interfaces; libibverbs is opened at run time, if at all.
NL_CFLAGS := $(shell pkg-config --cflags-only-I libnl-route-3.0 2>/dev/null || \
               echo -I/usr/include/libnl3)
NL_LIBS := $(shell pkg-config --libs libnl-route-3.0 2>/dev/null || echo -lnl-route-3 -lnl-3)
CPPFLAGS += $(patsubst -I%,-isystem %,$(NL_CFLAGS))
LIBS := -lyaml -ljansson -lexpat -lsodium $(NL_LIBS) -ldl -lm -lpthread
TEST_LIBS := -Wl,--wrap=_mark_point -lcheck -lsubunit -lrt

# CUDA kernels are built where nvcc is, once for all flavours of the library; their toolkit's header
# is only compared with. NVCC= builds without.
NVCC ?= $(firstword $(shell command -v nvcc 2>/dev/null) $(wildcard /usr/local/cuda/bin/nvcc))
CUDA_INCLUDE := $(if $(NVCC),$(wildcard $(dir $(realpath $(NVCC)))../include))
CUDA_ARCHS := 80 90 100 121
CUDA_IMAGE := $(if $(NVCC),build/cuda/kernels.fatbin)

# Sources: every .c is the library's but tests, fuzz targets, benches and the command's main.
ALL_C := $(sort $(wildcard src/*/*.c backends/*.c backends/*/*.c sim/*.c sim/*/*.c))
TEST_C := $(filter %_test.c,$(ALL_C))
FUZZ_C := $(filter %_fuzz.c,$(ALL_C))
BENCH_C := $(filter %_bench.c,$(ALL_C))
SUPPORT_C := $(filter %_testing.c,$(ALL_C))
MAIN_C := $(wildcard src/cli/main.c)
FUZZ_MAIN_C := $(wildcard src/base/fuzz_main.c) # of a fuzz target without libFuzzer
LATE_C := $(filter %_late.c,$(ALL_C)) # what the plugin opens at run time instead of linking it
WATCH_C := $(wildcard backends/watch/*.c) # of the library that is preloaded into users' programs
MADE_C := src/diag/findings.c # in $(BUILD)/made, of text
LIB_C := $(filter-out $(TEST_C) $(FUZZ_C) $(BENCH_C) $(SUPPORT_C) $(MAIN_C) \
    $(FUZZ_MAIN_C) $(LATE_C) $(WATCH_C),$(ALL_C)) $(MADE_C)

obj = $(patsubst %.c,$(BUILD)/obj/%.o,$(1))
TESTS := $(patsubst %.c,$(BUILD)/test/%,$(TEST_C))
FUZZERS := $(patsubst %.c,$(BUILD)/fuzz/%,$(FUZZ_C))
REPLAYERS := $(patsubst %.c,$(BUILD)/replay/%,$(FUZZ_C))
BENCHES := $(patsubst %.c,$(BUILD)/bench/%,$(BENCH_C))
WEFT := $(if $(MAIN_C),$(BUILD)/weft)

# A make of our own for another flavour: a job count that does not depend on the caller's.
SUB = MAKEFLAGS= MFLAGS= $(MAKE) --no-print-directory -j$(JOBS) $(MAKEOVERRIDES)
# Built by the second compiler, which has to build everything once anyway. Optimising a test takes
# longer than running it once does.
ASAN := $(if $(shell command -v $(CLANG)),CC=$(CLANG)) BUILD=build/asan SAN=address,undefined \
    O=-O1 TEST_O=-O0 WERROR=1
TSAN := BUILD=build/tsan SAN=thread O=-O1
LIBFUZZER := CC=$(CLANG) BUILD=build/libfuzzer SAN=address,undefined,fuzzer-no-link O=-O1

.PHONY: all demo rxe-guest test check test-qemu tidy asan asan-everything clang tsan bench \
        bench-wire coverage mutants findings \
        fuzz replay soak install uninstall deb clean help tests fuzzers replayers everything FORCE
.DELETE_ON_ERROR:
.SECONDARY:

all: $(WEFT) $(BUILD)/libweft.a $(BUILD)/libnccl-net-mesh.so $(BUILD)/libweft-watch.so

help:
	@echo 'make            build/weft, build/libweft.a, build/libnccl-net-mesh.so, build/libweft-watch.so'
	@echo 'make demo       installs what is missing, builds, runs the triangle'
	@echo 'make test       every pure test: C under the sanitizers, a part of what is heavy'
	@echo 'make check      pure C tests of the optimised build, a quarter of long sweeps, for every edit'
	@echo 'make test-qemu  soft-RoCE again, on an unmodified Debian 6.12 kernel in QEMU'
	@echo 'make clang      every pure test again, built by the second compiler'
	@echo 'make tsan       what starts threads, and the plugin, under the thread sanitizer: 15 minutes'
	@echo 'make tidy       layers, bans, lengths, format, cppcheck, shellcheck'
	@echo 'make coverage   line coverage of src/ and sim/; fails below $(COVERAGE_MIN) %'
	@echo 'make findings   random faults of every cause, and what is diagnosed: the confusion matrix'
	@echo 'make mutants    applies ci/mutants/*.patch; every one must be caught'
	@echo 'make fuzz       every *_fuzz.c under libFuzzer, FUZZ_SECONDS=$(FUZZ_SECONDS) the longest'
	@echo 'make replay     every *_fuzz.c on its corpus and on FUZZ_RUNS=1 times a fixed number of inputs'
	@echo 'make soak       hours instead of minutes: long fuzzing, many seeds and meshes, a fresh machine'
	@echo 'make bench      how fast the simulator is here, and runs in virtual time beside their bars'
	@echo 'make bench-wire how fast soft-RoCE is in the guest, beside perftest; backend soft, beside sockets'
	@echo 'make rxe-guest  a guest kernel with soft-RoCE, for --backend rxe: once, 5 minutes'
	@echo 'make install    PREFIX=$(PREFIX) DESTDIR=$(DESTDIR); make uninstall takes it away'
	@echo 'make deb        Debian packages weft and libnccl-net-mesh, in $(BUILD)/deb; ARCH=arm64: cross'
	@echo 'make asan       build/asan/weft, for trying things by hand'
	@echo 'make clean'

# --- building ----------------------------------------------------------------------------

# Makes a line of what is built, without a process for it as echo would be.
say = $(info $() $() $(1))

DIRS := $(sort $(dir $(call obj,$(ALL_C)) $(MADE_C:%=$(BUILD)/made/%) $(TESTS) $(FUZZERS) $(REPLAYERS) $(BENCHES)))

# Without -Werror: it changes no code.
FLAGS_NOW := $(CC) $(TEST_O) $(CPPFLAGS) $(filter-out -Werror,$(CFLAGS_ALL)) $(LDFLAGS_ALL)

# Makes all directories with one process; every object file depends on it.
$(BUILD)/flags: FORCE
	@mkdir -p $(DIRS)
	@printf '%s\n' '$(subst ','\'',$(FLAGS_NOW))' | cmp -s - $@ || \
	    printf '%s\n' '$(subst ','\'',$(FLAGS_NOW))' > $@

# Which files the library is made of: a file that goes away must leave the archive too.
$(BUILD)/members: FORCE
	@mkdir -p $(BUILD)
	@printf '%s\n' $(LIB_C) $(SUPPORT_C) | cmp -s - $@ || \
	    printf '%s\n' $(LIB_C) $(SUPPORT_C) > $@

$(BUILD)/weft: $(call obj,$(MAIN_C)) $(BUILD)/libweft.a
	$(call say,LINK  $@)
	$(Q)$(CC) $(LDFLAGS_ALL) -o $@ $^ $(LIBS)

# NCCL's net plugin: exports its tables only, and needs libc and libm only. libsodium is in it,
# hidden; what the plugin does not use of the library is left out. NCCL closes the object when the last
# communicator of a process is gone, while the thread that serves the NICs runs on: it stays mapped.
comma := ,
PLUGIN_LIBS := -Wl,-Bstatic -lsodium -Wl,-Bdynamic -ldl -lpthread -lm
# Clang's sanitizers are in the program that opens it.
PLUGIN_DEFS := $(if $(and $(SAN),$(findstring clang,$(CC))),,-Wl,-z$(comma)defs)
$(BUILD)/libnccl-net-mesh.so: $(call obj,src/plugin/tables.c $(LATE_C)) $(BUILD)/libweft.a \
                              src/plugin/exports.map
	$(call say,LINK  $@)
	$(Q)$(CC) $(LDFLAGS_ALL) -shared -Wl,--version-script=src/plugin/exports.map $(PLUGIN_DEFS) \
	    -Wl,--gc-sections -Wl,-z$(comma)nodelete -Wl,-Bsymbolic -Wl,-soname,$(@F) -o $@ $(filter %.o %.a,$^) $(PLUGIN_LIBS)

# Preloaded into programs that are not ours, so without sanitizers, and needs libc only.
$(BUILD)/libweft-watch.so: $(WATCH_C) $(wildcard backends/watch/*.h) backends/watch/exports.map $(BUILD)/flags
	$(call say,LINK  $@)
	$(Q)$(CCACHE) $(CC) $(CPPFLAGS) -std=c11 -O2 -fPIC -fvisibility=hidden $(WARN) $(if $(WERROR),-Werror) \
	    -shared -Wl,--version-script=backends/watch/exports.map -Wl,-z$(comma)defs \
	    -Wl,-soname,$(@F) -o $@ $(WATCH_C)

$(BUILD)/libweft.a: $(call obj,$(LIB_C)) $(BUILD)/members
	$(call say,AR    $@)
	$(Q)rm -f $@ && $(AR) rcs $@ $(filter %.o,$^)

$(BUILD)/libweft-testing.a: $(call obj,$(SUPPORT_C)) $(BUILD)/members
	$(call say,AR    $@)
	$(Q)rm -f $@ && $(AR) rcs $@ $(filter %.o,$^)

define COMPILE
	$(call say,CC    $<)
	$(Q)$(CCACHE) $(CC) $(CPPFLAGS) $(CFLAGS_ALL) -MMD -MP -c -o $@ $<
endef

$(BUILD)/obj/%.o: %.c $(BUILD)/flags
	$(COMPILE)

$(BUILD)/obj/%.o: $(BUILD)/made/%.c $(BUILD)/flags
	$(COMPILE)

# The table of findings, of their text.
$(BUILD)/made/src/diag/findings.c: src/diag/findings.awk src/diag/findings.txt $(BUILD)/flags
	$(call say,AWK   $@)
	$(Q)LC_ALL=C awk -f src/diag/findings.awk src/diag/findings.txt > $@

$(BUILD)/obj/%_test.o: LEVEL := $(TEST_O)

$(BUILD)/test/%: $(BUILD)/obj/%.o $(BUILD)/libweft-testing.a $(BUILD)/libweft.a
	$(call say,LINK  $@)
	$(Q)$(CC) $(TEST_LD) $(LDFLAGS_ALL) -o $@ $^ $(TEST_LIBS) $(LIBS)

# Where a member's messages are changed before they are sealed.
$(BUILD)/test/src/cli/dishonest_test: TEST_LIBS += -Wl,--wrap=frame_send,--wrap=xfer_post \
    -Wl,--wrap=record_encode_announcement,--wrap=steps_progress \
    -Wl,--wrap=host_dispatch,--wrap=host_destroy

# Where reports of the kernel are changed before they are read.
$(BUILD)/test/backends/soft/netdev_test: TEST_LIBS += -Wl,--wrap=soft_follow_create,--wrap=recv

$(BUILD)/bench/%: $(BUILD)/obj/%.o $(BUILD)/libweft.a
	$(call say,LINK  $@)
	$(Q)$(CC) $(LDFLAGS_ALL) -o $@ $^ $(LIBS)

# With CC=clang SAN=address,undefined,fuzzer-no-link, as `make fuzz` calls it.
$(BUILD)/fuzz/%: $(BUILD)/obj/%.o $(BUILD)/libweft-testing.a $(BUILD)/libweft.a
	$(call say,LINK  $@)
	$(Q)$(CC) $(TEST_LD) $(LDFLAGS_ALL) -fsanitize=fuzzer -o $@ $^ $(LIBS)

# The same targets with a main of ours, for any compiler.
$(BUILD)/replay/%: $(BUILD)/obj/%.o $(call obj,$(FUZZ_MAIN_C)) $(BUILD)/libweft-testing.a \
                   $(BUILD)/libweft.a
	$(call say,LINK  $@)
	$(Q)$(CC) $(TEST_LD) $(LDFLAGS_ALL) -o $@ $^ $(LIBS)

# For architectures that this nvcc knows, and as PTX for those that it does not.
build/cuda/kernels.fatbin: backends/cuda/kernels.cu backends/cuda/kernels_body.h
	$(call say,NVCC  $@)
	@mkdir -p $(@D)
	$(Q)known=" $$($(NVCC) --list-gpu-arch | tr '\n' ' ')"; codes=; \
	    for arch in $(CUDA_ARCHS); do \
	        case $$known in *" compute_$$arch "*) \
	            codes="$$codes -gencode arch=compute_$$arch,code=sm_$$arch" ;; esac; \
	    done; \
	    $(NVCC) -O3 -std=c++17 -fmad=false -Xfatbin -compress-all -I. $$codes \
	        -gencode arch=compute_80,code=compute_80 -fatbin -o $@.new $< && mv $@.new $@

$(BUILD)/obj/src/base/version.o: $(wildcard VERSION)
$(BUILD)/obj/src/base/version.o: CPPFLAGS += -DWEFT_VERSION='"$(VERSION)"'

ifneq ($(CUDA_IMAGE),)
$(BUILD)/obj/backends/cuda/image.o: $(CUDA_IMAGE)
$(BUILD)/obj/backends/cuda/image.o: CPPFLAGS += -DWEFT_CUDA_IMAGE='"$(CUDA_IMAGE)"'
# The compiler cache does not see what an .incbin reads, and would give the kernels of an earlier build.
$(BUILD)/obj/backends/cuda/image.o: CCACHE :=
$(BUILD)/obj/backends/cuda/abi_test.o: CPPFLAGS += $(CUDA_INCLUDE:%=-isystem %)
endif

tests: $(TESTS)
fuzzers: $(FUZZERS)
replayers: $(REPLAYERS)
everything: all tests

# --- proving -----------------------------------------------------------------------------

demo:
	@ci/deps demo
	@$(SUB) all
	@build/weft run scenarios/basic/triangle.yaml

asan:
	@$(SUB) $(ASAN) all

asan-everything:
	@$(SUB) $(ASAN) everything

# SAMPLE= for whole families and sweeps instead of the part that the commit's hash chooses. Tests that
# depend on real time are in ci/wire-tests.txt: `ci/job wire`, `ci/job real-time`.
test:
	@ci/deps test
	@$(SUB) BUILD=build WERROR=1 all
	@$(SUB) $(ASAN) everything
	@ci/check-run --build build/asan --fast build --tests pure $(if $(SAMPLE),--sample $(SAMPLE))

check:
	@$(SUB) WERROR=1 everything
	@ci/check-run --build $(BUILD) --no-pytest --tests pure --quiet $(if $(SAMPLE),--sample $(SAMPLE))

# Three minutes where QEMU has to translate; 109 MB to download, once.
test-qemu:
	@$(SUB) WERROR=1 all
	@ci/qemu-guest >/dev/null
	@WEFT_TEST_QEMU=1 WEFT=build/weft WEFT_FAST=build/weft python3 -m pytest -q -rs ci/test_qemu.py

clang:
	@$(SUB) CC=$(CLANG) BUILD=build/clang WERROR=1 everything
	@ci/check-run --build build/clang --tests pure

# Slow machines under the sanitizer get ten times the time. 77: no namespaces here.
tsan:
	@$(SUB) $(TSAN) everything
	@CK_TIMEOUT_MULTIPLIER=10 ci/check-run --build build/tsan --threads
	@build/tsan/test/backends/hostmem/race_test 65 1000
	@IDLE_BYTES= CLOSE_ROUNDS= ci/plugin-soak build/tsan 20 || [ $$? -eq 77 ]

tidy:
	@$(SUB) all
	@ci/tidy --build $(BUILD)

coverage:
	@$(SUB) BUILD=build/coverage O=-O0 COVERAGE='--coverage -fprofile-update=atomic' everything
	@find build/coverage -name '*.gcda' -delete
	@ci/check-run --build build/coverage --quiet
	@gcovr --root . --object-directory build/coverage --filter 'src/' --filter 'sim/' \
	    --exclude '.*_(test|fuzz|testing)\.[ch]' --exclude-unreachable-branches \
	    --sort-percentage --fail-under-line $(COVERAGE_MIN) --print-summary \
	    -o build/coverage/report.txt; status=$$?; \
	    sed -n '/^---/,$$p' build/coverage/report.txt | head -25; exit $$status

mutants:
	@ci/mutants.py

findings: all
	@ci/findings --weft $(WEFT) --count $(FINDINGS) --forget $(FINDINGS_SEED:%=--seed %)

fuzz:
	@$(SUB) $(LIBFUZZER) fuzzers
	@ci/fuzz --build build/libfuzzer --seconds $(FUZZ_SECONDS)

# The corpus and FUZZ_RUNS times as many inputs made from it, the same ones each time.
replay:
	@$(SUB) $(ASAN) replayers
	@ci/fuzz --build build/asan --runs $(FUZZ_RUNS)

soak:
	@$(MAKE) --no-print-directory fuzz FUZZ_SECONDS=600
	@$(SUB) all
	@ci/seeds --build build --seeds 200
	@ci/swarm --seeds 50000 --fresh 50000 --jobs 2
	@WEFT_INNOCENT_DRAWS=5000 WEFT_INNOCENT_SEED=$$(date +%s) python3 -m pytest -q ci/test_innocent.py
	@SWARM_SEEDS=10000 ci/job determinism
	@$(SUB) build/test/sim/loss_test && build/test/sim/loss_test 40
	@$(SUB) build/test/src/ipc/model_test && CK_FORK=no build/test/src/ipc/model_test deep
	@$(MAKE) --no-print-directory tsan
	@WEFT_SOAK=1 build/tsan/test/backends/soft/host_test
	@$(SUB) build/test/backends/fault/sweep_test && build/test/backends/fault/sweep_test 1
	@ci/random_meshes.py --build build --count 2000
	@ci/random_meshes.py --build build --faults --count 3000
	@ci/relay_flaps.py --build build --count 2000
	@ci/flaps.py --build build --count 2000
	@ci/outages.py --build build
	@$(SUB) build/test/src/cli/dishonest_test && build/test/src/cli/dishonest_test 20000 $$(date +%s)
	@$(SUB) $(ASAN) build/asan/test/src/cli/dishonest_test && \
	    build/asan/test/src/cli/dishonest_test 5000 $$(date +%s)
	@ci/storm.py --seconds 900 || [ $$? -eq 77 ]
	@ci/standstill.py --rounds 300 || [ $$? -eq 77 ]
	@$(SUB) build/test/sim/wire_random_test
	@ci/wire_mutations.py --captures 100 --each 5
	@ci/wire_mutations.py --seed 1000 --captures 1000 --each 0
	@ci/findings --count 300 --forget
	@$(MAKE) --no-print-directory mutants
	@ci/plugin-soak || [ $$? -eq 77 ]
	@$(SUB) build/test/src/plugin/engine_relay_test && WEFT_SOAK=1 build/test/src/plugin/engine_relay_test
	@ci/repeat-wire || [ $$? -eq 77 ]
	@ci/fresh-machine

bench: all $(BUILD)/test/src/plugin/engine_test
	@ci/bench --weft $(BUILD)/weft
	@ci/bench-plugin --build $(BUILD)
	@ci/bench-virtual --build $(BUILD) || [ $$? -eq 77 ]

bench-wire: all $(BENCHES)
	@ci/bench-soft --build $(BUILD)
	@ci/bench-wire --build $(BUILD)

# A guest kernel with soft-RoCE, in the user's cache; needed once, for backend rxe.
rxe-guest:
	@ci/rxe-guest

# Command, plugin, manual, completions, weft.pc, documentation: ci/install has the list.
INSTALL = BUILD=$(BUILD) DESTDIR=$(DESTDIR) PREFIX=$(PREFIX) ci/install

install: all
	@$(INSTALL) install

uninstall: all
	@$(INSTALL) uninstall

# Packages weft and libnccl-net-mesh, in $(BUILD)/deb. With ARCH=arm64 for that architecture, in
# build/arm64/deb, by Debian's cross compiler (ci/deps arm64); the weft of this one makes pages and
# completions.
CROSS = $(shell dpkg-architecture -a$(ARCH) -qDEB_HOST_GNU_TYPE 2>/dev/null)-
deb: all
ifeq ($(ARCH),)
	@ci/deb/build --build $(BUILD)
else
	@$(SUB) ARCH= CC=$(CROSS)gcc AR=$(CROSS)ar NVCC= BUILD=build/$(ARCH) all
	@ci/deb/build --build build/$(ARCH) --arch $(ARCH) --weft $(WEFT)
endif

clean:
	rm -rf $(BUILD)

-include $(wildcard $(patsubst %.c,$(BUILD)/obj/%.d,$(ALL_C) $(MADE_C)))
