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
# usage: scripts/install-deps.sh [--pg MAJOR] [--build-only] [--browser]
#   --pg MAJOR    this server's packages instead of Debian 12's (15)
#   --build-only  what compiling and the regression tests need, not the rest
#   --browser     Chromium as well, and what examples/inbox needs; that one test is skipped where
#                 they cannot be had, so this says so and fails nothing
set -euo pipefail

pg=15 build_only= browser=
while [ $# -gt 0 ]; do
	case $1 in
		--pg) pg=${2:?--pg needs a major version}; shift ;;
		--build-only) build_only=1 ;;
		--browser) browser=1 ;;
		*) echo "usage: $0 [--pg MAJOR] [--build-only] [--browser]" >&2; exit 2 ;;
	esac
	shift
done

packages=(
	"postgresql-$pg" "postgresql-server-dev-$pg" "postgresql-$pg-pgtap" "postgresql-plpython3-$pg" "postgresql-plperl-$pg" libtap-parser-sourcehandler-pgtap-perl
	libcurl4-openssl-dev libpcre2-dev libsodium-dev pkg-config gcc make libc6-dev
	perl python3 rsync openssl procps libipc-run-perl util-linux
)
[ -n "$build_only" ] || packages+=(
	python3-venv libgomp1 pgbouncer iproute2 debootstrap ca-certificates curl binutils clang-format git
	clang libclang-rt-dev		# test/campaign/p1_fuzz.pl
)

of_browser=()
[ -z "$browser" ] || of_browser=(chromium chromium-driver python3-selenium python3-psycopg python3-bottle)

absent() { # PACKAGE...: those that are not installed
	local p
	for p in "$@"; do
		# a virtual or renamed package (t64 names) counts when something provides it
		dpkg-query -W -f '${db:Status-Abbrev}' "$p" 2>/dev/null | grep -q '^.i' || echo "$p"
	done
}
mapfile -t missing < <(absent "${packages[@]}")
mapfile -t no_browser < <(absent ${of_browser[@]+"${of_browser[@]}"})
if [ $((${#missing[@]} + ${#no_browser[@]})) -eq 0 ]; then
	echo "install-deps: all $((${#packages[@]} + ${#of_browser[@]})) packages are installed"
	exit 0
fi

root=()
if [ "$(id -u)" -ne 0 ]; then
	if ! command -v sudo >/dev/null; then
		echo "install-deps: missing: ${missing[*]} ${no_browser[*]}" >&2
		echo "install-deps: run this as root, or install sudo: apt-get install ${missing[*]} ${no_browser[*]}" >&2
		[ ${#missing[@]} -eq 0 ] || exit 1
		exit 0
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
# the lists may be old or absent: one update, and only when the first try finds nothing
install() { # PACKAGE...
	echo "install-deps: installing $*"
	apt install -y --no-install-recommends "$@" >"$log" 2>&1 && return
	echo "install-deps: updating the package lists"
	{ apt update && apt install -y --no-install-recommends "$@"; } >"$log" 2>&1
}
if [ ${#missing[@]} -gt 0 ] && ! install "${missing[@]}"; then
	tail -n 20 "$log" >&2
	echo "install-deps: apt-get could not install: ${missing[*]}" >&2
	exit 1
fi
if [ ${#no_browser[@]} -gt 0 ] && ! install "${no_browser[@]}"; then
	echo "install-deps: apt-get could not install ${no_browser[*]}; the test of examples/inbox will be skipped"
fi
echo "install-deps: done"
