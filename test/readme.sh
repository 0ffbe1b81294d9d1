#!/bin/bash
#
# readme.sh FILE - do what a Markdown file says, word for word, and say what came of each block.
#
# Fenced blocks tagged sh and sql are run in order, as they stand, against a private server
# that has mw preloaded; blocks with another tag, or none, are not commands.  sh blocks run with bash in a
# copy of the tree, sql blocks in one psql session, as a reader types them, so that a role that one block sets
# is the next one's too; any error fails the block, and begins a new session.  In front of a block an HTML
# comment, which a reader does not see, may say what is special about it:
#
#   <!-- test: skip REASON -->      not run, and counted as skipped
#   <!-- test: user ROLE -->        sql: as this role        (<!-- test: db NAME -->: in this database)
#   <!-- test: error MW101 -->      sql: its last statement raises this SQLSTATE
#   <!-- test: upstream PORT -->    the mock provider, in echo mode, listens there from now on
#   <!-- test: key FILE TEXT -->    this file exists from now on, readable by the server
#
# What installs into the system (sudo, apt-get, systemctl, pg_ctlcluster, git clone) is answered by stand-ins:
# sudo runs its command, the others do nothing, since the server and the tree are here already; make runs as
# it stands, but demo, test, check and bench, which are tests of their own, are skipped.
# Prints TAP.
set -uo pipefail
exec </dev/null
trap "" PIPE
. "$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/../scripts/lib.sh"
file=${1:?usage: readme.sh FILE}

mw_run_dir
work=$MW_RUN/readme
daemons=()
cleanup() {
	local p
	trap - EXIT INT TERM
	leave
	for p in ${daemons[@]+"${daemons[@]}"}; do kill "$p" 2>/dev/null; done
	mkdir -p "$MW_WORK/log"
	cp "$MW_RUN/clusters/readme/server.log" "$MW_WORK/log/readme-server.log" 2>/dev/null
	"$MW_TOP/scripts/cluster" stop readme
	rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

"$MW_TOP/scripts/cluster" start readme --preload || { echo "not ok - a server for the README"; exit 1; }
eval "$("$MW_TOP/scripts/cluster" env readme)"
rm -rf "$work"
mw_as mkdir -p "$work/blocks" "$work/bin"
mw_sync "$MW_TOP" "$work/mw"

stand_in() { # NAME SCRIPT
	printf '#!/bin/bash\n%s\n' "$2" | mw_as tee "$work/bin/$1" >/dev/null
	mw_as chmod +x "$work/bin/$1"
}
stand_in sudo 'while [ $# -gt 0 ]; do case $1 in -u) shift 2 ;; -*|*=*) shift ;; *) break ;; esac; done; exec "$@"'
for c in apt apt-get systemctl service pg_ctlcluster git; do stand_in $c "echo \"($c: not in this test)\""; done
stand_in make 'for a in "$@"; do case $a in demo|test|check|bench|pristine|deps) echo "(make $a is a test of its own)"; exit 0 ;; esac; done; exec /usr/bin/make "$@"'

# Each block becomes a file NNN.KIND, its first line the directives, its second the line number
"$(command -v /usr/bin/python3 || command -v python3)" - "$file" "$work/blocks" <<'PY'
import re, sys
lines = open(sys.argv[1], encoding="utf-8").read().split("\n")
n, i, said = 0, 0, []
while i < len(lines):
    m = re.match(r"^\s*<!--\s*test:\s*(.*?)\s*-->\s*$", lines[i])
    if m:
        said.append(m.group(1))
    elif m := re.match(r"^(\s*)(```+|~~~+)\s*(\w*)", lines[i]):
        indent, fence, kind = m.groups()
        start, body = i + 1, []
        i += 1
        while i < len(lines) and not lines[i].strip().startswith(fence):
            body.append(lines[i][len(indent):] if lines[i].startswith(indent) else lines[i])
            i += 1
        if kind in ("sh", "sql"):
            n += 1
            with open(f"{sys.argv[2]}/{n:03d}.{kind}", "w", encoding="utf-8") as f:
                f.write("; ".join(said) + "\n" + str(start) + "\n" + "\n".join(body) + "\n")
        said = []
    elif lines[i].strip():
        said = []
    i += 1
PY
[ "$(id -u)" -ne 0 ] || chown -R "$(mw_user)" "$work"

session='' typed=''
leave() { # end the psql session, if there is one
	# told to, since the mock provider holds the other end too
	[ -z "$typed" ] || { printf '\\q\n' 1>&"$typed"; exec {typed}>&-; wait "$psql" 2>/dev/null; }
	session='' typed=''
}

enter() { # USER DB: be in a session of this role and database
	[ "$session" != "$1 $2" ] || return 0
	leave
	rm -f "$work/typed"
	mkfifo "$work/typed"
	mw_as env -C "$work/mw" PGHOST="$PGHOST" PGPORT="$PGPORT" psql -X -v ON_ERROR_STOP=1 -v VERBOSITY=verbose \
		-U "$1" -d "$2" <"$work/typed" >>"$work/out" 2>&1 &
	psql=$!
	exec {typed}>"$work/typed"
	session="$1 $2"
}

type_in() { # FILE: what it says, in the session; false, and out of it, at an error
	printf '\\i %s\n\\echo -- %s was typed --\n' "$1" "$1" 1>&"$typed"
	while kill -0 "$psql" 2>/dev/null; do
		! grep -qxF -- "-- $1 was typed --" "$work/out" || return 0
		sleep 0.02
	done
	leave
	return 1
}

failed=0 total=0
report() { # OK NAME OUTPUT-FILE
	if [ "$1" -eq 0 ]; then echo "ok - $2"; else
		failed=$((failed + 1))
		echo "not ok - $2"
		sed 's/^/#   /' "$3" | tail -n 40
	fi
}

for b in "$work"/blocks/*; do
	[ -e "$b" ] || continue
	total=$((total + 1))
	said=$(sed -n 1p "$b") line=$(sed -n 2p "$b")
	name="${file##*/} line $line (${b##*.}): $(sed -n '3,$p' "$b" | grep -m1 . | cut -c1-60)"
	tail -n +3 "$b" | mw_as tee "$b.run" >/dev/null
	skip='' user=postgres db=${db:-postgres} error=''
	while IFS= read -r d; do
		case $d in
			skip*) skip=${d#skip}; skip=${skip:- no reason given} ;;
			user\ *) user=${d#user } ;;
			db\ *) db=${d#db } ;;
			error\ *) error=${d#error } ;;
			upstream\ *)
				mw_as bash -c 'echo $$ >"$0.pid"; exec python3 "$@"' "$work/upstream" \
					"$work/mw/test/lib/upstream.py" --echo --port "${d#upstream }" >"$work/upstream.out" 2>&1 &
				for _ in $(seq 100); do grep -q LISTENING "$work/upstream.out" && break; sleep 0.05; done
				daemons+=($(cat "$work/upstream.pid"))	# its own number: that of the job is a shell's
				grep -q LISTENING "$work/upstream.out" || skip=" port ${d#upstream } is taken"
				;;
			key\ *) d=${d#key }; printf '%s\n' "${d#* }" | mw_as tee "${d%% *}" >/dev/null ;;
			'') ;;
			*) echo "not ok - $name: unknown directive \"$d\""; failed=$((failed + 1)) ;;
		esac
	done < <(printf '%s\n' "$said" | sed 's/; /\n/g')
	if [ -n "$skip" ]; then echo "ok - $name # SKIP$skip"; continue; fi
	case $b in
		*.sh)
			MW_BIN="$work/bin:$MW_BIN" mw_as env -C "$work/mw" PGHOST="$PGHOST" PGPORT="$PGPORT" PGUSER=postgres PGDATABASE="$db" \
				bash -euo pipefail "$b.run" >"$work/out" 2>&1 </dev/null
			report $? "$name" "$work/out"
			;;
		*.sql)
			: >"$work/out"
			enter "$user" "$db"
			type_in "$b.run"
			rc=$?
			if [ -n "$error" ]; then
				if [ $rc -eq 1 ] && grep -q "ERROR:  $error:" "$work/out"; then rc=0; else rc=1; echo "expected: ERROR $error" >>"$work/out"; fi
			fi
			report $rc "$name" "$work/out"
			;;
	esac
done
[ $total -gt 0 ] || { echo "not ok - ${file##*/} has blocks to run"; failed=1; }
[ $failed -eq 0 ]
