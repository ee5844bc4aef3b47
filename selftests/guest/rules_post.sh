#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# vm: --kernel uml --mem 1G --cpus 2 --timeout 120
# tier: test
#
# What recompress.sh and writeback.sh leave out: the order of checks and of slots, what replaces an
# object, what lies on the backing device, what is used while it is written there. ABI-201, 204, 205,
# 207, 209, 224, 226, 236, 237, 239, 256; SE-15.

. "$(dirname "$0")/lib.sh"

load
mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug
STATE=/sys/kernel/debug/$NAME/$DISK/block_state
[ -e "$ATTR/recompress" ] && [ -e "$ATTR/writeback" ] && [ -e "$STATE" ] && algorithms | grep -qw zstd ||
	skip_all "this kernel's $DRIVER has not all of it"
# Deep enough for the largest batch.
modprobe -r loop 2>/dev/null
modprobe loop hw_queue_depth=2048 2>/dev/null
[ -e /dev/loop-control ] || skip_all "this kernel has no loop devices"
STORE=/tmp/store
mkdir -p $STORE "$MNT"
mount -t tmpfs -o size=256M none $STORE
get() { cat "$ATTR/$1"; }
set_to() { echo "$2" >"$ATTR/$1"; }
bd() { awk -v c="$1" '{ print $c }' "$ATTR/bd_stat"; }
flags() { awk -v slot="$1" '$1 == slot { print $3 }' "$STATE"; }

# fresh: lz4, and zstd at priority 1.
fresh() {
	set_to reset 1
	set_to comp_algorithm lz4
	set_to recomp_algorithm "algo=zstd priority=1"
	set_to disksize 16M
}

rule ABI-201 "recompress: which error comes first"
if on_c; then
	# It knows no threshold before the first size of this load, so all are too large.
	writes EINVAL recompress threshold=1
else
	skip "before the first size" "rzram's threshold does not depend on a size"
fi
fresh
set_to reset 1
writes EINVAL recompress " "
writes ERANGE recompress "threshold=4294967296"
writes EINVAL recompress "threshold=4096"
writes EINVAL recompress "priority=1"
fresh
each_writes EINVAL recompress threshold=4096 priority=0 priority=4 priority=-1 "algo=lz4 priority=1" "algo=zstd priority=2" algo=nosuch \
	priority=2 "threshold=4096 priority=1" "type=nosuch threshold=1" "max_pages=x priority=1"
writes ERANGE recompress "priority=2147483648 algo=nosuch"
writes ok recompress "priority=1 algo=zstd threshold=100"
writes ok recompress algo=zstd

# tried: the slots that recompression took or gave up.
tried() { awk '$3 ~ /[rn].$|n$/ { print $1 }' "$STATE" | sort; }

# in_order: the slots as recompression must take them: by bands of 64 bytes, the largest first, and
# in a band the highest slot first. From "SLOT LENGTH" lines.
in_order() { awk '{ print int($2 / 64), $1 }' | sort -k1,1nr -k2,2nr | awk '{ print $2 }' | xargs; }

rule ABI-204 "the largest go first, in bands of 64 bytes, the highest slot first in each"
fresh
: >/tmp/lengths
for slot in $(seq 0 23); do
	before=$(mm 2)
	rzio put "$NODE" "sized:$((600 + slot * 377 % 460))" "$slot" 1 >/dev/null
	echo "$slot $(($(mm 2) - before))" >>/tmp/lengths
done
check "some share a band" [ "$(awk '{ print int($2 / 64) }' /tmp/lengths | sort -u | wc -l)" -lt 20 ]
order=
for _ in $(seq 24); do
	tried >/tmp/before
	set_to recompress max_pages=1
	order="$order $(tried | comm -13 /tmp/before - | xargs)"
done 2>/dev/null
is "one by one" "$(in_order </tmp/lengths)" "$(echo $order)"

rule ABI-205 "a slot stored in fewer bytes than the threshold is left alone, in as many not"
fresh
rzio put "$NODE" text 0 1 >/dev/null
length=$(mm 2)
writes ok recompress "threshold=$((length + 1))"
is "one byte less" "...... $length" "$(flags 0) $(mm 2)"
writes ok recompress "threshold=$length"
is "as many" "....r." "$(flags 0)"
check "it is right" rzio check "$NODE" text 0 1

rule ABI-207 "what replaces an object, and what it changes"
fresh
# Hexadecimal digits by chance: nothing for lz4, half for zstd.
head -c 20480 /dev/urandom | od -An -v -tx1 | tr -d ' \n' | head -c 40960 >/tmp/digits
dd if=/tmp/digits of="$NODE" bs=4k oflag=direct status=none
rzio put "$NODE" noise 20 10 >/dev/null
set_to idle all
is "raw and idle" "..hi.. ..hi.. 20 20" "$(flags 0) $(flags 20) $(mm 8 9)"
writes ok recompress " "
is "replaced: no more raw nor idle, of the secondary codec" "....r. ....r." "$(flags 0) $(flags 9)"
is "kept: raw, not idle, tried for good" "..h..n" "$(flags 20)"
is "raw pages now, and ever" "10 20" "$(mm 8 9)"
check "lengths are the new ones ($(mm 2))" [ "$(mm 2)" -lt $((10 * 4096 + 10 * 2600)) ]
check "it reads back" sh -c "dd if=$NODE bs=4k count=10 iflag=direct status=none | cmp - /tmp/digits"
# The same codec twice: no smaller class, so nothing is replaced.
set_to reset 1
set_to comp_algorithm zstd
set_to recomp_algorithm "algo=zstd priority=1"
set_to disksize 16M
rzio put "$NODE" text 0 4 >/dev/null
writes ok recompress " "
is "no smaller class, no replacement" ".....n" "$(flags 0)"
# A threshold that the new object does not get below.
fresh
rzio put "$NODE" text 0 4 >/dev/null
bytes=$(mm 2)
writes ok recompress threshold=64
is "not below the threshold, no replacement" "$bytes" "$(mm 2)"

rule ABI-209 "a run where nothing was gained succeeds as well"
fresh
rzio put "$NODE" noise 0 20 >/dev/null
for _ in 1 2; do
	writes ok recompress priority=1
done
is "nothing changed" "81920 20" "$(mm 2 8)"

# loop_of FILE BYTES: a loop device of a fresh file.
loop_of() { rm -f "$1" && truncate -s "$2" "$1" && losetup -f --show "$1"; }
# attach LOOP: a device that has this one behind it.
attach() { set_to reset 1 && set_to backing_dev "$1" && set_to comp_algorithm lz4 && set_to disksize 16M; }

loop=$(loop_of $STORE/file 16M)
rule ABI-224 "the backing device's node keeps its file system, until reset or removal"
numbers=$(stat -c '0x%t 0x%T' "$loop")
# let_go NAME COMMAND...: COMMAND lets it go.
let_go() {
	mkdir -p /tmp/nodes
	mount -t tmpfs nodes /tmp/nodes
	# shellcheck disable=SC2086
	mknod /tmp/nodes/disk b $numbers
	check "attached by a node of its own ($1)" set_to backing_dev /tmp/nodes/disk
	refuses "its file system can't be unmounted" umount /tmp/nodes
	shift
	check "$*" "$@"
	check "and then it can" umount /tmp/nodes
}
set_to reset 1
let_go reset set_to reset 1
let_go "reset with a size" sh -c "echo 1M >$ATTR/disksize && echo 1 >$ATTR/reset"
let_go removal sh -c "echo 0 >$CONTROL/hot_remove"
cat "$CONTROL/hot_add" >/dev/null
let_go unloading unload
load

rule ABI-226 "a backing device does nothing until it is told to"
attach "$loop"
rzio put "$NODE" noise 0 100 >/dev/null
set_to idle all
rzio check "$NODE" noise 0 100 >/dev/null
is "nothing was written, and nothing read" "0 0 0" "$(bd 1) $(bd 2) $(bd 3)"
is "nor is there anything" 0 "$(tr -d '\0' <$STORE/file | wc -c)"

# found PAGE: which block of the store holds just this page, if any.
found() {
	dd if="$NODE" of=/tmp/page bs=4k skip="$1" count=1 iflag=direct status=none
	python3 -c 'import sys
page, store = open("/tmp/page", "rb").read(), open(sys.argv[1], "rb").read()
print(*[at // 4096 for at in range(0, len(store), 4096) if store[at:at + 4096] == page])' $STORE/file
}
# tails: for each block in use the number of bytes up to its last one that is not 0, but
# for the last 8, sorted.
tails() {
	python3 -c 'import sys
store = open(sys.argv[1], "rb").read()
blocks = [store[at:at + 4088].rstrip(b"\0") for at in range(0, len(store), 4096)]
print(*sorted(len(block) for block in blocks if block))' $STORE/file
}

rule ABI-237 "a block a slot: the page as it is, or the object and zeroes"
rzio put "$NODE" text 200 2 >/dev/null
writes ok writeback "page_index=7 page_index=200"
is "two blocks" "2 2" "$(bd 1) $(bd 3)"
sync "$loop"
for page in 7 200; do
	is "page $page is in one of them, as it is" 1 "$(found $page | wc -w)"
done
is "a page that is not there" 0 "$(found 8 | wc -w)"
set_to reset 1
losetup -d "$loop"
loop=$(loop_of $STORE/file 16M)
set_to compressed_writeback 1
attach "$loop"
before=0
lengths=
for page in 0 1 2; do
	rzio put "$NODE" sized:$((500 + page * 300)) $page 1 >/dev/null
	lengths="$lengths $(($(mm 2) - before))"
	before=$(mm 2)
done
writes ok writeback page_indexes=0-2
is "three blocks" "3 3" "$(bd 1) $(bd 3)"
sync "$loop"
# An object may end in zeroes of its own.
wanted=$(echo $lengths)
check "objects of $wanted bytes, then zeroes, found $(tails)" python3 -c 'import sys
wanted, found = [[int(n) for n in text.split()] for text in sys.argv[1:]]
sys.exit(len(wanted) != len(found) or any(not w - 8 <= f <= w for w, f in zip(wanted, found)))' "$wanted" "$(tails)"
check "they read back" sh -c "rzio check $NODE sized:500 0 1 && rzio check $NODE sized:1100 2 1"
set_to reset 1
set_to compressed_writeback 0

rule ABI-256 "a budget that is only switched on is 0"
set_to writeback_limit_enable 1
attach "$loop"
rzio put "$NODE" noise 0 10 >/dev/null
writes EIO writeback huge
writes ok writeback page_index=4000
is "nothing was written" "0 0" "$(bd 1) $(bd 3)"
writes ok writeback_limit 3
writes EIO writeback huge
is "a budget of three" "3 0" "$(bd 1) $(get writeback_limit)"
set_to writeback_limit_enable 0
set_to reset 1
losetup -d "$loop"

# A device that does not answer: a file on a frozen file system.
under=$(loop_of $STORE/under 96M)
mkfs.ext4 -qF "$under" && mount "$under" "$MNT"
truncate -s 32M "$MNT/file"
loop=$(losetup -f --show "$MNT/file")
in_flight() { awk '{ print $2 }' "/sys/block/${loop#/dev/}/inflight"; }
set_to writeback_batch_size 8
set_to writeback_limit 500
set_to writeback_limit_enable 1
attach "$loop"
rzio put "$NODE" noise 0 100 >/dev/null
sync
fsfreeze -f "$MNT"
in_background sh -c "exec rzattr write $ATTR/writeback huge >/tmp/outcome"
rule ABI-236 "as many pages in flight as the batch has"
wait_for 5 sh -c "[ \$(awk '{ print \$2 }' /sys/block/${loop#/dev/}/inflight) -ge 8 ]"
sleep 0.2
is "in flight" 8 "$(in_flight)"
rule ABI-239 "a slot that is used while it is being written stays in memory"
check "reading one" timeout 5 rzio check "$NODE" noise 99 1
check "overwriting one" timeout 5 rzio put "$NODE" noise 98 1 --generation 1
check "discarding one" timeout 5 rzio discard "$NODE" 97 1
fsfreeze -u "$MNT"
wait "$background"
is "the run goes on and succeeds" ok "$(cat /tmp/outcome)"
is "those three are not there, but were written" "97 100" "$(bd 1) $(bd 3)"
is "their flags" "..h... ..h... -" "$(flags 99) $(flags 98) $(flags 97)-"
paid=3
! on_c || paid=0
is "what it cost (SE-17)" $((400 + paid)) "$(get writeback_limit)"
check "all data are right" sh -c "rzio check $NODE noise 0 97 && rzio check $NODE zero 97 1 &&
	rzio check $NODE noise 98 1 --generation 1 && rzio check $NODE noise 99 1"
set_to writeback_limit_enable 0
set_to writeback_limit 0

rule SE-15 "no batch is larger than 1024 pages"
if differs SE-15 "a batch without a bound"; then
	:
elif [ "$(cat /sys/module/loop/parameters/hw_queue_depth)" -lt 2048 ]; then
	skip "a batch without a bound" "this kernel's loop devices take too few requests"
else
	set_to reset 1
	attach "$loop"
	rzio put "$NODE" noise 0 1500 >/dev/null
	sync
	writes ok writeback_batch_size 4294967295
	fsfreeze -f "$MNT"
	in_background sh -c "exec rzattr write $ATTR/writeback huge >/tmp/outcome"
	check "pages are in flight" wait_for 5 sh -c \
		"[ \$(awk '{ print \$2 }' /sys/block/${loop#/dev/}/inflight) -ge 1024 ]"
	sleep 0.2
	is "and no more" 1024 "$(in_flight)"
	fsfreeze -u "$MNT"
	wait "$background"
	is "all are written" "ok 1500" "$(cat /tmp/outcome) $(bd 1)"
	check "all data are right" rzio check "$NODE" noise 0 1500
fi
set_to writeback_batch_size 32
set_to reset 1
losetup -d "$loop"
wait_for 5 umount "$MNT"
losetup -d "$under"
umount -l $STORE
finish
