#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# vm: --kernel stock --mem 2G --cpus 2 --timeout 300
# vm: --kernel debug --mem 1G --cpus 2 --timeout 200
# tier: test
#
# ext4, XFS and btrfs on the disk: a tree of real files is copied, compared by checksum, compared
# again after a remount, checked by the file system's own tool, trimmed, and deleted. Field case
# B25: many small files are made, deleted and trimmed beside a reader of the statistics.

. "$(dirname "$0")/lib.sh"

sums() { (cd "$1" && find . -type f -print0 | sort -z | xargs -0 sha256sum); }

load
tree=/tmp/tree
mkdir -p "$tree" "$MNT"
find /usr/share/perl5 /usr/lib/python3 /usr/sbin -xdev -type f -size -200k 2>/dev/null |
	sort | head -n "$(work 600)" | xargs cp --parents -pt "$tree"
head -c 4M /dev/urandom >"$tree/noise"
sums "$tree" >/tmp/sums
echo "# $(wc -l </tmp/sums) files, $(du -sm "$tree" | cut -f1) MiB"

# file_system NAME SIZE CHECKER...
file_system() {
	name=$1
	size=$2
	shift 2
	if ! modprobe -n "$name" 2>/dev/null && ! grep -qw "$name" /proc/filesystems; then
		skip "$name" "not in this kernel"
		return
	fi
	set_up "$size"
	case $name in
	ext4) check "$name: mkfs" mkfs.ext4 -qF "$NODE" ;;
	*) check "$name: mkfs" "mkfs.$name" -qf "$NODE" ;;
	esac
	check "$name: mount" mount -t "$name" "$NODE" "$MNT"
	check "$name: copy" cp -a "$tree" "$MNT/"
	sync
	echo 3 >/proc/sys/vm/drop_caches
	sums "$MNT/tree" >/tmp/found
	check "$name: every file is right" cmp /tmp/sums /tmp/found
	check "$name: umount" umount "$MNT"
	check "$name: its own check" "$@" "$NODE"
	check "$name: mount again" mount -t "$name" "$NODE" "$MNT"
	sums "$MNT/tree" >/tmp/found
	check "$name: every file is right again" cmp /tmp/sums /tmp/found
	full=$(mm 1)
	rm -r "$MNT/tree"
	sync
	check "$name: trim" fstrim "$MNT"
	check "$name: trim gave memory back ($full to $(mm 1) bytes)" [ "$(mm 1)" -lt $((full / 2)) ]
	check "$name: umount at the end" umount "$MNT"
	is "$name: no failed requests" "0 0" "$(io 1) $(io 2)"
	discard_all_is_zero "$name"
}

file_system ext4 256M e2fsck -fn
# B21 with XFS, whose metadata have checksums.
file_system xfs 400M xfs_repair -n
file_system btrfs 400M btrfs check

# B25.
set_up 256M
check "B25: mkfs" mkfs.ext4 -qF "$NODE"
check "B25: mount" mount -o discard "$NODE" "$MNT"
in_background sh -c "while :; do cat $ATTR/mm_stat; done" >/dev/null
statistics=$background
churn() {
	for round in $(seq "$(work 8)"); do
		mkdir "$MNT/$1.$round"
		for file in $(seq 60); do
			head -c $((file * 97)) "$tree/noise" >"$MNT/$1.$round/$file"
		done
		sync -f "$MNT"
		rm -r "$MNT/$1.$round"
	done
}
churn one &
one=$!
churn two &
two=$!
while kill -0 "$one" 2>/dev/null; do fstrim "$MNT"; done
wait "$one"
is "B25: first churner" 0 "$?"
wait "$two"
is "B25: second churner" 0 "$?"
kill "$statistics"
wait "$statistics" 2>/dev/null
check "B25: umount" umount "$MNT"
check "B25: file system is whole" e2fsck -fn "$NODE"
discard_all_is_zero "B25"

finish
