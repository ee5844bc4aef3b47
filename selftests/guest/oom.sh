#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# vm: --kernel stock --mem 512M --cpus 2 --timeout 240
# tier: test
#
# A task whose memory is in the device is killed for want of memory, by its group's limit and by the
# whole machine's: how soon the pool's pages are back, and that the kernel was not kept from killing.

. "$(dirname "$0")/lib.sh"

! on_c || skip_all "C zram has no such statistics"
DEBUG=/sys/kernel/debug/rzram/rzram0
GROUP=/sys/fs/cgroup/rzram-oom
mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug
mountpoint -q /sys/fs/cgroup || mount -t cgroup2 none /sys/fs/cgroup

pool_pages() { cat $DEBUG/pool_pages; }
pool_below() { [ "$(pool_pages)" -lt "$1" ]; }
now_ms() { awk '{ printf "%d\n", $1 * 1000 }' /proc/uptime; }

# hog MIB COMMAND...: run COMMAND in a shell that the kernel prefers to kill; its status is 137.
hog() {
	(
		echo 1000 >/proc/self/oom_score_adj
		"$@"
	)
	_status=$?
	# swapfill reports a killed child as a failure of its own.
	[ $_status -ne 0 ]
}

# is_back NAME: of the pages that the pool had at most, few are left soon after the kill: what other
# programs had to leave there.
is_back() {
	_begin=$(now_ms)
	if wait_for 5 pool_below $(($(mm 5) / 4096 / 8)); then
		passed "$1: the pool's pages are back"
		echo "# $1: $(($(now_ms) - _begin)) ms after the kill was seen"
	else
		failed "$1: the pool's pages are back" "$(pool_pages) pages are left"
	fi
	check "$1: nothing is pending" wait_for 5 sh -c "grep -qx 'pending_slots 0' $DEBUG/drains"
}

kills() { awk '$1 == "oom_kill" { print $2 }' /proc/vmstat; }

# The debug kernel fills a smaller disk.
disk=384 limit=128
! short || disk=96 limit=32

load
set_up ${disk}M lz4
check "mkswap" mkswap "$NODE"
check "swapon" swapon -p 10 "$NODE"

if grep -q memory /sys/fs/cgroup/cgroup.controllers; then
	echo +memory >/sys/fs/cgroup/cgroup.subtree_control
	mkdir $GROUP
	echo 32M >$GROUP/memory.max
	echo ${limit}M >$GROUP/memory.swap.max
	before=$(kills)
	check "a group that fills its swap is killed" hog sh -c \
		"echo 0 >$GROUP/cgroup.procs; exec swapfill --mib 400 --procs 1 --rounds 1 --seed $SEED"
	check "the kernel killed it" [ "$(kills)" -gt "$before" ]
	is_back "group"
	rmdir $GROUP
else
	skip "a group that fills its swap is killed" "this kernel has no memory groups"
fi

echo 0 >"$ATTR/mem_used_max"
before=$(kills)
check "a task larger than memory and swap is killed" hog swapfill --mib 1100 --procs 1 --rounds 1 --seed "$SEED"
check "the kernel killed it" [ "$(kills)" -gt "$before" ]
is_back "whole machine"
check "the notifier was asked" awk '$1 == "drains_oom" { exit !($2 > 0) }' $DEBUG/drains
check "the survivors' memory still works" swapfill --mib "$(work 64)" --procs 1 --rounds 1 --seed "$SEED"
check "swapoff" swapoff "$NODE"
discard_all_is_zero "after the kills"
finish
