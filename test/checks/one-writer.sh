#!/bin/bash
# A table is written by callers' transactions or by the gateway, never by both.
#
# A caller that holds a row lock which the gateway waits for, and then waits for the gateway,
# is a deadlock that nobody detects and that stops every tenant.  Rows that are chosen FOR UPDATE SKIP
# LOCKED and deleted, or marked, are not waited for, so a statement that does just that is nobody's.  So who writes what is read
# out of the SQL in the C sources: the worker's side is src/gateway but for fake.c, which
# runs in the caller's backend and writes tables of its own.  A table that the gateway writes
# without statements (src/util/table.c) is an MwTable with its name, and so is one of callers'.
. "$(dirname "$0")/lib.sh"

# "table file" for each statement that writes, also where the table's name begins the next string
writes() {
	for file in "$@"; do
		[ -f "$file" ] || continue
		tr '\n' ' ' <"$file" | sed 's/"[[:space:]]*"//g' |
			sed -E 's/(DELETE FROM|UPDATE) mw\.[a-z_]+( AS i SET [a-z_]+ = true)? WHERE (i\.)?ctid = ANY \(ARRAY\([^"]* FOR UPDATE SKIP LOCKED\)\)//g' |
			grep -oE '\b(INSERT[[:space:]]+INTO|UPDATE|DELETE[[:space:]]+FROM|TRUNCATE|MERGE[[:space:]]+INTO)[[:space:]]+(TABLE[[:space:]]+|ONLY[[:space:]]+)?mw\.[a-z_]+' |
			grep -oE 'mw\.[a-z_]+$' | sort -u | sed "s|\$| $file|"
	done
}
is_worker() { case $1 in src/gateway/fake*.c|src/gateway/script*.c) return 1 ;; src/gateway/*) return 0 ;; *) return 1 ;; esac; }

gateway=() callers=()
for file in src/*.c src/*/*.c; do
	if is_worker "$file"; then gateway+=("$file"); else callers+=("$file"); fi
done
written_by_row() { grep -HoE 'MwTable [a-z_]+ = \{|\.name = "[a-z_]+"' "$@" 2>/dev/null | awk -F: '/MwTable/ {f = $1; next} f == $1 {gsub(/.* "|"$/, "", $2); print "mw." $2, $1; f = ""}'; }
by_gateway=$(writes "${gateway[@]}"; written_by_row "${gateway[@]}"); by_callers=$(writes "${callers[@]}"; written_by_row "${callers[@]}")

# a check that finds no statement at all reads the wrong files
[ -n "$by_callers" ] || violation "src: no statement of callers found"
while read -r table file; do
	[ -n "$table" ] || continue
	other=$(awk -v t="$table" '$1 == t {print $2}' <<<"$by_callers" | tr '\n' ' ')
	[ -z "$other" ] || violation "$table: written by $file and by $other"
done <<<"$by_gateway"

# and in SQL: the install script's functions run in callers' transactions
while read -r table; do
	[ -n "$table" ] || continue
	if awk '{print $1}' <<<"$by_gateway" | grep -qx "$table"; then violation "$table: written by the gateway and by a function of src/sql"; fi
done < <(sed 's/--.*//' src/sql/*.sql | grep -oiE '\b(INSERT[[:space:]]+INTO|UPDATE|DELETE[[:space:]]+FROM)[[:space:]]+mw\.[a-z_]+' | grep -oE 'mw\.[a-z_]+$' | sort -u)
finish
