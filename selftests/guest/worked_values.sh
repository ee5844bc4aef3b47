#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# vm: --kernel uml --mem 1G --cpus 2 --timeout 120
# vm: --kernel debug --mem 1G --cpus 2 --timeout 200
# tier: test
#
# The worked values of ABI-280 to 287, on lz4; the limit and the failed writes of ABI-134, 138, 140
# and 141. Columns 3 and 5 of mm_stat are the pool's: C's are exact, of rzram's only what must
# hold in any pool is asked.

. "$(dirname "$0")/lib.sh"

load
algorithms | grep -qw lz4 || skip_all "no lz4"
set_up 64M lz4

# values WHEN COLUMN1 COLUMN2 COLUMN3 COLUMN5 COLUMN6 COLUMN8 COLUMN9, 3 and 5 as C has them.
values() {
	is "$1: columns 1 2 6 8 9" "$2 $3 $6 $7 $8" "$(mm 1 2 6 8 9)"
	if on_c; then
		is "$1: columns 3 5" "$4 $5" "$(mm 3 5)"
		return
	fi
	used=$(mm 3)
	peak=$(mm 5)
	check "$1: memory used ($used) holds the data" [ "$used" -ge "$3" ]
	check "$1: memory used ($used) is whole pages" [ $((used % 4096)) -eq 0 ]
	check "$1: memory used ($used) has at most a chain to spare" [ "$used" -le $(($3 + 32768)) ]
	check "$1: the peak ($peak) is no lower" [ "$peak" -ge "$used" ]
}

rule ABI-280 "nothing stored"
values "new" 0 0 0 0 0 0 0
rule ABI-281 "pages of zeroes"
check "4 zero pages" rzio put "$NODE" zero 0 4
values "zero pages" 16384 0 0 0 4 0 0
rule ABI-282 "pages of one word"
check "4 pages of one word" rzio put "$NODE" word 4 4
values "pages of one word" 32768 0 0 0 8 0 0
rule ABI-283 "random pages"
check "4 random pages" rzio put "$NODE" noise 8 4
values "random pages" 49152 16384 16384 16384 8 4 4
rule "ABI-284 CM-6" "pages that compress to 72 bytes"
check "4 pages that become 72 bytes each" rzio put "$NODE" sized:51 12 4
values "compressible pages" 65536 16672 36864 36864 8 4 4
for part in "zero 0" "word 4" "noise 8" "sized:51 12"; do
	# shellcheck disable=SC2086
	check "$part reads back" rzio check "$NODE" $part 4
done
rule ABI-285 "zeroes over them"
check "zeroes over the compressible ones" rzio put "$NODE" zero 12 4
values "overwritten" 65536 16384 16384 36864 12 4 4
rule "ABI-286 SE-25" "discard of the random ones"
check "discard of the random ones" rzio discard "$NODE" 8 4
values "discarded" 49152 0 0 36864 12 0 4
is "notify_free counts discarded slots" 4 "$(io 4)"
rule ABI-287 "zeroes over pages never written"
before=$(cat "$ATTR/mm_stat")
check "zeroes over 256 pages never written" rzio zeroout "$NODE" 1024 256
is "notify_free counts them" 260 "$(io 4)"
is "mm_stat is unchanged" "$before" "$(cat "$ATTR/mm_stat")"
rule
is "discarded pages read as zeroes" 0 "$(dd if="$NODE" bs=4k skip=8 count=4 iflag=direct status=none | tr -d '\0' | wc -c)"
check "reading what was never written" rzio check "$NODE" zero 4096 64
is "changes nothing" "$before" "$(cat "$ATTR/mm_stat")"
rule SE-24 "no slot's free is missed"
is "debug_stat reads no missed free" "version: 1 0 0" "$(xargs <"$ATTR/debug_stat")"

rule
# A word of any period but the machine's is no fill.
printf 'abcdefghijklmnop%.0s' $(seq 256) >/tmp/period16
dd if=/tmp/period16 of="$NODE" bs=4k seek=2000 oflag=direct status=none
is "period 16 is compressed, period 8 is not" "12" "$(mm 6)"

# At the limit a write fails with EIO and the old content stays.
rule ABI-138 "the limit, and what fits all the same"
set_up 64M lz4
check "64 random pages" rzio put "$NODE" noise 0 64
echo 256K >"$ATTR/mem_limit"
is "all of the limit is used" 262144 "$(mm 3)"
refuses "a page more is refused" rzio put "$NODE" noise 64 1
rule ABI-140 "a write that is refused fails with EIO"
is "with EIO" 1 "$(dd if=/dev/urandom of="$NODE" bs=4k seek=64 count=1 oflag=direct 2>&1 | grep -c 'Input/output error')"
rule ABI-141 "failed writes count by the request"
is "each failed request counts once" "0 2" "$(io 1) $(io 2)"
dd if=/dev/urandom of="$NODE" bs=64k seek=4 count=1 oflag=direct status=none 2>/dev/null
is "a failed request of 16 pages, too" 3 "$(io 2)"
rule ABI-138
check "fills still fit" rzio put "$NODE" word 64 4
rule ABI-134 "a failed write leaves the old page"
check "what was there is unchanged" rzio check "$NODE" noise 0 64
check "the refused slot holds the fill" rzio check "$NODE" word 64 4
rule SE-7 "what replaces a page of its size or more fits at the limit"
differs SE-7 "a smaller page over a raw one fits at the limit" || {
	check "a page over its like fits at the limit" rzio put "$NODE" noise 0 1 --generation 1
	check "a smaller page over a raw one fits at the limit" rzio put "$NODE" text 1 1 --generation 1
	check "the first reads back" rzio check "$NODE" noise 0 1 --generation 1
	check "the second reads back" rzio check "$NODE" text 1 1 --generation 1
}
rule
echo 0 >"$ATTR/mem_limit"
check "without a limit it fits" rzio put "$NODE" noise 64 4
rzio discard "$NODE" 0 4096 >/dev/null
is "the peak stays" 1 "$([ "$(mm 5)" -ge 278528 ] && echo 1)"
echo 0 >"$ATTR/mem_used_max"
is "until it is set back" "$(mm 3)" "$(mm 5)"
discard_all_is_zero "at the end"

finish
