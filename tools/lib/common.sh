# SPDX-License-Identifier: GPL-2.0
#
# Shared by the lab's scripts: places, messages, locks, stamps, and running a long step with progress.
# Sourced, never run. Sets RZ_TOP (the checkout) and RZ_CACHE (everything that is built or downloaded).
# shellcheck shell=bash

RZ_TOP=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
RZ_CACHE=${RZRAM_CACHE:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/rzram}
RZ_SUITE=trixie
RZ_ROOT=$RZ_CACHE/root-$RZ_SUITE
RZ_LOG=$RZ_CACHE/log

# Where the checkout and the cache appear inside the lab root.
RZ_IN_TOP=/rzram
RZ_IN_CACHE=/cache

say() { printf '%s\n' "rzram: $*" >&2; }
die() { printf '%s\n' "rzram: error: $*" >&2; exit 1; }

# need_root WHAT: stop unless we are root.
need_root() {
	[ "$(id -u)" -eq 0 ] || die "$1 needs root: it makes a chroot and mounts file systems; run it with sudo"
}

# make_cache: create the cache folder and its fixed sub-folders.
make_cache() {
	mkdir -p "$RZ_CACHE" "$RZ_LOG" "$RZ_CACHE/stamp" "$RZ_CACHE/tmp" 2>/dev/null ||
		die "cannot write to the cache folder $RZ_CACHE; set RZRAM_CACHE to a folder you can write"
	RZ_CACHE=$(cd "$RZ_CACHE" && pwd -P)
	RZ_ROOT=$RZ_CACHE/root-$RZ_SUITE
	RZ_LOG=$RZ_CACHE/log
	case $RZ_CACHE in
	*[[:space:]:]*) die "the cache folder's path may not hold spaces or colons: $RZ_CACHE" ;;
	esac
}

# need_space GIB: stop unless the cache folder's file system has that much room.
need_space() {
	local free_gib
	free_gib=$(df -Pk "$RZ_CACHE" | awk 'NR == 2 { print int($4 / 1048576) }')
	[ "$free_gib" -ge "$1" ] ||
		die "the disk of $RZ_CACHE has $free_gib GiB free and this step needs $1; free some or set RZRAM_CACHE"
}

# with_lock NAME COMMAND...: run COMMAND while holding a lock; waits for another run and says so.
with_lock() {
	local name=$1 fd status
	shift
	exec {fd}>"$RZ_CACHE/$name.lock"
	if ! flock -n "$fd"; then
		say "waiting for another run that is busy with: $name"
		flock "$fd"
	fi
	# No "||" here: it would switch off set -e inside.
	"$@"
	status=$?
	exec {fd}>&-
	return "$status"
}

# Stamps mark finished steps. They are written last, so a killed step is done again.
stamped() { [ -e "$RZ_CACHE/stamp/$1" ]; }
stamp() { : >"$RZ_CACHE/stamp/$1"; }

# run_step LABEL LOGNAME COMMAND...: run COMMAND with its output in a log, showing elapsed time and
# where it is. On failure shows the log's end and returns the command's status.
run_step() {
	local label=$1 log=$RZ_LOG/$2.log pid begin=$SECONDS beat rc=0 last
	shift 2
	say "$label ..."
	# A command in the lab root is started so that it dies with us; see in_root(). It inherits a lock
	# that we hold, so a step that outlives us all the same is waited for and not run twice.
	if [ "$1" = in_root ]; then
		(shift && exec_in_root "$@") >"$log" 2>&1 </dev/null &
	else
		"$@" >"$log" 2>&1 </dev/null &
	fi
	pid=$!
	# shellcheck disable=SC2064
	trap "kill -KILL $pid 2>/dev/null; exit 130" INT TERM
	beat=$((SECONDS + 15))
	while kill -0 "$pid" 2>/dev/null; do
		sleep 0.3
		if [ "$SECONDS" -ge "$beat" ]; then
			beat=$((SECONDS + 15))
			last=$(tail -c 2000 "$log" | tr '\r' '\n' | progress_line | cut -c1-70)
			say "  $((SECONDS - begin)) s  $last"
		fi
	done
	wait "$pid" || rc=$?
	trap - INT TERM
	if [ "$rc" -ne 0 ]; then
		say "failed after $((SECONDS - begin)) s: $label. The end of $log:"
		tail -n 25 "$log" | sed 's/^/    /' >&2
		return "$rc"
	fi
	say "$label: done in $((SECONDS - begin)) s"
}

# progress_line: the last line worth showing; apt's status lines become a percentage.
progress_line() {
	awk -F: '
		/^(dl|pm)status:/ { last = ($1 == "dlstatus" ? "downloading " : "installing ") int($3) " %  " $4; next }
		NF { last = $0 }
		END { print last }'
}

# in_root COMMAND...: run COMMAND inside the lab root, checkout at $RZ_IN_TOP, cache at $RZ_IN_CACHE.
# Its mounts live in a private namespace, and its processes die with the calling shell, even if that
# is killed. RZ_SHARE names one more host folder, seen at /mnt/host.
in_root() { (exec_in_root "$@"); }

# exec_in_root COMMAND...: the same in place of the current (sub)shell.
exec_in_root() {
	exec setpriv --pdeathsig KILL unshare --mount --propagation private --pid --fork --kill-child \
		bash "$RZ_TOP/tools/lib/enter.sh" "$RZ_ROOT" "$RZ_TOP" "$RZ_CACHE" "$@"
}
