#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# vm: --kernel stock --mem 1G --cpus 2 --timeout 120
# vm: --kernel debug --mem 1G --cpus 2 --timeout 200
# tier: test
#
# The queue limits of ABI-60 to 79, the disk's properties of ABI-14, ioctls of ABI-81 and 146, and
# the block statistics of ABI-147, 148 and B71.

. "$(dirname "$0")/lib.sh"

load
set_up 64M

# limits ID WHAT NAME:VALUE...
limits() {
	rule "$1" "$2"
	shift 2
	for pair; do
		reads "${pair#*:}" "queue/${pair%:*}"
	done
}
limits ABI-60 "logical block size" logical_block_size:4096 hw_sector_size:4096
limits ABI-61 "physical block size" physical_block_size:4096
limits ABI-62 "preferred sizes of requests" minimum_io_size:4096 optimal_io_size:4096
limits ABI-63 "discard granularity" discard_granularity:4096
limits ABI-64 "largest discard" discard_max_bytes:2199023255040 discard_max_hw_bytes:2199023255040
limits ABI-65 "ranges in a discard" max_discard_segments:1
limits ABI-66 "largest write of zeroes" write_zeroes_max_bytes:2199023255040
limits ABI-67 "no write of zeroes that must free" write_zeroes_unmap_max_hw_bytes:0 write_zeroes_unmap_max_bytes:0
limits ABI-68 "nothing rotates" rotational:0
limits ABI-69 "pages must not change while they are written" stable_writes:1
limits ABI-70 "no cache to flush" "write_cache:write through" fua:0
limits ABI-71 "switches that are off" add_random:0 dax:0 io_poll:0 nomerges:0
limits ABI-72 "iostats is off" iostats:0
limits ABI-73 "no zones" zoned:none
limits ABI-74 "largest request, which nobody enforces" max_hw_sectors_kb:124 max_sectors_kb:124
limits ABI-75 "segments, which nobody enforces" max_segments:128 max_segment_size:65536
limits ABI-76 "memory may begin at any 512 bytes" dma_alignment:511
limits ABI-77 "read-ahead" read_ahead_kb:128
limits ABI-78 "no boundary" virt_boundary_mask:0
rule ABI-79 "no request queue: no scheduler, no tags"
for name in scheduler nr_requests rq_affinity; do
	is "no queue/$name: not request-based" ENOENT "$(rzattr open-read "$ATTR/queue/$name")"
done
rule ABI-14 "no partitions; what kind of disk it is"
for pair in range:1 ext_range:1 removable:0 ro:0 hidden:0 capability:0 alignment_offset:0 \
	discard_alignment:0 partscan:0; do
	reads "${pair#*:}" "${pair%:*}"
done
rule
is "owner and mode of the control class" "400 0 0 200 0 0" \
	"$(stat -c '%a %u %g' "$CONTROL/hot_add" "$CONTROL/hot_remove" | xargs)"
check "block major has the driver's name" grep -qw "$NAME" /proc/devices
check "minor is the device's number" grep -q ':0$' "$ATTR/dev"

rule ABI-14
is "no partition table is read" EINVAL "$(rzattr ioctl rrpart "$NODE")"
rule "ABI-81 ABI-146" "which ioctls there are"
is "no secure erase" EOPNOTSUPP "$(rzattr ioctl secdiscard "$NODE" 0 4096)"
is "flush of buffers" ok "$(rzattr ioctl flush "$NODE")"
for request in discard zeroout; do
	is "$request of whole pages" ok "$(rzattr ioctl $request "$NODE" 4096 8192)"
	is "$request from the middle of a page" EINVAL "$(rzattr ioctl $request "$NODE" 512 4096)"
	is "$request of part of a page" EINVAL "$(rzattr ioctl $request "$NODE" 4096 512)"
	is "$request past the end" EINVAL "$(rzattr ioctl $request "$NODE" 67108864 4096)"
done

rule ABI-125 "the end of the disk"
is "writing at the end finds no space" 1 \
	"$(dd if=/dev/zero of="$NODE" bs=4k seek=16384 count=1 oflag=direct 2>&1 | grep -c 'No space left')"
is "reading at the end finds nothing" 0 "$(dd if="$NODE" bs=4k skip=16384 iflag=direct status=none | wc -c)"
is "the last page is there" 4096 "$(dd if="$NODE" bs=4k skip=16383 iflag=direct status=none | wc -c)"

# B71.
rule "ABI-147 ABI-148" "reads and writes count in bios and sectors, discards do not"
columns() { awk '{ print NF, $1, $3, $5, $7, $12 }' "$ATTR/stat"; }
writes ok reset 1
writes ok disksize 64M
is "17 columns, all 0" "17 0 0 0 0 0" "$(columns)"
dd if=/dev/zero of="$NODE" bs=1M count=1 oflag=direct status=none
is "1 MiB written in one request" "17 0 0 1 2048 0" "$(columns)"
dd if="$NODE" of=/dev/null bs=64k count=16 iflag=direct status=none
is "1 MiB read in 16 requests" "17 16 2048 1 2048 0" "$(columns)"
rzio discard "$NODE" 0 1024 >/dev/null
is "discard counts nowhere" "17 16 2048 1 2048 0" "$(columns)"
is "nothing is in flight" "0 0" "$(xargs <"$ATTR/inflight")"

finish
