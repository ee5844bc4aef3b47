#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# vm: --kernel stock --mem 1G --cpus 2 --timeout 180
# tier: test
#
# What rzram has for people: the reason of a refused write in last_error and in the log, every figure
# by name in rzram_stat, and an event when the memory use reaches a threshold.

. "$(dirname "$0")/lib.sh"

! on_c || skip_all "C zram has none of this"
load
dmesg -C

# named: errors by name, on a kernel that knows their numbers only.
named() {
	sed -e 's/^-2 /ENOENT /; s/^-7 /E2BIG /; s/^-12 /ENOMEM /; s/^-16 /EBUSY /; s/^-19 /ENODEV /' \
		-e 's/^-22 /EINVAL /; s/^-34 /ERANGE /'
}

# last_error NAME WANTED [FILE]: what it says; * stands for anything.
last_error() {
	_found=$(named <"${3:-$ATTR/last_error}")
	# shellcheck disable=SC2254
	case $_found in
	$2) passed "last_error: $1" ;;
	*) failed "last_error: $1" "wanted: $2
found:  $_found" ;;
	esac
}
# logged TEXT: how many lines of the kernel's log hold it.
logged() { dmesg | grep -cF "$1"; }

# What was refused, and what would have been right.
is "modes of last_error and rzram_stat" "444 444 444" \
	"$(stat -c %a "$ATTR/last_error" "$ATTR/rzram_stat" "$CONTROL/last_error" | xargs)"
last_error "nothing yet" none
last_error "nothing yet of the class" none "$CONTROL/last_error"
names=$(algorithms | xargs | sed 's/ /, /g')
for row in \
	"disksize|garbage|EINVAL|write a size such as 512M or 2G" \
	"reset|0|EINVAL|write 1" "reset|65536|ERANGE|write 1" \
	"mem_limit|lots|EINVAL|write a size such as 512M, or 0 for none" \
	"mem_threshold|x|EINVAL|write a size such as 512M, or 0 for none" \
	"mem_used_max|1|EINVAL|write 0" \
	"comp_algorithm|gzip|EINVAL|write $names" \
	"recomp_algorithm|algo=gzip priority=1|EINVAL|write $names" \
	"recomp_algorithm|priority=1|EINVAL|write algo=NAME and priority=1, 2 or 3" \
	"algorithm_params|level=x|EINVAL|write priority= algo= level= dict= deflate.winbits=" \
	"algorithm_params|dict=/nowhere|ENOENT|the dictionary cannot be read" \
	"idle|never|EINVAL|write all, or an age in seconds" \
	"recompress|type=foo|EINVAL|write type=idle, huge or huge_idle*" \
	"compact|1|EINVAL|the disk has no size yet, write one to disksize first" \
	"comp_algorithm|$(printf '%0200d' 0)|E2BIG|it is longer than any name"; do
	file=${row%%|*}
	row=${row#*|}
	text=${row%%|*}
	row=${row#*|}
	errno=${row%%|*}
	writes "$errno" "$file" "$text"
	last_error "$file" "$errno $file: '$(printf %.64s "$text")*' refused, ${row#*|}"
done
is "the log has the line, once" 1 "$(logged "$DISK: disksize: 'garbage' refused, write a size such as 512M or 2G")"
is "with the legal names" 1 "$(logged "$DISK: comp_algorithm: 'gzip' refused, write $names")"
is "bytes that are no text" EINVAL "$(printf 'a\001\377b' | rzattr write "$ATTR/disksize")"
last_error "bytes that are no text" "EINVAL disksize: 'a\\\\x01\\\\xffb' refused, *"
set_up 16M
writes EBUSY disksize 32M
last_error "a size twice" "EBUSY disksize: '32M' refused, the disk has a size, write 1 to reset first"
writes EBUSY comp_algorithm lz4
last_error "too late" "EBUSY comp_algorithm: 'lz4' refused, the disk has a size, write 1 to reset first"
exec 3<"$NODE"
writes EBUSY reset 1
last_error "open" "EBUSY reset: '1' refused, the disk is open, or being reset"
exec 3<&-
writes ok mem_limit 1M
last_error "success does not hide it" "EBUSY reset: *"
writes ok reset 1
last_error "nor does reset" "EBUSY reset: *"
is "hot_remove of nothing" ENODEV "$(rzattr write "$CONTROL/hot_remove" 7)"
last_error "of the class" "ENODEV hot_remove: '7' refused, there is no disk of this number" "$CONTROL/last_error"
is "hot_remove of no number" EINVAL "$(rzattr write "$CONTROL/hot_remove" zero)"
last_error "of the class" "EINVAL hot_remove: 'zero' refused, write the number of a disk" "$CONTROL/last_error"
set_up 16M
exec 3<"$NODE"
is "hot_remove of an open disk" EBUSY "$(rzattr write "$CONTROL/hot_remove" 0)"
exec 3<&-
last_error "of the class" "EBUSY hot_remove: '0' refused, the disk is open, or being reset" "$CONTROL/last_error"
is "a new disk has its own" "1 none" "$(cat "$CONTROL/hot_add") $(cat "/sys/block/${NAME}1/last_error")"
echo 1 >"$CONTROL/hot_remove"

# rzram_stat: the same figures as mm_stat and io_stat, by name.
figure() { awk -v key="$1" '$1 == key { print $2 }' "$ATTR/rzram_stat"; }
set_up 64M
check "data" rzio put "$NODE" text 0 300
check "data that is raw" rzio put "$NODE" noise 300 40
check "data that is filled" rzio put "$NODE" word 400 10
check "discards" rzio discard "$NODE" 0 20
echo 32M >"$ATTR/mem_limit"
echo 16M >"$ATTR/mem_threshold"
is "rzram_stat says what mm_stat says" "$(mm 1 2 3 4 5 6 7 8 9)" \
	"$(for key in orig_data_bytes compressed_bytes mem_used_bytes mem_limit_bytes mem_used_max_bytes \
		same_pages compacted_pages huge_pages huge_pages_since; do figure $key; done | xargs)"
is "and what io_stat says" "$(io 1) $(io 2) $(io 4)" \
	"$(figure failed_read_bios) $(figure failed_write_bios) $(figure notify_free_slots)"
is "and the rest" "67108864 16777216 0" "$(figure disksize_bytes) $(figure mem_threshold_bytes) $(figure mem_threshold_events)"
is "pages are pages" "$(figure mem_used_bytes)" "$(($(figure pool_pages) * 4096))"
is "writes are counted" 340 "$(($(figure exclusive_writes) + $(figure borrowed_writes)))"
check "the table costs something" [ "$(figure table_bytes)" -gt 4095 ]
is "nothing is pending" 0 "$(figure pending_slots)"
refuses "every line is a key and a number" grep -qvE '^[a-z_]+ [0-9]+$' "$ATTR/rzram_stat"
is "no key comes twice" "" "$(awk '{ print $1 }' "$ATTR/rzram_stat" | sort | uniq -d)"
check "it is far from a page long" [ "$(wc -c <"$ATTR/rzram_stat")" -lt 3500 ]
writes ok reset 1
is "without a size all is 0" "" "$(awk '$2 != 0' "$ATTR/rzram_stat")"

# mem_threshold: its grammar.
is "mode of mem_threshold" 644 "$(stat -c %a "$ATTR/mem_threshold")"
reads 0 mem_threshold
for pair in 1:4096 1M:1048576 0x2000:8192 0:0; do
	writes ok mem_threshold "${pair%:*}"
	reads "${pair#*:}" mem_threshold
done
writes ok mem_threshold 1M
writes EINVAL mem_threshold none
reads 1048576 mem_threshold
writes ok reset 1
reads 0 mem_threshold

# The event.
events=/tmp/events
rzevent 150 >$events &
helpers="$helpers $!"
check "listening" wait_for 10 grep -q listening $events
count() { grep -c 'RZRAM_EVENT=mem_threshold' $events; }
came() { [ "$(count)" -ge "$1" ]; }
fences=0
# fence: a disk comes and goes; when that is seen, so is everything before it.
fence() {
	cat "$CONTROL/hot_add" >"$CONTROL/hot_remove"
	fences=$((fences + 1))
	wait_for 10 sh -c "[ \$(grep -c 'remove@/devices/virtual/block/${NAME}1 ' $events) -ge $fences ]"
}
set_up 64M
check "below" rzio put "$NODE" noise 0 200
writes ok mem_threshold 1M
check "above" rzio put "$NODE" noise 200 100
check "an event comes" wait_for 10 came 1
line=$(grep RZRAM_EVENT $events)
echo "# $line"
check "it is a change of this disk" sh -c "echo '$line' | grep -q '^change@/devices/virtual/block/$DISK .*SUBSYSTEM=block'"
check "with the threshold" sh -c "echo '$line' | grep -q 'RZRAM_MEM_THRESHOLD=1048576\>'"
used=$(echo "$line" | sed 's/.*RZRAM_MEM_USED=\([0-9]*\).*/\1/')
check "and the use of that moment ($used)" [ "$used" -ge 1048576 ]
check "more" rzio put "$NODE" noise 300 300
check "a little less" rzio discard "$NODE" 270 330
check "and more again" rzio put "$NODE" noise 300 300
check "one crossing" [ "$(figure mem_threshold_events)" = 1 ]
check "far less" rzio discard "$NODE" 100 500
check "the write that sees it" rzio put "$NODE" noise 0 10
is "none for falling" 1 "$(figure mem_threshold_events)"
check "above again" rzio put "$NODE" noise 100 400
check "a second event" wait_for 10 came 2
writes ok mem_threshold 1M
check "set when it is reached already: at once" wait_for 10 came 3
fence
is "and no more than these" 3 "$(count)"
writes ok mem_threshold 0
check "off" rzio put "$NODE" noise 600 400
fence
is "no event when off" 3 "$(count)"

# Swap-out may cross it as well.
writes ok reset 1
echo 512M >"$ATTR/disksize"
mkswap "$NODE" >/dev/null
swapon "$NODE"
writes ok mem_threshold 4M
check "swapping out" swapfill --mib 64 --procs 2 --rounds 1 --seed "$SEED"
check "an event from swap" wait_for 10 came 4
swapoff "$NODE"
writes ok reset 1
# Removal with a threshold that is reached.
set_up 16M
writes ok mem_threshold 4K
check "reached" rzio put "$NODE" noise 0 10
is "removal" ok "$(rzattr write "$CONTROL/hot_remove" 0)"
is "and a new one" 0 "$(cat "$CONTROL/hot_add")"
finish
