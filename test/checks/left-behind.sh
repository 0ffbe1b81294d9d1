#!/bin/bash
# Nothing unfinished is left behind, and nothing names the machine it was written on.
#
# A TODO is an issue that nobody can list.  A path of the workplace works on one machine, and
# this one is not the reader's.
. "$(dirname "$0")/lib.sh"

files=$(find . -type f \( -name '*.c' -o -name '*.h' -o -name '*.sql' -o -name '*.sh' -o -name '*.pl' -o -name '*.pm' -o -name '*.py' -o -name '*.md' -o -name '*.spec' -o -name Makefile \) \
	-not -path './.git/*' -not -path './.work/*' -not -path './results/*' -not -name 'mw--*' -not -path './test/checks/*' | sort)
# shellcheck disable=SC2086
[ -n "$files" ] && {
	grep -nE '\b(TODO|FIXME|XXX|HACK)\b' $files | grep -vE "XXXXXX|'[^']*# TODO" | violations "unfinished"
	grep -nE '\.\./shared\b|/work/(main|shared|\.library)' $files | violations "a path of the workplace"
}
finish
