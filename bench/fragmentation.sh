#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# fragmentation.sh KIND: what the pool's unmovable pages do to the machine's memory. Run in a fresh guest
# by bench/fragmentation, once for each KIND: none, zram, scattered (rzram, linear=0), linear (rzram).
#
# A group of 160 MB churns through 560 MB of memory, so that its pages leave for swap in random order,
# while files come and go. Then it is stopped with its memory in swap, and the machine is asked for
# huge pages, as many as it can make by compaction. Prints one line of KEY=VALUE.
set -eu

kind=$1
GROUP=/sys/fs/cgroup/fragmentation
mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug
mountpoint -q /sys/fs/cgroup || mount -t cgroup2 none /sys/fs/cgroup
echo +memory >/sys/fs/cgroup/cgroup.subtree_control
mkdir $GROUP
echo 160M >$GROUP/memory.max

# unmovable: page blocks of that kind, all zones.
unmovable() {
	awk '/^Number of blocks/ { on = 1; for (i = 1; i <= NF; i++) if ($i == "Unmovable") at = i - 3; next }
		on && $1 == "Node" { sum += $(at + 3) } END { print sum + 0 }' /proc/pagetypeinfo
}

disk=
case $kind in
none) ;;
zram) modprobe zram && disk=zram0 ;;
scattered) load-rzram linear=0 && disk=rzram0 ;;
linear) load-rzram linear=1 && disk=rzram0 ;;
*) echo "no such kind: $kind" >&2; exit 2 ;;
esac
if [ -n "$disk" ]; then
	echo lz4 >/sys/block/$disk/comp_algorithm
	echo 1G >/sys/block/$disk/disksize
	mkswap /dev/$disk >/dev/null
	swapon /dev/$disk
fi
blocks_before=$(unmovable)
used=0
if [ -n "$disk" ]; then
	(
		echo 0 >$GROUP/cgroup.procs
		exec swapfill --mib 560 --procs 1 --rounds 8 --seed 7
	) &
	hog=$!
	# Files of other programs, written and removed beside it.
	round=0
	while [ $round -lt 60 ]; do
		dd if=/dev/zero of=/tmp/churn.$((round % 7)) bs=64k count=$((round % 13 * 4 + 4)) 2>/dev/null
		rm -f /tmp/churn.$(((round + 3) % 7))
		used=$(awk -v node="/dev/$disk" '$1 == node { print int($4 / 1024) }' /proc/swaps)
		[ "$used" -lt 380 ] || round=$((round + 1))
		kill -0 $hog
		sleep 0.2
	done
	pkill -STOP swapfill
	used=$(awk -v node="/dev/$disk" '$1 == node { print int($4 / 1024) }' /proc/swaps)
fi
rm -f /tmp/churn.*
blocks=$(unmovable)
pool_mb=0 linear=- refused=-
if [ -n "$disk" ]; then
	pool_mb=$(awk '{ print int($3 / 1048576) }' /sys/block/$disk/mm_stat)
fi
if [ -e /sys/kernel/debug/rzram/rzram0/classes ]; then
	linear=$(awk '$1 == "linear_runs" { print $2 }' /sys/kernel/debug/rzram/rzram0/classes)
	refused=$(awk '$1 == "refused_runs" { print $2 }' /sys/kernel/debug/rzram/rzram0/classes)
fi
sync
echo 3 >/proc/sys/vm/drop_caches
echo 1 >/proc/sys/vm/compact_memory
echo 2000 >/proc/sys/vm/nr_hugepages
huge=$(cat /proc/sys/vm/nr_hugepages)
free_mb=$(awk '$1 == "MemFree:" { print int($2 / 1024) }' /proc/meminfo)
echo 0 >/proc/sys/vm/nr_hugepages
echo "kind=$kind swapped_mb=$used pool_mb=$pool_mb unmovable_blocks_before=$blocks_before unmovable_blocks=$blocks" \
	"huge_pages=$huge free_beside_them_mb=$free_mb linear_runs=$linear refused_runs=$refused"
[ -z "$disk" ] || pkill -KILL swapfill || true
exit 0
