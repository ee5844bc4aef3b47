#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# vm: --kernel uml --mem 1G --cpus 2 --timeout 120
# vm: --kernel debug --mem 1G --cpus 2 --timeout 200
# tier: test
#
# Reads, writes and erasures, by the slot and by the byte. ABI-76, 81, 121 to 148; SE-1.

. "$(dirname "$0")/lib.sh"

load
mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug
STATE=/sys/kernel/debug/$NAME/$DISK/block_state
END=16383

# One direct request: direct read|write START MEMORY:BYTES[,...] [FLAGS]: where on the disk, and the
# pieces of memory, each from its own page's offset on. Prints ok, short:BYTES or the error.
cat >/tmp/direct.py <<-'END'
	import errno, mmap, os, sys
	node, how, start, pieces = sys.argv[1:5]
	flags = int(sys.argv[5], 0) if len(sys.argv) > 5 else 0
	fd = os.open(node, os.O_RDWR | os.O_DIRECT)
	areas, vectors = [], []
	for piece in pieces.split(","):
	    at, size = map(int, piece.split(":"))
	    area = mmap.mmap(-1, (at + size + 8191) // 4096 * 4096)
	    area[:] = b"\xee" * len(area)
	    if how == "write":
	        area[at:at + size] = bytes(65 + (len(areas) + i // 512) % 26 for i in range(size))
	    areas.append((area, at, size))
	    vectors.append(memoryview(area)[at:at + size])
	try:
	    done = (os.pwritev if how == "write" else os.preadv)(fd, vectors, int(start), flags)
	    wanted = sum(size for _, _, size in areas)
	    print("ok" if done == wanted else f"short:{done}")
	except OSError as e:
	    print("EOPNOTSUPP" if e.errno == errno.EOPNOTSUPP else errno.errorcode[e.errno])
	for area, at, size in areas:
	    if any(b != 0xee for b in area[:at]) or any(b != 0xee for b in area[at + size:]):
	        print("and memory beside it was changed")
	with open("/tmp/moved", "wb") as out:
	    for area, at, size in areas:
	        out.write(area[at:at + size])
END
direct() { python3 /tmp/direct.py "$NODE" "$@"; }
# pages FIRST COUNT: what is there.
pages() { dd if="$NODE" bs=4k skip="$1" count="$2" iflag=direct status=none; }
writes_done() { awk '{ print $5 }' "$ATTR/stat"; }

set_up 64M
rule ABI-76 "memory of direct requests at multiples of 512, places at multiples of 4096"
reads 511 queue/dma_alignment
is "the same by statx" "512 4096" "$(python3 -c '
import ctypes, struct, sys
buffer = ctypes.create_string_buffer(256)
ctypes.CDLL(None).syscall(332, -100, sys.argv[1].encode(), 0, 0x2000, buffer)
print(*struct.unpack_from("II", buffer, 152))' "$NODE")"

rule ABI-81 "requests that do not wait are not supported, nor anything else special"
is "a write that may not wait (RWF_NOWAIT)" EOPNOTSUPP "$(direct write 0 0:4096 8)"
is "a read that may not wait" EOPNOTSUPP "$(direct read 0 0:4096 8)"
is "a read of high priority (RWF_HIPRI) is an ordinary one" ok "$(direct read 0 0:4096 1)"
is "no atomic writes (RWF_ATOMIC)" "EOPNOTSUPP|EINVAL" "$(direct write 0 0:4096 64)"
is "no secure erase" EOPNOTSUPP "$(rzattr ioctl secdiscard "$NODE" 0 4096)"
reads none queue/zoned
reads 0 queue/dax

rule ABI-121 "requests are not split to the queue's limits"
reads 124 queue/max_sectors_kb
before=$(writes_done)
dd if=/dev/zero of="$NODE" bs=16M count=1 oflag=direct status=none
check "16 MiB took $(($(writes_done) - before)) requests, not 133" [ $(($(writes_done) - before)) -le 17 ]

rule ABI-123 "which requests come through: places by 4096, memory by 512"
for row in "512 0:4096" "0 0:512" "0 0:4608" "2048 0:4096" "0 256:4096" "0 1:4096" "0 0:256,0:3840" \
	"0 0:512,0:512"; do
	# shellcheck disable=SC2086
	is "at $row" EINVAL "$(direct read $row)"
done
for row in "0 0:4096" "4096 0:8192" "0 0:4096,0:4096"; do
	# shellcheck disable=SC2086
	is "at $row" "ok ok" "$(direct write $row) $(direct read $row)"
done
is "memory at 512 comes through as well" ok "$(direct write 0 512:4096)"

rule ABI-124 "exactly the bytes that were meant are moved"
differs SE-1 "memory that is no whole page" ||
	for row in 0:4096 512:4096 3584:8192 0:512,1024:3584 2048:512,0:512,512:512,3584:2560 1536:12288; do
		rzio put "$NODE" noise 98 12 >/dev/null
		is "write from $row" ok "$(direct write 409600 "$row")"
		cp /tmp/moved /tmp/written
		count=$(($(wc -c </tmp/written) / 4096))
		check "is what is there" sh -c "dd if=$NODE bs=4k skip=100 count=$count iflag=direct status=none | cmp - /tmp/written"
		check "and nothing else" sh -c "rzio check $NODE noise 98 2 && rzio check $NODE noise $((100 + count)) 2"
		is "read into it" ok "$(direct read 409600 "$row")"
		check "finds it again" cmp /tmp/moved /tmp/written
	done

rule ABI-125 "the end of the device"
at=$(((END + 1) * 4096))
is "a write behind it" ENOSPC "$(direct write $at 0:4096)"
is "a write across it is cut" short:4096 "$(direct write $((at - 4096)) 0:8192)"
is "a read behind it is empty" short:0 "$(direct read $at 0:4096)"
is "a read across it is cut" short:4096 "$(direct read $((at - 4096)) 0:8192)"
is "the same through the page cache" "4096 0" \
	"$(tail -c 4096 "$NODE" | wc -c) $(dd if="$NODE" bs=4k skip=$((END + 1)) status=none | wc -c)"
is "no request of these failed in the driver" "0 0" "$(io 1) $(io 2)"

rule ABI-126 "flushes succeed and do nothing"
check "fsync" dd if=/dev/zero of="$NODE" bs=4k count=4 conv=fsync status=none
check "O_DSYNC" dd if=/dev/zero of="$NODE" bs=4k count=4 oflag=direct,dsync status=none
is "BLKFLSBUF" ok "$(rzattr ioctl flush "$NODE")"
check "sync of an open node" sync "$NODE"
is "none is counted" "0 0" "$(awk '{ print $16, $17 }' "$ATTR/stat")"

rule ABI-127 "other operations do not come through"
is "secure erase" EOPNOTSUPP "$(rzattr ioctl secdiscard "$NODE" 0 4096)"
is "reset of a zone" ENOTTY "$(python3 -c '
import errno, fcntl, os, struct, sys
fd = os.open(sys.argv[1], os.O_RDWR)
try:
    fcntl.ioctl(fd, 0x40101283, struct.pack("QQ", 0, 8))
    print("ok")
except OSError as e:
    print(errno.errorcode[e.errno])' "$NODE")"
is "no request failed for that" "0 0" "$(io 1) $(io 2)"

set_up 64M
rule ABI-130 "a slot without content reads as zeroes and takes nothing"
rzio put "$NODE" noise 10 10 >/dev/null
rzio discard "$NODE" 12 4 >/dev/null
before=$(cat "$ATTR/mm_stat")
check "never written" rzio check "$NODE" zero 5000 300
check "discarded" rzio check "$NODE" zero 12 4
check "through the page cache" sh -c "[ \$(head -c 40960 $NODE | tr -d '\\0' | wc -c) -eq 0 ]"
is "memory is as before" "$before" "$(cat "$ATTR/mm_stat")"

# filled NAME WANTED PYTHON: whether a page made by that expression is kept as a fill.
filled() {
	rzio discard "$NODE" 0 64 >/dev/null
	python3 -c "import struct, sys; sys.stdout.buffer.write($3)" >/tmp/page
	dd if=/tmp/page of="$NODE" bs=4k seek=7 oflag=direct status=none
	is "$1" "4096 $2" "$(mm 1 6)"
	check "$1: it reads back" sh -c "dd if=$NODE bs=4k skip=7 count=1 iflag=direct status=none | cmp - /tmp/page"
	[ "$2" = 0 ] || is "$1: it takes no memory" "0 0" "$(mm 2 3)"
}

rule ABI-131 "one repeated word of 8 bytes, whichever, takes no memory"
for word in 0 1 0x8000000000000000 0xffffffffffffffff 0x0102030405060708; do
	filled "word $word" 1 "struct.pack('Q', $word) * 512"
done
filled "period 1" 1 "b'a' * 4096"
filled "period 4" 1 "b'abcd' * 1024"
filled "period 16" 0 "b'abcdefghijklmnop' * 256"
filled "period 12, cut" 0 "(b'abcdefghijkl' * 342)[:4096]"
filled "another last byte" 0 "bytes(4095) + b'x'"
filled "another first byte" 0 "b'x' + bytes(4095)"
filled "another byte in the middle" 0 "bytes(2051) + b'x' + bytes(2044)"

rule ABI-132 "all else is compressed by the primary codec"
for name in $(codecs); do
	set_up 16M "$name"
	rzio put "$NODE" text 0 64 >/dev/null
	check "$name: it is smaller ($(mm 2))" [ "$(mm 2)" -lt $((64 * 4096 * 3 / 4)) -a "$(mm 2)" -gt 0 ]
	check "$name: it reads back" rzio check "$NODE" text 0 64
	mm 2 >>/tmp/sizes
done
check "codecs differ in what they make of it" [ "$(sort -u /tmp/sizes | wc -l)" -gt 1 ]

rule ABI-133 "from which length on a page is stored whole"
if [ -e "$STATE" ] && algorithms | grep -qw lz4; then
	# C's threshold for chains of 8 pages, and rzram's own.
	threshold=3849
	! on_c || threshold=3625
	set_up 64M lz4
	wrong=
	raw=0
	for bytes in $(seq $((threshold - 34)) $((threshold - 8))); do
		before=$(mm 2)
		rzio put "$NODE" "sized:$bytes" "$bytes" 1 >/dev/null
		length=$(($(mm 2) - before))
		case $(awk -v slot="$bytes" '$1 == slot { print $3 }' "$STATE") in
		..h...)
			raw=$((raw + 1))
			[ $length -eq 4096 ] || wrong="$wrong raw:$length"
			;;
		*) [ $length -lt $threshold ] || wrong="$wrong compressed:$length" ;;
		esac
		lengths="${lengths-} $length"
	done
	is "none is stored in the other form" "" "$wrong"
	check "the last length before it is compressed" sh -c "echo '$lengths ' | grep -qE ' ($((threshold - 1))|$((threshold - 2))) '"
	check "some were stored whole ($raw)" [ "$raw" -gt 2 ]
	is "and counted" "$raw $raw" "$(mm 8 9)"
else
	skip "stored whole" "this kernel's $DRIVER shows no flags, or has no lz4"
fi

set_up 64M lz4
rule ABI-135 "a request that fails part-way leaves what was written before"
rzio put "$NODE" noise 1000 64 >/dev/null
echo 4096 >"$ATTR/mem_limit"
rzio put "$NODE" zero 0 1 >/dev/null
{
	head -c 16384 /dev/zero | tr '\0' x
	head -c 49152 /dev/urandom
} >/tmp/half
before=$(writes_done)
sectors=$(awk '{ print $7 }' "$ATTR/stat")
refuses "16 pages, of which the first four need no memory" dd if=/tmp/half of="$NODE" bs=64k oflag=direct status=none
check "the first four are written" sh -c "dd if=$NODE bs=4k count=4 iflag=direct status=none | cmp -n 16384 - /tmp/half"
check "the fifth is not" rzio check "$NODE" zero 4 12
is "it is one failed request" 1 "$(io 2)"
rule ABI-147 "a request is one I/O of its full size, also when it fails part-way"
is "requests and sectors of the failed one" "1 128" "$(($(writes_done) - before)) $(($(awk '{ print $7 }' "$ATTR/stat") - sectors))"
echo 0 >"$ATTR/mem_limit"
before=$(awk '{ print $1, $3 }' "$ATTR/stat")
dd if="$NODE" of=/dev/null bs=128k count=3 iflag=direct status=none
is "three reads of 128 KiB" "3 768" "$(awk -v before="$before" '{ split(before, b, " "); print $1 - b[1], $3 - b[2] }' "$ATTR/stat")"
rule ABI-148 "erasures, flushes and merges are not counted"
rzio discard "$NODE" 0 5000 >/dev/null
rzio zeroout "$NODE" 0 5000 >/dev/null
sync "$NODE"
is "those columns" "0 0 0 0 0 0 0 0" "$(awk '{ print $2, $6, $12, $13, $14, $15, $16, $17 }' "$ATTR/stat")"

# slot INDEX COLUMN: of block_state.
slot() { awk -v slot="$1" -v column="$2" '$1 == slot { print $column }' "$STATE"; }

rule ABI-137 "reading or writing a slot ends its idleness and notes the time"
if [ -e "$STATE" ]; then
	set_up 16M
	rzio put "$NODE" text 0 4 >/dev/null
	rzio put "$NODE" zero 4 4 >/dev/null
	echo all >"$ATTR/idle"
	is "idle" "...i.. ...i.. ...i.." "$(slot 0 3) $(slot 1 3) $(slot 2 3)"
	sleep 2.1
	begin=$(cut -d. -f1 /proc/uptime)
	rzio check "$NODE" text 0 1 >/dev/null
	rzio put "$NODE" text 1 1 >/dev/null
	rzio check "$NODE" zero 4 1 >/dev/null
	is "read and written, not idle; the other is" "...... ...... ...i.." "$(slot 0 3) $(slot 1 3) $(slot 2 3)"
	if [ "$(slot 0 2)" = 0.000000 ]; then
		skip "the time" "this kernel's $DRIVER notes none"
	else
		for index in 0 1 4; do
			at=$(slot $index 2)
			check "slot $index was used now ($at of $begin)" [ "${at%.*}" -ge "$begin" -a "${at%.*}" -le $((begin + 3)) ]
		done
		for index in 2 5; do
			at=$(slot $index 2)
			check "slot $index was not ($at)" [ "${at%.*}" -lt "$begin" ]
		done
	fi
else
	skip "idleness and time" "this kernel's $DRIVER does not show it"
fi

rule ABI-143 "what the log says of an object that is no good"
set_up 16M
if on_c; then
	if algorithms | grep -qw lz4hc; then
		head -c 70000 /bin/sh >/tmp/dict
		echo 1 >"$ATTR/reset"
		echo lz4hc >"$ATTR/comp_algorithm"
		echo "dict=/tmp/dict" >"$ATTR/algorithm_params"
		echo 1M >"$ATTR/disksize"
		refuses "a codec that fails" rzio put "$NODE" text 0 1
		check "is told" sh -c "dmesg | grep -qi 'compression failed'"
	else
		skip "a codec that fails" "none can be made to"
	fi
else
	echo 4 >/sys/module/rzram/parameters/spoil_slot
	rzio put "$NODE" text 0 8 >/dev/null
	echo 0 >/sys/module/rzram/parameters/spoil_slot
	refuses "a spoilt object" pages 3 1
	# One line in some seconds, and others may have had it.
	told() { ! pages 3 1 >/dev/null 2>&1 && dmesg | grep -q "$DISK: decompression failed: slot 3"; }
	check "is told, with its slot" wait_for 12 told
fi

# erased NAME COMMAND...: it frees pages 20 to 39 of 100 and nothing else.
erased() {
	_name=$1
	shift
	set_up 16M
	rzio put "$NODE" noise 0 50 >/dev/null
	rzio put "$NODE" word 50 50 >/dev/null
	rzio put "$NODE" word 36 4 >/dev/null
	check "$_name: it succeeds" "$@"
	is "$_name: slots are free" $((80 * 4096)) "$(mm 1)"
	is "$_name: so is their memory" $((30 * 4096)) "$(mm 2)"
	is "$_name: each slot counts" 20 "$(io 4)"
	check "$_name: they read as zeroes" rzio check "$NODE" zero 20 20
	check "$_name: neighbors stay" sh -c "rzio check $NODE noise 0 20 && rzio check $NODE noise 40 10 && rzio check $NODE word 50 50"
	check "$_name: once more, on nothing" "$@"
	is "$_name: which counts, too" 40 "$(io 4)"
}

rule ABI-144 "a discard frees every slot in its range, and no other"
erased "discard" blkdiscard -o 81920 -l 81920 "$NODE"
check "of the whole disk, on which nothing may be left" blkdiscard "$NODE"
is "nothing is" "0 0 0 0" "$(mm 1 2 6 8)"
rule ABI-145 "writing zeroes by command frees as well"
erased "zeroout" blkdiscard -z -o 81920 -l 81920 "$NODE"
erased "punched hole" fallocate -p -o 81920 -l 81920 "$NODE"
erased "zero range" fallocate -z -o 81920 -l 81920 "$NODE"
rule ABI-146 "erasures by part of a page are refused"
for request in discard zeroout; do
	for range in "512 4096" "4096 512" "2048 2048" "0 4608"; do
		# shellcheck disable=SC2086
		is "$request of $range" EINVAL "$(rzattr ioctl $request "$NODE" $range)"
	done
	is "$request of nothing" "EINVAL|ok" "$(rzattr ioctl $request "$NODE" 4096 0)"
done
is "secure erase is not supported" EOPNOTSUPP "$(rzattr ioctl secdiscard "$NODE" 0 4096)"

finish
