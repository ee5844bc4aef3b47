#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# vm: --kernel uml --mem 1G --cpus 2 --timeout 300
# vm-full: --kernel stock --mem 1G --cpus 2 --timeout 300
# tier: test
#
# What happens to old pages by itself: off at first, by age, beside users, within the budget.

. "$(dirname "$0")/lib.sh"

load
[ -e "$ATTR/auto_idle_seconds" ] || skip_all "$DRIVER does nothing by itself"
modprobe loop 2>/dev/null
[ -e /dev/loop-control ] || skip_all "this kernel has no loop devices"
mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug
STATE=/sys/kernel/debug/$DRIVER/$DISK/block_state
STORE=/tmp/store
mkdir -p "$STORE"
mount -t tmpfs -o size=64M none "$STORE" || skip_all "no tmpfs"
truncate -s 32M "$STORE/file"
loop=$(losetup -f --show "$STORE/file")
algorithms | grep -qw zstd || skip_all "this kernel has no zstd"

get() { cat "$ATTR/$1"; }
set_to() { echo "$2" >"$ATTR/$1"; }
flagged() { grep -c " $1\$" "$STATE"; }
# fresh: 200 pages of text, 50 of noise, a secondary codec, a backing device.
fresh() {
	set_to reset 1 && set_to comp_algorithm lz4 && echo "algo=zstd priority=1" >"$ATTR/recomp_algorithm" &&
		set_to backing_dev "$loop" && set_to disksize 32M &&
		rzio put "$NODE" text 0 200 && rzio put "$NODE" noise 1000 50
}
verify() { rzio check "$NODE" text 0 200 && rzio check "$NODE" noise 1000 50; }

is "modes" "644 644 644" \
	"$(cd "$ATTR" && stat -c %a auto_idle_seconds auto_recompress auto_writeback | xargs)"
is "off at first" "0 0 0" "$(get auto_idle_seconds) $(get auto_recompress) $(get auto_writeback)"
for text in -1 x " 1" 4294967296 1s; do
	writes EINVAL auto_idle_seconds "$text"
done
for text in 2 -1 yes; do
	writes EINVAL auto_recompress "$text"
	writes EINVAL auto_writeback "$text"
done
writes ok auto_idle_seconds 4294967295
is "a number is read back" 4294967295 "$(get auto_idle_seconds)"

check "a device" fresh
is "reset switches it off" "0 0 0" "$(get auto_idle_seconds) $(get auto_recompress) $(get auto_writeback)"
writes ok auto_idle_seconds 2
sleep 4
is "an age alone does nothing" "0 0" "$(flagged '....r.') $(flagged '.w....')"

# Old pages are recompressed, those in use are not.
writes ok auto_recompress 1
for _ in $(seq 40); do
	rzio check "$NODE" text 0 10 >/dev/null || break
	[ "$(flagged '....r.')" -lt 190 ] || break
	sleep 0.25
done
is "old pages are recompressed, used ones are not" "190 0" \
	"$(flagged '....r.') $(awk '$1 < 10' "$STATE" | grep -c ' ....r.$')"
check "what nothing helps is known" wait_for 5 sh -c "[ \$(grep -c ' ..h..n\$' $STATE) -eq 50 ]"
check "data" verify
check "what is read gets old again" wait_for 10 sh -c "[ \$(grep -c ' ....r.\$' $STATE) -eq 200 ]"
writes ok auto_recompress 0
check "overwriting" rzio put "$NODE" text 0 200
sleep 4
is "off means off" 0 "$(flagged '....r.')"

# Written back within the budget.
writes ok writeback_limit 30
writes ok writeback_limit_enable 1
writes ok auto_writeback 1
check "old pages are written back" wait_for 10 sh -c "[ \$(grep -c ' .w....\$' $STATE) -ge 30 ]"
sleep 2
is "no more than the budget" "30 0" "$(flagged '.w....') $(get writeback_limit)"
is "largest first" 30 "$(flagged '.wh...')"
writes ok writeback_limit 1000
check "a new budget is used" wait_for 10 sh -c "[ \$(grep -c ' .w....\$' $STATE) -eq 250 ]"
is "and shows what is left" 780 "$(get writeback_limit)"
check "data" verify
writes ok writeback_limit_enable 0

# Users come first: nobody is told to come again because of it.
check "a device" fresh
writes ok auto_idle_seconds 1
writes ok auto_recompress 1
writes ok auto_writeback 1
failed=0
for _ in $(seq 60); do
	[ "$(rzattr write "$ATTR/recompress" type=idle)" = ok ] || failed=$((failed + 1))
	[ "$(rzattr write "$ATTR/writeback" page_index=9)" = ok ] || failed=$((failed + 1))
	rzio put "$NODE" text 0 60 >/dev/null
	sleep 0.1
done
is "users' runs beside it" 0 "$failed"
check "data" verify
check "reset while it is on" set_to reset 1
is "the device is let go" none "$(get backing_dev)"

# Unloading while it is on.
check "a device" fresh
writes ok auto_idle_seconds 1
writes ok auto_recompress 1
writes ok auto_writeback 1
sleep 2.5
check "unloading" unload
check "the device is let go" losetup -d "$loop"
load
finish
