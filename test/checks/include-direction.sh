#!/bin/bash
# Folders of src include downwards only: agent, call, stage, policy, gateway, provider, util.
#
# Without it the layers grow together: a provider adapter that reads a policy cannot run in
# the gateway any more, and a budget that knows the agent cannot be tested alone.  The compiler
# does not mind, so a script has to.  A folder that is not in the list is a mistake too.
. "$(dirname "$0")/lib.sh"

order=(agent call stage policy gateway provider util)
rank() { local i; for i in "${!order[@]}"; do [ "${order[$i]}" = "$1" ] && { echo "$i"; return; }; done; echo -1; }

while IFS=: read -r file line text; do
	from=${file#src/}; from=${from%%/*}
	to=$(sed -n 's/^[[:space:]]*#[[:space:]]*include[[:space:]]*"\([a-z_]*\)\/.*/\1/p' <<<"$text")
	[ -n "$to" ] && [ -d "src/$to" ] || continue	# a header of PostgreSQL's
	from_rank=$(rank "$from"); to_rank=$(rank "$to")
	[ "$from_rank" -ge 0 ] || violation "$file:$line: folder \"$from\" has no place in the order"
	[ "$from_rank" -le "$to_rank" ] || violation "$file:$line: $from includes $to, which lies above it"
done < <(grep -nE '^[[:space:]]*#[[:space:]]*include[[:space:]]*"' src/*/*.c src/*/*.h)

for dir in src/*/; do
	dir=${dir#src/}; dir=${dir%/}
	[ "$dir" = sql ] || [ "$(rank "$dir")" -ge 0 ] || violation "src/$dir: has no place in the order"
done
finish
