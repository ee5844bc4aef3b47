#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# vm: --kernel stock --mem 1G --cpus 2 --timeout 240
# vm: --kernel debug --mem 1G --cpus 2 --timeout 200
# tier: test
#
# The attributes of one device: what they read, what they take, which errno refuses what, in each
# state. ABI-25 to 52, 57, 58, 85 to 96; field cases B33 and B41.

. "$(dirname "$0")/lib.sh"

load
default=$(sed -n 's/.*\[\(.*\)\].*/\1/p' "$ATTR/comp_algorithm")

# ABI-25: a new device.
for pair in disksize:0 initstate:0 size:0; do
	reads "${pair#*:}" "${pair%:*}"
done
zeroes='       0        0        0        0        0        0        0        0        0'
reads "$zeroes" mm_stat
reads "       0        0 0        0" io_stat
reads "version: 1
0        0" debug_stat
is "the default algorithm is in brackets" lz4 "$default"

# ABI-85 to 96: modes, and ABI-8: what a mode forbids even to root.
for pair in disksize:644 initstate:444 reset:200 compact:200 mem_limit:200 mem_used_max:200 \
	comp_algorithm:644 io_stat:444 mm_stat:444 debug_stat:444; do
	is "mode of ${pair%:*}" "${pair#*:}" "$(stat -c %a "$ATTR/${pair%:*}")"
done
is "reset can't be opened for reading" EACCES "$(rzattr open-read "$ATTR/reset")"
is "initstate can't be opened for writing" EACCES "$(rzattr open-write "$ATTR/initstate")"
# Old tools get the one they write, and it does nothing.
rule CM-8 "max_comp_streams for older tools, under zram's names only"
if is_compat; then
	reads "$(nproc)" max_comp_streams
	for pair in 1:ok 2:ok 64:ok 0:EINVAL -1:EINVAL x:EINVAL; do
		writes "${pair#*:}" max_comp_streams "${pair%:*}"
	done
	reads "$(nproc)" max_comp_streams
else
	is "no attribute max_comp_streams" ENOENT "$(rzattr open-write "$ATTR/max_comp_streams")"
fi
rule
for name in num_reads num_writes invalid_io notify_free zero_pages orig_data_size \
	compr_data_size mem_used_total use_dedup; do
	is "no attribute $name" ENOENT "$(rzattr open-read "$ATTR/$name")"
done
is "num_devices does not show" ENOENT "$(rzattr read "/sys/module/$DRIVER/parameters/num_devices")"

# Without a size: ABI-40 to 47, 58.
is "read finds the end at once" 0 "$(head -c 4096 "$NODE" | wc -c)"
is "write finds no space" ENOSPC "$(rzattr write "$NODE" x)"
writes EINVAL compact 1
refuses "not in /proc/partitions" grep -qw "$DISK" /proc/partitions
sequence=$(cat "$ATTR/diskseq")

# ABI-6, 26, 28: sizes that are none.
writes ok disksize ""
for text in 0 garbage -1 " 1M" K "
" 18446744073709551615 99999999999999999999 16E; do
	writes EINVAL disksize "$text"
done
writes "EINVAL|ENOMEM" disksize 8E
reads 0 disksize
reads 0 initstate

# ABI-1, 26, 32: sizes, rounded up to pages.
for pair in 1:4096 4096:4096 4097:8192 64k:65536 1M:1048576 1Mfoo:1048576 1048577foo:1052672 \
	0x10000:65536 0X10K:16384 010k:8192 +1:EINVAL 1m:1048576; do
	text=${pair%:*}
	wanted=${pair#*:}
	if [ "$wanted" = EINVAL ]; then
		writes EINVAL disksize "$text"
		continue
	fi
	writes ok disksize "$text"
	is "size after $text" "$wanted $((wanted / 512)) 1" \
		"$(cat "$ATTR/disksize") $(cat "$ATTR/size") $(cat "$ATTR/initstate")"
	writes ok reset 1
done
writes ok disksize "16M
"
reads 16777216 disksize

# With a size: ABI-27, 44 to 47, 92.
check "in /proc/partitions" grep -qw "$DISK" /proc/partitions
writes EBUSY disksize 32M
writes EINVAL disksize garbage
writes EINVAL disksize 0
writes EBUSY comp_algorithm "$default"
writes EINVAL comp_algorithm nosuch
for text in 1 0 anything " "; do
	writes ok compact "$text"
done
is "diskseq stays" "$sequence" "$(cat "$ATTR/diskseq")"

# ABI-33: what reset takes.
for text in 0 x "" -1 0x1 "1 "; do
	case $text in
	"") writes ok reset "$text" ;;
	*) writes EINVAL reset "$text" ;;
	esac
done
writes ERANGE reset 65536
writes ERANGE reset 99999999999999999999x
reads 16777216 disksize
for text in 1 65535 +1 "1
"; do
	writes ok reset "$text"
	reads 0 disksize
	writes ok disksize 16M
done

# ABI-34, 49: reset of an open device changes nothing.
writes ok mem_limit 8M
exec 3<"$NODE"
writes EBUSY reset 1
is "all is as it was" "16777216 1 8388608" "$(cat "$ATTR/disksize" "$ATTR/initstate" | xargs) $(mm 4)"
exec 3<&-
writes ok reset 1

# ABI-27: the size can be set while the node is open. SE-40: so can a reset that has nothing to do.
exec 3<"$NODE"
differs SE-40 "reset without a size succeeds while open" || writes ok reset 1
writes ok disksize 1M
exec 3<&-

# ABI-46, 89: mem_limit in any state, rounded up; its value is column 4.
for state in "with a size" "without a size"; do
	for pair in 0:0 1:4096 4096:4096 1M:1048576 1Mfoo:1048576 0x2000:8192; do
		writes ok mem_limit "${pair%:*}"
		is "limit $state" "${pair#*:}" "$(mm 4)"
	done
	for text in x "" " 1" -1 M; do
		case $text in
		"") writes ok mem_limit "$text" ;;
		*) writes EINVAL mem_limit "$text" ;;
		esac
	done
	is "limit is unchanged" 8192 "$(mm 4)"
	differs SE-13 "limit near 2^64 saturates" || {
		writes ok mem_limit 18446744073709551615
		is "limit near 2^64 saturates" 18446744073709547520 "$(mm 4)"
	}
	writes ok mem_used_max 0
	writes ok mem_used_max "0
"
	for text in 1 x -0 "0 "; do
		writes EINVAL mem_used_max "$text"
	done
	writes ok reset 1
done
is "reset removes the limit" 0 "$(mm 4)"

# ABI-36: reset brings back a new device.
other=$(algorithms | tr ' ' '\n' | grep -v "^$default\$" | head -n 1)
writes ok comp_algorithm "$other"
writes ok disksize 16M
check "pages written" rzio put "$NODE" noise 0 64
check "pages read" rzio check "$NODE" noise 0 64
refuses "statistics moved" grep -q "^$zeroes\$" "$ATTR/mm_stat"
writes ok reset 1
reads "$zeroes" mm_stat
reads "       0        0 0        0" io_stat
is "block statistics are 0" "0" "$(tr -s ' ' '\n' <"$ATTR/stat" | awk '{ sum += $1 } END { print sum }')"
is "algorithm is the default" "$default" "$(sed -n 's/.*\[\(.*\)\].*/\1/p' "$ATTR/comp_algorithm")"
writes ok comp_algorithm "$other"
writes ok reset 1
is "reset without a size, too" "$default" "$(sed -n 's/.*\[\(.*\)\].*/\1/p' "$ATTR/comp_algorithm")"
writes ok disksize 16M
is "old data is gone" 0 "$(head -c 262144 "$NODE" | tr -d '\0' | wc -c)"
writes ok reset 1

# B33: every listed name is accepted and shown in brackets.
for name in $(algorithms); do
	writes ok comp_algorithm "$name"
	is "brackets move to $name" "$name" "$(sed -n 's/.*\[\(.*\)\] .*/\1/p' "$ATTR/comp_algorithm")"
	writes ok comp_algorithm "$name
"
done
is "list has one line" 1 "$(wc -l <"$ATTR/comp_algorithm")"
is "list ends in a blank" " " "$(tail -c 2 "$ATTR/comp_algorithm" | head -c 1)"
wanted=$(for name in lzo-rle lzo lz4 lz4hc zstd deflate 842; do
	algorithms | tr ' ' '\n' | grep -x -e "$name"
done | xargs)
is "names are in the fixed order" "$wanted" "$(algorithms | xargs)"

# B41: names are never cut down to a good one.
writes ok comp_algorithm lz4
for text in "lz4 " " lz4" "lz4

" LZ4 lz lz4x [lz4]; do
	writes EINVAL comp_algorithm "$text"
done
writes ok comp_algorithm ""
long=$(printf '%0127d' 0)
writes EINVAL comp_algorithm "$long"
writes E2BIG comp_algorithm "${long}0"
writes E2BIG comp_algorithm "${long}
"
writes E2BIG comp_algorithm "$(printf '%04095d' 0)"
is "bytes after NUL do not count as a name" EINVAL "$(printf 'lz\0004' | rzattr write "$ATTR/comp_algorithm")"
is "algorithm is unchanged" lz4 "$(sed -n 's/.*\[\(.*\)\].*/\1/p' "$ATTR/comp_algorithm")"
is "list read byte by byte is whole" "$(cat "$ATTR/comp_algorithm")" "$(dd if="$ATTR/comp_algorithm" bs=1 2>/dev/null)"
# ABI-7: more than a page is a short write.
is "mem_limit takes at most a page at a time" short:4096 "$(printf '%05000d' 0 | rzattr write "$ATTR/mem_limit")"

finish
