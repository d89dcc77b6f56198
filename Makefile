# dl tools.  make; make check; make install [PREFIX=/usr/local] [DESTDIR=].
#
# make sanitize   everything that check runs, under ASan and UBSan, in build/asan
# make tsan       the same under the thread sanitizer, in build/tsan
# make check-slow the tests that take minutes each: storms of kills, every system call failing once
# make fuzz       each parser for FUZZ_SECONDS with libFuzzer (clang), in build/fuzz
# make bench      speeds and ratios of this machine: all of tests/bench, or BENCH="train pytorch"
# make lint       floors, headers alone, shell scripts, manual pages, complete triples

CC      ?= cc
CFLAGS  ?= -O2 -g
PREFIX  ?= /usr/local
BUILD   ?= build
BINDIR  ?= bin
FUZZ_CC ?= clang
FUZZ_SECONDS ?= 60

WARN = -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith \
       -Wwrite-strings -Wundef -Wvla -Wformat=2 -Wcast-qual -Wno-missing-field-initializers
# -ffp-contract=off: merges and codecs give the same bytes on every machine.
STD  = -std=c11 -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64 -Ilib -ffp-contract=off -pthread
LIBS = -Wl,--as-needed -lopenblas -lzstd -lsodium -ljansson -lm -pthread
# Several ranks as one learner, where there is an MPI; MPI= leaves it out. Sanitizers find fault with it.
MPI ?= $(if $(SANITIZE),,$(shell command -v mpicc))
ifneq ($(MPI),)
MPI_CFLAGS := -DWITH_MPI $(patsubst -I%,-isystem %,$(shell $(MPI) --showme:compile))
LIBS += $(shell $(MPI) --showme:link)
endif
compile = $(CC) $(CPPFLAGS) $(STD) $(CFLAGS) $(FAST) $(SANITIZE) $(WARN) $(WERROR) -MMD -MP
libs = $(LDFLAGS) $(LIBS)

lib_src  := $(wildcard lib/*/*.c)
lib_obj  := $(lib_src:lib/%.c=$(BUILD)/lib/%.o)
archive  := $(BUILD)/libdiloco.a
# What several tests need, and no program.
test_obj := $(patsubst tests/lib/%.c,$(BUILD)/test-lib/%.o,$(wildcard tests/lib/*.c))
test_archive := $(BUILD)/libtest.a
# The same mathematics in double precision, for tests that compare with finite differences.
f64_obj  := $(patsubst lib/%.c,$(BUILD)/double/%.o,$(wildcard lib/math/*.c))
programs := $(patsubst bin/%.c,%,$(wildcard bin/*.c)) $(patsubst bin/%.sh,%,$(wildcard bin/*.sh))
bin_exe  := $(programs:%=$(BINDIR)/%)
unit_exe := $(patsubst tests/unit/%.c,$(BUILD)/unit/%,$(wildcard tests/unit/*.c))
fuzz_src := $(filter-out tests/fuzz/replay.c,$(wildcard tests/fuzz/*.c))
fuzz_exe := $(fuzz_src:tests/fuzz/%.c=$(BUILD)/fuzz/%)
replay_exe := $(fuzz_src:tests/fuzz/%.c=$(BUILD)/replay/%)
tool_exe := $(patsubst tests/tools/%.c,$(BUILD)/tools/%,$(wildcard tests/tools/*.c)) $(BUILD)/tools/fault.so
bench_exe := $(patsubst tests/bench/%.c,$(BUILD)/bench/%,$(wildcard tests/bench/*.c))
man_page := $(wildcard man/*.[157])

all: $(archive) $(bin_exe)

# The model's arithmetic is vectorised and may fuse products with sums; NaN and infinity keep their meaning.
fast_src := $(addprefix math/,layer attention moe adamw muon gemm)
$(fast_src:%=$(BUILD)/lib/%.o) $(fast_src:%=$(BUILD)/double/%.o): \
	FAST = -O3 -ffp-contract=fast -fno-math-errno -fno-trapping-math
# That of a merge, and what passes over every value of a file, is only vectorised.
$(addprefix $(BUILD)/lib/,math/merge.o form/codec.o form/half.o base/finite.o): FAST = -O3
$(BUILD)/lib/io/ranks.o: FAST = $(MPI_CFLAGS)

$(BUILD)/lib/%.o: lib/%.c
	@mkdir -p $(@D)
	$(compile) -c -o $@ $<

$(BUILD)/double/%.o: lib/%.c
	@mkdir -p $(@D)
	$(compile) -DREAL_DOUBLE -c -o $@ $<

$(archive): $(lib_obj)
	@mkdir -p $(@D)
	@rm -f $@
	$(AR) rcs $@ $^

$(BUILD)/test-lib/%.o: tests/lib/%.c
	@mkdir -p $(@D)
	$(compile) -c -o $@ $<

$(test_archive): $(test_obj)
	@rm -f $@
	$(AR) rcs $@ $^

$(BINDIR)/%: bin/%.c $(archive)
	@mkdir -p $(@D) $(BUILD)/dep
	$(compile) -MF $(BUILD)/dep/$*.d -o $@ $< $(archive) $(libs)

$(BINDIR)/%: bin/%.sh
	@mkdir -p $(@D)
	install -m 755 $< $@

$(filter %_f64,$(unit_exe)): $(BUILD)/unit/%: tests/unit/%.c $(f64_obj) $(archive)
	@mkdir -p $(@D)
	$(compile) -DREAL_DOUBLE -Itests/unit -o $@ $< $(f64_obj) $(archive) $(libs)

$(BUILD)/unit/%: tests/unit/%.c $(test_archive) $(archive)
	@mkdir -p $(@D)
	$(compile) -Itests/unit -Itests/lib -o $@ $< $(test_archive) $(archive) $(libs)

$(BUILD)/bench/%: tests/bench/%.c $(archive)
	@mkdir -p $(@D)
	$(compile) -o $@ $< $(archive) $(libs)

# Programs that only tests run; the shared object breaks calls of others (dl-break).
$(BUILD)/tools/%.so: tests/tools/preload/%.c
	@mkdir -p $(@D)
	$(CC) -std=c11 -D_GNU_SOURCE -O2 -g -fPIC -shared $(WARN) $(WERROR) -o $@ $< -ldl

$(BUILD)/tools/%: tests/tools/%.c $(test_archive) $(archive)
	@mkdir -p $(@D)
	$(compile) -Itests/lib -o $@ $< $(test_archive) $(archive) $(libs)

# A fuzz target is linked twice: with libFuzzer, and with a driver that replays seeds.
$(BUILD)/fuzz/%: tests/fuzz/%.c $(test_archive) $(archive)
	@mkdir -p $(@D)
	$(compile) -Itests/lib -fsanitize=fuzzer -o $@ $< $(test_archive) $(archive) $(libs)

$(BUILD)/replay/%: tests/fuzz/%.c tests/fuzz/replay.c $(test_archive) $(archive)
	@mkdir -p $(@D)
	$(compile) -Itests/lib -o $@ $< tests/fuzz/replay.c $(test_archive) $(archive) $(libs)

# Every test prints lines "ok WHAT" and "not ok WHAT"; scripts/check counts them.
programs: all $(unit_exe) $(replay_exe) $(tool_exe)

unit: $(unit_exe)
	@scripts/run-programs $(unit_exe)

replay: $(replay_exe)
	@scripts/run-programs $(replay_exe)

# Whole runs take longest and begin first, so that no processor waits for them at the end.
longest := $(wildcard tests/cli/run-*.bats tests/cli/chaos-*.bats)
cli: all $(tool_exe)
	@DL_BIN=$(abspath $(BINDIR)) DL_TOOLS=$(abspath $(BUILD))/tools \
		scripts/run-bats $(longest) $(filter-out $(longest),$(wildcard tests/cli/*.bats))

tests: unit replay cli

check-slow: programs
	@DL_SLOW=1 $(MAKE) --no-print-directory cli

check: programs
	@$(MAKE) --no-print-directory -k lint-light tests

sanitized = $(MAKE) --no-print-directory BUILD=$(BUILD)/$(1) BINDIR=$(BUILD)/$(1)/bin \
	CFLAGS="-O1 -g -fno-omit-frame-pointer"
sanitize:
	@DL_SANITIZE=address ASAN_OPTIONS=detect_leaks=1:exitcode=99 \
	UBSAN_OPTIONS=print_stacktrace=1:exitcode=99 $(call sanitized,asan) \
		SANITIZE="-fsanitize=address,undefined -fno-sanitize-recover=all" check

tsan:
	@DL_SANITIZE=thread $(call sanitized,tsan) SANITIZE=-fsanitize=thread check

fuzz-build: $(fuzz_exe)

fuzz:
	@$(call sanitized,fuzz) CC=$(FUZZ_CC) fuzz-build SANITIZE="-fsanitize=fuzzer-no-link \
		-fsanitize=address,undefined -fno-sanitize-recover=all"
	@scripts/run-fuzz $(BUILD)/fuzz/fuzz $(FUZZ_SECONDS)

bench: all $(bench_exe) $(tool_exe)
	@DL_BIN=$(abspath $(BINDIR)) DL_TOOLS=$(abspath $(BUILD))/tools \
		DL_BENCH=$(abspath $(BUILD))/bench scripts/run-bench $(BENCH)

lint-light:
	@scripts/lint light

lint:
	@CC="$(CC)" scripts/lint all

install: all
	install -d $(DESTDIR)$(PREFIX)/bin
	$(if $(bin_exe),install -m 755 $(bin_exe) $(DESTDIR)$(PREFIX)/bin)
	@for page in $(man_page); do \
		dir=$(DESTDIR)$(PREFIX)/share/man/man$${page##*.}; \
		echo "install -m 644 $$page $$dir"; \
		install -d $$dir && install -m 644 $$page $$dir || exit 1; \
	done

uninstall:
	rm -f $(programs:%=$(DESTDIR)$(PREFIX)/bin/%)
	@for page in $(man_page); do \
		echo "rm -f $(DESTDIR)$(PREFIX)/share/man/man$${page##*.}/$${page##*/}"; \
		rm -f $(DESTDIR)$(PREFIX)/share/man/man$${page##*.}/$${page##*/} || exit 1; \
	done

clean:
	rm -rf $(BUILD) $(bin_exe)

.PHONY: all programs unit replay cli tests check check-slow sanitize tsan fuzz fuzz-build bench lint \
	lint-light install uninstall clean
.DELETE_ON_ERROR:
-include $(lib_obj:.o=.d) $(f64_obj:.o=.d) $(test_obj:.o=.d) $(wildcard $(BUILD)/dep/*.d $(BUILD)/unit/*.d \
	$(BUILD)/bench/*.d $(BUILD)/tools/*.d $(BUILD)/fuzz/*.d $(BUILD)/replay/*.d)
