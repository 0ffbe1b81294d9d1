#!/bin/bash
# Nothing unfinished is left behind, and nothing reaches out of the project.
#
# A TODO is an issue that nobody can list.  A file above the project's own folder is there on
# one machine, and this one is not the reader's.
. "$(dirname "$0")/lib.sh"

files=$(find . -type f \( -name '*.c' -o -name '*.h' -o -name '*.sql' -o -name '*.sh' -o -name '*.pl' -o -name '*.pm' -o -name '*.py' -o -name '*.md' -o -name '*.spec' -o -name Makefile \) \
	-not -path './.git/*' -not -path './.work/*' -not -path './results/*' -not -name 'mw--*' -not -path './test/checks/*' | sort)
# shellcheck disable=SC2086
[ -n "$files" ] && {
	grep -nE '\b(TODO|FIXME|XXX|HACK)\b' $files | grep -vE "XXXXXX|'[^']*# TODO" | violations "unfinished"
	# from the top, one step up leaves the project; from a folder of it, as many as it is deep
	for f in $files; do
		depth=$(tr -cd / <<<"${f#./}" | wc -c)
		grep -nHE "(^|[^./])(\.\./){$((depth + 1)),}[A-Za-z]" "$f"
	done | violations "a path out of the project"
}
finish
