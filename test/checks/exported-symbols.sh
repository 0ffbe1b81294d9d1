#!/bin/bash
# Everything that mw.so exports begins with mw_ (or is what PostgreSQL looks for).
#
# All extensions of a server share one namespace of C symbols; two of them with a function
# called "wake" call each other's.  Needs a built mw.so, with or without fault points.
. "$(dirname "$0")/lib.sh"

[ -f mw.so ] || { violation "mw.so: not built"; finish; }
nm -D --defined-only mw.so | awk '{print $NF}' |
	grep -vE '^(mw_[a-z0-9_]*|pg_finfo_mw_[a-z0-9_]*|Pg_magic_func|_PG_init|_init|_fini|__gcov_.*|__bss_start|_edata|_end)(@@.*)?$' |
	sed 's/^/mw.so: /' | violations "does not begin with mw_"
finish
