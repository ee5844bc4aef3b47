#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# vm: --kernel uml --mem 1G --cpus 2 --timeout 240
# vm-full: --kernel stock --mem 1G --cpus 2 --timeout 240
# tier: test
#
# Debian's zramctl, as it is, on rzram in compat mode: find, create with everything, list in every form,
# reset. T-30 to 33; field cases B01, B11 and B67.

RZRAM_COMPAT=1
. "$(dirname "$0")/lib.sh"

command -v zramctl >/dev/null || skip_all "no zramctl here"
install_as_zram
modprobe zram
echo "# $(zramctl --version)"
# column NAME DISK
column() { zramctl --noheadings --raw --bytes --output "$1" "/dev/$2"; }
wanted=$(algorithms | tr ' ' '\n' | grep -xm1 -e zstd -e lz4hc)

is "find takes the device that is there" /dev/zram0 "$(zramctl --find --size 64M --algorithm "$wanted")"
is "with size and codec" "67108864 $wanted" \
	"$(cat "$ATTR/disksize") $(sed -n 's/.*\[\(.*\)\].*/\1/p' "$ATTR/comp_algorithm")"
is "find makes another" /dev/zram1 "$(zramctl --find --size 32M --algorithm lz4 --algorithm-params "level=4")"
is "B11: and no more than that" "zram0 zram1" "$(find /sys/block -name 'zram*' -printf '%f\n' | sort | xargs)"
is "with its own size and codec" "33554432 lz4" \
	"$(cat /sys/block/zram1/disksize) $(sed -n 's/.*\[\(.*\)\].*/\1/p' /sys/block/zram1/comp_algorithm)"
refuses "a wrong codec is an error" zramctl --find --size 32M --algorithm gzip
refuses "a wrong parameter is an error" zramctl --find --size 32M --algorithm lz4 --algorithm-params "level=high"
differs last_error "the reason is in last_error" || {
	is "the reason is in last_error" 1 "$(grep -Ec "^(EINVAL|-22) algorithm_params: 'level=high' refused" /sys/block/zram2/last_error)"
}
check "zramctl removes what it made" zramctl --reset /dev/zram2

check "data" rzio put "$NODE" text 0 500
check "fills" rzio put "$NODE" word 600 30
echo 48M >"$ATTR/mem_limit"
check "swap" sh -c "mkswap /dev/zram1 && swapon /dev/zram1"
is "raw output is what mm_stat says" \
	"/dev/zram0 67108864 $(mm 1 2) $wanted $(mm 6 3 4 5 7)" \
	"$(zramctl --noheadings --raw --bytes -o NAME,DISKSIZE,DATA,COMPR,ALGORITHM,ZERO-PAGES,TOTAL,MEM-LIMIT,MEM-USED,MIGRATED "$NODE")"
is "the list has both" "/dev/zram0 /dev/zram1" "$(zramctl --noheadings --raw -o NAME | sort | xargs)"
is "a mount point is seen" "[SWAP]" "$(column MOUNTPOINT zram1)"
is "in a table, too" 3 "$(zramctl | wc -l)"
if is_compat; then
	is "B67: streams are CPUs" "$(nproc)" "$(column STREAMS zram0)"
fi
if zramctl --help | grep -q -e --json; then
	zramctl --json --bytes --output-all >/tmp/json
	is "JSON is JSON" "2 /dev/zram0 $(mm 1)" "$(python3 -c '
import json
devices = json.load(open("/tmp/json"))["zramctl"]
first = [d for d in devices if d["name"] == "/dev/zram0"][0]
print(len(devices), first["name"], first["data"])')"
else
	skip "JSON" "this zramctl has no --json"
fi
echo "# $(zramctl | tail -n 2 | head -n 1)"

refuses "reset of a device in use is an error" zramctl --reset /dev/zram1
check "which is still in use" grep -q '^/dev/zram1 ' /proc/swaps
swapoff /dev/zram1
check "reset" zramctl --reset /dev/zram1
check "takes the device away (T-31)" [ ! -e /sys/block/zram1 ]
check "B67: create with streams, on a device by name" zramctl --size 16M --streams 2 --algorithm lz4 "$NODE"
is "replaces what was there" "16777216 0" "$(cat "$ATTR/disksize") $(mm 1)"
# B01: something opens the node all the time; the device has no size, so nothing stands in the way.
zramctl --reset "$NODE"
cat "$CONTROL/hot_add" >/dev/null
differs SE-40 "B01: create beside a program that opens the node" || {
	in_background sh -c "while :; do true <$NODE; done" 2>/dev/null
	opener=$background
	wrong=0
	for _ in 1 2 3; do
		zramctl --size 16M "$NODE" || wrong=$((wrong + 1))
		wait_for 10 sh -c "echo 1 >$ATTR/reset" || wrong=$((wrong + 1))
	done 2>/dev/null
	kill "$opener"
	wait "$opener" 2>/dev/null
	is "B01: create beside a program that opens the node" 0 "$wrong"
}
check "reset of all" zramctl --reset "$NODE"
is "nothing is left" "" "$(zramctl --noheadings --raw -o NAME)"
check "modprobe -r zram" modprobe -r zram

finish
