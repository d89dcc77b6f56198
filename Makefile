# dl tools.  make, make check, make install PREFIX= DESTDIR=; see README.md.

CC      ?= cc
CFLAGS  ?= -O2 -g
PREFIX  ?= /usr/local
BUILD   ?= build
BINDIR  ?= bin

WARN = -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith \
       -Wwrite-strings -Wundef -Wvla -Wformat=2 -Wcast-qual
# -ffp-contract=off: merges and codecs give the same bytes on every machine.
STD  = -std=c11 -D_GNU_SOURCE -Ilib -ffp-contract=off -pthread
LIBS = -lopenblas -lzstd -lsodium -lm -pthread

lib_src := $(wildcard lib/*/*.c)
lib_obj := $(lib_src:lib/%.c=$(BUILD)/lib/%.o)
bin_src := $(wildcard bin/*.c)
bin_exe := $(bin_src:bin/%.c=$(BINDIR)/%)
unit_src := $(wildcard tests/unit/*.c)
unit_exe := $(unit_src:tests/unit/%.c=$(BUILD)/unit/%)
archive := $(BUILD)/libdiloco.a

all: $(archive) $(bin_exe)

$(BUILD)/lib/%.o: lib/%.c
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(STD) $(CFLAGS) $(WARN) $(WERROR) -MMD -MP -c -o $@ $<

$(archive): $(lib_obj)
	@rm -f $@
	$(AR) rcs $@ $^

$(BINDIR)/%: bin/%.c $(archive)
	@mkdir -p $(@D) $(BUILD)/bin
	$(CC) $(CPPFLAGS) $(STD) $(CFLAGS) $(WARN) $(WERROR) -MMD -MP -MF $(BUILD)/bin/$*.d -o $@ $< $(archive) $(LDFLAGS) $(LIBS)

$(BUILD)/unit/%: tests/unit/%.c $(archive)
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(STD) -Itests/unit $(CFLAGS) $(WARN) $(WERROR) -MMD -MP -o $@ $< $(archive) $(LDFLAGS) $(LIBS)

unit: $(unit_exe)
	@for t in $(unit_exe); do $$t || exit 1; done

check: all unit
	DL_BIN=$(abspath $(BINDIR)) bats tests/cli

clean:
	rm -rf $(BUILD) $(bin_exe)

.PHONY: all unit check clean
.DELETE_ON_ERROR:
-include $(lib_obj:.o=.d) $(wildcard $(BUILD)/bin/*.d) $(wildcard $(BUILD)/unit/*.d)
