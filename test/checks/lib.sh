# lib.sh - what the checks of this folder share.
#
# A check is a script that looks at a tree (its argument, else the one it stands in),
# prints each violation as "file:line: what", and exits 1 when there was one.  Each
# begins with the reason why it exists.  "run" runs all of them; "prove" plants a fault
# for each and sees that it is found.

set -uo pipefail
shopt -s lastpipe				# "… | violations" runs in this shell, and sets bad here
TOP=$(cd "${1:-$(dirname "${BASH_SOURCE[0]}")/../..}" && pwd)
cd "$TOP" || exit 2
bad=0

violation() { printf '%s\n' "$*"; bad=1; }

# each line of standard input is a violation; what they have in common is the argument
violations() {
	local line
	while IFS= read -r line; do violation "$line${1:+  ($1)}"; done
}

finish() { exit $bad; }
