#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# vm: --kernel uml --mem 1G --cpus 2 --timeout 240
# vm-full: --kernel stock --mem 1G --cpus 2 --timeout 240
# tier: test
#
# Debian's systemd-zram-generator, as it is, on rzram in compat mode: what it generates, and what its
# units do at start and at stop. T-40 to 43; field case B35.

RZRAM_COMPAT=1
. "$(dirname "$0")/lib.sh"

GENERATOR=/usr/lib/systemd/system-generators/zram-generator
[ -x $GENERATOR ] || skip_all "no systemd-zram-generator here"
install_as_zram
mkdir -p /run/systemd /tmp/units "$MNT"

backing=
modprobe zram
if [ -e "$ATTR/backing_dev" ]; then
	truncate -s 32M /tmp/backing
	modprobe loop 2>/dev/null
	backing=$(losetup -f --show /tmp/backing)
fi
modprobe -r zram

cat >/run/systemd/zram-generator.conf <<END
[zram0]
zram-size = 96
zram-resident-limit = 48
compression-algorithm = lz4 zstd(level=7) (type=idle)
swap-priority = 77
${backing:+writeback-device = $backing}

[zram1]
zram-size = 64
compression-algorithm = zstd(level=3)
fs-type = ext4
mount-point = $MNT
options = discard,noatime
END

# What runs at boot.
check "the generator runs" $GENERATOR /tmp/units
is "and makes units" "dev-zram0.swap tmp-mnt.mount" \
	"$(find /tmp/units -maxdepth 1 -type f -printf '%f\n' | sort | xargs)"
sed 's/^/# /' /tmp/units/dev-zram0.swap
is "for swap, with our priority" "What=/dev/zram0 Priority=77" \
	"$(grep -h '^What=\|^Priority=' /tmp/units/dev-zram0.swap | xargs)"
is "and for the file system" "What=/dev/zram1 Where=$MNT" \
	"$(grep -h '^What=\|^Where=' /tmp/units/tmp-mnt.mount | xargs)"
is "the devices are there (T-40)" "zram0 zram1" "$(find /sys/block -name 'zram*' -printf '%f\n' | sort | xargs)"
is "of the driver under test" 1 "$(awk '$1 ~ /zram$/ { print $1 }' /proc/modules | grep -cx "$DRIVER")"

# systemd-zram-setup@zram0.service starts.
check "set-up of the swap device" $GENERATOR --setup-device zram0
is "size, limit, codec" "100663296 50331648 lz4" \
	"$(cat "$ATTR/disksize") $(mm 4) $(sed -n 's/.*\[\(.*\)\].*/\1/p' "$ATTR/comp_algorithm")"
if [ -e "$ATTR/recomp_algorithm" ]; then
	is "the codec for recompression" "#1 zstd" "$(sed -n 's/^\(#1\):.*\[\(.*\)\].*/\1 \2/p' "$ATTR/recomp_algorithm")"
else
	skip "the codec for recompression" "this kernel's $DRIVER cannot recompress"
fi
if [ -n "$backing" ]; then
	is "the backing device" "$backing" "$(cat "$ATTR/backing_dev")"
else
	skip "the backing device" "no backing_dev yet"
fi
is "it was made a swap area" swap "$(blkid -p -s TYPE -o value "$NODE")"
options=$(sed -n 's/^Options=//p' /tmp/units/dev-zram0.swap)
check "swapon as the unit does" swapon -p 77 ${options:+-o "$options"} "$NODE"
is "with its priority" 77 "$(awk '$1 == "/dev/zram0" { print $5 }' /proc/swaps)"
check "swapping" swapfill --mib "$(work 48)" --procs 1 --rounds 1 --seed "$SEED"
if [ -e "$ATTR/recompress" ]; then
	rzio_in_swap=$(mm 2)
	echo all >"$ATTR/idle"
	writes ok recompress type=idle
fi
check "swapoff" swapoff "$NODE"
check "the unit's stop" $GENERATOR --reset-device zram0
is "leaves a new device" "0 0" "$(cat "$ATTR/disksize" "$ATTR/initstate" | xargs)"
if [ -n "$backing" ]; then
	check "and the backing device is free" losetup -d "$backing"
fi

# The file system.
check "set-up of the file system" $GENERATOR --setup-device zram1
is "size and codec" "67108864 zstd" \
	"$(cat /sys/block/zram1/disksize) $(sed -n 's/.*\[\(.*\)\].*/\1/p' /sys/block/zram1/comp_algorithm)"
is "it has the file system" ext4 "$(blkid -p -s TYPE -o value /dev/zram1)"
options=$(sed -n 's/^Options=//p' /tmp/units/tmp-mnt.mount)
check "mount as the unit does ($options)" mount ${options:+-o "$options"} /dev/zram1 "$MNT"
check "files" sh -c "cp /usr/sbin/zram* /usr/bin/d* $MNT/ 2>/dev/null; ls $MNT | wc -l"
refuses "stop while mounted is an error" $GENERATOR --reset-device zram1
check "and harms nothing" sh -c "cmp /usr/bin/dd $MNT/dd"
check "umount" umount "$MNT"
check "the unit's stop" $GENERATOR --reset-device zram1
is "leaves a new device" 0 "$(cat /sys/block/zram1/disksize)"

# T-42, B35: what is wrong in the file is told; the device is still made.
cat >/run/systemd/zram-generator.conf <<END
[zram0]
zram-size = 32
compression-algorithm = gzip
END
dmesg -C
$GENERATOR --setup-device zram0 >/tmp/said 2>&1
is "T-42: an unknown codec is a warning" "0 33554432" "$? $(cat "$ATTR/disksize")"
sed 's/^/# /' /tmp/said
differs B35 "B35: and the log tells the legal ones" ||
	is "B35: and the log tells the legal ones" 1 \
		"$(dmesg | grep -cF "zram0: comp_algorithm: 'gzip' refused, write $(algorithms | xargs | sed 's/ /, /g')")"
check "reset" $GENERATOR --reset-device zram0
rm -rf /run/systemd/zram-generator.conf /tmp/units
check "modprobe -r zram" modprobe -r zram

finish
