#!/bin/bash
#
# serve.sh DIR RUN [PORT] - serve the model that setup.sh installed in DIR; print its base_url.
#
# RUN is a folder of the caller's for chat.pid and chat.log.  Listens on 127.0.0.1 only; without
# PORT, or with 0, on a free one.  MODEL_API_KEY in the environment makes it ask for that key.
set -euo pipefail
dir=${1:?usage: serve.sh DIR RUN [PORT]}
run=${2:?usage: serve.sh DIR RUN [PORT]}
port=${3:-0}
here=$(cd "$(dirname "$0")" && pwd)
python=$dir/venv/bin/python

fail() { echo "model: $*" >&2; exit 1; }
[ -x "$python" ] || fail "nothing is installed in $dir; run setup.sh $dir"
if [ -f "$run/chat.pid" ] && kill -0 "$(cat "$run/chat.pid")" 2>/dev/null; then
	fail "it runs already (pid $(cat "$run/chat.pid")); stop.sh $run"
fi
[ "$port" != 0 ] || port=$("$python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')

"$python" "$here/chat_server.py" "$dir/chat.gguf" --port "$port" --chat-template "$here/chat_template.jinja" \
	>"$run/chat.log" 2>&1 </dev/null &
pid=$!
echo "$pid" >"$run/chat.pid"
# ready when our own process has said so (another may hold the port) and answers
tries=0
until grep -q "^http://127.0.0.1:$port/v1" "$run/chat.log" &&
	"$python" -c 'import sys, urllib.request as r; r.build_opener(r.ProxyHandler({})).open(sys.argv[1], timeout=2)' \
		"http://127.0.0.1:$port/health" 2>/dev/null; do
	tries=$((tries + 1))
	if [ "$tries" -gt 240 ] || ! kill -0 "$pid" 2>/dev/null; then
		kill "$pid" 2>/dev/null || true
		rm -f "$run/chat.pid"
		tail -n 5 "$run/chat.log" >&2
		fail "the server did not start; the end of its log is above"
	fi
	sleep 0.25
done
echo "http://127.0.0.1:$port/v1"
