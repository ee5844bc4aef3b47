#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# vm: --kernel debug --mem 512M --cpus 2 --timeout 240
# tier: test
#
# Every allocation that the driver makes fails once, in turn, and then all of them at once: along
# loading, disksize, hot_add, parameters, writes, reads, recompression and reset, for a processor that
# comes back, and under swap. The error is right, the device is as it was, what was acknowledged is
# there, and afterwards all works. That nothing leaked is asked at the end of the boot, of kmemleak.

. "$(dirname "$0")/lib.sh"
SHORT_LINES=1000

! on_c || skip_all "it aims at rzram's own allocations"
mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug
[ -d /sys/kernel/debug/failslab ] || skip_all "this kernel cannot make allocations fail"
[ -e /sys/kernel/debug/failslab/require-start ] || skip_all "this kernel cannot choose whose"

# everywhere FILE VALUE: one setting of both kinds of failure, of objects and of pages.
everywhere() {
	echo "$2" >"/sys/kernel/debug/failslab/$1" && echo "$2" >"/sys/kernel/debug/fail_page_alloc/$1"
}

PLENTY=1000000

# aim: only what has the driver on its stack fails, whether it may sleep or not. Again after a load.
aim() {
	everywhere probability 0
	everywhere interval 1
	everywhere verbose 0
	everywhere times $PLENTY
	everywhere task-filter Y
	everywhere ignore-gfp-wait N
	echo N >/sys/kernel/debug/fail_page_alloc/ignore-gfp-highmem
	echo 0 >/sys/kernel/debug/fail_page_alloc/min-order
	everywhere require-start "$(awk -v name="$DRIVER" '$1 == name { print $6 }' /proc/modules)"
}

# count: how many allocations failed so far, in $met.
count() {
	read -r _objects </sys/kernel/debug/failslab/times
	read -r _pages </sys/kernel/debug/fail_page_alloc/times
	met=$((2 * PLENTY - _objects - _pages))
}

# nth N COMMAND...: run it with its N-th allocation failing.
# shellcheck disable=SC2016
nth() { sh -c 'echo "$0" >/proc/self/fail-nth && exec "$@"' "$@" 2>&1; }

# none COMMAND...: run it without memory: all its allocations fail.
# shellcheck disable=SC2016
none() {
	everywhere probability 100
	sh -c 'echo 1 >/proc/self/make-it-fail && exec "$@"' sh "$@" 2>&1
	everywhere probability 0
}

# outcome TEXT: in one word; dd's words count as well.
outcome() {
	case $1 in
	*"Input/output error"*) echo EIO ;;
	*"Cannot allocate memory"*) echo ENOMEM ;;
	*" copied, "*) echo ok ;;
	*) echo "$1" ;;
	esac
}

# each NAME OUTCOMES AFTER COMMAND...: COMMAND with its first, second, ... allocation failing, up to two
# runs one after the other that have fewer, as what the processor has at hand differs. Each run must end
# in one of OUTCOMES, and then AFTER, called with that, must find things right. The runs that met no
# failure must end in the first of OUTCOMES. There must be one allocation, or $least.
each() {
	name=$1
	wanted=$2
	after=$3
	shift 3
	runs=0
	misses=0
	while [ $misses -lt 2 ]; do
		count
		before=$met
		found=$(outcome "$(nth $((runs + 1)) "$@")")
		count
		if [ "$met" -eq "$before" ]; then
			misses=$((misses + 1))
			[ "$found" = "${wanted%%|*}" ] && $after "$found" && continue
			failed "$name: without failure" "found: $found; $after may have found things wrong"
			return
		fi
		misses=0
		runs=$((runs + 1))
		case "|$wanted|" in
		*"|$found|"*) ;;
		*)
			failed "$name: failure $runs" "wanted: $wanted
found:  $found"
			return
			;;
		esac
		if ! $after "$found"; then
			failed "$name: failure $runs, after $found" "$after found things wrong"
			return
		fi
		[ $runs -lt 2000 ] || break
	done
	is "$name: each of $runs allocations failed, and then none" 2 "$misses"
	[ $runs -ge ${least:-1} ] || failed "$name: some allocation failed" "it seems to make none"
}

devices() { find /sys/block -maxdepth 1 -name "${DRIVER}[0-9]*" | wc -l; }
state() {
	read -r _size <"$ATTR/disksize"
	read -r _live <"$ATTR/initstate"
	echo "$_size $_live"
}

# A device that got its size is reset; one that did not is as it was.
after_size() {
	case $1 in
	ok) [ "$(state)" = "67108864 1" ] && echo 1 >"$ATTR/reset" && choose ;;
	*) [ "$(state)" = "0 0" ] && grep -q "\[$algorithm\]" "$ATTR/comp_algorithm" ;;
	esac
}
choose() { echo "$algorithm" >"$ATTR/comp_algorithm" && echo "$extra" >"$ATTR/algorithm_params"; }

load
aim
dd if=/bin/sh of=/tmp/dict bs=4096 count=4 2>/dev/null
extra=
for algorithm in $(codecs) lz4:dict=/tmp/dict; do
	extra=${algorithm#*:}
	algorithm=${algorithm%%:*}
	[ "$extra" != "$algorithm" ] || extra=
	check "$algorithm $extra: chosen" choose
	each "disksize, $algorithm $extra" "ok|ENOMEM" after_size rzattr write "$ATTR/disksize" 64M
	is "disksize without memory, $algorithm $extra" ENOMEM "$(none rzattr write "$ATTR/disksize" 64M)"
	check "it is as it was" after_size ENOMEM
done

# A dictionary that can't be read costs nothing; what was chosen before stays chosen.
algorithm=lz4
extra="dict=/tmp/dict"
nothing() { :; }
check "reset" sh -c "echo 1 >$ATTR/reset; echo lz4 >$ATTR/comp_algorithm"
each "parameters with a dictionary" "ok|ENOMEM" nothing rzattr write "$ATTR/algorithm_params" "$extra"
writes ok disksize 1M
writes ok reset 1

after_add() {
	case $1 in
	ENOMEM) [ "$(devices)" -eq 1 ] && [ ! -e /dev/${DRIVER}1 ] ;;
	*) [ "$(devices)" -eq 2 ] && [ "$(rzattr write "$CONTROL/hot_remove" 1)" = ok ] ;;
	esac
}
each "hot_add" "1|ENOMEM" after_add rzattr read "$CONTROL/hot_add"
is "hot_add without memory" ENOMEM "$(none rzattr read "$CONTROL/hot_add")"
is "no device came" 1 "$(devices)"

# Pages of three kinds, before and after, as files.
set_up 64M lz4
for kind in text noise sized:2600; do
	for generation in 1 2; do
		rzio put "$NODE" $kind 100 1 --generation $generation >/dev/null
		dd if="$NODE" of=/tmp/$kind.$generation bs=4k skip=100 count=1 iflag=direct status=none
	done
done
page() { dd if="/tmp/$kind.$1" of="$NODE" bs=4k seek="$2" count=1 oflag=direct conv=notrunc 2>&1; }
holds() { dd if="$NODE" bs=4k skip="$2" count=1 iflag=direct status=none | cmp -s - "/tmp/$kind.$1"; }

# A failed write leaves the old page, one that was acknowledged the new one; back to the old one then.
after_write() {
	case $1 in
	ok) holds 2 "$place" && page 1 "$place" >/dev/null ;;
	*) holds 1 "$place" ;;
	esac
}
for algorithm in $(codecs); do
	set_up 64M "$algorithm"
	for kind in text noise sized:2600; do
		place=7
		page 1 $place >/dev/null
		# The pool asks for pages now and then only.
		least=0
		each "$algorithm: $kind written" "ok|EIO" after_write \
			dd "if=/tmp/$kind.2" "of=$NODE" bs=4k seek=$place count=1 oflag=direct conv=notrunc
		least=
		wrong=0
		refused=0
		for place in $(seq 600 40 1400); do
			found=$(outcome "$(none dd "if=/tmp/$kind.2" "of=$NODE" bs=4k seek="$place" \
				count=1 oflag=direct conv=notrunc)")
			case $found in
			ok) holds 2 "$place" || wrong=$((wrong + 1)) ;;
			EIO)
				refused=$((refused + 1))
				rzio check "$NODE" zero "$place" 1 >/dev/null || wrong=$((wrong + 1))
				;;
			*) wrong=$((wrong + 1)) ;;
			esac
		done
		is "$algorithm: $kind written without memory, $refused of 21 refused" 0 "$wrong"
		check "$algorithm: $kind: some were refused" [ $refused -gt 0 ]
		rzio discard "$NODE" 600 801 >/dev/null
	done
	check "$algorithm: every stored length, with all memory" rzio classes "$NODE"
	# What is read without memory is right, or not read.
	wrong=0
	rzio put "$NODE" text 2000 64 >/dev/null
	for place in $(seq 2000 2063); do
		dd if="$NODE" of=/tmp/right bs=4k skip="$place" count=1 iflag=direct status=none
		found=$(outcome "$(none dd "if=$NODE" of=/tmp/found bs=4k skip="$place" count=1 iflag=direct)")
		case $found in
		ok) cmp -s /tmp/right /tmp/found || wrong=$((wrong + 1)) ;;
		*) wrong=$((wrong + 1)) ;;
		esac
	done
	is "$algorithm: every page can be read without memory" 0 "$wrong"
	discard_all_is_zero "$algorithm"
done

# Recompression, idle marks, compaction and figures, with data.
strong=$(algorithms | tr ' ' '\n' | grep -xm1 -e zstd -e deflate -e 842) || strong=lz4
writes ok reset 1
writes ok comp_algorithm lz4
intact() { rzio check "$NODE" text 0 64 && rzio check "$NODE" noise 200 16; }
each "recomp_algorithm" "ok|ENOMEM" nothing rzattr write "$ATTR/recomp_algorithm" "algo=$strong priority=1"
writes ok disksize 64M
check "data" sh -c "rzio put $NODE text 0 64 && rzio put $NODE noise 200 16"
after_pass() {
	rzio put "$NODE" text 0 64 >/dev/null && rzio put "$NODE" noise 200 16 >/dev/null
}
after_recompression() { intact >/dev/null && after_pass; }
rule SE-38 "an allocation that fails ends no run"
each "recompression" "ok|ENOMEM|EIO" after_recompression rzattr write "$ATTR/recompress" "priority=1 max_pages=24"
found=$(none rzattr write "$ATTR/recompress" priority=1)
is "recompression without memory" "ENOMEM|ok" "$found"
check "data after it" intact
rule
for pair in "idle:all" "compact:1" "mem_limit:32M" "mem_used_max:0"; do
	is "${pair%:*} without memory" ok "$(none rzattr write "$ATTR/${pair%:*}" "${pair#*:}")"
done
for name in mm_stat io_stat debug_stat disksize comp_algorithm recomp_algorithm; do
	is "$name reads the same without memory" "$(rzattr read "$ATTR/$name")" "$(none rzattr read "$ATTR/$name")"
done
is "discard without memory" ok "$(none rzattr ioctl discard "$NODE" 0 131072)"
is "what was discarded is zero, the rest is there" "ok ok" \
	"$(rzio check "$NODE" zero 0 32 >/dev/null && echo ok) $(rzio check "$NODE" text 32 32 >/dev/null && echo ok)"
is "reset without memory" ok "$(none rzattr write "$ATTR/reset" 1)"
is "it did reset" "0 0" "$(state)"

# A processor that finds no memory for its streams when it comes back borrows others'.
CPU=/sys/devices/system/cpu/cpu1/online
if [ -e $CPU ]; then
	set_up 64M zstd
	rzio put "$NODE" text 0 256 >/dev/null
	echo 0 >$CPU
	everywhere task-filter N
	everywhere probability 100
	echo 1 >$CPU
	sleep 1
	everywhere probability 0
	everywhere task-filter Y
	is "CPU 1 is back" 1 "$(cat $CPU)"
	check "it reads" taskset -c 1 rzio check "$NODE" text 0 256
	check "and writes" taskset -c 1 rzio put "$NODE" text 256 256
	check "what can be read" rzio check "$NODE" text 256 256
	discard_all_is_zero "a processor without streams"
fi

# Swap while each fifth allocation of the driver fails: pages that can't go out stay in memory.
set_up 256M lz4
check "mkswap" mkswap "$NODE"
check "swapon" swapon "$NODE"
everywhere task-filter N
everywhere probability 20
count
before=$met
check "swap with failures: every page is right" swapfill --seed "$SEED" --procs 2 --mib 24 --rounds 2
everywhere probability 0
everywhere task-filter Y
count
check "there were failures ($((met - before)))" [ "$met" -gt "$before" ]
check "swapoff" swapoff "$NODE"
discard_all_is_zero "swap with failures"

# Loading: the driver has no address yet, so any allocation of the task may fail.
writes ok reset 1
unload
wrong=0
everywhere require-start 0
step=5
! short || step=29
for number in $(seq 1 $step 900); do
	nth "$number" sh -c "exec insmod $RZRAM_KO num_devices=2" >/tmp/insmod
	if loaded; then
		[ "$(devices)" -eq 2 ] || wrong=$((wrong + 1))
		unload || wrong=$((wrong + 1))
	elif [ -e "$CONTROL" ] || [ "$(devices)" -ne 0 ]; then
		wrong=$((wrong + 1))
	fi
done
is "loading with failures: two devices or nothing" 0 "$wrong"

# All works again.
everywhere probability 0
load
set_up 64M
check "random requests" rzio random "$NODE" --seed "$SEED" --span 256 --ops "$(work 1500)"
is "no failed requests" "0 0" "$(io 1) $(io 2)"
discard_all_is_zero "at the end"
finish
