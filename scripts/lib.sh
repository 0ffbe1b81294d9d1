# lib.sh - what every script here shares: whose rights, which folders, which server.
#
# Sourced by scripts/cluster, scripts/chroot, test/run, test/readme.sh, demo/run and
# bench/run.  Three decisions live here and nowhere else:
#
# Rights.  PostgreSQL refuses to run as root, and CI is root.  So whatever touches
# a server goes through mw_as, which drops to an unprivileged user when root
# called and changes nothing otherwise.
#
# Folders.  Everything made is under $MW_WORK (.work in the tree), which can be
# removed at any time.  That user must be able to read what he runs, and a checkout
# under /root is closed to him; then the run folder is a private one under /tmp, and
# $MW_WORK/run is a link to it.
#
# Server.  Tests change no installed PostgreSQL.  A server finds its libraries and its
# share folder relative to its own binary, so a copy of it is a whole server, and
# "make install" with the copy's pg_config installs into the copy.  (PostgreSQL 18's
# extension_control_path would do, 15 has none.)

MW_TOP=${MW_TOP:-$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)}
MW_WORK=${MW_WORK:-$MW_TOP/.work}
export MW_TOP MW_WORK

mw_say() { printf '%s\n' "$*"; }
mw_die() { printf '%s: %s\n' "${0##*/}" "$*" >&2; exit 1; }

# ---------- rights ----------

mw_user() { # the user that servers run as
	if [ "$(id -u)" -ne 0 ]; then id -un; else echo "${MW_USER:-postgres}"; fi
}

# Run a command as that user, from a folder he can be in, with a plain PATH and his
# own HOME: root's (pyenv and the like) are closed to him.
mw_as() {
	if [ "$(id -u)" -ne 0 ]; then env PATH="${MW_BIN:+$MW_BIN:}$PATH" "$@"; else
		(
			cd / || exit
			exec runuser -u "$(mw_user)" -- env HOME="$MW_RUN" LOGNAME="$(mw_user)" USER="$(mw_user)" \
				PATH="${MW_BIN:+$MW_BIN:}/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin" "$@"
		)
	fi
}

# ---------- folders ----------

# Sets MW_RUN: builds, servers, data; the unprivileged user owns it.
mw_run_dir() {
	[ -z "${MW_RUN:-}" ] || return 0
	local user dir
	user=$(mw_user)
	id "$user" >/dev/null 2>&1 || mw_die "there is no user \"$user\" to run PostgreSQL as; run scripts/install-deps.sh or set MW_USER"
	mkdir -p "$MW_WORK/log"
	dir=$MW_WORK/run
	if [ ! -e "$dir" ]; then
		rm -f "$dir"
		mkdir "$dir"
		if [ "$(id -u)" -eq 0 ]; then
			chown "$user" "$dir"
			if ! (cd / && runuser -u "$user" -- test -w "$dir"); then
				rmdir "$dir"
				ln -s "$(mktemp -d "${TMPDIR:-/tmp}/mw.XXXXXXXX")" "$dir"
				chown "$user" "$dir/."
				chmod 755 "$dir/."
			fi
		fi
	fi
	MW_RUN=$(cd "$dir" && pwd -P)
	export MW_RUN
}

# What is kept between checkouts: chroots, the demo's model.
mw_cache_dir() {
	if [ -n "${MW_CACHE:-}" ]; then echo "$MW_CACHE"
	elif [ "$(id -u)" -eq 0 ]; then echo /var/cache/mw
	else echo "${XDG_CACHE_HOME:-$HOME/.cache}/mw"; fi
}

# ---------- server ----------

mw_pg_config() { # the server that is copied: $PG_CONFIG, else Debian 12's, else the one on the PATH
	local c
	for c in "${PG_CONFIG:-}" /usr/lib/postgresql/15/bin/pg_config pg_config; do
		[ -n "$c" ] && command -v "$c" >/dev/null && { command -v "$c"; return; }
	done
	mw_die "no pg_config found; run scripts/install-deps.sh or set PG_CONFIG"
}

# Copy the server to $MW_RUN/pg-FLAVOUR where it is missing or the installed one has
# changed; sets MW_BIN and MW_PGXS.  FLAVOUR is plain or faults (mw with fault points).
mw_server() {
	local flavour=${1:-plain} conf tree paths stamp p
	mw_run_dir
	conf=$(mw_pg_config)
	# Debian's /usr/bin/pg_config is a wrapper; the real one stands in bindir
	conf=$("$conf" --bindir)/pg_config
	tree=$MW_RUN/pg-$flavour
	paths=$(for p in --bindir --pkglibdir --sharedir --includedir --includedir-server; do "$conf" $p; done |
		sort | awk 'NR == 1 || index($0, last "/") != 1 { last = $0; print }')
	stamp=$(find $paths -printf '%p %s %T@\n' | sort | cksum)
	if [ "$(cat "$tree/.stamp" 2>/dev/null)" != "$stamp" ]; then
		(
			flock 9
			mw_as mkdir -p "$tree"
			for p in $paths; do
				mw_as mkdir -p "$tree$p"
				mw_as rsync -a --delete "$p/" "$tree$p/"
			done
			rm -f "$MW_RUN/build-$flavour/.installed"
			echo "$stamp" | mw_as tee "$tree/.stamp" >/dev/null
		) 9>"$MW_WORK/lock"
	fi
	MW_BIN=$tree$(dirname "$conf")
	MW_PGXS=$(dirname "$("$MW_BIN/pg_config" --pgxs)")/../..
	MW_PGXS=$(cd "$MW_PGXS" && pwd -P)
	MW_FLAVOUR=$flavour
	MW_MAJOR=$("$MW_BIN/pg_config" --version | sed 's/[^0-9]*\([0-9]*\).*/\1/')
	MW_BUILD=$MW_RUN/build-$flavour
	export MW_BIN MW_PGXS MW_FLAVOUR MW_BUILD MW_MAJOR
}

# Copy the sources to $MW_BUILD (objects there stay, so that it is an incremental
# build), compile and install into the copied server.
mw_build() {
	mw_server "${1:-plain}"
	(
		flock 9
		mw_as mkdir -p "$MW_BUILD"
		mw_sync "$MW_TOP" "$MW_BUILD"
		mw_as make -s -j2 -C "$MW_BUILD" PG_CONFIG="$MW_BIN/pg_config" EXTRA_CFLAGS="${EXTRA_CFLAGS:-}" \
			FAULTS="$([ "$MW_FLAVOUR" = faults ] && echo 1)" install
	) 9>"$MW_WORK/lock"
}

# The tree without what git or a build made; files that left it leave the copy too.
mw_sync() { # FROM TO
	rsync -a --delete --chmod=a+rX --exclude-from=- "$1/" "$2/" <<-'LIST'
		- /.git
		- /.work
		- /build.flags
		- /src/util/conditions.inc
		- /results
		- /output_iso
		- /tmp_check
		- *.o
		- *.bc
		- *.so
		- /test/c/*_test
		- /test/fuzz/fuzz
		- /mw--*.sql
		- __pycache__
	LIST
	[ "$(id -u)" -ne 0 ] || chown -R "$(mw_user)" "$2"
}
