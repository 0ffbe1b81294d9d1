#!/bin/bash
#
# stop.sh RUN - stop what serve.sh started with this RUN folder, by its number.
set -euo pipefail
run=${1:?usage: stop.sh RUN}
[ -f "$run/chat.pid" ] || exit 0
pid=$(cat "$run/chat.pid")
signal=TERM tries=0
# the number may be somebody else's by now
while { tr '\0' ' ' <"/proc/$pid/cmdline"; } 2>/dev/null | grep -q 'chat_server\.py'; do
	kill -s "$signal" "$pid" 2>/dev/null || true
	tries=$((tries + 1))
	[ "$tries" -lt 50 ] || signal=KILL
	sleep 0.1
done
rm -f "$run/chat.pid"
