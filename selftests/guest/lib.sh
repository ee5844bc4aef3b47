# SPDX-License-Identifier: GPL-2.0
#
# Shared by the guest suites: TAP output, the device under test, clean-up. Sourced, never run.
#
# A suite sources this, calls `load`, then checks, then `finish`. The first failure ends it with
# status 1 (with RZRAM_KEEP_GOING=1 it goes on and fails at the end). However it ends, everything
# is unmounted, switched off, reset and unloaded. RZRAM_DRIVER=zram runs the same suite on C zram,
# the oracle; where rzram is meant to differ a suite says so with `differs`. RZRAM_COMPAT=1 runs it on
# rzram under zram's names.
#
# RZRAM_TIER=full multiplies the work of the long suites by ten, RZRAM_TIER=debug does an eighth of it
# with fewer codecs, as the debug kernel is slow, and ends a suite after $SHORT_LINES lines; the seed
# stays. See `work` and `codecs`.
# Its own variables begin with an underscore, so that they never meet a suite's.
# shellcheck shell=sh

# The module, and the name that its disks carry.
DRIVER=${RZRAM_DRIVER:-rzram}
NAME=$DRIVER
[ -z "${RZRAM_COMPAT-}" ] || NAME=zram
DISK=${NAME}0
NODE=/dev/$DISK
ATTR=/sys/block/$DISK
CONTROL=/sys/class/$NAME-control
MNT=/tmp/mnt
SEED=${RZRAM_SEED:-20260101}
case ${RZRAM_TIER:-test} in
full) SCALE=10 SHARE=1 ;;
debug) SCALE=1 SHARE=8 ;;
*) SCALE=1 SHARE=1 ;;
esac
# C zram can do direct I/O from whole pages only (SE-1).
ALIGNED=
[ "$DRIVER" != zram ] || ALIGNED=--aligned

# How many lines the debug tier does of this suite. One that is short by itself sets more.
SHORT_LINES=24

tests=0
failures=0
helpers=
installed=
_rule=
_once=

echo "TAP version 13"

on_c() { [ "$DRIVER" = zram ]; }

is_compat() { [ "$DRIVER" != "$NAME" ]; }

# rule [ID [WHAT]]: the lines that follow test this rule of zram's ABI, and begin with its id, or with
# several; without ID they test none. WHAT says it on the page that tools/rules makes.
rule() {
	_rule=${1:+$1 }
	[ -z "${2-}" ] || echo "# rule $1: $2"
}

passed() {
	tests=$((tests + 1))
	echo "ok $tests - $_once$_rule$1"
	_once=
	! short || [ "$tests" -lt "$SHORT_LINES" ] || finish
}

# failed NAME DETAIL
failed() {
	tests=$((tests + 1))
	failures=$((failures + 1))
	printf '%s\n' "$2" | sed 's/^/# /'
	echo "not ok $tests - $_once$_rule$1"
	_once=
	[ -n "${RZRAM_KEEP_GOING-}" ] || exit 1
}

# skip NAME REASON
skip() {
	tests=$((tests + 1))
	echo "ok $tests - $_once$_rule$1 # SKIP $2"
	_once=
}

# skip_all REASON: nothing here can run.
skip_all() {
	echo "1..0 # SKIP $1"
	trap - EXIT
	exit 4
}

finish() {
	echo "1..$tests"
	[ "$failures" -eq 0 ] || exit 1
	exit 0
}

# check NAME COMMAND...: COMMAND must exit 0. It runs in a subshell.
check() {
	_name=$1
	shift
	if _output=$("$@" 2>&1); then
		passed "$_name"
	else
		failed "$_name" "$* exited $?: $_output"
	fi
}

# refuses NAME COMMAND...: COMMAND must fail.
refuses() {
	_name=$1
	shift
	if _output=$("$@" 2>&1); then
		failed "$_name" "$* succeeded: $_output"
	else
		passed "$_name"
	fi
}

# is NAME WANTED FOUND; WANTED may be alternatives, as A|B.
is() {
	case "|$2|" in
	*"|$3|"*) passed "$1" ;;
	*) failed "$1" "wanted: $2
found:  $3" ;;
	esac
}

# differs ID NAME: true, and a skip, if this is C zram, which is known to be wrong there. On rzram the
# next line tests that.
differs() {
	if ! on_c; then
		case $1 in
		SE-*) _once="$1 " ;;
		esac
		return 1
	fi
	skip "$2" "C zram differs: $1"
}

# own NAME: true, and a skip, if this is rzram, which has its own way in what is C zram's inside.
own() {
	! on_c || return 1
	skip "$1" "inside C zram; rzram has its own way"
}

_newline='
'
# writes OUTCOME ATTRIBUTE TEXT: what one write of exactly TEXT gives: ok or an errno's name.
writes() {
	shown "$3"
	is "$2 <- '$_shown' is $1" "$1" "$(rzattr write "$ATTR/$2" "$3")"
}

# shown TEXT: $_shown is what a name has of it.
shown() {
	_shown=$1
	if [ ${#1} -gt 40 ] || [ "${1#*"$_newline"}" != "$1" ]; then
		_shown=$(printf %.40s "$1" | tr '\n' ' ')
	fi
}

# each_writes OUTCOME ATTRIBUTE TEXT...: as `writes`, of each TEXT, by one process.
each_writes() {
	_wanted=$1
	_attribute=$2
	shift 2
	while read -r _outcome; do
		shown "$1"
		is "$_attribute <- '$_shown' is $_wanted" "$_wanted" "$_outcome"
		shift
	done <<-END
		$(rzattr each "$ATTR/$_attribute" "$@")
	END
	[ $# -eq 0 ] || failed "$_attribute" "not written: $*"
}

# reads TEXT ATTRIBUTE
reads() {
	is "$2 reads '$1'" "$1" "$(rzattr read "$ATTR/$2")"
}

# wait_for SECONDS COMMAND...: until COMMAND succeeds, at most that long.
wait_for() {
	_limit=$(($(date +%s) + $1))
	shift
	until "$@" >/dev/null 2>&1; do
		[ "$(date +%s)" -lt "$_limit" ] || return 1
		sleep 0.05
	done
}

# load [PARAMETER=VALUE...]
load() {
	if on_c; then
		modprobe zram "$@"
	else
		load-rzram ${RZRAM_COMPAT:+zram_compat=1} "$@"
	fi
}

unload() { rmmod "$DRIVER"; }

loaded() { [ -d "/sys/module/$DRIVER" ]; }

# set_up SIZE [ALGORITHM]: a fresh device of that size.
set_up() {
	echo 1 >"$ATTR/reset" || return
	[ -z "${2-}" ] || echo "$2" >"$ATTR/comp_algorithm" || return
	echo "$1" >"$ATTR/disksize"
}

# work COUNT: so many, as the tier has it; at least one.
work() { echo $((($1 * SCALE + SHARE - 1) / SHARE)); }

# short: true in the debug tier.
short() { [ "$SHARE" -gt 1 ]; }

algorithms() { tr -d '[]' <"$ATTR/comp_algorithm"; }

# codecs: those that a test of every codec takes: all, or one of each kind in the debug tier.
codecs() {
	if short; then
		algorithms | tr ' ' '\n' | grep -x -e lz4 -e zstd
	else
		algorithms
	fi
}

# mm COLUMN...: those columns of mm_stat.
mm() { fields "$ATTR/mm_stat" "$@"; }

# fields FILE COLUMN...: those columns of its first line, without a process for it.
fields() {
	read -r _one _two _three _four _five _six _seven _eight _nine <"$1"
	shift
	_fields=
	for _column; do
		case $_column in
		1) _fields="$_fields $_one" ;;
		2) _fields="$_fields $_two" ;;
		3) _fields="$_fields $_three" ;;
		4) _fields="$_fields $_four" ;;
		5) _fields="$_fields $_five" ;;
		6) _fields="$_fields $_six" ;;
		7) _fields="$_fields $_seven" ;;
		8) _fields="$_fields $_eight" ;;
		9) _fields="$_fields $_nine" ;;
		esac
	done
	echo "${_fields# }"
}

# io COLUMN: that column of io_stat.
io() { fields "$ATTR/io_stat" "$1"; }

# discard_all_is_zero WHEN: nothing may be left in memory when everything is discarded.
discard_all_is_zero() {
	check "discard everything ($1)" blkdiscard "$NODE"
	is "stored, compressed and used are 0 ($1)" "0 0 0" "$(mm 1 2 3)"
	is "same-filled and raw pages are 0 ($1)" "0 0" "$(mm 6 8)"
}

# perforate COUNT: discards three of each four of the first COUNT pages.
perforate() {
	python3 -c 'import fcntl, os, struct, sys
fd = os.open(sys.argv[1], os.O_RDWR)
for page in range(0, int(sys.argv[2]), 4):
    fcntl.ioctl(fd, 0x1277, struct.pack("QQ", page * 4096, 12288))' "$NODE" "$1"
}

# in_background COMMAND...: killed at the end at the latest; its pid is in $background.
in_background() {
	"$@" &
	background=$!
	helpers="$helpers $background"
}

# install_as_zram: has modprobe find rzram for zram, by the file that the documentation shows. The
# module tree holds what the suites of tools need. On C zram there is nothing to do.
install_as_zram() {
	on_c && return
	_tree=/tmp/modules
	_release=$(uname -r)
	_from=/lib/modules/$_release
	mkdir -p "$_tree/$_release/updates"
	cp "$RZRAM_KO" "$_tree/$_release/updates/"
	(
		cd "$_from" || exit
		cp modules.builtin* modules.order "$_tree/$_release/"
		for _module in zram ext4 loop $(modinfo -F depends "$RZRAM_KO" | tr ',' ' '); do
			modprobe --show-depends "$_module" 2>/dev/null
		done | sed -n "s|^insmod $_from/\([^ ]*\).*|\1|p" | sort -u |
			xargs -r cp --parents -t "$_tree/$_release"
	)
	cp "$RZRAM_SRC/Documentation/modprobe.d/rzram-as-zram.conf" /etc/modprobe.d/
	mount --bind "$_tree" /usr/lib/modules
	installed=y
	depmod -a
}

clean_up() {
	_status=$?
	trap - EXIT
	for _pid in $helpers; do
		kill "$_pid" 2>/dev/null
		wait "$_pid" 2>/dev/null
	done
	exec 3<&- 4<&-
	if loaded; then
		grep -q "^$NODE " /proc/swaps && swapoff "$NODE"
		mountpoint -q "$MNT" && umount "$MNT"
		for _disk in /sys/block/"$NAME"[0-9]*; do
			[ -e "$_disk/reset" ] || continue
			wait_for 10 sh -c "echo 1 >$_disk/reset" || _status=1
		done
		wait_for 10 unload || _status=1
		! loaded || echo "# the module could not be unloaded"
	fi
	if [ -n "$installed" ]; then
		umount -l /usr/lib/modules
		rm -rf /tmp/modules /etc/modprobe.d/rzram-as-zram.conf
	fi
	[ "$_status" -eq 0 ] || echo "# suite failed with status $_status"
	exit "$_status"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

[ "$(id -u)" -eq 0 ] || skip_all "needs root"
if on_c; then
	modinfo zram >/dev/null 2>&1 || skip_all "this kernel has no zram"
else
	[ -n "${RZRAM_KO-}" ] || skip_all "RZRAM_KO names no module"
fi
