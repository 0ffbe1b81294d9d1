# upstream.sh - the mock provider for shell scripts, and so for regress and pgTAP runs.
#
#   . test/lib/upstream.sh
#   upstream_start [options of upstream.py]   sets UPSTREAM (http://127.0.0.1:PORT), UPSTREAM_PID
#   upstream_reset '{"script": {...}}' [SESSION]
#   upstream_get /_journal [SESSION]
#   upstream_stop                             by its number; also from a trap
#
# Needs python3 and nothing else.

UPSTREAM= UPSTREAM_PID=
upstream_here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
upstream_python=$(command -v /usr/bin/python3 || command -v python3)

upstream_start() {
	local out n=0
	out=$(mktemp)
	"$upstream_python" "$upstream_here/upstream.py" "$@" >"$out" 2>&1 </dev/null &
	UPSTREAM_PID=$!
	until UPSTREAM=$(sed -n 's/^LISTENING //p' "$out"); [ -n "$UPSTREAM" ]; do
		n=$((n + 1))
		if [ $n -gt 200 ] || ! kill -0 "$UPSTREAM_PID" 2>/dev/null; then
			cat "$out" >&2
			rm -f "$out"
			echo "the mock upstream did not start" >&2
			return 1
		fi
		sleep 0.05
	done
	rm -f "$out"
}

upstream_http() { # METHOD PATH [BODY]
	"$upstream_python" - "$UPSTREAM" "$@" <<-'PY'
		import sys, urllib.request as r
		base, method, path, *body = sys.argv[1:]
		data = body[0].encode() if body else None
		opener = r.build_opener(r.ProxyHandler({}))
		print(opener.open(r.Request(base + path, data, {"content-type": "application/json"}, method=method), timeout=60).read().decode())
	PY
}
upstream_reset() { upstream_http POST "${2:+/s/$2}/_reset" "$1" >/dev/null; }
upstream_get() { upstream_http GET "${2:+/s/$2}$1"; }

upstream_stop() {
	[ -n "$UPSTREAM_PID" ] || return 0
	kill "$UPSTREAM_PID" 2>/dev/null || true
	wait "$UPSTREAM_PID" 2>/dev/null || true
	UPSTREAM_PID=
}
