#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# vm: --kernel uml --mem 1G --cpus 2 --timeout 120
# tier: test
#
# How reads get at objects, by the streams' own statistics: in place, through a bounce buffer, through
# the stream's local copy when there is no buffer, and through a stream where the codec keeps state.

. "$(dirname "$0")/lib.sh"

! on_c || skip_all "C zram has no such statistics"
STREAMS=/sys/kernel/debug/rzram/rzram0/streams
REFUSE=/sys/module/rzram/parameters/refuse_bounce
PAGES=4096
mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug

# figure NAME: of the primary codec.
figure() { awk -v name="$1" '$1 == "priority" { p = $2 } p == 0 && $1 == name { print $2 }' $STREAMS; }

# more NAME THAN: the figure is larger.
more() { [ "$(figure "$1")" -gt "$2" ]; }

# fill CODEC: every page of the range holds what names its place.
fill() {
	check "a device for $1" set_up 64M "$1"
	check "$1: fill it" rzio put "$NODE" text 0 $PAGES
}

verify() { check "$1" rzio check "$NODE" text 0 $PAGES; }

# Scattered zspages: objects span pages.
load linear=0 refuse_bounce=1
for codec in lzo-rle lzo lz4; do
	fill $codec
	verify "$codec: right without bounce buffers"
	check "$codec: spanning objects went through the local copy" more bounce_fallbacks 0
	is "$codec: none was bounced" 0 "$(figure bounced_reads)"
	fallbacks=$(figure bounce_fallbacks)
	echo 0 >$REFUSE
	verify "$codec: right with them"
	is "$codec: no more fallbacks" "$fallbacks" "$(figure bounce_fallbacks)"
	check "$codec: spanning objects were bounced" more bounced_reads 0
	check "$codec: the others were read in place" more shared_reads 0
	is "$codec: no read took a stream but those" "$fallbacks" "$(figure exclusive_reads)"
	echo 1 >$REFUSE
	discard_all_is_zero $codec
done
echo 1 >"$ATTR/reset"
unload

# Linear zspages: nothing spans, as long as memory is not short.
load linear=1 refuse_bounce=1
for codec in lzo-rle lz4; do
	fill $codec
	verify "$codec, linear: right"
	check "$codec, linear: read in place" more shared_reads $((PAGES / 2))
	check "$codec, linear: hardly any fallback" [ "$(figure bounce_fallbacks)" -lt $((PAGES / 10)) ]
	is "$codec, linear: nobody waited" 0 "$(figure contended_reads)"
done
fill zstd
verify "zstd: right"
check "zstd: every read took a stream" more exclusive_reads $((PAGES - 1))
is "zstd: none was shared" 0 "$(figure shared_reads)"
echo 1 >"$ATTR/reset"
for name in shared_reads bounced_reads bounce_fallbacks exclusive_reads exclusive_writes; do
	is "reset clears $name" 0 "$(figure $name)"
done
finish
