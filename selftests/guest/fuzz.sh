#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# vm: --kernel uml --mem 1G --cpus 2 --timeout 200
# vm: --kernel debug --mem 1G --cpus 2 --timeout 400
# tier: test
#
# Random bytes, damaged words and right ones, in any order, to every control file, and reads of all of
# them, by two processes at once, in every state that a disk can be in. Data that was there before is
# there after, as long as somebody has the disk open; and the disk then does what a new one does. 30
# seconds; 300 in the long form. Texts are made by rzfuzz, from the seed.
#
# Never written: the parameters in /sys/module, one of which damages data for tests.

. "$(dirname "$0")/lib.sh"

STATES=10
EACH=$((($(work 30) + STATES - 1) / STATES))
# A debug kernel begins to work in the second second.
[ $EACH -ge 3 ] || EACH=3
EMPTY=/tmp/empty
STORE=/tmp/store
DICT=$STORE/dict
# Where C allocates for all of a disk, or of a batch, at once, random numbers take all memory.
always_skipped=
! on_c || always_skipped=disksize,writeback_batch_size
round=0

echo "# seed $SEED, $EACH seconds a state"
[ -z "$always_skipped" ] || echo "# C zram: $always_skipped are left out (SE-15, SE-28)"

# fuzz_begin SKIPPED: two processes; in $first and $second.
fuzz_begin() {
	cd $EMPTY || exit
	round=$((round + 2))
	set -- --seconds $EACH --backing "${loop:-/dev/null}" --dict $DICT --skip "$always_skipped,$1"
	rzfuzz "$NAME" --seed $((SEED + round)) "$@" >/tmp/fuzz.1 2>&1 3>&- &
	first=$!
	rzfuzz "$NAME" --seed $((SEED + round + 1)) "$@" >/tmp/fuzz.2 2>&1 3>&- &
	second=$!
	helpers="$helpers $first $second"
	cd / || exit
}

# fuzz_end STATE
fuzz_end() {
	wait "$first"
	_one=$?
	wait "$second"
	_two=$?
	sed 's/^/# /' /tmp/fuzz.1 /tmp/fuzz.2
	sed -n 's/^taken //p' /tmp/fuzz.1 /tmp/fuzz.2 | tr ' ' '\n' >>/tmp/taken
	is "$1: every outcome of both is one that may be" "0 0" "$_one $_two"
}

fuzzing() { kill -0 "$first" 2>/dev/null; }

# fuzz STATE [SKIPPED]
fuzz() {
	fuzz_begin "${2-}"
	fuzz_end "$1"
}

# stop PID: a helper that runs until it is killed.
stop() {
	kill "$1"
	wait "$1" 2>/dev/null
}

# One disk may be another's backing device, so one turn may not do.
reset_all() {
	for _turn in 1 2 3; do
		for _disk in /sys/block/"$NAME"[0-9]*; do
			[ ! -e "$_disk/reset" ] || echo 1 >"$_disk/reset"
		done
	done 2>/dev/null
}

# one_new: nothing but disk 0, which is new in everything.
one_new() {
	reset_all
	for _disk in /sys/block/"$NAME"[0-9]*; do
		[ ! -e "$_disk" ] || echo "${_disk##*"$NAME"}" >"$CONTROL/hot_remove" || return
	done
	[ "$(cat "$CONTROL/hot_add")" = 0 ]
}

# settled STATE: what a new disk does, this one does.
settled() {
	check "$1: all disks can be removed, and one added" wait_for 20 one_new
	is "$1: it is new" "0 0" "$(cat "$ATTR/disksize" "$ATTR/initstate" | xargs)"
	check "$1: it takes a size" set_up 64M
	# shellcheck disable=SC2086
	check "$1: requests are right" rzio random "$NODE" --seed "$SEED" --span 256 --ops "$(work 80)" $ALIGNED
	is "$1: none failed" "0 0" "$(io 1) $(io 2)"
	discard_all_is_zero "$1"
	check "$1: reset" sh -c "echo 1 >$ATTR/reset"
}

# Pages of all kinds.
fill() {
	rzio put "$NODE" text 0 400 && rzio put "$NODE" noise 1000 100 &&
		rzio put "$NODE" sized:2600 2000 32 && rzio put "$NODE" word 3000 8
}
verify() {
	rzio check "$NODE" text 0 400 && rzio check "$NODE" noise 1000 100 &&
		rzio check "$NODE" sized:2600 2000 32 && rzio check "$NODE" word 3000 8
}

# writer: other pages of disk 0, for ever. A memory limit may refuse them.
writer() {
	while :; do
		rzio put "$NODE" text 8000 64
		rzio discard "$NODE" 8000 64
	done >/dev/null 2>&1
}

# prepare [FILE VALUE]...: a disk of 64 MiB with a secondary codec, and these settings.
prepare() {
	echo 1 >"$ATTR/reset" && echo lz4 >"$ATTR/comp_algorithm" || return
	[ ! -e "$ATTR/recomp_algorithm" ] || echo "algo=zstd priority=1" >"$ATTR/recomp_algorithm" || return
	while [ $# -gt 0 ]; do
		echo "$2" >"$ATTR/$1" || return
		shift 2
	done
	echo 64M >"$ATTR/disksize"
}

# with_data STATE [FILE VALUE]...: nobody can reset it, and it keeps its data.
with_data() {
	_state=$1
	shift
	check "$_state: a disk" prepare "$@"
	check "$_state: data" fill
	exec 3<"$NODE"
	in_background writer
	_writer=$background
	fuzz "$_state"
	stop "$_writer"
	is "$_state: it has its size" "67108864 1" "$(cat "$ATTR/disksize" "$ATTR/initstate" | xargs)"
	check "$_state: every page is right" verify
	exec 3<&-
	settled "$_state"
}

# Names of files that the block layer makes writable.
OTHERS="uevent events_poll_msecs make-it-fail io-timeout-fail"

load
mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug
mkdir -p $EMPTY $STORE "$MNT"
mount -t tmpfs -o size=96M none $STORE || skip_all "no tmpfs"
dd if=/bin/sh of=$DICT bs=4096 count=4 2>/dev/null
loop=
modprobe loop 2>/dev/null
if [ -e /dev/loop-control ] && [ -e "$ATTR/backing_dev" ]; then
	truncate -s 32M $STORE/file
	loop=$(losetup -f --show $STORE/file)
fi

# What is added to the driver is added to the words.
find "$ATTR/" "$CONTROL/" -maxdepth 1 -type f -perm -u+w -printf '%f\n' | sort >/tmp/writable
while read -r file; do
	case " $OTHERS " in
	*" $file "*) ;;
	*) check "rzfuzz knows $file" sh -c "rzfuzz names | grep -qx $file" ;;
	esac
done </tmp/writable

fuzz "new" disksize,hot_remove
is "new: it has no size" "0 0" "$(cat "$ATTR/disksize" "$ATTR/initstate" | xargs)"
settled "new"

check "empty: a disk" prepare
exec 3<"$NODE"
fuzz "empty"
is "empty: it has its size" "67108864 1" "$(cat "$ATTR/disksize" "$ATTR/initstate" | xargs)"
is "empty: nothing is stored" "0 0" "$(mm 1 2)"
exec 3<&-
settled "empty"

with_data "with data"
if [ -n "$loop" ]; then
	with_data "with a backing device" backing_dev "$loop"
	with_data "with a backing device for objects" backing_dev "$loop" compressed_writeback 1
else
	skip "with a backing device" "no loop devices, or no writeback"
fi

check "swap: a disk" prepare
check "swap: mkswap" mkswap "$NODE"
check "swap: swapon" swapon "$NODE"
fuzz_begin
wrong=0
runs=0
while fuzzing; do
	swapfill --seed $((SEED + runs)) --procs 2 --mib 16 --rounds 1 >/tmp/fill 2>&1 || wrong=$((wrong + 1))
	runs=$((runs + 1))
done
fuzz_end "swap"
is "swap: every page of $runs runs is right" 0 "$wrong"
check "swap: swapoff" swapoff "$NODE"
settled "swap"

# No memory limit here: what a file system makes of writes that fail is not the question.
check "mounted: a disk" prepare
check "mounted: mkfs" mkfs.ext4 -qF "$NODE"
check "mounted: mount" mount "$NODE" "$MNT"
head -c 4M /dev/urandom >$STORE/noise
cp $STORE/noise "$MNT/before"
fuzz_begin mem_limit
wrong=0
runs=0
while fuzzing; do
	cp $STORE/noise "$MNT/now" && sync -f "$MNT" && cmp -s $STORE/noise "$MNT/now" && rm "$MNT/now" ||
		wrong=$((wrong + 1))
	runs=$((runs + 1))
done
fuzz_end "mounted"
is "mounted: every file of $runs is right" 0 "$wrong"
check "mounted: umount" umount "$MNT"
check "mounted: its own check" e2fsck -fn "$NODE"
check "mounted: mount again" mount "$NODE" "$MNT"
check "mounted: the file from before is right" cmp $STORE/noise "$MNT/before"
check "mounted: umount again" umount "$MNT"
settled "mounted"

# From here on nobody keeps a disk. Of a node that is gone no file must come to be.
put_anywhere() {
	for _node in /dev/"$NAME"[0-9]*; do
		dd if=$STORE/noise of="$_node" bs=64k count=4 conv=nocreat,notrunc oflag=direct
		dd if="$_node" of=/dev/null bs=64k count=4 iflag=direct
	done >/dev/null 2>&1
}
put_for_ever() { while :; do put_anywhere; done; }
in_background put_for_ever
fuzz "unused"
stop "$background"
settled "unused"

reset_for_ever() {
	while :; do
		echo 1 >"$ATTR/reset"
		echo 16M >"$ATTR/disksize"
		put_anywhere
	done 2>/dev/null
}
in_background reset_for_ever
fuzz "reset all the time"
stop "$background"
settled "reset all the time"

come_and_go() {
	while :; do
		cat "$CONTROL/hot_add"
		for _disk in /sys/block/"$NAME"[0-9]*; do
			echo 16M >"$_disk/disksize"
		done
		put_anywhere
		for _disk in /sys/block/"$NAME"[0-9]*; do
			echo "${_disk##*"$NAME"}" >"$CONTROL/hot_remove"
		done
	done >/dev/null 2>&1
}
in_background come_and_go
fuzz "coming and going"
stop "$background"
settled "coming and going"

# What took nothing was not tried.
while read -r file; do
	case " $OTHERS $(echo $always_skipped | tr ',' ' ') " in
	*" $file "*) ;;
	*) short || check "$file took some text" grep -qx "$file" /tmp/taken ;;
	esac
done </tmp/writable

[ -z "$loop" ] || losetup -d "$loop"
check "unload" unload
check "load" load
settled "loaded again"
umount $STORE
finish
