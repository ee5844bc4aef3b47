#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# vm: --kernel uml --mem 1G --cpus 2 --timeout 240
# vm-full: --kernel stock --mem 1G --cpus 2 --timeout 240
# tier: test
#
# Field cases about configuration, codecs and control files, by their ids; what is not here is in the
# suite of its room. Each was run on C zram first; where more is asked for than C gives, `differs`.

. "$(dirname "$0")/lib.sh"

load
mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug
default=$(sed -n 's/.*\[\(.*\)\].*/\1/p' "$ATTR/comp_algorithm")
chosen() { sed -n 's/.*\[\(.*\)\].*/\1/p' "$ATTR/comp_algorithm"; }

# state DISK: everything that can be read of a disk, but what names it.
state() {
	for _file in disksize initstate comp_algorithm recomp_algorithm mm_stat io_stat debug_stat bd_stat \
		backing_dev writeback_limit mem_threshold rzram_stat size stat inflight queue/discard_max_bytes; do
		[ ! -e "/sys/block/$1/$_file" ] || echo "$_file: $(cat "/sys/block/$1/$_file")"
	done
}

# B09: after reset nothing tells a device from a new one, whatever it was before.
cat "$CONTROL/hot_add" >/dev/null
fresh=$(state "${NAME}1")
for algorithm in zstd lz4 deflate lzo-rle; do
	algorithms | grep -qw "$algorithm" || continue
	set_up 64M "$algorithm"
	[ ! -e "$ATTR/mem_threshold" ] || echo 1M >"$ATTR/mem_threshold"
	echo 48M >"$ATTR/mem_limit"
	dd if=/dev/urandom of="$NODE" bs=1M count=8 oflag=direct status=none
	rzio put "$NODE" text 4000 100 >/dev/null
	is "B09: $algorithm: reset" ok "$(rzattr write "$ATTR/reset" 1)"
	is "B09: $algorithm: a reset device is as a new one" "$fresh" "$(state "$DISK")"
done
echo 1 >"$CONTROL/hot_remove"

# B33: every listed name is accepted, and the brackets move.
bad=
for name in $(algorithms); do
	echo "$name" >"$ATTR/comp_algorithm" || bad="$bad $name"
	last=$name
done
is "B33: no listed name is refused" "" "$bad"
is "B33: the brackets are around the last" "$last" "$(chosen)"
is "B33: the list ends in a newline" "" "$(tail -c 1 "$ATTR/comp_algorithm")"

# B35: a name that is accepted makes a device; a bad parameter is told with its own words.
bad=
for name in $(algorithms); do
	set_up 8M "$name" && rzio put "$NODE" text 0 8 >/dev/null && rzio check "$NODE" text 0 8 >/dev/null || bad="$bad $name"
done
is "B35: every accepted codec makes a device" "" "$bad"
echo 1 >"$ATTR/reset"
echo zstd >"$ATTR/comp_algorithm"
echo "level=100" >"$ATTR/algorithm_params"
if [ "$(rzattr write "$ATTR/disksize" 8M)" = EINVAL ]; then
	differs "SE-6" "B35: the failure says what was wrong, and changes nothing" || {
		is "B35: the failure says what was wrong" 1 "$(grep -c 'codec does not take its parameters' "$ATTR/last_error")"
		is "B35: and keeps the codec" zstd "$(chosen)"
		writes ok algorithm_params "level=3"
		writes ok disksize 8M
	}
else
	skip "B35: the failure says what was wrong" "this codec takes every level"
fi
writes ok reset 1

# B37: what users put into recompress: nothing happens, or exactly what was asked for.
if [ -e "$ATTR/recompress" ] && algorithms | grep -qw zstd; then
	writes ok comp_algorithm lz4
	writes ok recomp_algorithm "algo=zstd priority=1"
	writes ok disksize 16M
	rzio put "$NODE" text 0 100 >/dev/null
	rzio put "$NODE" noise 200 20 >/dev/null
	before=$(mm 1 2 3 8)
	# C takes a bad type after a good one, and runs (SE-39).
	after="type=huge type=nothing"
	! on_c || after="type=nothing"
	bad=
	for text in type=foo typ threshold=99999 threshold=x "type=idle threshold=-1" algo=nosuch priority=9 \
		priority=0 max_pages=x "type=" "$after"; do
		outcome=$(rzattr write "$ATTR/recompress" "$text")
		[ "$outcome" = EINVAL ] || bad="$bad '$text':$outcome"
	done
	is "B37: wrong words are EINVAL" "" "$bad"
	is "B37: and do nothing" "$before" "$(mm 1 2 3 8)"
	writes ok recompress "type=huge_idle threshold=3000 max_pages=10"
	is "B37: right words that meet nothing do nothing" "$before" "$(mm 1 2 3 8)"
	writes ok recompress "max_pages=5"
	check "B37: at most max_pages are tried" [ "$(grep -c '[r.]n$\|r.$' "/sys/kernel/debug/$NAME/$DISK/block_state")" -le 5 ]
	writes ok recompress ""
	writes ok recompress "priority=1"
	check "B37: the result is never larger ($before, $(mm 1 2 3 8))" [ "$(mm 2)" -lt "$(echo "$before" | cut -d' ' -f2)" ]
	check "B37: the data is right" rzio check "$NODE" text 0 100
	check "B37: and what no codec helps, too" rzio check "$NODE" noise 200 20
	writes ok reset 1
else
	skip "B37: recompress" "this kernel's $DRIVER cannot recompress"
fi

# B41: names are never cut down to a good one.
writes ok comp_algorithm lz4
bad=
for text in "lz4 " " lz4" lz4x LZ4 "zstd
x" "$(printf '%0127d' 0)"; do
	[ "$(rzattr write "$ATTR/comp_algorithm" "$text")" = EINVAL ] || bad="$bad '$text'"
done
is "B41: what is no name is EINVAL" "" "$bad"
is "B41: what is too long is E2BIG" "E2BIG E2BIG" \
	"$(rzattr write "$ATTR/comp_algorithm" "$(printf '%0128d' 0)") $(rzattr write "$ATTR/comp_algorithm" "$(printf '%04095d' 0)")"
is "B41: nothing changed" lz4 "$(chosen)"

# B67: max_comp_streams: absent, or in compat mode a number that does nothing.
if is_compat; then
	is "B67: it reads the number of CPUs" "$(nproc)" "$(cat "$ATTR/max_comp_streams")"
	is "B67: and takes a positive number" "ok EINVAL" \
		"$(rzattr write "$ATTR/max_comp_streams" 2) $(rzattr write "$ATTR/max_comp_streams" 0)"
else
	is "B67: there is no max_comp_streams" ENOENT "$(rzattr open-write "$ATTR/max_comp_streams")"
fi

# B71: stat is an ordinary disk's.
set_up 16M
# counts: how many columns, sectors read, sectors written.
counts() { awk '{ print NF, $3, $7 }' "$ATTR/stat"; }
fields=$(awk '{ print NF }' "$ATTR/stat")
is "B71: before" "$fields 0 0" "$(counts)"
dd if=/dev/zero of="$NODE" bs=1M count=1 oflag=direct status=none
dd if="$NODE" of=/dev/null bs=1M count=1 iflag=direct status=none
is "B71: 1 MiB is 2048 sectors each way" "$fields 2048 2048" "$(counts)"

# B73: three sizes side by side, and who can tell which is RAM.
set_up 256M
echo 128M >"$ATTR/mem_limit"
rzio put "$NODE" text 0 $((16384 * SCALE > 60000 ? 60000 : 16384 * SCALE)) >/dev/null
data=$(mm 1)
used=$(mm 3)
echo "# disksize $(cat "$ATTR/disksize"), data $data, RAM used $used, RAM limit $(mm 4)"
check "B73: RAM used is about a third of the data" [ "$used" -gt $((data / 6)) -a "$used" -lt $((data * 6 / 10)) ]
differs B73 "B73: the names say which is which" ||
	is "B73: the names say which is which" \
		"disksize_bytes 268435456 orig_data_bytes $data mem_used_bytes $used mem_limit_bytes 134217728" \
		"$(grep -E '^(disksize|orig_data|mem_used|mem_limit)_bytes' "$ATTR/rzram_stat" | xargs)"
writes ok reset 1

# B75: block_state by buffers of all sizes.
STATE=/sys/kernel/debug/$NAME/$DISK/block_state
if [ -e "$STATE" ]; then
	set_up 16M
	rzio put "$NODE" text 0 300 >/dev/null
	cat "$STATE" >/tmp/state
	is "B75: a line each" 300 "$(wc -l </tmp/state)"
	bad=
	for bytes in 79 80 81 4096; do
		dd if="$STATE" bs=$bytes status=none | cmp -s - /tmp/state || bad="$bad $bytes"
	done
	differs SE-26 "B75: every buffer gets every line" || is "B75: every buffer gets every line" "" "$bad"
	is "B75: a buffer below a line is never taken for the end" 1 \
		"$(differs SE-26 x >/dev/null && echo 1 || { dd if="$STATE" bs=7 count=1 2>&1 >/dev/null | grep -c 'Invalid argument'; })"
	writes ok reset 1
else
	skip "B75: block_state" "this kernel's $DRIVER has none"
fi

# B77: modes, and who may write.
bad=
for file in "$ATTR"/*; do
	[ -f "$file" ] || continue
	case $(stat -c '%a %u %g' "$file") in
	"200 0 0" | "444 0 0" | "644 0 0") ;;
	*) bad="$bad ${file##*/}" ;;
	esac
done
is "B77: nobody but root may write any file" "" "$bad"
nobody() { setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; }
bad=
for file in disksize reset compact mem_limit comp_algorithm algorithm_params idle; do
	[ "$(nobody rzattr write "$ATTR/$file" 1)" = EACCES ] || bad="$bad $file"
done
is "B77: others get EACCES" "" "$bad"
is "B77: of the class, too" "EACCES EACCES" \
	"$(nobody rzattr write "$CONTROL/hot_remove" 0) $(nobody rzattr open-read "$CONTROL/hot_add")"
differs B77 "B77: a path needs CAP_SYS_ADMIN" || {
	is "B77: a path needs CAP_SYS_ADMIN" EPERM \
		"$(setpriv --bounding-set=-sys_admin --inh-caps=-sys_admin rzattr write "$ATTR/algorithm_params" "dict=/etc/shadow")"
	writes EINVAL algorithm_params "dict=/etc/shadow nothing"
	refuses "B77: no content of a file shows" grep -q root: "$ATTR/last_error"
}

finish
