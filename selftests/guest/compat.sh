#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# vm: --kernel stock --mem 1G --cpus 2 --timeout 300
# tier: test
#
# Compat mode: zram's names, who may have them, and the modprobe.d file of the documentation. CM-1 to 12.

RZRAM_COMPAT=1
. "$(dirname "$0")/lib.sh"

! on_c || skip_all "this is about rzram in zram's place"
others() { find /sys/block /dev /sys/class /sys/kernel/debug -maxdepth 1 -name "$1*" 2>/dev/null | sort | xargs; }
in_log() { dmesg | grep -cF "$1"; }
mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug

rule CM-11 "num_devices"
load num_devices=2
rule "CM-1 CM-2 CM-3"
is "what there is" \
	"/dev/zram0 /dev/zram1 /sys/block/zram0 /sys/block/zram1 /sys/class/zram-control /sys/kernel/debug/zram" "$(others zram)"
rule
is "nothing has rzram's names" "" "$(others rzram)"
check "CM-3: the major's name" grep -qw zram /proc/devices
is "files in debugfs" "zram0 zram1" "$(find /sys/kernel/debug/zram -mindepth 1 -maxdepth 1 -printf '%f\n' | sort | xargs)"
is "the parameter shows" Y "$(cat /sys/module/rzram/parameters/zram_compat)"
is "CM-2: modes" "400 200" "$(stat -c %a "$CONTROL/hot_add" "$CONTROL/hot_remove" | xargs)"
is "CM-1: the lowest free number" "2 ok 1" \
	"$(cat "$CONTROL/hot_add") $(rzattr write "$CONTROL/hot_remove" 1) $(cat "$CONTROL/hot_add")"
rule CM-5 "with a newline and without"
for end in "" "
"; do
	writes ok reset "1$end"
	writes ok comp_algorithm "lz4$end"
	writes ok disksize "16M$end"
	is "hot_remove" ok "$(rzattr write "$CONTROL/hot_remove" "2$end")"
	is "hot_add" 2 "$(cat "$CONTROL/hot_add")"
done
rule
check "data" rzio put "$NODE" noise 0 200

# CM-9: zram finds its names taken.
if modinfo zram >/dev/null 2>&1; then
	modprobe zram >/tmp/modprobe 2>&1
	is "CM-9: zram does not load beside it" "" "$(grep -w ^zram /proc/modules)"
	check "CM-9: nothing happened to the data" rzio check "$NODE" noise 0 200
	is "nor to the disks" "zram0 zram1 zram2" "$(find /sys/block -name 'zram*' -printf '%f\n' | sort | xargs)"
	writes ok reset 1
	unload
	# The other way around.
	check "zram itself" modprobe zram
	echo 16M >"$ATTR/disksize"
	check "data on zram" rzio put "$NODE" text 0 100
	lines=$(in_log "zram is there already")
	clashes=$(in_log "duplicate filename")
	refuses "CM-9: rzram refuses zram's names" load
	is "CM-9: as busy" 1 "$(load 2>&1 | grep -c 'Device or resource busy')"
	is "with one clear line each" 2 "$(($(in_log "rzram: zram_compat=1: zram is there already, unload it first") - lines))"
	is "and no clash in sysfs" "$clashes" "$(in_log "duplicate filename")"
	check "nothing of it is left" [ ! -e /sys/module/rzram ]
	check "data on zram is right" rzio check "$NODE" text 0 100
	check "under its own names it loads" load-rzram
	is "beside zram" "/dev/rzram0 /sys/block/rzram0 /sys/class/rzram-control /sys/kernel/debug/rzram" "$(others rzram)"
	rmmod rzram
	rmmod zram
else
	skip "CM-9: zram beside rzram" "this kernel has no zram"
	unload
fi

# CM-10: the documented file.
install_as_zram
check "CM-10: modprobe zram" modprobe zram
is "loads rzram" "rzram zram0" "$(awk '$1 ~ /zram$/ { print $1 }' /proc/modules) $(find /sys/block -name '*zram*' -printf '%f\n' | xargs)"
check "twice is once" modprobe zram
check "modprobe -r zram" modprobe -r zram
check "unloads it" [ ! -e /sys/module/rzram ]
check "with an option of zram's" modprobe zram num_devices=3
is "which is heard" "zram0 zram1 zram2" "$(find /sys/block -name '*zram*' -printf '%f\n' | sort | xargs)"
exec 3<"$NODE"
refuses "modprobe -r zram while it is open" modprobe -r zram
exec 3<&-
check "modprobe -r zram" modprobe -r zram
check "modprobe rzram" modprobe rzram
is "has its own names" "rzram0" "$(find /sys/block -name '*zram*' -printf '%f\n' | xargs)"
check "modprobe -r rzram" modprobe -r rzram
echo "options zram num_devices=2" >/etc/modprobe.d/user.conf
check "options that were meant for zram" modprobe zram
is "are heard" "zram0 zram1" "$(find /sys/block -name '*zram*' -printf '%f\n' | sort | xargs)"
rm /etc/modprobe.d/user.conf
check "modprobe -r zram" modprobe -r zram

# CM-4: the files of a disk are the same under either name.
for suite in attributes cases_config; do
	RZRAM_COMPAT=1 "$(dirname "$0")/$suite.sh" >/tmp/suite 2>&1
	is "CM-4: $suite.sh under zram's names" 0 "$?"
	grep -v '^ok' /tmp/suite | sed 's/^/# /'
	check "CM-4: it ran to its end" grep -q '^1\.\.[1-9]' /tmp/suite
done
finish
