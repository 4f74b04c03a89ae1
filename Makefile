# Weft. `make` builds; `make demo` shows; `make test` proves. `make help` lists the rest.
#
# Variables: CC, O (optimisation, default -O2), SAN (e.g. address,undefined), WERROR=1,
# BUILD (default build), V=1 to see the commands.

CC ?= gcc
ifeq ($(origin CC),default)
CC := gcc
endif
O ?= -O2
SAN ?=
BUILD ?= build
V ?=
Q := $(if $(V),,@)

VERSION := $(shell cat VERSION 2>/dev/null || echo 0.1.0)

WARN := -Wall -Wextra -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes \
        -Wswitch-enum -Wvla -Wformat=2 -Wundef -Wpointer-arith -Wcast-qual
CPPFLAGS += -Isrc -I. -DWEFT_VERSION='"$(VERSION)"' -D_POSIX_C_SOURCE=200809L
CFLAGS_ALL = -std=c11 $(O) -g -fPIC -fno-strict-aliasing $(WARN) $(if $(WERROR),-Werror) \
             $(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer \
             -fno-sanitize-recover=all) $(COVERAGE) $(CFLAGS)
LDFLAGS_ALL = $(if $(SAN),-fsanitize=$(SAN)) $(COVERAGE) $(LDFLAGS)
LIBS := -lyaml -ljansson -lsodium -lm -lpthread
TEST_LIBS := -lcheck -lsubunit -lrt

# Sources: every .c is the library's but tests, fuzz targets and the command's main.
ALL_C := $(sort $(wildcard src/*/*.c backends/*.c backends/*/*.c sim/*.c sim/*/*.c))
TEST_C := $(filter %_test.c,$(ALL_C))
FUZZ_C := $(filter %_fuzz.c,$(ALL_C))
SUPPORT_C := $(filter %_testing.c,$(ALL_C))
MAIN_C := src/cli/main.c
LIB_C := $(filter-out $(TEST_C) $(FUZZ_C) $(SUPPORT_C) $(MAIN_C),$(ALL_C))

obj = $(patsubst %.c,$(BUILD)/obj/%.o,$(1))
TESTS := $(patsubst %.c,$(BUILD)/test/%,$(TEST_C))

.PHONY: all demo test tidy asan bench coverage mutants fuzz soak install clean help tests check-fast
.DELETE_ON_ERROR:
.SECONDARY:

all: $(BUILD)/weft

help:
	@echo "all demo test tidy asan bench coverage mutants fuzz soak install clean"

$(BUILD)/weft: $(call obj,$(MAIN_C)) $(BUILD)/libweft.a
	@echo "  LINK  $@"
	$(Q)$(CC) $(LDFLAGS_ALL) -o $@ $^ $(LIBS)

$(BUILD)/libweft.a: $(call obj,$(LIB_C))
	@echo "  AR    $@"
	$(Q)rm -f $@ && ar rcs $@ $^

$(BUILD)/libweft-testing.a: $(call obj,$(SUPPORT_C))
	@echo "  AR    $@"
	$(Q)rm -f $@ && ar rcs $@ $^

$(BUILD)/obj/%.o: %.c
	@echo "  CC    $<"
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS_ALL) -MMD -MP -c -o $@ $<

$(BUILD)/test/%: $(BUILD)/obj/%.o $(BUILD)/libweft-testing.a $(BUILD)/libweft.a
	@echo "  LINK  $@"
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS_ALL) -o $@ $^ $(TEST_LIBS) $(LIBS)

tests: $(TESTS)

clean:
	rm -rf $(BUILD)

-include $(wildcard $(patsubst %.c,$(BUILD)/obj/%.d,$(ALL_C)))
