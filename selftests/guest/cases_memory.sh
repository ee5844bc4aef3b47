#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# vm: --kernel uml --mem 1G --cpus 2 --timeout 400
# vm-full: --kernel stock --mem 1G --cpus 2 --timeout 400
# tier: test
#
# Field cases about I/O and memory, by their ids; what is not here is in the suite of its room. Each was
# run on C zram first; where more is asked for than C gives, `differs`.

. "$(dirname "$0")/lib.sh"

load
mkdir -p "$MNT"
echo +memory >/sys/fs/cgroup/cgroup.subtree_control 2>/dev/null
hog=
# pressure MIB: a program that touches that much over and over, in the background.
pressure() {
	stress-ng --temp-path /tmp --vm 2 --vm-bytes "$1" --vm-keep --timeout 100s --quiet &
	hog=$!
	helpers="$helpers $hog"
}
relief() {
	kill "$hog" 2>/dev/null
	wait "$hog" 2>/dev/null
}
available() { awk '/^MemAvailable/ { print int($2 / 1024) }' /proc/meminfo; }

# B27: pages that change while they are compressed, with memory so short that the slow way is taken.
# Neighbors are right, and a changing page is one that was there at some moment, not a torn object.
set_up 256M
check "B27: neighbors" rzio put "$NODE" sized:1000 0 2000
pressure $(($(available) - 60))m
check "B27: changing pages" rzchange "$NODE" 2000 500 $((6 * SCALE))
relief
check "B27: neighbors are right" rzio check "$NODE" sized:1000 0 2000
check "B27: the changing pages can be read" dd if="$NODE" of=/dev/null bs=4k skip=2000 count=500 iflag=direct status=none
is "B27: no request failed to be read" 0 "$(io 1)"
discard_all_is_zero "B27"
# With memory enough, and each codec: what lz4 makes of a page that changes under it can't always be
# decompressed.
differs B27 "B27: changing pages, each codec" || {
	for algorithm in $(codecs); do
		set_up 64M "$algorithm"
		check "B27: $algorithm: changing pages" rzchange "$NODE" 0 4000 $((2 * SCALE))
		check "B27: $algorithm: they can be read" \
			dd if="$NODE" of=/dev/null bs=64k count=250 iflag=direct status=none
		discard_all_is_zero "B27: $algorithm"
	done
}

# B31: a damaged object is an error of its reader, counted and told, and of nobody else.
differs B31 "B31: damaged objects" || {
	SPOIL=/sys/module/rzram/parameters/spoil_slot
	first=y
	for algorithm in $(algorithms); do
		set_up 16M "$algorithm"
		echo 11 >$SPOIL
		rzio put "$NODE" text 0 20 >/dev/null
		echo 0 >$SPOIL
		is "B31: $algorithm: the reader gets EIO" 1 \
			"$(dd if="$NODE" of=/dev/null bs=4k skip=10 count=1 iflag=direct 2>&1 | grep -c 'Input/output error')"
		is "B31: $algorithm: it counts once" "1 0" "$(io 1) $(io 2)"
		check "B31: $algorithm: slots before are right" rzio check "$NODE" text 0 10
		check "B31: $algorithm: slots behind are right" rzio check "$NODE" text 11 9
		if [ -n "$first" ]; then
			is "B31: one line with device, slot, codec and length" 1 \
				"$(dmesg | grep -cE "$DISK: decompression failed: slot 10, codec $algorithm, [1-9][0-9]* bytes")"
		fi
		first=
		check "B31: $algorithm: writing mends it" rzio put "$NODE" text 10 1
		check "B31: $algorithm: all are right" rzio check "$NODE" text 0 20
		discard_all_is_zero "B31: $algorithm"
	done
}

# B57: a file system under pressure sees no I/O error while memory can be reclaimed.
set_up 192M
dmesg -C
check "B57: mkfs" mkfs.ext4 -qF "$NODE"
check "B57: mount" mount "$NODE" "$MNT"
tree=/tmp/tree57
mkdir -p $tree
find /usr/share/perl5 /usr/lib/python3 -xdev -type f -size -100k 2>/dev/null | sort | head -n 400 | xargs cp --parents -pt $tree
(cd $tree && find . -type f -print0 | sort -z | xargs -0 sha256sum) >/tmp/sums57
pressure 80%
wrong=0
for round in $(seq $((3 * SCALE))); do
	cp -a $tree "$MNT/$round" && sync -f "$MNT" || wrong=$((wrong + 1))
	(cd "$MNT/$round" && sha256sum --quiet -c /tmp/sums57) || wrong=$((wrong + 1))
	rm -r "${MNT:?}/$round"
done
relief
is "B57: every copy is right" 0 "$wrong"
is "B57: no I/O error in the log" 0 "$(dmesg | grep -c 'I/O error\|EXT4-fs error\|read-only')"
is "B57: no failed request" "0 0" "$(io 1) $(io 2)"
umount "$MNT"
rm -r $tree

# B59: swap full of noise gains nothing, and the figures say so.
set_up 384M
mkswap "$NODE" >/dev/null
swapon -p 100 "$NODE"
mkdir -p /sys/fs/cgroup/b59
cat >/tmp/noise.py <<-'END'
	import os, time
	hold = [os.urandom(1 << 20) for _ in range(120)]
	open("/tmp/held", "w").close()
	while True:
	    time.sleep(1)
END
sh -c 'echo $$ >/sys/fs/cgroup/b59/cgroup.procs; exec python3 /tmp/noise.py' &
hog=$!
helpers="$helpers $hog"
wait_for 60 test -e /tmp/held
echo 200 >/proc/sys/vm/swappiness
echo 80M >/sys/fs/cgroup/b59/memory.reclaim 2>/dev/null
check "B59: noise went out ($(mm 1 3 8))" wait_for 30 sh -c "[ \$(awk '{ print \$8 }' $ATTR/mm_stat) -gt 2000 ]"
check "B59: RAM used is at least what the raw pages are" [ "$(mm 3)" -ge $(($(mm 8) * 4096)) ]
check "B59: and nearly all of the data" [ "$(mm 3)" -ge $(($(mm 1) * 8 / 10)) ]
event="B59: an event tells when it is too much"
if [ ! -e /proc/net/netlink ]; then
	skip "$event" "this kernel has no network, by which events come"
elif ! differs B59 "$event"; then
	rzevent 30 >/tmp/events &
	helpers="$helpers $!"
	wait_for 10 grep -q listening /tmp/events
	echo 4M >"$ATTR/mem_threshold"
	check "$event" wait_for 10 grep -q RZRAM_EVENT=mem_threshold /tmp/events
fi
kill -KILL $hog
wait $hog 2>/dev/null
echo 60 >/proc/sys/vm/swappiness
check "B59: swapoff" swapoff "$NODE"
rmdir /sys/fs/cgroup/b59 2>/dev/null
discard_all_is_zero "B59"

# B61, B63: memory is compacted by the kernel and objects are by the pool, while they are written, freed
# and read. (Models of the moves beside frees are in the host crate.) User-mode kernels tear processes apart
# when they migrate pages, whatever disk there is, so there only the pool compacts.
set_up 64M
memory=/proc/sys/vm/compact_memory
[ "${RZRAM_KERNEL-}" != uml ] || memory=/dev/null
in_background sh -c "while :; do echo 1 >$memory; echo 1 >$ATTR/compact; done" 2>/dev/null
compactor=$background
check "B61, B63: every page is right while both compact" rzio race "$NODE" --seed "$SEED" --threads 6 --span 2048 \
	--ops $((1200 * SCALE)) --discard $ALIGNED
check "B63: one slot over and over, too" rzio race "$NODE" --seed "$SEED" --threads 4 --span 16 \
	--ops $((600 * SCALE)) --discard $ALIGNED
kill $compactor
wait $compactor 2>/dev/null
discard_all_is_zero "B61, B63"

# B65: what swap brings back is what went out, in a small group, with idle marks and recompression.
echo 1 >"$ATTR/reset"
echo lz4 >"$ATTR/comp_algorithm"
[ ! -e "$ATTR/recomp_algorithm" ] || echo "algo=zstd priority=1" >"$ATTR/recomp_algorithm"
echo 512M >"$ATTR/disksize"
mkswap "$NODE" >/dev/null
swapon "$NODE"
mkdir -p /sys/fs/cgroup/b65
if [ -e /sys/fs/cgroup/b65/memory.max ]; then
	echo 48M >/sys/fs/cgroup/b65/memory.max
	in_background sh -c "while :; do echo all >$ATTR/idle; echo type=idle >$ATTR/recompress; sleep 0.2; done" 2>/dev/null
	post=$background
	check "B65: every page is right" sh -c "echo \$\$ >/sys/fs/cgroup/b65/cgroup.procs &&
		exec swapfill --mib 96 --procs 2 --rounds $((2 * SCALE)) --seed $SEED"
	check "B65: stress-ng finds nothing wrong" sh -c "echo \$\$ >/sys/fs/cgroup/b65/cgroup.procs &&
		exec stress-ng --temp-path /tmp --vm 1 --vm-bytes 72M --vm-method zero-one --verify --vm-ops $((30000 * SCALE)) --timeout 30s --quiet"
	kill $post
	wait $post 2>/dev/null
	check "B65: it was swapped" [ "$(io 4)" -gt 1000 ]
else
	skip "B65: swap in a small group" "no memory controller"
fi
swapoff "$NODE"
rmdir /sys/fs/cgroup/b65
discard_all_is_zero "B65"

finish
