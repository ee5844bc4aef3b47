#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# vm: --kernel uml --mem 1G --cpus 2 --timeout 120
# vm: --kernel debug --mem 1G --cpus 2 --timeout 200
# tier: test
#
# Each column of the statistics: what moves it, what does not, what reset makes of it. ABI-260 to 278;
# the worked values are in worked_values.sh.

. "$(dirname "$0")/lib.sh"

load
PAGE=4096
bd() { awk -v c="$1" '{ print $c }' "$ATTR/bd_stat"; }
set_to() { echo "$2" >"$ATTR/$1"; }
put() { rzio put "$NODE" "$@" >/dev/null; }
discard() { rzio discard "$NODE" "$@" >/dev/null; }
# column N NAME WANTED: column N of mm_stat.
column() { is "$2" "$3" "$(mm "$1")"; }

modprobe loop 2>/dev/null
loop=
if [ -e "$ATTR/backing_dev" ] && [ -e /dev/loop-control ]; then
	truncate -s 4M /tmp/store.file
	loop=$(losetup -f --show /tmp/store.file)
	set_to backing_dev "$loop"
fi
strong=
if [ -e "$ATTR/recompress" ] && algorithms | grep -qw zstd; then
	set_to recomp_algorithm "algo=zstd priority=1"
	strong=y
fi
set_to comp_algorithm lz4
set_to disksize 64M

rule ABI-260 "pages that hold anything, in bytes"
put noise 0 10
column 1 "raw" $((10 * PAGE))
put text 10 10
column 1 "compressed" $((20 * PAGE))
put zero 20 5
put word 25 5
column 1 "filled" $((30 * PAGE))
put text 0 5
put noise 20 5
column 1 "overwritten in other forms" $((30 * PAGE))
discard 0 3
column 1 "discarded" $((27 * PAGE))
discard 0 3
column 1 "discarded twice" $((27 * PAGE))
if [ -n "$loop" ]; then
	set_to writeback "page_indexes=0-29"
	is "written back: on the device" 22 "$(bd 1)"
	column 1 "and counted still" $((27 * PAGE))
fi
discard 0 100
column 1 "all discarded" 0

rule ABI-261 "bytes of the objects in memory"
put noise 0 10
column 2 "raw pages are whole" $((10 * PAGE))
put word 10 10
column 2 "filled ones are nothing" $((10 * PAGE))
put sized:51 20 10
column 2 "compressed ones without their headers: 72 bytes each" $((10 * PAGE + 720))
put word 20 10
column 2 "overwritten" $((10 * PAGE))
discard 0 4
column 2 "discarded" $((6 * PAGE))
if [ -n "$loop" ]; then
	set_to writeback page_indexes=4-5
	column 2 "written back" $((4 * PAGE))
fi
put text 40 20
bytes=$(mm 2)
if [ -n "$strong" ]; then
	set_to recompress priority=1
	check "recompressed: fewer ($bytes, $(mm 2))" [ "$(mm 2)" -lt "$bytes" ]
fi
discard 0 100
column 2 "all discarded" 0

rule ABI-262 "memory of the pool, in whole pages, and nothing else"
column 3 "an empty pool; the table of 16384 slots is not in it" 0
put noise 0 64
column 3 "raw pages" $((64 * PAGE))
put sized:1000 100 500
used=$(mm 3)
check "whole pages ($used)" [ $((used % PAGE)) -eq 0 ]
check "at least the data ($(mm 2))" [ "$used" -ge "$(mm 2)" ]
check "and little more" [ "$used" -le $(($(mm 2) * 23 / 20 + 32768)) ]
put word 1000 500
column 3 "filled pages take none" "$used"
discard 0 2000
column 3 "all discarded" 0

rule ABI-263 "the limit"
for pair in 1:$PAGE 1M:1048576 0:0; do
	set_to mem_limit "${pair%:*}"
	column 4 "after ${pair%:*}" "${pair#*:}"
done

rule ABI-264 "the most that the pool ever was"
set_to mem_used_max 0
column 5 "from 0" 0
put noise 0 100
discard 0 60
is "the peak stays" "$((40 * PAGE)) $((100 * PAGE))" "$(mm 3 5)"
put word 200 50
column 5 "filled pages do not move it" $((100 * PAGE))
set_to mem_used_max 0
column 5 "it begins anew at what is used" $((40 * PAGE))
set_to mem_limit $((40 * PAGE))
refuses "a page above the limit" rzio put "$NODE" noise 500 1
if on_c; then
	column 5 "counts what was taken back" $((41 * PAGE))
else
	column 5 "does not count what was taken back (SE-8)" $((40 * PAGE))
fi
set_to mem_limit 0
discard 0 600

rule ABI-265 "filled pages"
put zero 0 5
put word 5 6
column 6 "zeroes and words" 11
put zero 0 5
put word 0 5
column 6 "overwritten by their like" 11
put noise 0 2
column 6 "by others" 9
discard 5 3
column 6 "discarded" 6
discard 0 20
column 6 "all discarded" 0

rule ABI-266 "pages that compaction gave back"
column 7 "none" 0
put sized:1000 0 2000
perforate 2000
used=$(mm 3)
set_to compact 1
is "as many as are used no more" "$(mm 3)" $((used - $(mm 7) * PAGE))
check "some ($(mm 7))" [ "$(mm 7)" -gt 50 ]
discard 0 2000

rule ABI-267 "raw pages in memory"
put noise 0 20
column 8 "written" 20
put text 0 2
column 8 "overwritten" 18
discard 2 2
column 8 "discarded" 16
if [ -n "$loop" ]; then
	set_to writeback page_indexes=4-8
	column 8 "written back" 11
fi
if [ -n "$strong" ]; then
	head -c 10240 /dev/urandom | od -An -v -tx1 | tr -d ' \n' >/tmp/digits
	dd if=/tmp/digits of="$NODE" bs=4k seek=50 oflag=direct status=none
	raw=$(mm 8)
	set_to recompress priority=1
	column 8 "recompressed" $((raw - 5))
fi
rule ABI-268 "raw pages ever"
ever=$(mm 9)
check "all of them ($ever)" [ "$ever" -ge 144 ]
put noise 100 3
column 9 "written" $((ever + 3))
put noise 100 3
column 9 "overwritten by their like" $((ever + 6))
discard 0 200
column 9 "discarded" $((ever + 6))

rule ABI-269 "no column is negative"
for _ in 1 2 3 4; do
	put noise 0 50
	put zero 0 50
	discard 0 50
done
refuses "wrapped or negative" grep -qE '[0-9]{20}|-' "$ATTR/mm_stat"

rule ABI-272 "the third column of io_stat is a bare 0"
is "it" 0 "$(io 3)"
is "without padding" 1 "$(grep -c '^ *[0-9]* *[0-9]* 0  ' "$ATTR/io_stat")"
rule ABI-273 "slots that were discarded or freed, in use or not"
before=$(io 4)
put noise 0 5
discard 0 10
is "a discard counts its slots" $((before + 10)) "$(io 4)"
rzio zeroout "$NODE" 5000 7 >/dev/null
is "so does a zeroout" $((before + 17)) "$(io 4)"
put zero 0 5
is "an overwrite does not" $((before + 17)) "$(io 4)"
rule ABI-271 "requests that failed in writing"
before=$(io 2)
set_to mem_limit $PAGE
put zero 0 1
for _ in 1 2 3; do
	dd if=/dev/urandom of="$NODE" bs=16k count=1 oflag=direct 2>/dev/null
done
is "each once" "0 3" "$(io 1) $(($(io 2) - before))"
set_to mem_limit 0

rule ABI-270 "requests that failed in reading"
if on_c; then
	is "none did" 0 "$(io 1)"
	skip "one that fails" "nothing makes C zram fail to read"
else
	echo 4 >/sys/module/rzram/parameters/spoil_slot
	put text 0 8
	echo 0 >/sys/module/rzram/parameters/spoil_slot
	refuses "a spoilt object" dd if="$NODE" of=/dev/null bs=16k count=1 iflag=direct status=none
	is "is one request" "1 3" "$(io 1) $(($(io 2) - before))"
	discard 0 10
fi

if [ -n "$loop" ]; then
	rule ABI-274 "blocks in use on the backing device"
	discard 0 16384
	is "none" 0 "$(bd 1)"
	before=$(bd 3)
	reads_before=$(bd 2)
	put noise 0 20
	set_to writeback huge
	is "written" 20 "$(bd 1)"
	put zero 0 2
	discard 2 3
	is "overwritten and discarded" 15 "$(bd 1)"
	rule ABI-276 "blocks ever written"
	is "all of them" $((before + 20)) "$(bd 3)"
	set_to writeback huge
	is "none twice" $((before + 20)) "$(bd 3)"
	rule ABI-275 "blocks ever read"
	rzio check "$NODE" noise 5 10 >/dev/null
	rzio check "$NODE" noise 5 3 >/dev/null
	rzio check "$NODE" zero 0 2 >/dev/null
	is "each time, and only from there" $((reads_before + 13)) "$(bd 2)"
else
	for id in 274 275 276; do
		rule ABI-$id "counters of the backing device"
		skip "counters of the backing device" "this kernel's $DRIVER has none"
	done
fi

rule ABI-277 "debug_stat, first line"
is "its version" "version: 1" "$(head -n 1 "$ATTR/debug_stat")"
rule ABI-278 "debug_stat, second line"
is "0, and the frees that were missed" "0 0" "$(awk 'NR == 2 { print $1, $2 }' "$ATTR/debug_stat")"
is "two lines" 2 "$(wc -l <"$ATTR/debug_stat")"

put noise 0 20
set_to mem_limit 1M
set_to reset 1
for pair in 260:1 261:2 262:3 263:4 264:5 265:6 266:7 267:8 268:9; do
	rule "ABI-${pair%:*}"
	column "${pair#*:}" "after reset" 0
done
for pair in 270:1 271:2 273:4; do
	rule "ABI-${pair%:*}"
	is "after reset" 0 "$(io "${pair#*:}")"
done
for pair in 274:1 275:2 276:3; do
	[ -z "$loop" ] || rule "ABI-${pair%:*}"
	[ -z "$loop" ] || is "after reset" 0 "$(bd "${pair#*:}")"
done
[ -z "$loop" ] || losetup -d "$loop"
finish
