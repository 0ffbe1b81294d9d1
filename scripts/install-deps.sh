#!/bin/bash
#
# install-deps.sh - the Debian packages that building, testing and the demo need.
#
# Installs what is missing and nothing else; when nothing is, it says so in well
# under a second and asks no registry.  Runs as root, or with sudo where there is
# one.  It never starts, stops or changes a PostgreSQL cluster: Debian makes one
# called "main" when a server package is installed for the first time, and that
# is switched off before the package arrives (a file of the administrator's own
# is left alone; a cluster that exists is not touched).
#
# usage: scripts/install-deps.sh [--pg MAJOR] [--build-only]
#   --pg MAJOR    this server's packages instead of Debian 12's (15)
#   --build-only  what compiling and the regression tests need, not the rest
set -euo pipefail

pg=15 build_only=
while [ $# -gt 0 ]; do
	case $1 in
		--pg) pg=${2:?--pg needs a major version}; shift ;;
		--build-only) build_only=1 ;;
		*) echo "usage: $0 [--pg MAJOR] [--build-only]" >&2; exit 2 ;;
	esac
	shift
done

packages=(
	"postgresql-$pg" "postgresql-server-dev-$pg" "postgresql-$pg-pgtap" libtap-parser-sourcehandler-pgtap-perl
	libcurl4-openssl-dev libpcre2-dev libsodium-dev pkg-config gcc make libc6-dev
	perl python3 rsync openssl procps libipc-run-perl util-linux
)
[ -n "$build_only" ] || packages+=(
	python3-venv libgomp1 faketime debootstrap ca-certificates curl binutils clang-format git
)

missing=()
for p in "${packages[@]}"; do
	# a virtual or renamed package (t64 names) counts when something provides it
	dpkg-query -W -f '${db:Status-Abbrev}' "$p" 2>/dev/null | grep -q '^.i' || missing+=("$p")
done
if [ ${#missing[@]} -eq 0 ]; then
	echo "install-deps: all ${#packages[@]} packages are installed"
	exit 0
fi

root=()
if [ "$(id -u)" -ne 0 ]; then
	if ! command -v sudo >/dev/null; then
		echo "install-deps: missing: ${missing[*]}" >&2
		echo "install-deps: run this as root, or install sudo: apt-get install ${missing[*]}" >&2
		exit 1
	fi
	root=(sudo)
fi
export DEBIAN_FRONTEND=noninteractive
apt() { "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 -o Dpkg::Options::=--force-confold "$@" </dev/null; }

# no "main" cluster on a machine that had no PostgreSQL
conf=/etc/postgresql-common/createcluster.conf
if ! dpkg-query -W -f '${db:Status-Abbrev}' "postgresql-$pg" 2>/dev/null | grep -q '^.i' && [ ! -e $conf ]; then
	echo "install-deps: $conf: create_main_cluster = false"
	"${root[@]}" mkdir -p /etc/postgresql-common
	echo 'create_main_cluster = false' | "${root[@]}" tee $conf >/dev/null
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT
echo "install-deps: installing ${missing[*]}"
# the lists may be old or absent: one update, and only when the first try finds nothing
if ! apt install -y --no-install-recommends "${missing[@]}" >"$log" 2>&1; then
	echo "install-deps: updating the package lists"
	if ! { apt update && apt install -y --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
		tail -n 20 "$log" >&2
		echo "install-deps: apt-get could not install: ${missing[*]}" >&2
		exit 1
	fi
fi
echo "install-deps: done"
