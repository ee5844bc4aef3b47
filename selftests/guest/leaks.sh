#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# vm: --kernel uml --mem 1G --cpus 2 --timeout 180
# tier: test
#
# Create, fill, reset, many times over, with every kind of content, codec and deferral: the kernel's
# memory does not grow. 300 rounds; 10000 in the long form.

. "$(dirname "$0")/lib.sh"

case $SCALE in
10) ROUNDS=10000 ;;
*) ROUNDS=$(work 300) ;;
esac
mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug

# kib NAME: a line of /proc/meminfo.
kib() { awk -v name="$1:" '$1 == name { print $2 }' /proc/meminfo; }

# quiet: what is freed late has been freed.
quiet() {
	echo 3 >/proc/sys/vm/drop_caches
	sleep 0.5
	echo 3 >/proc/sys/vm/drop_caches
}

# cycle ROUND: one life of a device.
cycle() {
	echo 1 >"$ATTR/reset" || return
	# shellcheck disable=SC2046
	set -- "$1" $(algorithms)
	_round=$1
	shift $((_round % ($# - 1) + 1))
	echo "$1" >"$ATTR/comp_algorithm" || return
	echo $((_round % 3 * 1024 + 1))M >"$ATTR/disksize" || return
	rzio put "$NODE" text 0 24 >/dev/null && rzio put "$NODE" noise 32 8 >/dev/null &&
		rzio put "$NODE" zero 64 8 >/dev/null && rzio check "$NODE" text 0 24 >/dev/null
}

# cycles FIRST LAST
cycles() {
	_at=$1
	while [ "$_at" -le "$2" ]; do
		cycle "$_at" || wrong=$((wrong + 1))
		_at=$((_at + 1))
	done
}

# grown NAME BEFORE ALLOWED: growth in KiB is at most ALLOWED.
grown() {
	_now=$(kib "$1")
	check "$1 has not grown ($2 KiB before, $_now after)" [ $((_now - $2)) -le "$3" ]
}

modes="0 1 2"
! on_c || modes=0
for mode in $modes; do
	if on_c; then load; else load deferred_free="$mode"; fi
	wrong=0
	cycles 1 "$(work 20)"
	echo 1 >"$ATTR/reset"
	quiet
	unreclaimable=$(kib SUnreclaim)
	vmalloc=$(kib VmallocUsed)
	percpu=$(kib Percpu)
	cycles 1 $((ROUNDS / 3))
	echo 1 >"$ATTR/reset"
	quiet
	is "mode $mode: every cycle worked" 0 "$wrong"
	# A leak of one page a cycle would be 400 KiB.
	# A kernel that keeps what is freed, to find uses of it, finds leaks itself.
	if [ -e /sys/kernel/debug/kmemleak ]; then
		skip "mode $mode: SUnreclaim has not grown" "the kernel keeps what is freed"
	else
		grown SUnreclaim "$unreclaimable" 200
	fi
	grown VmallocUsed "$vmalloc" 64
	grown Percpu "$percpu" 64
	is "mode $mode: no pool page is left" 0 "$(awk '/^nr_zspages/ { print $2 }' /proc/vmstat)"
	unload
done
finish
