#!/bin/bash
# The install script says CREATE plainly, and grants in one place.
#
# CREATE OR REPLACE and IF NOT EXISTS take over an object that somebody planted before, with
# its owner and its triggers (CVE-2022-2625); a plain CREATE fails.  Rights that are given
# in many places cannot be read as "who can do what", so they stand in 90_grants.sql alone.
. "$(dirname "$0")/lib.sh"

shopt -s nullglob
parts=(src/sql/*.sql)
[ ${#parts[@]} -gt 0 ] || violation "src/sql: no parts"
# comments may talk about it; line numbers stay
plain() { sed 's/--.*//' "$1" | grep -niE "$2" | sed "s|^|$1:|"; }
for part in "${parts[@]}"; do
	plain "$part" '\bOR[[:space:]]+REPLACE\b' | violations "no OR REPLACE"
	plain "$part" '\bIF[[:space:]]+NOT[[:space:]]+EXISTS\b' | violations "no IF NOT EXISTS"
	case $part in
		src/sql/[0-9][0-9]_*.sql) ;;
		*) violation "$part: a part is named NN_what.sql, or it is left out" ;;
	esac
	[ "$part" = src/sql/90_grants.sql ] && continue
	plain "$part" '^[[:space:]]*(GRANT|REVOKE)\b' | violations "rights stand in 90_grants.sql"
	plain "$part" '\b(SECURITY[[:space:]]+DEFINER)\b' | violations "C switches to the owner; no definer functions"
done
finish
