#!/bin/bash
# What the installed extension looks like in the catalogues: rights, policies, comments.
#
# The rules and their reasons stand in catalogue.sql, which test/pgtap/catalogue.sql uses too
# (and shows there that each can fail).  Needs a server with mw installed, as psql's
# variables name it (PGHOST, PGDATABASE, ...); without one there is nothing to look at.
. "$(dirname "$0")/lib.sh"

if [ -z "${PGHOST:-}" ]; then echo "no server is named (PGHOST)"; exit 77; fi
out=$(psql -XqAt -F ': ' -v ON_ERROR_STOP=1 -f test/checks/catalogue.sql -c 'SELECT object, rule FROM mw_violation ORDER BY 1, 2' 2>&1) ||
	{ violation "$out"; finish; }
[ -z "$out" ] || violations <<<"$out"
finish
