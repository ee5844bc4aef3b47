#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# vm: --kernel stock --mem 1G --cpus 2 --timeout 300
# vm: --kernel debug --mem 1G --cpus 2 --timeout 200
# tier: test
#
# Loading, unloading, adding and removing devices, resets, by the hundred. ABI-10 to 19, 38; field
# cases B01, B03, B07 and B11.

. "$(dirname "$0")/lib.sh"

devices() { find /sys/block -maxdepth 1 -name "${NAME}[0-9]*" | sed 's|.*/||' | sort -V | xargs; }
hot_add() { rzattr read "$CONTROL/hot_add"; }
hot_remove() { rzattr write "$CONTROL/hot_remove" "$1"; }

# ABI-10 to 12, 15, B11: num_devices and the control class.
load num_devices=0
is "num_devices=0 makes none" "" "$(devices)"
check "but the class" [ -d "$CONTROL" ]
is "hot_add makes the first" 0 "$(hot_add)"
is "B11: exactly one" "${NAME}0" "$(devices)"
check "its node is there" wait_for 5 test -b "$NODE"
unload
check "the class went with the module" [ ! -e "$CONTROL" ]
check "the node, too" [ ! -e "$NODE" ]
refuses "and the major" grep -qw "$NAME" /proc/devices
load num_devices=3
is "num_devices=3 makes three" "${NAME}0 ${NAME}1 ${NAME}2" "$(devices)"
unload
load
is "the default is one" "${NAME}0" "$(devices)"
is "B11: hot_add makes the second" 1 "$(hot_add)"
is "and the third" 2 "$(hot_add)"
is "three devices" "${NAME}0 ${NAME}1 ${NAME}2" "$(devices)"

# ABI-15, 16: the lowest free number; what hot_remove refuses.
is "remove 1" ok "$(hot_remove 1)"
check "its node went" [ ! -e "/dev/${NAME}1" ]
is "1 is free again" 1 "$(hot_add)"
for pair in x:EINVAL 1x:EINVAL " 1:EINVAL" -1:EINVAL 9:ENODEV 2147483648:ERANGE 99999999999999999999:ERANGE :ok; do
	is "hot_remove '${pair%:*}'" "${pair#*:}" "$(hot_remove "${pair%:*}")"
done
is "with a sign and a newline" ok "$(hot_remove "+2
")"
exec 3<"/dev/${NAME}1"
is "not while it is open" EBUSY "$(hot_remove 1)"
exec 3<&-
echo 16M >"/sys/block/${NAME}1/disksize"
check "data on 1" rzio put "/dev/${NAME}1" noise 0 64
is "a device with data can be removed" ok "$(hot_remove 1)"
is "0 is left" "${NAME}0" "$(devices)"
is "hot_add can't be written" EACCES "$(rzattr open-write "$CONTROL/hot_add")"
is "hot_remove can't be read" EACCES "$(rzattr open-read "$CONTROL/hot_remove")"

# ABI-19: what keeps the module, and what does not.
set_up 64M
exec 3<"$NODE"
refuses "no unload while open" unload
exec 3<&-
mkdir -p "$MNT"
check "ext4" mkfs.ext4 -qF "$NODE"
check "mount" mount "$NODE" "$MNT"
refuses "no unload while mounted" unload
is "no hot_remove while mounted" EBUSY "$(hot_remove 0)"
is "no reset while mounted" EBUSY "$(rzattr write "$ATTR/reset" 1)"
check "umount" umount "$MNT"
check "mkswap" mkswap "$NODE"
check "swapon" swapon "$NODE"
refuses "no unload while swap" unload
is "no reset while swap" EBUSY "$(rzattr write "$ATTR/reset" 1)"
check "swapoff" swapoff "$NODE"
check "data" rzio put "$NODE" noise 0 1024
check "data keeps nobody from unloading" unload

# B01: an opener that comes and goes; reset fails only while it is there, and changes nothing.
load
set_up 16M
in_background sh -c "while :; do true <$NODE; done" 2>/dev/null
opener=$background
for _ in $(seq 50); do
	case $(rzattr write "$ATTR/reset" 1) in
	ok) echo 16M >"$ATTR/disksize" || break ;;
	EBUSY) [ "$(cat "$ATTR/disksize")" = 16777216 ] || break ;;
	*) break ;;
	esac
done
is "B01: reset beside an opener" "16777216 1" "$(cat "$ATTR/disksize" "$ATTR/initstate" | xargs)"
kill "$opener"
wait "$opener" 2>/dev/null
is "B01: reset at once after the last close" ok "$(rzattr write "$ATTR/reset" 1)"

# B03: swapoff and umount leave no reference behind.
busy=0
for round in $(seq "$(work 15)"); do
	set_up 32M || busy=$((busy + 1))
	mkswap "$NODE" >/dev/null
	swapon "$NODE"
	swapoff "$NODE"
	[ $((round % 5)) -ne 0 ] || [ "$(rzattr write "$ATTR/reset" 1)" = ok ] || busy=$((busy + 1))
done
is "B03: reset after swapoff" 0 "$busy"
for _ in $(seq "$(work 5)"); do
	set_up 32M || busy=$((busy + 1))
	mkfs.ext4 -qF "$NODE"
	mount "$NODE" "$MNT"
	echo data >"$MNT/file"
	umount "$MNT"
	[ "$(hot_remove 0)" = ok ] || busy=$((busy + 1))
	hot_add >/dev/null
done
is "B03: removal after umount" 0 "$busy"

# Reset loops with data; what a reset forgets does not come back, and no memory stays.
pool_pages() {
	echo 1 >/proc/sys/vm/stat_refresh
	awk '/^nr_zspages/ { print $2 }' /proc/vmstat
}
pages_before=$(pool_pages)
wrong=0
for round in $(seq "$(work 60)"); do
	set_up "$((round % 7 + 1))M" || wrong=$((wrong + 1))
	rzio put "$NODE" noise 0 32 --generation "$round" >/dev/null || wrong=$((wrong + 1))
	rzio check "$NODE" noise 0 32 --generation "$round" >/dev/null || wrong=$((wrong + 1))
done
is "reset loop" 0 "$wrong"
writes ok reset 1
is "the pool's pages went back" "$pages_before" "$(pool_pages)"

# Unload loops with data and with several devices.
wrong=0
for round in $(seq "$(work 15)"); do
	unload && load "num_devices=$((round % 3 + 1))" || wrong=$((wrong + 1))
	set_up 8M && rzio put "$NODE" text 0 64 >/dev/null || wrong=$((wrong + 1))
done
is "unload loop" 0 "$wrong"

# B07: attributes are written while the module goes away.
in_background sh -c "while :; do echo 64M >$ATTR/disksize; cat $ATTR/mm_stat; echo 1 >$ATTR/reset; done" 2>/dev/null >/dev/null
writer=$background
wrong=0
for _ in $(seq "$(work 15)"); do
	unload || wrong=$((wrong + 1))
	load || wrong=$((wrong + 1))
done 2>/dev/null
kill "$writer"
wait "$writer" 2>/dev/null
is "B07: unload beside a writer of attributes" 0 "$wrong"

finish
