#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# vm: --kernel uml --mem 1G --cpus 2 --timeout 120
# vm: --kernel debug --mem 1G --cpus 2 --timeout 200
# tier: test
#
# A device from new to reset: what each step does and refuses, in each state. ABI-25 to 37, 40 to 52,
# 150; SE-6, 11, 20, 40.

. "$(dirname "$0")/lib.sh"

load
modprobe loop 2>/dev/null
mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug
STATE=/sys/kernel/debug/$NAME/$DISK/block_state
get() { cat "$ATTR/$1"; }
set_to() { echo "$2" >"$ATTR/$1"; }
has() { [ -e "$ATTR/$1" ]; }
chosen() { sed -n 's/.*\[\(.*\)\].*/\1/p' "$ATTR/comp_algorithm"; }
default=$(chosen)
other=$(algorithms | tr ' ' '\n' | grep -xm1 -e zstd -e deflate)
loop=
if has backing_dev && [ -e /dev/loop-control ]; then
	truncate -s 16M /tmp/store.file
	loop=$(losetup -f --show /tmp/store.file)
fi

rule ABI-25 "a new device"
reads 0 disksize
reads 0 initstate
reads 0 size
is "the default codec is chosen" lz4 "$default"
is "no memory limit" 0 "$(mm 4)"
if has recomp_algorithm; then
	is "no secondary codec" 0 "$(wc -c <"$ATTR/recomp_algorithm")"
fi
if has backing_dev; then
	is "no backing device" none "$(get backing_dev)"
	is "settings of writeback" "32 0 0 0" "$(get writeback_batch_size) $(get compressed_writeback) $(
		get writeback_limit_enable) $(get writeback_limit)"
fi
is "no parameters: the default codec's size can be set" ok "$(rzattr write "$ATTR/disksize" 1M)"
writes ok reset 1

# sized BYTES TEXT: it makes a device of so many bytes.
sized() {
	writes ok disksize "$2"
	is "size, sectors and state after '$2'" "$1 $(($1 / 512)) 1" "$(get disksize) $(get size) $(get initstate)"
	is "the node has the size" "$1" "$(blockdev --getsize64 "$NODE")"
	writes ok reset 1
}

rule ABI-26 "a size is rounded up to pages; 0 is none, in any state"
for pair in 1:4096 4095:4096 4096:4096 4097:8192 1M:1048576 1048577foo:1052672 0x10001:69632; do
	sized "${pair#*:}" "${pair%:*}"
done
for state in none open sized; do
	[ "$state" != open ] || exec 3<"$NODE"
	[ "$state" != sized ] || set_to disksize 1M
	each_writes EINVAL disksize 0 garbage -1 " 1M" 0x 0K
done
exec 3<&-
reads 1048576 disksize

rule ABI-27 "a second size is refused; openers do not matter"
each_writes EBUSY disksize 2M 1M 1
reads 1048576 disksize
writes ok reset 1
exec 3<>"$NODE"
writes ok disksize 1M
is "the descriptor sees the size" 1048576 "$(blockdev --getsize64 "$NODE")"
is "and can be written" ok "$(head -c 4096 /dev/zero >&3 && echo ok)"
exec 3<&-
writes ok reset 1

rule ABI-28 "sizes that wrap, and sizes that cannot be had"
each_writes EINVAL disksize 18446744073709551615 99999999999999999999 17E 18446744073709547521
set_to comp_algorithm "$other"
set_to algorithm_params level=100
set_to mem_limit 4M
for text in 1P 8E; do
	writes ENOMEM disksize "$text"
	is "state after '$text'" "0 0 0" "$(get disksize) $(get initstate) $(get size)"
done
is "codec and limit are kept" "$other 4194304" "$(chosen) $(mm 4)"
writes EINVAL disksize 1M
writes ok reset 1

rule ABI-29 "what the slot table costs"
own "16 bytes a slot at once" || {
	used() { awk '/^VmallocUsed/ { print $2 }' /proc/meminfo; }
	before=$(used)
	set_to disksize 1G
	# Others' memory comes and goes meanwhile.
	check "4 MiB a GiB, at once" [ $(($(used) - before)) -ge 3968 ]
	set_to reset 1
}
set_to disksize 1G
is "it is in no statistic" "0 0 0 0 0 0 0 0 0" "$(mm 1 2 3 4 5 6 7 8 9)"
set_to reset 1

rule ABI-30 "every configured codec is made now, for every processor"
for priority in 0 1 3; do
	if [ $priority -ne 0 ]; then
		has recomp_algorithm || {
			skip "a secondary codec that can't be made" "this kernel's $DRIVER has none"
			continue
		}
		writes ok recomp_algorithm "algo=$other priority=$priority"
	else
		writes ok comp_algorithm "$other"
	fi
	writes ok algorithm_params "priority=$priority level=100"
	writes EINVAL disksize 1M
	writes ok reset 1
done
if algorithms | grep -qw lzo; then
	writes ok comp_algorithm lzo
	writes ok algorithm_params level=1
	writes EOPNOTSUPP disksize 1M
	writes ok reset 1
fi
set_to disksize 16M
for cpu in $(seq 0 $(($(nproc) - 1))); do
	check "processor $cpu has its own" taskset -c "$cpu" rzio put "$NODE" text $((cpu * 50)) 50
	check "in both directions" taskset -c "$cpu" rzio check "$NODE" text $((cpu * 50)) 50
done
writes ok reset 1

rule ABI-31 "what a size that fails leaves"
[ -z "$loop" ] || set_to backing_dev "$loop"
set_to mem_limit 4M
! has writeback_batch_size || set_to writeback_batch_size 7
set_to comp_algorithm "$other"
set_to algorithm_params level=100
! has recomp_algorithm || set_to recomp_algorithm "algo=$other priority=2"
writes EINVAL disksize 1M
reads 0 disksize
is "the limit stays" 4194304 "$(mm 4)"
[ -z "$loop" ] || is "writeback's settings stay" "$loop 7" "$(get backing_dev) $(get writeback_batch_size)"
if on_c; then
	is "the codec is the default" "$default" "$(chosen)"
	! has recomp_algorithm || is "secondary codecs are forgotten" 0 "$(wc -c <"$ATTR/recomp_algorithm")"
	set_to comp_algorithm "$other"
	writes ok disksize 1M
else
	is "the codec stays (SE-6)" "$other" "$(chosen)"
	! has recomp_algorithm || is "secondary codecs stay (SE-6)" 1 "$(grep -c "#2: .*\[$other\]" "$ATTR/recomp_algorithm")"
	writes EINVAL disksize 1M
	writes ok algorithm_params level=1
	writes ok disksize 1M
fi
writes ok reset 1
! has writeback_batch_size || set_to writeback_batch_size 32

rule ABI-32 "what a size that succeeds shows"
writes ok disksize 5000
is "size, state, sectors" "8192 1 16" "$(get disksize) $(get initstate) $(get size)"
writes ok reset 1
# The kernel tells ten changes in five seconds at most, of all disks together.
told() {
	_before=$(dmesg | grep -c "$DISK: detected capacity change from 0 to 24")
	set_up 12288
	[ "$_before" -lt "$(dmesg | grep -c "$DISK: detected capacity change from 0 to 24")" ]
}
check "the log tells" wait_for 12 told
writes ok reset 1

rule ABI-33 "what reset takes, with and without a size"
for state in none sized; do
	each_writes EINVAL reset 0 x -1 0x1 "1 " " 1" 1k "00
"
	each_writes ERANGE reset 65536 99999999999999999999
	for text in 1 +1 65535 "2
" 07; do
		set_to comp_algorithm "$other"
		[ $state = none ] || set_to disksize 1M
		writes ok reset "$text"
		is "after that" "0 $default" "$(get disksize) $(chosen)"
	done
done

rule ABI-34 "no reset while the node is open"
set_to disksize 1M
rzio put "$NODE" noise 0 8 >/dev/null
for mode in '3<' '3>' '3<>'; do
	eval "exec $mode\"\$NODE\""
	writes EBUSY reset 1
	exec 3<&-
	check "data are as they were" rzio check "$NODE" noise 0 8
done
writes ok reset 1

# open_beside: an open beside a reset; each may refuse the other, but not both.
open_beside() {
	set_to disksize 64M || return
	rzio put "$NODE" noise 0 500 >/dev/null
	rzattr write "$ATTR/reset" 1 >/tmp/reset &
	_reset=$!
	_opened=$(rzattr open-read "$NODE")
	wait $_reset
	case "$_opened $(cat /tmp/reset)" in
	"ok ok") ;;
	"EBUSY ok") claimed=$((claimed + 1)) ;;
	"ok EBUSY") set_to reset 1 ;;
	*) return 1 ;;
	esac
	[ "$(get disksize)" = 0 ]
}

rule ABI-35 "an open beside a reset is refused, or refuses it"
claimed=0
wrong=0
for _ in $(seq "$(work 12)"); do
	open_beside || wrong=$((wrong + 1))
done
is "rounds that went wrong" 0 $wrong
echo "# $claimed of $(work 12) opens met a claimed device"

# configure: everything that can be set before a size is, and data.
configure() {
	set_to comp_algorithm "$other" && set_to algorithm_params "level=1 dict=/tmp/words" && set_to mem_limit 8M || return
	! has recomp_algorithm || set_to recomp_algorithm "algo=$other priority=3" || return
	[ -z "$loop" ] || set_to backing_dev "$loop" || return
	set_to disksize 16M && rzio put "$NODE" noise 0 64 && rzio put "$NODE" zero 64 8 && rzio put "$NODE" text 80 8 &&
		rzio discard "$NODE" 84 1 && rzio check "$NODE" noise 0 64
}

# figures: all that tells a used device from a new one.
figures() {
	for _file in disksize size initstate comp_algorithm recomp_algorithm mm_stat io_stat debug_stat bd_stat stat backing_dev; do
		! has $_file || echo "$_file: $(get $_file)"
	done
}

rule ABI-36 "reset makes a new device of it"
for _ in $(seq 100); do
	echo "words that come again and again, of which the codec knows"
done >/tmp/words
figures >/tmp/new
check "a device that has everything" configure
[ -z "$loop" ] || check "something is written back" set_to writeback page_indexes=0-9
refuses "it shows" sh -c "grep -q '^ *0 *0 *0 *0 *0' $ATTR/mm_stat"
writes ok reset 1
figures >/tmp/reset
check "nothing of it is left" diff /tmp/new /tmp/reset
[ -z "$loop" ] || check "the backing device is free" mkfs.ext2 -qF "$loop"
set_to disksize 16M
is "no data" 0 "$(head -c 400000 "$NODE" | tr -d '\0' | wc -c)"
writes ok reset 1
# Parameters and dictionary: a bad level of both would be told by the size.
set_to comp_algorithm "$other"
set_to algorithm_params level=100
! has recomp_algorithm || set_to recomp_algorithm "algo=$other priority=1"
! has recomp_algorithm || set_to algorithm_params "priority=1 level=100"
writes ok reset 1
set_to comp_algorithm "$other"
! has recomp_algorithm || set_to recomp_algorithm "algo=$other priority=1"
writes ok disksize 1M
writes ok reset 1

rule ABI-37 "what reset does not touch"
if has writeback_limit; then
	set_to writeback_limit_enable 1
	set_to writeback_limit 77
	set_to writeback_batch_size 5
	set_to compressed_writeback 1
	for state in none sized; do
		[ $state = none ] || set_to disksize 1M
		writes ok reset 1
		is "writeback's settings stay (SE-11)" "1 77 5 1" "$(get writeback_limit_enable) $(
			get writeback_limit) $(get writeback_batch_size) $(get compressed_writeback)"
	done
	for pair in writeback_limit_enable:0 writeback_limit:0 writeback_batch_size:32 compressed_writeback:0; do
		set_to "${pair%:*}" "${pair#*:}"
	done
else
	skip "writeback's settings" "this kernel's $DRIVER has none"
fi

rule ABI-150 "the block layer's counters end with the reset"
set_to disksize 1M
rzio put "$NODE" text 0 8 >/dev/null
rzio check "$NODE" text 0 8 >/dev/null
is "requests were counted" "8 8" "$(awk '{ print $1, $5 }' "$ATTR/stat")"
writes ok reset 1
is "all counters are 0" 0 "$(tr -s ' ' '\n' <"$ATTR/stat" | awk '{ sum += $1 } END { print sum }')"

# The table of states: what each operation gives on a device without a size, with one, and open.

# enter STATE: none, sized or open.
enter() {
	exec 3<&-
	set_to reset 1
	state=$1
	[ "$state" = none ] || set_to disksize 1M
	[ "$state" != open ] || exec 3<"$NODE"
}

# each_state NONE SIZED OPEN ATTRIBUTE TEXT: what such a write gives in each state.
each_state() {
	has "$4" || {
		skip "$4" "this kernel's $DRIVER has none"
		return
	}
	for _pair in none:"$1" sized:"$2" open:"$3"; do
		enter "${_pair%%:*}"
		is "$4 <- '$5' is ${_pair#*:} ($state)" "${_pair#*:}" "$(rzattr write "$ATTR/$4" "$5")"
	done
	exec 3<&-
}

rule ABI-40 "open in each state"
for state in none sized open; do
	enter $state
	is "open ($state)" "ok ok" "$(rzattr open-read "$NODE") $(rzattr open-write "$NODE")"
done
rule ABI-41 "read in each state"
for pair in none:0 sized:4096 open:4096; do
	enter "${pair%:*}"
	is "bytes read ($state)" "${pair#*:}" "$(head -c 4096 "$NODE" | wc -c)"
	is "bytes read directly ($state)" "${pair#*:}" \
		"$(dd if="$NODE" bs=4096 count=1 iflag=direct status=none | wc -c)"
done
rule ABI-42 "write in each state"
for pair in none:ENOSPC sized:ok open:ok; do
	enter "${pair%:*}"
	is "write ($state)" "${pair#*:}" "$(rzattr write "$NODE" "$(printf '%04096d' 0)")"
done
rule ABI-44 "disksize in each state"
each_state ok EBUSY EBUSY disksize 1M
rule ABI-45 "what is configured before a size"
each_state ok EBUSY EBUSY comp_algorithm "$other"
each_state ok EBUSY EBUSY recomp_algorithm "algo=$other"
each_state ok EBUSY EBUSY algorithm_params level=1
[ -z "$loop" ] || each_state ok EBUSY EBUSY backing_dev "$loop"
each_state ok EBUSY EBUSY compressed_writeback 0
rule ABI-46 "what is set at any time"
for pair in mem_limit:1M mem_used_max:0 writeback_limit:1 writeback_limit_enable:0 writeback_batch_size:32; do
	each_state ok ok ok "${pair%:*}" "${pair#*:}"
done
rule ABI-47 "what works on data needs a size"
each_state EINVAL ok ok compact 1
each_state EINVAL ok ok idle all
enter none
is "but for an age before the system's start (SE-20)" "ok|EINVAL" "$(rzattr write "$ATTR/idle" 4294967295)"
if has recompress; then
	for pair in none:EINVAL sized:ok open:ok; do
		enter none
		set_to recomp_algorithm "algo=$other"
		[ "${pair%:*}" = none ] || set_to disksize 1M
		[ "${pair%:*}" != open ] || exec 3<"$NODE"
		is "recompress <- 'type=idle' is ${pair#*:} (${pair%:*})" "${pair#*:}" "$(rzattr write "$ATTR/recompress" type=idle)"
	done
else
	skip "recompress" "this kernel's $DRIVER has none"
fi
rule ABI-48 "writeback needs a size and a backing device"
each_state EINVAL ENODEV ENODEV writeback idle
if [ -n "$loop" ]; then
	enter none
	set_to backing_dev "$loop"
	writes EINVAL writeback idle
	set_to disksize 1M
	writes ok writeback idle
	exec 3<"$NODE"
	writes ok writeback idle
fi
rule ABI-49 "reset in each state"
each_state ok ok EBUSY reset 1
enter none
exec 3<"$NODE"
differs SE-40 "open without a size" || is "open without a size there is nothing to lose (SE-40)" ok "$(rzattr write "$ATTR/reset" 1)"
exec 3<&-
rule ABI-50 "hot_remove in each state"
for pair in none:ok sized:ok open:EBUSY; do
	enter "${pair%:*}"
	is "hot_remove ($state)" "${pair#*:}" "$(rzattr write "$CONTROL/hot_remove" 0)"
	[ "$state" = open ] || is "it can be made again" 0 "$(cat "$CONTROL/hot_add")"
done
exec 3<&-
wait_for 5 test -b "$NODE"
rule ABI-51 "every attribute that reads does so in each state"
for state in none sized open; do
	enter $state
	bad=
	for file in "$ATTR"/*; do
		[ -f "$file" ] || continue
		case $(stat -c %a "$file") in
		[46]44 | 400) cat "$file" >/dev/null 2>&1 || bad="$bad ${file##*/}" ;;
		esac
	done
	is "what does not read ($state)" "" "$bad"
done
rule ABI-52 "block_state needs a size"
if [ -e "$STATE" ]; then
	enter none
	is "block_state (none)" EINVAL "$(rzattr read "$STATE")"
	for state in sized open; do
		enter $state
		check "block_state ($state)" cat "$STATE"
	done
else
	skip "block_state" "this kernel's $DRIVER has none"
fi
exec 3<&-
set_to reset 1
[ -z "$loop" ] || losetup -d "$loop"
finish
