# mw: PGXS as usual (make, make install, make installcheck); what is ours stands below the line.

EXTENSION  = mw
EXTVERSION = $(shell sed -n "s/^default_version = '\(.*\)'/\1/p" mw.control)
MODULE_big = mw
OBJS       = $(patsubst %.c,%.o,$(sort $(wildcard src/*.c src/*/*.c)))
HEADERS_ALL = $(sort $(wildcard src/*.h src/*/*.h))
DATA_built = mw--$(EXTVERSION).sql
SQL_PARTS  = $(sort $(wildcard src/sql/[0-9][0-9]_*.sql))

PG_CPPFLAGS = -Isrc $(shell pkg-config --cflags libcurl libpcre2-8 libsodium)
PG_CFLAGS   = -std=gnu11 -Wall -Wextra -Wno-unused-parameter -Wno-sign-compare -Wno-missing-field-initializers $(EXTRA_CFLAGS)
SHLIB_LINK  = $(shell pkg-config --libs libcurl libpcre2-8 libsodium)
EXTRA_CLEAN = mw--$(EXTVERSION).sql

REGRESS      = $(patsubst sql/%.sql,%,$(sort $(wildcard sql/*.sql)))
REGRESS_OPTS = --inputdir=. --outputdir=.

PG_CONFIG ?= pg_config
PGXS := $(shell $(PG_CONFIG) --pgxs)
include $(PGXS)

# PGXS does not track headers
$(OBJS): $(HEADERS_ALL)

mw--$(EXTVERSION).sql: $(SQL_PARTS)
	cat $(SQL_PARTS) > $@
