#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# vm: --kernel uml --mem 1G --cpus 2 --timeout 120
# vm: --kernel debug --mem 1G --cpus 2 --timeout 200
# tier: test
#
# Each attribute: its mode, the form of what it reads, what it takes. ABI-85 to 105, 110, 111.

. "$(dirname "$0")/lib.sh"

load
mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug
get() { cat "$ATTR/$1"; }
chosen() { sed -n 's/.*\[\(.*\)\].*/\1/p' "$ATTR/comp_algorithm"; }
# has_mode MODE ATTRIBUTE: the mode and the owner.
has_mode() { is "mode and owner of $2" "$1 0 0" "$(stat -c '%a %u %g' "$ATTR/$2")"; }
# matches NAME PATTERN FILE: all of the file, as one line, is of this form.
matches() {
	_text=$(tr '\n' '$' <"$ATTR/$3")
	if printf '%s' "$_text" | grep -qxE "$2"; then passed "$1"; else failed "$1" "found: $_text"; fi
}
# absent ATTRIBUTE: true, and a skip, if this kernel has no such thing.
absent() {
	[ ! -e "$ATTR/$1" ] || return 1
	skip "$1" "this kernel's $DRIVER has none"
}

rule ABI-85 "disksize: bytes and a newline"
has_mode 644 disksize
matches "without a size" '0\$' disksize
echo 3M >"$ATTR/disksize"
matches "with a size" '3145728\$' disksize

rule ABI-86 "initstate: 1 with a size"
has_mode 444 initstate
matches "with a size" '1\$' initstate
echo 1 >"$ATTR/reset"
matches "after reset" '0\$' initstate

rule ABI-87 "reset is written only"
has_mode 200 reset
is "it can't be read" EACCES "$(rzattr open-read "$ATTR/reset")"

rule ABI-88 "compact takes anything and gives memory back"
has_mode 200 compact
writes EINVAL compact 1
set_up 64M
each_writes ok compact 1 0 anything " " "$(printf '%04096d' 0)"
is "an empty pool has nothing" 0 "$(mm 7)"
rzio put "$NODE" sized:1000 0 4000 >/dev/null
perforate 4000
used=$(mm 3)
writes ok compact 1
freed=$(mm 7)
check "pages were freed ($freed)" [ "$freed" -gt 100 ]
is "and are used no more" $((used - freed * 4096)) "$(mm 3)"
check "what is left is right" sh -c "for page in \$(seq 3 400 3999); do rzio check $NODE sized:1000 \$page 1 || exit; done"
for _ in 1 2 3 4; do
	rzattr write "$ATTR/compact" 1 &
done >/tmp/compact
wait
is "several at once all succeed" "ok ok ok ok" "$(xargs </tmp/compact)"

rule ABI-89 "mem_limit: rounded up, 0 for none, in any state"
has_mode 200 mem_limit
for state in sized none; do
	[ $state = sized ] || echo 1 >"$ATTR/reset"
	for pair in 0:0 1:4096 4096:4096 4097:8192 1M:1048576 0:0 8K:8192; do
		writes ok mem_limit "${pair%:*}"
		is "limit ($state)" "${pair#*:}" "$(mm 4)"
	done
	each_writes EINVAL mem_limit x " 1" -1 M
	is "a wrong one changes nothing ($state)" 8192 "$(mm 4)"
	writes ok mem_limit 18446744073709551615
	differs SE-13 "the largest ($state)" || is "the largest is no wrap to 0 (SE-13)" 18446744073709547520 "$(mm 4)"
done
writes ok mem_limit 0

rule ABI-90 "mem_used_max takes 0, and the peak is what is used now"
has_mode 200 mem_used_max
writes ok mem_used_max 0
set_up 16M
rzio put "$NODE" noise 0 200 >/dev/null
rzio discard "$NODE" 0 100 >/dev/null
used=$(mm 3)
check "the peak ($(mm 5)) is above the use ($used)" [ "$(mm 5)" -gt "$used" ]
each_writes EINVAL mem_used_max 1 x -0 "0 " " 0" 0x0 0k
check "a wrong one changes nothing" [ "$(mm 5)" -gt "$used" ]
for text in 0 +0 "00
"; do
	writes ok mem_used_max "$text"
	is "the peak" "$used" "$(mm 5)"
done

rule ABI-91 "idle: all, or an age"
has_mode 200 idle
each_writes ok idle all "all
"
for text in All al "all " -1 x 1s 4294967296 "1 " 0x ""; do
	writes "$([ -n "$text" ] && echo EINVAL || echo ok)" idle "$text"
done
writes "ok|EINVAL" idle 100

rule ABI-92 "comp_algorithm: the list, the choice, and the order of checks"
has_mode 644 comp_algorithm
long=$(printf '%0128d' 0)
writes E2BIG comp_algorithm "$long"
writes EINVAL comp_algorithm nosuch
writes EBUSY comp_algorithm lz4
echo 1 >"$ATTR/reset"
matches "names, a blank after each" '([a-z0-9-]+ |\[[a-z0-9-]+\] )+\$' comp_algorithm
for name in $(algorithms); do
	writes ok comp_algorithm "$name"
	is "brackets" "[$name]" "$(tr ' ' '\n' <"$ATTR/comp_algorithm" | grep -F '[')"
done
writes E2BIG comp_algorithm "$long"
writes EINVAL comp_algorithm nosuch
if algorithms | grep -qw zstd; then
	writes ok comp_algorithm zstd
	writes ok algorithm_params level=100
	writes ok comp_algorithm zstd
	writes ok disksize 1M
	echo 1 >"$ATTR/reset"
fi

rule ABI-93 "algorithm_params is written only, and always there"
has_mode 200 algorithm_params
writes ok algorithm_params level=1
writes EINVAL algorithm_params level

rule ABI-94 "io_stat: its form"
has_mode 444 io_stat
matches "of a new device" ' {7}0 {8}0 0 {8}0\$' io_stat
set_up 16M
rzio discard "$NODE" 0 1234 >/dev/null
matches "columns have eight places" ' {7}0 {8}0 0 {5}1234\$' io_stat
rule ABI-95 "mm_stat: its form"
has_mode 444 mm_stat
matches "of an empty device" ' {7}0( {8}0){8}\$' mm_stat
rzio put "$NODE" noise 0 300 >/dev/null
echo 1P >"$ATTR/mem_limit"
matches "nine columns of at least eight places" ' 1228800( +[0-9]+){8}\$' mm_stat
matches "a longer one moves the others" '( *[0-9]+){3} 1125899906842624 .*\$' mm_stat
is "each as wide as it must be" "$(awk '{ for (i = 1; i <= 9; i++) printf "%8s%s", $i, i < 9 ? " " : "\n" }' \
	"$ATTR/mm_stat")" "$(get mm_stat)"
rule ABI-96 "debug_stat: its form"
has_mode 444 debug_stat
matches "two lines" 'version: 1\$0 {8}0\$' debug_stat

rule ABI-97 "backing_dev: none, or a path"
modprobe loop 2>/dev/null
truncate -s 4M /tmp/store.file
loop=$(losetup -f --show /tmp/store.file 2>/dev/null) || loop=
echo 1 >"$ATTR/reset"
absent backing_dev || {
	has_mode 644 backing_dev
	matches "a new device" 'none\$' backing_dev
}
if [ -e "$ATTR/backing_dev" ] && [ -n "$loop" ]; then
	for text in "$loop" "$loop
"; do
		writes ok backing_dev "$text"
		matches "the path and a newline" "$loop\\$" backing_dev
		echo 1 >"$ATTR/reset"
	done
	writes ENOENT backing_dev "$loop

"
fi

rule ABI-98 "writeback is written only"
absent writeback || {
	has_mode 200 writeback
	writes EINVAL writeback idle
}

# settings ATTRIBUTE GOOD BAD: VALUE:READS pairs that it takes, words that it refuses; with and without a size.
settings() {
	for state in none sized; do
		[ $state = none ] || echo 1M >"$ATTR/disksize"
		for pair in $2; do
			writes ok "$1" "${pair%:*}"
			matches "$1 reads ${pair#*:} ($state)" "${pair#*:}\\$" "$1"
		done
		each_writes EINVAL "$1" $3 " 1" "1 " "1 1" "1

"
		matches "a wrong one changes nothing" "${pair#*:}\\$" "$1"
	done
	writes ok "$1" "${pair%:*}
"
	echo 1 >"$ATTR/reset"
}

rule ABI-99 "writeback_limit: 64 bits, all errors are EINVAL"
absent writeback_limit || {
	has_mode 644 writeback_limit
	settings writeback_limit "5:5 +7:7 18446744073709551615:18446744073709551615 010:10 0:0" \
		"x -1 0x10 1k 18446744073709551616 99999999999999999999"
}
rule ABI-100 "writeback_limit_enable: any number but 0 is on"
absent writeback_limit_enable || {
	has_mode 644 writeback_limit_enable
	settings writeback_limit_enable "1:1 2:1 18446744073709551615:1 00:0 +5:1 0:0" "yes y on -1 0x1 18446744073709551616"
}
rule ABI-101 "writeback_batch_size: 1 or more"
absent writeback_batch_size || {
	has_mode 644 writeback_batch_size
	settings writeback_batch_size "1:1 +2:2 4294967295:4294967295 32:32" "0 -1 x 0x1 1k 4294967296 99999999999999999999"
}
rule ABI-102 "compressed_writeback: a switch, before the size"
absent compressed_writeback || {
	has_mode 644 compressed_writeback
	matches "off by default" '0\$' compressed_writeback
	for pair in yes:1 off:0 1:1 N:0; do
		writes ok compressed_writeback "${pair%:*}"
		matches "${pair%:*}" "${pair#*:}\\$" compressed_writeback
	done
	echo 1M >"$ATTR/disksize"
	writes EINVAL compressed_writeback maybe
	writes EBUSY compressed_writeback 1
	matches "unchanged" '0\$' compressed_writeback
	echo 1 >"$ATTR/reset"
}
rule ABI-103 "bd_stat: its form"
absent bd_stat || {
	has_mode 444 bd_stat
	matches "three columns of eight places" ' {7}0 {8}0 {8}0\$' bd_stat
}

rule ABI-104 "recomp_algorithm: a list for each secondary codec"
absent recomp_algorithm || {
	has_mode 644 recomp_algorithm
	is "none, nothing" 0 "$(wc -c <"$ATTR/recomp_algorithm")"
	for priority in 3 1; do
		writes ok recomp_algorithm "algo=$(algorithms | cut -d ' ' -f $priority) priority=$priority"
	done
	# list N: the list as comp_algorithm has it, with the N-th name chosen.
	list() { awk -v n="$1" '{ for (i = 1; i <= NF; i++) printf i == n ? "[%s] " : "%s ", $i; print "" }'; }
	is "a line each, ascending" "$(algorithms | list 1 | sed 's/^/#1: /')
$(algorithms | list 3 | sed 's/^/#3: /')" "$(tr -d '\0' <"$ATTR/recomp_algorithm")"
	differs SE-2 "no NUL bytes" || is "no NUL bytes (SE-2)" 0 "$(tr -cd '\0' <"$ATTR/recomp_algorithm" | wc -c)"
	echo 1 >"$ATTR/reset"
}
rule ABI-105 "recompress is written only"
absent recompress || {
	has_mode 200 recompress
	is "it can't be read" EACCES "$(rzattr open-read "$ATTR/recompress")"
	writes EINVAL recompress type=idle
}
rule ABI-110 "classes of the pool in debugfs"
own "the file of classes" || {
	CLASSES=/sys/kernel/debug/zsmalloc/$DISK/classes
	set_up 1M
	if [ -d /sys/kernel/debug/zsmalloc ]; then
		is "mode" 444 "$(stat -c %a "$CLASSES")"
		check "it reads" grep -q Total "$CLASSES"
		echo 1 >"$ATTR/reset"
		check "it goes with the pool" [ ! -e "$CLASSES" ]
	else
		skip "the file of classes" "this kernel keeps no such figures"
	fi
}
rule ABI-111 "the shrinker in debugfs"
set_up 1M
if [ -d /sys/kernel/debug/shrinker ]; then
	check "named by the disk" sh -c "ls /sys/kernel/debug/shrinker | grep -q '$DISK-[0-9]*\$'"
else
	skip "named by the disk" "this kernel shows no shrinkers"
fi
[ -z "$loop" ] || losetup -d "$loop"
finish
