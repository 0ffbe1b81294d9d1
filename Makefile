# mw: PGXS as usual (make, make install, make installcheck, make clean).  What is the
# project's own (below) only calls scripts, needs no pg_config to be read, and so works
# on a machine where nothing is installed yet.
#
#   make demo     a private server, a real small model, the scenes of the README
#   make check    quick: build with -Werror, shape, regression and pgTAP tests (< 3 min)
#   make test     everything, on PostgreSQL 15, 17 and 18
#   make campaigns   the long form of the reliability campaigns, hours: test/campaign/RESULTS.md; goes
#                 on where it was interrupted
#   make bench    the targets side by side with their floors: bench/RESULTS.md
#   make format   clang-format
#   make deps     the Debian packages that all this needs
#   make stop     stop what demo left running
#   make pristine clean, and what tests and demo left in .work
#
# PG_CONFIG=…       another server        EXTRA_CFLAGS=-Werror   as CI compiles
# FAULTS=1          with the fault points that tests use; never for a server that matters

OURS = demo check test campaigns bench format deps stop pristine
SHELL = /bin/bash

ifneq ($(filter $(OURS) print-%,$(MAKECMDGOALS)),)

THEIRS = $(filter-out $(OURS) print-%,$(MAKECMDGOALS))
.PHONY: $(OURS) $(THEIRS)

demo:
	@scripts/install-deps.sh
	@demo/run

check:
	@scripts/install-deps.sh
	@EXTRA_CFLAGS=-Werror test/run checks regress pgtap

test:
	@scripts/install-deps.sh --browser
	@EXTRA_CFLAGS=-Werror test/run

campaigns:
	@scripts/install-deps.sh
	@MW_CAMPAIGN=full test/run campaigns
	@test/campaign/builds

bench:
	@scripts/install-deps.sh
	@if [ -x bench/run ]; then bench/run; else echo "make bench: there is no bench/run in this tree" >&2; exit 1; fi

format:
	clang-format -i $(sort $(wildcard src/*.[ch] src/*/*.[ch]))

deps:
	@scripts/install-deps.sh --browser

stop:
	@demo/run --stop
	@scripts/cluster stop-all

pristine: stop
	@$(MAKE) --no-print-directory clean
	@if [ -L .work/run ]; then rm -rf "$$(readlink .work/run)"; fi
	rm -rf .work

# a goal of PGXS's beside one of ours
$(THEIRS):
	@$(MAKE) --no-print-directory $@

endif

EXTENSION  = mw
EXTVERSION = $(shell sed -n "s/^default_version = '\(.*\)'/\1/p" mw.control)
MODULE_big = mw
OBJS       = $(patsubst %.c,%.o,$(sort $(wildcard src/*.c src/*/*.c)))
C_HEADERS = $(sort $(wildcard src/*.h src/*/*.h))
DATA_built = mw--$(EXTVERSION).sql
DATA       = train/mw_guard.weights
SQL_PARTS  = $(sort $(wildcard src/sql/[0-9][0-9]_*.sql))

PG_CPPFLAGS = -Isrc -DMW_VERSION='"$(EXTVERSION)"' $(if $(FAULTS),-DMW_FAULT_POINTS) $(shell pkg-config --cflags libcurl libpcre2-8 libsodium)
# A call finds the processor's caches cold, so that a jump less for each call within mw and into the server is a
# twentieth of a cache hit: no table of jumps (-fno-plt), and mw's own names bound when it is linked (-Bsymbolic).
PG_CFLAGS   = -fno-plt -fno-semantic-interposition -std=gnu11 -Wall -Wextra -Wno-unused-parameter -Wno-sign-compare -Wno-missing-field-initializers $(EXTRA_CFLAGS)
SHLIB_LINK  = $(shell pkg-config --libs libcurl libpcre2-8 libsodium) -Wl,-Bsymbolic
EXTRA_CLEAN = mw--$(EXTVERSION).sql build.flags src/util/conditions.inc results regression.diffs regression.out

# These read every byte of every text; a twentieth of their time
src/stage/scan.o src/stage/scan_number.o src/stage/scan_mark.o src/stage/context.o src/stage/detect.o src/stage/hints.o src/stage/normalise.o src/util/sift.o: private CFLAGS += -O3

# Nothing of mw is worth inlining into a JIT-compiled query, and the second compilation needs clang.
override with_llvm = no

# Tests that say in their name that they need preloading, or its absence, are the runner's.
REGRESS      = $(filter-out preload_% nopreload_%,$(patsubst sql/%.sql,%,$(sort $(wildcard sql/*.sql))))
REGRESS_OPTS = --inputdir=. --outputdir=.

print-%:
	@echo '$* = $($*)'

ifeq ($(filter $(OURS) print-%,$(MAKECMDGOALS)),)

PG_CONFIG ?= pg_config
PGXS := $(shell $(PG_CONFIG) --pgxs)
include $(PGXS)

# PGXS does not track headers, nor that the flags of the last build were others
$(OBJS): $(C_HEADERS) build.flags

build.flags: FORCE
	@echo '$(CC) $(CPPFLAGS) $(CFLAGS)' | cmp -s - $@ || echo '$(CC) $(CPPFLAGS) $(CFLAGS)' > $@

.PHONY: FORCE

# SQLSTATEs and PL/pgSQL's names for them, as this server knows them
src/util/sqlstate.o: src/util/conditions.inc
src/util/conditions.inc: build.flags
	awk 'length($$1) == 5 && $$2 ~ /^[EWS]$$/ && NF == 4 {printf "{\"%s\", \"%s\"},\n", $$1, $$4}' $(datadir)/errcodes.txt >$@.new
	test -s $@.new
	mv $@.new $@

# Programs that test a module without a server (test/run c); each links what it is about.
TEST_C = $(patsubst %.c,%,$(sort $(wildcard test/c/*_test.c)))
EXTRA_CLEAN += $(TEST_C)
# The text stages without a server: objects of src, and what they need of PostgreSQL (test/c/alone)
TEXT_ALONE = $(sort $(wildcard src/stage/recognizers*.c src/util/validate*.c) $(addprefix src/stage/,scan.c scan_number.c scan_mark.c detect_plan.c detect.c context.c overlap.c repeat.c pii_view.c \
	pii_gate.c pii_map.c placeholder.c strategy.c redact_text.c normalise.c decode.c pieces.c hints.c ngrams.c) $(addprefix src/util/,keccak.c regex.c hash.c) \
	$(addprefix test/c/alone/,alone.c holds.c policy.c))
test/c/pii_test test/c/views_test: $(TEXT_ALONE:.c=.o)
test/c/pii_test test/c/views_test: SHLIB_LINK += -Wl,--wrap=unicode_normalize
$(filter test/%,$(TEXT_ALONE:.c=.o)): test/c/alone/alone.h test/c/alone/holds.h $(C_HEADERS) build.flags
EXTRA_CLEAN += $(filter test/%,$(TEXT_ALONE:.c=.o))
# Branches counted, and PCRE2's steps and libc's bytes
WRAPPED = pcre2_compile_8 pcre2_match_context_create_8 memcpy memmove memcmp memset strlen unicode_normalize
%.count.o: %.c $(C_HEADERS) test/c/alone/alone.h build.flags
	$(CC) $(CPPFLAGS) $(CFLAGS) -fsanitize-coverage=trace-pc -c $< -o $@
test/c/linear_test: test/c/linear_test.count.o $(filter-out %/holds.count.o,$(TEXT_ALONE:.c=.count.o))
	$(CC) $(CFLAGS) $^ -o $@ -L$(pkglibdir) -L$(libdir) $(SHLIB_LINK) $(WRAPPED:%=-Wl,--wrap=%) -lpgcommon -lpgport -lpthread -lm
EXTRA_CLEAN += test/c/linear_test.count.o $(TEXT_ALONE:.c=.count.o)
test/c/http_test: $(patsubst %.c,%.o,$(sort $(wildcard src/gateway/http*.c) src/gateway/address.c))
test/c/%_test: test/c/%_test.c $(C_HEADERS) build.flags
	$(CC) $(CPPFLAGS) $(CFLAGS) $< $(filter %.o,$^) -o $@ -L$(pkglibdir) -L$(libdir) $(SHLIB_LINK) -lpgcommon -lpgport -lpthread -lm

# What train/learn.py counts with
train/ngrams: train/ngrams.c src/stage/ngrams.c src/stage/normalise.c $(C_HEADERS)
	$(CC) $(CPPFLAGS) $(CFLAGS) $(filter %.c,$^) -o $@ -L$(pkglibdir) -L$(libdir) -lpgcommon -lpgport -lm
EXTRA_CLEAN += train/ngrams

.PHONY: test-c
test-c: $(TEST_C)

# The same modules under libFuzzer and the sanitizers (test/campaign/p1_fuzz.pl); clang alone has it
CLANG = clang
FUZZ_O = $(patsubst %.c,%.fuzz.o,$(TEXT_ALONE) test/fuzz/fuzz.c)
FUZZ_FLAGS = -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined -O1 -g -fno-omit-frame-pointer -std=gnu11 -w
%.fuzz.o: %.c $(C_HEADERS) test/c/alone/alone.h test/c/alone/holds.h build.flags
	$(CLANG) $(filter -I% -D%,$(CPPFLAGS)) $(FUZZ_FLAGS) -c $< -o $@
test/fuzz/fuzz: $(FUZZ_O)
	$(CLANG) $(FUZZ_FLAGS) -fsanitize=fuzzer $^ -o $@ -L$(pkglibdir) -L$(libdir) $(SHLIB_LINK) -Wl,--wrap=unicode_normalize -lpgcommon -lpgport -lpthread -lm
EXTRA_CLEAN += test/fuzz/fuzz $(FUZZ_O)

# A plain CREATE fails where somebody has planted an object of that name; these two forms would adopt it.
mw--$(EXTVERSION).sql: $(SQL_PARTS) mw.control
	@if sed 's/--.*//' $(SQL_PARTS) | tr '\n\t' '  ' | grep -qiE '\bOR +REPLACE\b|\bIF +NOT +EXISTS\b'; then \
		echo "$@: OR REPLACE and IF NOT EXISTS may not stand in an install script:" >&2; \
		grep -niE '\bOR[[:space:]]+REPLACE\b|\bIF[[:space:]]+NOT[[:space:]]+EXISTS\b' $(SQL_PARTS) >&2; exit 1; fi
	cat $(SQL_PARTS) > $@

endif
