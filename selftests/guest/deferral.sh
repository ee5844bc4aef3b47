#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# vm: --kernel uml --mem 1G --cpus 2 --timeout 300
# vm: --kernel debug --mem 1G --cpus 2 --timeout 200
# tier: test
#
# Deferred frees in each of the three modes: nothing is missed, nothing stays pending, everything is
# accounted, while the pool is compacted, shrunk and asked for its figures all the time.

. "$(dirname "$0")/lib.sh"
SHORT_LINES=1000

! on_c || skip_all "C zram frees at once"
DEBUG=/sys/kernel/debug/rzram/rzram0
mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug

pending() { awk '$1 == "pending_slots" { print $2 }' $DEBUG/drains; }
nothing_pending() { [ "$(pending)" = 0 ]; }

# disturb: until it is killed.
disturb() {
	while :; do
		echo 1 >"$ATTR/compact"
		echo 2 >/proc/sys/vm/drop_caches
		cat "$ATTR/mm_stat" >/dev/null
		sleep 0.02
	done
}

mib=$(work 64)
[ "$SCALE" -eq 1 ] || mib=64
for mode in 0 1 2; do
	load deferred_free=$mode
	set_up 512M lz4
	check "mode $mode: mkswap" mkswap "$NODE"
	check "mode $mode: swapon" swapon "$NODE"
	in_background disturb
	for round in $(seq $((1 + SCALE))); do
		check "mode $mode: swapped out, in and verified, round $round" \
			swapfill --mib "$mib" --procs 2 --rounds 2 --seed $((SEED + round))
	done
	kill "$background"
	wait "$background" 2>/dev/null
	check "mode $mode: nothing pending soon after" wait_for 5 nothing_pending
	check "mode $mode: swapoff" swapoff "$NODE"
	is "mode $mode: one page is left, the swap header" 4096 "$(mm 1)"
	is "mode $mode: nothing missed" 0 "$(awk 'NR == 2 { print $2 }' "$ATTR/debug_stat")"
	discard_all_is_zero "mode $mode"
	is "mode $mode: no page is left in the pool" 0 "$(cat $DEBUG/pool_pages)"
	echo 1 >"$ATTR/reset"
	unload
done
finish
