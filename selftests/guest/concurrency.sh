#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# vm: --kernel uml --mem 1G --cpus 2 --timeout 300
# vm: --kernel debug --mem 1G --cpus 2 --timeout 200
# tier: test
#
# Readers, writers and discards on both CPUs, on the same slots and on neighbors, every page
# checked. Field cases B29 (two writers to one slot leak an object) and B13 (reset under I/O).

. "$(dirname "$0")/lib.sh"
SHORT_LINES=1000

load
for algorithm in $(codecs); do
	set_up 64M "$algorithm"
	check "$algorithm: four threads on 64 pages" rzio race "$NODE" --seed "$SEED" --threads 4 \
		--span 64 --ops "$(work 3000)" --discard $ALIGNED
	check "$algorithm: four threads on 4096 pages" rzio race "$NODE" --seed "$SEED" --threads 4 \
		--span 4096 --ops "$(work 2000)" --discard $ALIGNED
	is "$algorithm: no failed requests" "0 0" "$(io 1) $(io 2)"
	discard_all_is_zero "$algorithm"
done

# Statistics and compaction are read and run all the while.
watch_statistics() {
	while :; do
		cat "$ATTR/mm_stat" "$ATTR/io_stat" "$ATTR/debug_stat" "$ATTR/stat"
		echo 1 >"$ATTR/compact"
		echo 0 >"$ATTR/mem_used_max"
	done >/tmp/statistics 2>&1
}
set_up 64M
in_background watch_statistics
watcher=$background
check "twelve threads beside a reader of statistics" rzio race "$NODE" --seed "$SEED" --threads 12 \
	--span 256 --ops "$(work 1000)" --discard $ALIGNED
kill "$watcher"
wait "$watcher" 2>/dev/null
refuses "no statistic could not be read" grep -q "error" /tmp/statistics
differs SE-4 "no counter went below zero" ||
	refuses "no counter went below zero" grep -qE '1844674407|-[0-9]' /tmp/statistics
discard_all_is_zero "with statistics"

# B29: eight writers on one mebibyte.
set_up 64M
check "B29: eight writers" fio --name=w --filename="$NODE" --rw=randwrite --size=1M --bs=4k --direct=1 \
	--numjobs=8 --time_based --runtime="$(work 5)" --randseed="$SEED" --minimal \
	--buffer_compress_percentage=50
discard_all_is_zero "B29"

# B13: reset is refused as long as anybody does I/O, and the data is right.
set_up 64M
rzio race "$NODE" --seed "$SEED" --threads 4 --span 256 --ops "$(work 3000)" $ALIGNED >/tmp/race 2>&1 3>&- &
racer=$!
has_written() { [ "$(awk '{ print $5 }' "$ATTR/stat")" -gt 10 ]; }
wait_for 20 has_written
resets=0
wrong=0
while kill -0 "$racer" 2>/dev/null; do
	case $(rzattr write "$ATTR/reset" 1) in
	EBUSY) resets=$((resets + 1)) ;;
	*) [ ! -e "/proc/$racer/fd" ] || wrong=$((wrong + 1)) ;;
	esac
	# Once it has closed the disk a reset may succeed.
	[ "$(cat "$ATTR/disksize")" != 0 ] || echo 64M >"$ATTR/disksize" 2>/dev/null
done
wait "$racer"
is "B13: data is right under resets" 0 "$?"
least=10
! short || least=0
check "B13: resets were refused ($resets), $wrong at the end was not" [ "$resets" -gt $least ]
check "B13: reset after the last close" sh -c "echo 1 >$ATTR/reset"

finish
