#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# vm: --kernel uml --mem 1G --cpus 2 --timeout 400
# vm-full: --kernel stock --mem 1G --cpus 2 --timeout 600
# tier: test
#
# The backing device: attaching, writing back, reading, freeing, failing. Numbers in front of a
# line are the ABI's sections; B and SE name field cases and sharp edges.

. "$(dirname "$0")/lib.sh"

load
[ -e "$ATTR/backing_dev" ] || skip_all "this kernel's $DRIVER has no writeback"
modprobe loop 2>/dev/null
[ -e /dev/loop-control ] || skip_all "this kernel has no loop devices"
mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug
STATE=/sys/kernel/debug/$DRIVER/$DISK/block_state
STORE=/tmp/store
FILE=$STORE/file
mkdir -p "$STORE" "$MNT"
mount -t tmpfs -o size=256M none "$STORE" || skip_all "no tmpfs"
for primary in lz4 lzo-rle lzo zstd; do
	algorithms | grep -qw "$primary" && break
done

bd() { awk -v columns="$*" '{
	count = split(columns, wanted, " ")
	for (i = 1; i <= count; i++) printf "%s%s", $wanted[i], i < count ? " " : "\n"
}' "$ATTR/bd_stat"; }
get() { cat "$ATTR/$1"; }
set_to() { echo "$2" >"$ATTR/$1"; }
flagged() { grep -c " $1\$" "$STATE"; }
slot() { awk -v index_="$1" '$1 == index_ { print $3 }' "$STATE"; }

# loop_of FILE BYTES: a loop device of a fresh file.
loop_of() {
	rm -f "$1" && truncate -s "$2" "$1" && losetup -f --show "$1"
}

# attached: the loop device of the file. detach: lets it go, if there is one.
attached() { losetup -n -O NAME -j "$FILE"; }
detach() { [ -z "$(attached)" ] || losetup -d "$(attached)"; }

# fresh BYTES DISKSIZE: a device with a backing device of that size.
fresh() {
	set_to reset 1 || return
	detach && loop_of "$FILE" "$1" >/dev/null || return
	set_to backing_dev "$(attached)" && set_to comp_algorithm "$primary" && set_to disksize "$2"
}

# 400 pages of text, 100 that no codec makes smaller, 32 of which half is noise, 8 filled ones.
NOISE=1000
HALF=2000
WORD=3000
fill() {
	rzio put "$NODE" text 0 400 && rzio put "$NODE" noise $NOISE 100 &&
		rzio put "$NODE" sized:2600 $HALF 32 && rzio put "$NODE" word $WORD 8
}
verify() {
	rzio check "$NODE" text 0 400 && rzio check "$NODE" noise $NOISE 100 &&
		rzio check "$NODE" sized:2600 $HALF 32 && rzio check "$NODE" word $WORD 8
}

rule
# Files, modes, what a new device has, what is refused.
is "2.2: modes" "644 200 644 644 644 644 444" "$(cd "$ATTR" && stat -c %a backing_dev writeback \
	writeback_limit writeback_limit_enable writeback_batch_size compressed_writeback bd_stat | xargs)"
is "2.2: a new device's settings" "none 0 0 32 0" "$(get backing_dev) $(get writeback_limit) $(
	get writeback_limit_enable) $(get writeback_batch_size) $(get compressed_writeback)"
is "2.2: bd_stat has three columns of eight" "       0        0        0" "$(get bd_stat)"
for text in yes -1 0x10 "" " 1" 18446744073709551616 1k "1 1"; do
	for file in writeback_limit writeback_limit_enable writeback_batch_size; do
		case $text in
		"") writes ok $file "$text" ;;
		*) writes EINVAL $file "$text" ;;
		esac
	done
done
writes EINVAL writeback_batch_size 0
writes EINVAL writeback_batch_size 4294967296
for text in maybe 2 " 1" o; do
	writes EINVAL compressed_writeback "$text"
done
for text in 1 y on enable T; do
	writes ok compressed_writeback "$text"
	is "2.2: compressed_writeback is on" 1 "$(get compressed_writeback)"
	writes ok compressed_writeback off
done
writes ok writeback_limit +7
writes ok writeback_limit_enable 5
writes ok writeback_batch_size 4294967295
is "2.2: numbers are read back" "7 1 4294967295" \
	"$(get writeback_limit) $(get writeback_limit_enable) $(get writeback_batch_size)"
writes EINVAL writeback idle
writes EINVAL writeback bogus

rule "ABI-220 ABI-221" "what can be no backing device"
# B45: what can't be a backing device.
plain=$STORE/plain
truncate -s 1M "$plain"
long=/$(printf '%04095d' 0)
writes ENOTBLK backing_dev "$plain"
writes ENOTBLK backing_dev /dev/null
writes ENOENT backing_dev "$STORE/nothing"
writes EISDIR backing_dev "$STORE"
writes EISDIR backing_dev "
"
writes EINVAL backing_dev "$NODE"
writes ENAMETOOLONG backing_dev "$(printf %.4096s "$long")"
loop=$(loop_of "$FILE" 4M)
mkfs.ext4 -q "$loop" && mount "$loop" "$MNT"
check "B47: a hundred attempts at a device in use" sh -c "
	for i in \$(seq 100); do [ \$(rzattr write $ATTR/backing_dev $loop) = EBUSY ] || exit 1; done"
check "B47: unmounting" umount "$MNT"
mkswap "$loop" >/dev/null && swapon "$loop"
writes EBUSY backing_dev "$loop"
swapoff "$loop"
check "B47: no reference is left" losetup -d "$loop"
for bytes in 512 3584; do
	loop=$(loop_of "$FILE" $bytes)
	writes EINVAL backing_dev "$loop"
	check "B49: a device of $bytes bytes is let go" losetup -d "$loop"
done
is "5.1: still none" none "$(get backing_dev)"

# B05: attached, replaced, released.
rule "ABI-223 ABI-225" "attached, replaced, shown"
loop=$(loop_of "$FILE" 4M)
other=$(loop_of "$STORE/other" 4M)
writes ok backing_dev "$loop
"
is "5.1: the path is shown" "$loop" "$(get backing_dev)"
writes EBUSY backing_dev "$loop"
refuses "5.1: nobody else can have it" mkfs.ext2 -q -F "$loop"
writes ok backing_dev "$other"
check "5.1: another one replaces it" losetup -d "$loop"
check "B05: reset of a device without a size" set_to reset 1
is "B05: no backing device" none "$(get backing_dev)"
check "B05: it can be used at once" mkfs.ext2 -q -F "$other"
check "B05: attached again" set_to backing_dev "$other"
check "B05: unloading" unload
check "B05: unloading lets it go" losetup -d "$other"
load
loop=

rule ABI-230 "what is refused in which state"
check "a device without backing device" set_up 8M "$primary"
writes ENODEV writeback idle
writes ENODEV writeback bogus
loop=$(loop_of "$FILE" 4M)
writes EBUSY backing_dev "$loop"
writes EBUSY backing_dev /nothing
writes EINVAL compressed_writeback maybe
writes EBUSY compressed_writeback 1
writes ok writeback_limit 9
writes ok writeback_batch_size 16
check "a device with backing device" fresh 4M 16M
check "1.2: reset with a backing device" set_to reset 1
is "1.2: reset keeps all settings but the device (SE-11)" "none 9 0 16 0" "$(get backing_dev) $(
	get writeback_limit) $(get writeback_limit_enable) $(get writeback_batch_size) $(
	get compressed_writeback)"
set_to writeback_limit 0

# run_types STORED: with objects written back as pages, or as they are stored.
run_types() {
	how=$1
	rule "ABI-234 ABI-238 SE-33" "what is written back, and what becomes of it"
	check "$how: a device" fresh 32M 64M
	check "$how: filling" fill
	# 5.2, B43: exact counts.
	bytes=$(mm 2)
	writes ok writeback type=huge
	is "$how, B43: huge pages alone are written" "100 0 100" "$(bd 1 2 3)"
	is "$how, 5.2: their flags" "100 .wh..." "$(flagged .wh...) $(slot $NOISE)"
	is "$how, 6.1: their memory is free, the data is there" "$((540 * 4096)) $((bytes - 409600)) 0 100" \
		"$(mm 1 2 8 9)"
	writes ok writeback huge
	is "$how, 5.2: nothing is written twice" "100 0 100" "$(bd 1 2 3)"
	rule ABI-247 "what is written back is not marked"
	writes ok idle all
	is "$how, 5.3: what is written back is not idle" "432 0" "$(flagged '...i..') $(flagged '.whi..')"
	rule "ABI-234 ABI-252"
	check "$how: reading" rzio check "$NODE" text 0 50
	writes ok writeback idle
	is "$how, B43: only idle pages are written" "$((100 + 350 + 32)) 0" "$(bd 1 2)"
	is "$how, 5.2: they lose the mark" "0 482" "$(flagged '...i..') $(flagged '.w....')"
	is "$how, 6.1: same-filled pages stay" 8 "$(mm 6)"
	rule ABI-245 "a block a read, and nothing comes back"
	check "$how, B43: data" verify
	is "$how, 5.3: a block a read, and nothing comes back" "482 482" "$(bd 1 2)"
	check "$how: data once more" verify
	is "$how, 5.3: the same again" "482 964" "$(bd 1 2)"

	rule ABI-246 "what is overwritten or discarded frees its block"
	written=$(bd 3)
	check "$how: overwriting" rzio put "$NODE" noise 50 10 --generation 1
	is "$how, 5.3: an overwritten page frees its block" "472 $written" "$(bd 1 3)"
	check "$how: reading" rzio check "$NODE" noise 50 10 --generation 1
	check "$how: discarding" rzio discard "$NODE" 60 10
	is "$how, 5.3: a discarded page frees its block" "462 $written" "$(bd 1 3)"
	check "$how: reading" rzio check "$NODE" zero 60 10
	check "$how: neighbors" rzio check "$NODE" text 70 330
	discard_all_is_zero "$how"
	is "$how, 5.3: no block is left" 0 "$(bd 1)"
}
run_types pages
check "compressed writeback" sh -c "echo 1 >$ATTR/reset && echo 1 >$ATTR/compressed_writeback"
run_types objects
check "pages again" sh -c "echo 1 >$ATTR/reset && echo 0 >$ATTR/compressed_writeback"

rule "ABI-231 ABI-232 ABI-235" "types and pages, and errors among them"
check "a device for words" fresh 32M 64M
check "filling" fill
slots=16384
for text in bogus "type=bogus" "type=" page_index "page_index=" page_index=x page_index=-1 \
	page_index=1-2 page_indexes=5 page_indexes=5- page_indexes=-5 page_indexes=1-2-3 \
	"page_index=1 bogus" "bogus idle" "typ"; do
	writes EINVAL writeback "$text"
done
for text in page_index=$slots page_index=99999999999999999999 page_indexes=0-$slots page_indexes=2-1 \
	"page_index=1 page_index=$slots" "page_indexes=$slots-$slots" "page_index=1 page_indexes=9-8 idle"; do
	writes ERANGE writeback "$text"
done
is "5.2: errors write nothing" "0 0 0" "$(bd 1 2 3)"
for text in " " "
" typ=idle "typ=idle page_index=" page_indexes=5000-6000 "page_index=$WORD" huge_idle incompressible; do
	case $text in
	*page_index=) writes EINVAL writeback "$text" ;;
	*) writes ok writeback "$text" ;;
	esac
done
is "5.2: nothing meant, nothing written" "0 0 0" "$(bd 1 2 3)"
writes ok writeback page_index=7
is "5.2: one page" "1 .w...." "$(bd 1) $(slot 7)"
writes ok writeback "page_indexes=10-19 page_index=30"
is "5.2: a range and a page" "12 .w....  .w....  .w....  ......" \
	"$(bd 1) $(slot 10)  $(slot 19)  $(slot 30)  $(slot 20)"
writes ok writeback "type=huge page_index=x"
is "5.2: what follows a type is not read" 112 "$(bd 1)"
rule "ABI-233 SE-16" "a type after a range"
writes ok idle all
writes ok writeback "page_indexes=40-49 idle bogus"
is "5.2: a type after a range means that range" 122 "$(bd 1)"
rule ABI-232
writes ok writeback "page_index=399
"
is "5.2: a newline may follow" 123 "$(bd 1)"
rule SE-14 "a page that is named twice"
differs SE-14 "a page named twice" || {
	writes ok writeback "$(for i in $(seq 200); do printf 'page_index=60 '; done)page_indexes=55-65"
	is "SE-14: a page named 201 times is written once" "134 134" "$(bd 1 3)"
}
rule
check "data after words" verify
check "overwriting" fill
is "5.3: nothing is left on the device" 0 "$(bd 1)"

rule "ABI-231 ABI-234"
# Both flags; and the order: largest first, highest slot first.
writes ok idle all
check "reading" rzio check "$NODE" noise $NOISE 40
writes ok writeback huge_idle
is "5.2: huge and idle" "60 60" "$(bd 1) $(flagged .wh...)"
check "overwriting" fill
rule "ABI-242 ABI-255" "the budget"
writes ok writeback_limit 10
writes ok writeback_limit_enable 1
writes EIO writeback page_indexes=0-3000
is "5.5: the budget ends the run" "10 0" "$(bd 1) $(get writeback_limit)"
is "5.2: the largest and highest first" "$(seq -s ' ' $((NOISE + 90)) $((NOISE + 99)))" \
	"$(grep ' .wh...$' "$STATE" | awk '{ print $1 }' | xargs)"
writes EIO writeback huge
writes ok writeback page_index=9999
is "5.5: without a candidate no budget is missed" "10 0" "$(bd 1) $(get writeback_limit)"
writes ok writeback_limit 1000
writes ok writeback huge
is "5.5: what is left is shown" "100 910" "$(bd 1) $(get writeback_limit)"
writes ok writeback_limit_enable 0
writes ok writeback page_index=1
is "5.5: a budget that is off is not consumed" "101 910" "$(bd 1) $(get writeback_limit)"
check "data after budgets" verify

rule "ABI-208 ABI-234 ABI-247"
# Incompressible pages, and what recompression makes of written-back ones.
if [ -e "$ATTR/recompress" ] && algorithms | grep -qw zstd; then
	set_to reset 1
	detach
	set_to backing_dev "$(loop_of "$FILE" 32M)"
	set_to comp_algorithm "$primary"
	echo "algo=zstd priority=1" >"$ATTR/recomp_algorithm"
	set_to disksize 64M
	check "filling" fill
	writes ok writeback page_indexes=0-9
	writes ok recompress priority=1
	is "5.3: what is written back is not recompressed" "10 390" \
		"$(flagged '.w....') $(awk '$1 < 400' "$STATE" | grep -c '\.\.\.\.r\.$')"
	marked=$(flagged '.....n')
	check "4.4: at least what is noise is incompressible ($marked)" [ "$marked" -ge 100 ]
	writes ok writeback incompressible
	is "5.2: incompressible pages" "$((10 + marked)) $marked" "$(bd 1) $(flagged '.w...n')"
	writes ok writeback page_indexes=10-19
	is "5.2: the codec is remembered" .w..r. "$(slot 10)"
	check "data of two codecs" verify
	set_to reset 1
	set_to compressed_writeback 1
	detach
	set_to backing_dev "$(loop_of "$FILE" 32M)"
	set_to comp_algorithm "$primary"
	echo "algo=zstd priority=1" >"$ATTR/recomp_algorithm"
	set_to disksize 64M
	check "filling" fill
	writes ok recompress type=huge
	writes ok writeback page_indexes=0-99
	writes ok recompress priority=1
	writes ok writeback page_indexes=0-16383
	check "data of two codecs, as they are stored" verify
	set_to reset 1
	set_to compressed_writeback 0
else
	skip "2.3: with recompression" "not in this kernel's $DRIVER"
fi

rule "ABI-222 ABI-241" "every whole block is used, and then it is full"
# B49: odd sizes, every whole page is used and nothing beyond.
for bytes in 4096 4608 8191 12288 66048; do
	whole=$((bytes / 4096))
	check "B49: a backing device of $bytes bytes" fresh $bytes 4M
	check "filling" rzio put "$NODE" noise 0 20
	writes ENOSPC writeback huge
	is "B49: all $whole whole pages" "$whole $whole" "$(bd 1) $(flagged .wh...)"
	check "B49: data on both sides" rzio check "$NODE" noise 0 20
	check "freeing" rzio discard "$NODE" 0 20
	check "filling" rzio put "$NODE" noise 20 $whole
	writes ok writeback huge
	is "B49: blocks are used again" "$whole" "$(bd 1)"
	check "B49: data again" rzio check "$NODE" noise 20 $whole
done

rule ABI-240 "a device that fails writes"
# B51: the device refuses to write: a file that can't grow.
check "a device for errors" fresh 64M 64M
check "filling" fill
dd if=/dev/zero of="$STORE/ballast" bs=1M status=none 2>/dev/null
writes ok writeback_limit 500
writes ok writeback_limit_enable 1
outcome=$(rzattr write "$ATTR/writeback" huge)
is "B51: a failed write is told" "EIO|ENOSPC" "$outcome"
is "B51: the pages stay in memory, the budget is given back" "0 0 100 500" \
	"$(bd 1 3) $(mm 8) $(get writeback_limit)"
check "B51: data after failed writes" verify
rm "$STORE/ballast"
writes ok writeback huge
is "B51: the device is usable after" "100 0 400" "$(bd 1) $(mm 8) $(get writeback_limit)"
check "B51: data" verify
writes ok writeback_limit_enable 0

rule "ABI-142 SE-22" "a device that fails reads"
# B51: the device refuses to read: its file lost its end.
check "a device for read errors" fresh 8M 64M
check "filling" rzio put "$NODE" noise 0 100
writes ok writeback huge
cp "$FILE" "$STORE/copy"
truncate -s $((4096 * 40)) "$FILE"
errors=0
for page in $(seq 0 99); do
	rzattr_read=$(dd if="$NODE" of=/dev/null bs=4096 skip="$page" count=1 iflag=direct status=none 2>&1) ||
		errors=$((errors + 1))
done
is "B51: each page beyond fails alone" 60 "$errors"
differs SE-22 "failed reads" ||
	is "SE-22: they are counted" 60 "$(io 1)"
refuses "B51: a large request fails" dd if="$NODE" of=/dev/null bs=400K count=1 iflag=direct status=none
differs SE-22 "failed reads" ||
	is "SE-22: once for each request" 61 "$(io 1)"
check "a full store again" sh -c "cat $STORE/copy >$FILE"
check "B51: the device is usable after" rzio check "$NODE" noise 0 100

rule "ABI-245 ABI-248 SE-5 SE-21" "what comes back damaged"
# B31: what comes back damaged from the device.
# read_all PAGES: how many can't be read, and how many are wrong.
read_all() {
	errors=0
	wrong=0
	page=0
	while [ "$page" -lt "$1" ]; do
		if ! dd if="$NODE" of=/dev/null bs=4096 skip="$page" count=1 iflag=direct status=none 2>/dev/null; then
			errors=$((errors + 1))
		elif ! rzio check "$NODE" text "$page" 1 >/dev/null 2>&1; then
			wrong=$((wrong + 1))
		fi
		page=$((page + 1))
	done
}
# flip PAGES: turns a bit of the store near the start of each block.
flip() {
	page=0
	while [ "$page" -lt "$1" ]; do
		at=$((page * 4096 + page % 64))
		byte=$(dd if="$FILE" bs=1 skip=$at count=1 status=none | od -An -tu1)
		# shellcheck disable=SC2059
		printf "\\$(printf %o $((byte ^ (1 << (page % 8)))))" |
			dd of="$FILE" bs=1 seek=$at conv=notrunc status=none
		page=$((page + 1))
	done
}
for codec in $(algorithms | tr ' ' '\n' | grep -xE 'lzo-rle|lz4|zstd|deflate'); do
	check "$codec: as they are stored" sh -c "echo 1 >$ATTR/reset && echo 1 >$ATTR/compressed_writeback"
	primary=$codec
	check "$codec: a device to damage" fresh 4M 16M
	check "filling" rzio put "$NODE" text 0 24
	writes ok writeback page_indexes=0-23
	is "$codec: all is on the device" 24 "$(bd 1)"
	cp "$FILE" "$STORE/copy"
	flip 24
	read_all 24
	differs SE-5 "$codec: flipped bits" ||
		is "$codec, 6: a flipped bit is an error, never wrong data" "24 0" "$errors $wrong"
	total=$errors
	dd if=/dev/urandom of="$FILE" bs=4096 count=24 conv=notrunc status=none
	read_all 24
	total=$((total + errors))
	differs SE-5 "$codec: noise" || is "$codec, 6: nor is noise ever data" "24 0" "$errors $wrong"
	# Every block is another page's, good in itself.
	dd if="$STORE/copy" of="$FILE" bs=4096 count=23 seek=1 conv=notrunc status=none
	dd if="$STORE/copy" of="$FILE" bs=4096 count=1 skip=23 conv=notrunc status=none
	read_all 24
	total=$((total + errors))
	differs SE-21 "$codec: misplaced blocks" || is "$codec, SE-21: nor another page's" "24 0" "$errors $wrong"
	differs SE-22 "$codec: failed reads" || is "$codec, B31: each is counted" $total "$(io 1)"
	cat "$STORE/copy" >"$FILE"
	check "$codec: the right blocks again" rzio check "$NODE" text 0 24
	on_c && break
done
for primary in lz4 lzo-rle lzo zstd; do
	algorithms | grep -qw "$primary" && break
done

rule SE-21 "reads, writes and discards beside writeback"
# B23: readers in all shapes, writers and discards beside writeback, in both forms.
for form in 0 1; do
	check "form $form" sh -c "echo 1 >$ATTR/reset && echo $form >$ATTR/compressed_writeback"
	differs SE-21 "reads beside writeback, form $form" && continue
	check "a device to race on" fresh 2M 16M
	for command in "race --threads 3 --ops $((4000 * SCALE)) --discard" "random --ops $((200 * SCALE))"; do
		# shellcheck disable=SC2086
		set -- $command
		name=$1
		shift
		rzio "$name" "$NODE" --seed "$SEED" --span 400 "$@" $ALIGNED >/tmp/race 2>&1 &
		racer=$!
		runs=0
		while kill -0 "$racer" 2>/dev/null; do
			echo page_indexes=0-399 >"$ATTR/writeback" 2>/dev/null
			runs=$((runs + 1))
		done
		wait "$racer"
		status=$?
		is "B23, SE-21: $name beside $runs runs, form $form ($(cat /tmp/race))" 0 "$status"
		check "blocks were read ($(bd 1 2 3))" [ "$(bd 2)" -gt 0 ]
	done
	discard_all_is_zero "after the race, form $form"
	is "no block is lost" 0 "$(bd 1)"
	check "filling" rzio put "$NODE" noise 0 600
	writes ENOSPC writeback huge
	is "and none was lost before" 512 "$(bd 1)"
done

rule
# Swap: pages come back from the device by faults.
for form in 0 1; do
	check "form $form" sh -c "echo 1 >$ATTR/reset && echo $form >$ATTR/compressed_writeback"
	check "a device to swap on" fresh 64M 256M
	mkswap "$NODE" >/dev/null && swapon "$NODE"
	swapfill --seed "$SEED" --procs 2 --mib 16 --rounds $SCALE >/tmp/fill 2>&1 &
	filler=$!
	runs=0
	while kill -0 "$filler" 2>/dev/null; do
		echo all >"$ATTR/idle" && echo idle >"$ATTR/writeback" 2>/dev/null
		runs=$((runs + 1))
	done
	wait "$filler"
	status=$?
	is "swap beside $runs runs, form $form ($(cat /tmp/fill))" 0 "$status"
	check "blocks were read ($(bd 1 2 3))" [ "$(bd 2)" -gt 0 ]
	check "swapoff" swapoff "$NODE"
	is "at most the first page is still on the device" "0|1" "$(bd 1)"
done
set_to reset 1
set_to compressed_writeback 0

rule "SE-12 SE-17" "a device that does not answer"
# B53: a device that does not answer: a file on a frozen file system.
if ! differs SE-12 "a device that does not answer"; then
	detach
	under=$(loop_of "$STORE/under" 96M)
	mkfs.ext4 -q "$under" && mount "$under" "$MNT"
	inner=$MNT/file
	truncate -s 64M "$inner"
	loop=$(losetup -f --show "$inner")
	# hang: the same device anew, 100 pages of noise, batches of 8, nothing gets written.
	hang() {
		set_to reset 1 && set_to backing_dev "$loop" && set_to disksize 64M && set_to writeback_limit 500 &&
			set_to writeback_limit_enable 1 && set_to writeback_batch_size 8 &&
			rzio put "$NODE" noise 0 100 >/dev/null && sync && fsfreeze -f "$MNT"
	}
	in_flight() { awk '{ print $2 }' "/sys/block/${loop#/dev/}/inflight"; }
	check "a device that hangs" hang
	in_background sh -c "exec rzattr write $ATTR/writeback huge >/tmp/outcome"
	check "B53: several writes are in flight" wait_for 5 sh -c \
		"[ \$(awk '{ print \$2 }' /sys/block/${loop#/dev/}/inflight) -ge 8 ]"
	is "B53: no more than the batch" 8 "$(in_flight)"
	check "SE-12: statistics and settings do not wait" timeout 5 sh -c "cat $ATTR/mm_stat $ATTR/bd_stat \
		$ATTR/io_stat $ATTR/writeback_limit && echo 16 >$ATTR/writeback_batch_size && echo all >$ATTR/idle"
	is "SE-12: another run is told" EAGAIN "$(timeout 5 rzattr write "$ATTR/writeback" huge)"
	check "SE-17: reading one in flight" timeout 5 rzio check "$NODE" noise 99 1
	check "5.2: overwriting one in flight" timeout 5 rzio put "$NODE" noise 98 1 --generation 1
	check "5.2: discarding one in flight" timeout 5 rzio discard "$NODE" 97 1
	check "the file system thaws" fsfreeze -u "$MNT"
	wait "$background"
	is "SE-12: the run ends well" ok "$(cat /tmp/outcome)"
	is "5.2: what was used stays in memory" "97 100" "$(bd 1 3)"
	is "SE-17: and is paid back" 403 "$(get writeback_limit)"
	check "data" rzio check "$NODE" noise 0 97
	check "data that was used" sh -c "rzio check $NODE noise 98 1 --generation 1 && rzio check $NODE noise 99 1"
	check "data that was discarded" rzio check "$NODE" zero 97 1

	check "a device that hangs" hang
	in_background sh -c "exec rzattr write $ATTR/writeback huge >/tmp/outcome"
	check "writes are in flight" wait_for 5 sh -c \
		"[ \$(awk '{ print \$2 }' /sys/block/${loop#/dev/}/inflight) -ge 8 ]"
	kill -KILL "$background"
	check "thaw" fsfreeze -u "$MNT"
	wait "$background"
	check "SE-12: a kill ends the run after what is in flight ($(bd 1))" [ "$(bd 1)" -lt 50 ]
	check "data after a kill" rzio check "$NODE" noise 0 100
	writes ok writeback huge
	is "the next run does the rest" 100 "$(bd 1)"

	check "a device that hangs" hang
	in_background sh -c "exec rzattr write $ATTR/writeback huge >/tmp/outcome"
	check "writes are in flight" wait_for 5 sh -c \
		"[ \$(awk '{ print \$2 }' /sys/block/${loop#/dev/}/inflight) -ge 8 ]"
	run=$background
	in_background sh -c "exec rzattr write $ATTR/reset 1 >/tmp/reset"
	sleep 0.3
	check "thaw" fsfreeze -u "$MNT"
	wait "$background"
	wait "$run"
	is "reset ends a run, which is told so" "ok EINTR" "$(cat /tmp/reset) $(cat /tmp/outcome)"
	is "B05: and releases the device" none "$(get backing_dev)"
	check "B05: at once" losetup -d "$loop"
	check "unmounting" umount "$MNT"
	loop=
	set_to writeback_limit_enable 0
	set_to writeback_batch_size 32
fi

rule
# B05: unloading with data on the device.
check "a device to unload" fresh 4M 16M
check "filling" rzio put "$NODE" noise 0 50
for batch in 1 1000; do
	set_to writeback_batch_size $batch
	writes ok writeback page_indexes=0-$((batch * 20 > 49 ? 49 : 20))
done
is "B53: batches of any size" 50 "$(bd 1)"
check "unloading" unload
check "B05: unloading lets the device go" losetup -d "$(attached)"
load
finish
