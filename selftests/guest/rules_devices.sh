#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# vm: --kernel uml --mem 1G --cpus 2 --timeout 120
# vm: --kernel debug --mem 1G --cpus 2 --timeout 200
# tier: test
#
# The module, its class, its devices by name and number, and who keeps it. ABI-10 to 19, 43, 57, 58;
# lifecycle.sh does the same by the hundred.

. "$(dirname "$0")/lib.sh"

hot_add() { rzattr read "$CONTROL/hot_add"; }
hot_remove() { rzattr write "$CONTROL/hot_remove" "$1"; }
devices() { find /sys/block -maxdepth 1 -name "${NAME}[0-9]*" | sed 's|.*/||' | sort -V | xargs; }

rule ABI-10 "name of the module; num_devices is 1 and does not show"
load
check "the module has its name" grep -q "^$DRIVER " /proc/modules
is "one device by default" "${NAME}0" "$(devices)"
check "num_devices does not show" [ ! -e "/sys/module/$DRIVER/parameters/num_devices" ]
on_c && check "nor does any parameter" [ ! -e "/sys/module/$DRIVER/parameters" ]
unload
for text in -1 x 4294967296 ""; do
	refuses "num_devices='$text' is no number" load "num_devices=$text"
	check "and nothing is loaded" [ ! -e "/sys/module/$DRIVER" ]
done

rule ABI-11 "num_devices devices from 0 on; none is legal"
for pair in "0:" "2:${NAME}0 ${NAME}1" "0x4:${NAME}0 ${NAME}1 ${NAME}2 ${NAME}3"; do
	check "loading with num_devices=${pair%%:*}" load "num_devices=${pair%%:*}"
	is "its devices" "${pair#*:}" "$(devices)"
	check "the class" [ -d "$CONTROL" ]
	[ "${pair%%:*}" = 0x4 ] || unload
done

rule ABI-12 "the control class while the module is loaded"
is "modes and owners" "hot_add 400 0 0 hot_remove 200 0 0" \
	"$(cd "$CONTROL" && stat -c '%n %a %u %g' hot_add hot_remove | xargs)"
unload
check "it goes with the module" [ ! -e "$CONTROL" ]
load num_devices=3

rule ABI-13 "major, minor, name, node and folders of a device"
major=$(awk -v name="$NAME" '$2 == name { print $1 }' /proc/devices)
check "a major has the driver's name ($major)" [ "$major" -gt 0 ]
for number in 0 2; do
	disk=$NAME$number
	is "device number of $disk" "$major:$number" "$(cat "/sys/block/$disk/dev")"
	is "folder of $disk" "/sys/devices/virtual/block/$disk" "$(readlink -f "/sys/block/$disk")"
	wait_for 5 test -b "/dev/$disk"
	is "node of $disk" "$(printf 'block special file %x:%x 600 0 0' "$major" "$number")" \
		"$(stat -c '%F %t:%T %a %u %g' "/dev/$disk")"
done

rule ABI-15 "hot_add gives the lowest free number"
is "the next" 3 "$(hot_add)"
for number in 2 1; do
	is "removing $number" ok "$(hot_remove $number)"
done
is "the lowest, and then the next" "1 2 4" "$(hot_add) $(hot_add) $(hot_add)"
is "a number and a newline" "$(printf '5\n' | od -c | xargs)" "$(od -c "$CONTROL/hot_add" | xargs)"
is "the new device has no size" "0 0" \
	"$(cat "/sys/block/${NAME}5/disksize" "/sys/block/${NAME}5/initstate" | xargs)"

rule ABI-16 "what hot_remove takes, and what is gone then"
for pair in x:EINVAL 1x:EINVAL " 1:EINVAL" "1 :EINVAL" 0x1:EINVAL -1:EINVAL 6:ENODEV 99:ENODEV 2147483647:ENODEV \
	2147483648:ERANGE -2147483649:ERANGE 99999999999999999999:ERANGE; do
	is "hot_remove <- '${pair%:*}' is ${pair#*:}" "${pair#*:}" "$(hot_remove "${pair%:*}")"
done
exec 3<"/dev/${NAME}5"
is "an open device" EBUSY "$(hot_remove 5)"
exec 3<&-
for text in 5 "+4" "3
" "+2
"; do
	number=$(printf %s "$text" | tr -cd 0-9)
	echo 8M >"/sys/block/$NAME$number/disksize"
	rzio put "/dev/$NAME$number" noise 0 16 >/dev/null
	is "'$text', with data" ok "$(hot_remove "$text")"
	check "folder and node are gone" [ ! -e "/sys/block/$NAME$number" -a ! -e "/dev/$NAME$number" ]
	is "it is unknown then" ENODEV "$(hot_remove "$number")"
done
is "a signed 0 is 0" ok "$(hot_remove -0)"
is "which is free, without data" "0 0" "$(hot_add) $(cat "$ATTR/disksize")"
is "others stay" "${NAME}0 ${NAME}1" "$(devices)"

# both_end: a reset and a removal of device 1, begun together; the removal must not fail.
both_end() {
	echo 64M >"/sys/block/${NAME}1/disksize"
	rzio put "/dev/${NAME}1" noise 0 500 >/dev/null
	rzattr write "/sys/block/${NAME}1/reset" 1 >/tmp/reset &
	_reset=$!
	_outcome=$(hot_remove 1)
	wait $_reset
	[ "$_outcome" = ok ] && [ ! -e "/sys/block/${NAME}1" ] && [ "$(hot_add)" = 1 ]
}

rule ABI-17 "a removal beside a reset waits and succeeds"
wrong=0
for _ in $(seq "$(work 12)"); do
	both_end || wrong=$((wrong + 1))
done
is "rounds that went wrong" 0 "$wrong"

rule ABI-18 "additions and removals at once each have their number"
for number in $(seq 8); do
	hot_add >"/tmp/added.$number" &
	added="${added-} $!"
done
for pid in $added; do
	wait "$pid"
done
is "eight at once" "2 3 4 5 6 7 8 9" "$(sort -n /tmp/added.* | xargs)"
added=
for number in $(seq 2 9); do
	hot_remove "$number" >"/tmp/added.$number" &
	added="$added $!"
	hot_add >/dev/null &
	added="$added $!"
done
for pid in $added; do
	wait "$pid"
done
is "none is lost among removals" 10 "$(devices | wc -w)"
is "and all have gone that were removed" "ok ok ok ok ok ok ok ok" \
	"$(cat /tmp/added.[2-9] | xargs)"
for disk in $(devices); do
	[ "$disk" = "$DISK" ] || hot_remove "${disk#"$NAME"}" >/dev/null
done

# delete: what the system call itself says of unloading.
delete() {
	python3 -c '
import ctypes, errno, os, sys
libc = ctypes.CDLL(None, use_errno=True)
done = libc.syscall(176, sys.argv[1].encode(), os.O_NONBLOCK)
print("ok" if done == 0 else errno.errorcode[ctypes.get_errno()])' "$DRIVER"
}

rule ABI-19 "an opener keeps the module, data do not"
set_up 64M
exec 3<"$NODE"
is "a descriptor keeps it" EAGAIN "$(delete)"
exec 3<&-
mkdir -p "$MNT"
mkfs.ext4 -qF "$NODE" && mount "$NODE" "$MNT"
is "a mount keeps it" EAGAIN "$(delete)"
umount "$MNT"
mkswap "$NODE" >/dev/null && swapon "$NODE"
is "swap keeps it" EAGAIN "$(delete)"
swapoff "$NODE"
modprobe loop 2>/dev/null
loop=$(losetup -f --show "$NODE" 2>/dev/null) || loop=
if [ -n "$loop" ]; then
	is "a loop device keeps it" EAGAIN "$(delete)"
	losetup -d "$loop"
	wait_for 5 sh -c "! losetup $loop"
else
	skip "a loop device keeps it" "this kernel has none"
fi
check "data" rzio put "$NODE" noise 0 100
is "data keep nobody" ok "$(delete)"
check "the module is gone" [ ! -e "/sys/module/$DRIVER" ]
load

rule ABI-43 "without a size the kernel's own requests fail"
refuses "a mount finds nothing to read" mount -t ext4 "$NODE" "$MNT"
is "nothing was counted" "0 0" "$(io 1) $(io 2)"
set_up 64M
mkfs.ext4 -qF "$NODE"
check "with a size it works" mount "$NODE" "$MNT"
check "umount" umount "$MNT"
echo 1 >"$ATTR/reset"
refuses "after a reset it fails again" mount -t ext4 "$NODE" "$MNT"

rule ABI-57 "diskseq is the device's for life"
sequence=$(cat "$ATTR/diskseq")
set_up 1M
is "a size does not change it" "$sequence" "$(cat "$ATTR/diskseq")"
echo 1 >"$ATTR/reset"
is "nor does a reset" "$sequence" "$(cat "$ATTR/diskseq")"
hot_add >/dev/null
check "another device has a later one" [ "$(cat "/sys/block/${NAME}1/diskseq")" -gt "$sequence" ]

rule ABI-58 "without a size not in /proc/partitions"
listed() { awk -v disk="$DISK" '$4 == disk { print $3 }' /proc/partitions; }
is "a device without a size" "" "$(listed)"
set_up 3M
is "with a size, in blocks of 1 KiB" 3072 "$(listed)"
echo 1 >"$ATTR/reset"
is "after reset" "" "$(listed)"

finish
