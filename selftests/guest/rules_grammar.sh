#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# vm: --kernel uml --mem 1G --cpus 2 --timeout 120
# vm: --kernel debug --mem 1G --cpus 2 --timeout 200
# tier: test
#
# The grammars that attributes take, and what is true of a write to any of them. ABI-1 to 8.

. "$(dirname "$0")/lib.sh"

load
CR='
'
TAB=$(printf '\t')

# limits BYTES TEXT: as a size, TEXT means so many.
limits() {
	writes ok mem_limit 8K
	writes ok mem_limit "$2"
	is "'$2' is $1 bytes" "$1" "$(mm 4)"
}

rule ABI-1 "sizes: radix, suffix, tail, saturation"
for pair in 65536:65536 0x10000:65536 0X1aBc000:28033024 0200000:65536 010000:4096 \
	4k:4096 4K:4096 3m:3145728 3M:3145728 2g:2147483648 2G:2147483648 5t:5497558138880 5T:5497558138880 \
	1p:1125899906842624 1P:1125899906842624 1e:1152921504606846976 1E:1152921504606846976 \
	0x10k:16384 010k:8192 1Mfoo:1048576 1MM:1048576 1GB:1073741824 1.5M:4096 "1 M:4096" 4097foo:8192 \
	08M:0 0:0 0x:0 09:0 1_000M:4096; do
	limits "${pair##*:}" "${pair%:*}"
done
for text in K foo M1 " 1M" "${TAB}1M" -1 +1M .5M "" "$CR"; do
	writes "$([ -n "$text" ] && echo EINVAL || echo ok)" mem_limit "$text"
done
# Without saturation these were some other, possible or impossible size.
each_writes EINVAL disksize 99999999999999999999 18446744073709551616 0x10000000000000001 17E 32769P

rule ABI-2 "decimal numbers, and numbers of any radix"
each_writes ok reset 1 +1 00001 "1$CR" "+1$CR"
each_writes EINVAL reset + - "$CR" "1$CR$CR" " 1" "1 " "1$TAB" 0x1 1K 1.0 ++1 +-1 -1 -0 1x 65536x
each_writes ERANGE reset 65536 4294967297 99999999999999999999 99999999999999999999x
writes EINVAL mem_used_max -0
for pair in -1:ok -2147483648:ok +3:ok 2147483647:ok -2147483649:ERANGE 2147483648:ERANGE -:EINVAL \
	0x3:EINVAL --3:EINVAL; do
	writes "${pair#*:}" algorithm_params "level=${pair%:*}"
done
if [ -e "$ATTR/writeback_limit" ]; then
	writes ok writeback_limit 010
	reads 10 writeback_limit
	writes ok writeback_limit 18446744073709551615
	reads 18446744073709551615 writeback_limit
	writes ok writeback_limit 0
else
	skip "a leading 0 is no octal" "this kernel's $DRIVER has no writeback"
fi
set_up 1M
if [ "$(rzattr write "$ATTR/idle" 8)" = ok ]; then
	for pair in 8:ok 0x8:ok 010:ok +8:ok 0X1f:ok 037777777777:ok 08:EINVAL 0x:EINVAL 8k:EINVAL \
		0xg:EINVAL; do
		writes "${pair#*:}" idle "${pair%:*}"
	done
else
	skip "any radix" "this kernel's $DRIVER knows no times of access"
fi
writes ok reset 1

# is_on VALUE TEXT...: each TEXT sets the switch to VALUE.
is_on() {
	_value=$1
	shift
	for text; do
		writes ok compressed_writeback $((1 - _value))
		writes ok compressed_writeback "$text"
		is "'$text' is $_value" "$_value" "$(cat "$ATTR/compressed_writeback")"
	done
}

rule ABI-3 "switches go by their first letters"
if [ -e "$ATTR/compressed_writeback" ]; then
	is_on 1 y Y yes y2 t T true 1 1x "1 0" e E enable on oN On ON once
	is_on 0 n N no f F false 0 01 d D disable off oF Of OFF often
	each_writes EINVAL compressed_writeback o O ox oo 2 -1 " 1" "$CR" x + maybe
	writes ok compressed_writeback 0
else
	skip "switches" "this kernel's $DRIVER has none"
fi

rule ABI-4 "names match exactly, but for one newline"
name=$(algorithms | cut -d ' ' -f 2)
for text in "$name" "$name$CR"; do
	writes ok comp_algorithm "$text"
	is "'$name' is chosen" "$name" "$(sed -n 's/.*\[\(.*\)\].*/\1/p' "$ATTR/comp_algorithm")"
	writes ok reset 1
done
each_writes EINVAL comp_algorithm "$name " "$name $CR" "$name$CR$CR" " $name" "$CR$name" "$name$TAB" "${name}x" \
	"$(echo "$name" | tr a-z A-Z)" "[$name]" "$(printf %.2s "$name")"
set_up 1M
writes ok idle all
writes ok idle "all$CR"
each_writes EINVAL idle "all " ALL al "all$CR$CR" " all"
writes ok reset 1

rule ABI-5 "lists of key=value"
set_up 1M
writes ok reset 1
printf 'some words, again and again, some words' >"/tmp/a b"
cp "/tmp/a b" /tmp/a=b
each_writes ok algorithm_params " level=1" "$CR$TAB level=1" "level=1$TAB${TAB}priority=0$CR" "priority=0${CR}level=1" \
	'level="1"' 'dict="/tmp/a b"' "dict=/tmp/a=b" nosuch=1 LEVEL=x level2=x "=level=x" "==x" \
	"priority=9 priority=0" "level=2 nosuch=x level=1" "" " " "$CR"
each_writes EINVAL algorithm_params level "level=" "level= 1" nosuch "nosuch=" "=x" "level=1 x" 'level=""' "level =1" \
	"priority=0 priority=9" "level=1,priority=0" "level=1 level=x"
writes ENOENT algorithm_params "dict=/tmp/a b=1"
# What was read is what counts: a level in quotes, after blanks, the last of two.
if algorithms | grep -qw zstd; then
	for text in 'level="100"' "$TAB$CR level=100" "level=1 level=100" "nosuch=x level=100"; do
		echo zstd >"$ATTR/comp_algorithm"
		writes ok algorithm_params "$text"
		writes EINVAL disksize 1M
		writes ok reset 1
	done
	echo zstd >"$ATTR/comp_algorithm"
	writes ok algorithm_params "level=100 level=1"
	writes ok disksize 1M
fi

# everything: all that can be read of the disk, but what moves by itself.
everything() { (cd "$ATTR" && grep -s . -- *) | grep -v '^uevent:\|^last_error:\|^rzram_stat:'; }

rule ABI-6 "a write of nothing does nothing"
set_up 1M
rzio put "$NODE" noise 0 20 >/dev/null
echo 1M >"$ATTR/mem_limit"
everything >/tmp/before
for file in "$ATTR"/*; do
	[ -f "$file" ] || continue
	case $(stat -c %a "$file") in
	200 | 644) writes ok "${file##*/}" "" ;;
	esac
done
is "hot_remove <- '' is ok" ok "$(rzattr write "$CONTROL/hot_remove" "")"
everything >/tmp/after
check "nothing changed" cmp /tmp/before /tmp/after
check "the data is there" rzio check "$NODE" noise 0 20

rule ABI-7 "a write takes at most a page, what is left is another"
writes ok mem_limit "$(printf '%04096d' 0)"
is "a byte more is not taken" short:4096 "$(printf '%04097d' 0 | rzattr write "$ATTR/mem_limit")"
is "5000 bytes are 4096" short:4096 "$(printf '1M%04998d' 0 | rzattr write "$ATTR/mem_limit")"
is "of which the first words count" 1048576 "$(mm 4)"
printf '1M%4094s2M' '' | dd of="$ATTR/mem_limit" bs=8192 iflag=fullblock conv=notrunc status=none
is "a caller that goes on writes another command" 2097152 "$(mm 4)"
is "more than a page of a wrong text is wrong" EINVAL "$(printf 'x%05000d' 0 | rzattr write "$ATTR/mem_limit")"

rule ABI-8 "modes bind root, and absence can be told"
for file in "$ATTR"/*; do
	[ -f "$file" ] || continue
	name=${file##*/}
	case $(stat -c %a "$file") in
	200) is "$name can't be opened for reading" EACCES "$(rzattr open-read "$file")" ;;
	444 | 400) is "$name can't be opened for writing" EACCES "$(rzattr open-write "$file")" ;;
	644)
		is "$name can be opened for both" "ok ok" "$(rzattr open-read "$file") $(rzattr open-write "$file")"
		;;
	esac
done
is "hot_add can't be opened for writing" EACCES "$(rzattr open-write "$CONTROL/hot_add")"
is "hot_remove can't be opened for reading" EACCES "$(rzattr open-read "$CONTROL/hot_remove")"
is "what is not there can't be opened" "ENOENT ENOENT" \
	"$(rzattr open-read "$ATTR/nosuch") $(rzattr open-write "$ATTR/nosuch")"
is "nor made" 1 "$(sh -c ": >$ATTR/nosuch" 2>&1 | grep -c 'Permission denied')"

finish
