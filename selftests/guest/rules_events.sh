#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# vm: --kernel stock --mem 1G --cpus 2 --timeout 240
# tier: test
#
# The events that udev hears of a device, and those that it does not. ABI-55, 56.

. "$(dirname "$0")/lib.sh"

[ -e /proc/net/netlink ] || skip_all "this kernel has no network, by which events come"
! loaded || unload
rzevent 60 >/tmp/events &
listener=$!
helpers="$helpers $listener"
wait_for 20 grep -q listening /tmp/events
# events PATTERN: how many came that match.
events() { grep -c "$1" /tmp/events; }

rule ABI-55 "a class, a disk and its bdi come and go with an event each"
load
check "add of the disk" wait_for 20 grep -q "^add@/devices/virtual/block/$DISK .*SUBSYSTEM=block.*DEVTYPE=disk" /tmp/events
major=$(cut -d : -f 1 "$ATTR/dev")
is "add of its bdi" 1 "$(events "^add@/devices/virtual/bdi/$major:0 ")"
is "add of the class" 1 "$(events "^add@/class/$NAME-control ")"
rule ABI-56 "a size and a reset have none"
before=$(wc -l </tmp/events)
echo 16M >"$ATTR/disksize"
echo 1 >"$ATTR/reset"
echo 16M >"$ATTR/disksize"
cat "$CONTROL/hot_add" >/dev/null
check "a later one came" wait_for 20 grep -q "^add@/devices/virtual/block/${NAME}1 " /tmp/events
is "nothing of the first disk between" 0 "$(tail -n +$((before + 1)) /tmp/events | grep -c "/$DISK ")"
rule ABI-55
echo 1 >"$CONTROL/hot_remove"
check "remove of a disk" wait_for 20 grep -q "^remove@/devices/virtual/block/${NAME}1 " /tmp/events
is "and of its bdi" 1 "$(events "^remove@/devices/virtual/bdi/$major:1 ")"
unload
check "remove of the class" wait_for 20 grep -q "^remove@/class/$NAME-control " /tmp/events
is "remove of the last disk" 1 "$(events "^remove@/devices/virtual/block/$DISK ")"
kill "$listener"
wait "$listener" 2>/dev/null
finish
