#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# vm: --kernel uml --mem 1G --cpus 2 --timeout 120
# vm: --kernel debug --mem 1G --cpus 2 --timeout 200
# tier: test
#
# The codecs' list, choice and parameters. ABI-170 to 172, 179, 180, 185 to 196; the ranges of each
# codec are in codecs.sh.

. "$(dirname "$0")/lib.sh"

load
CR='
'
DICT=/tmp/dict
dd if=/bin/sh of=$DICT bs=4096 count=4 2>/dev/null
chosen() { sed -n 's/.*\[\(.*\)\].*/\1/p' "$ATTR/comp_algorithm"; }
has() { algorithms | tr ' ' '\n' | grep -qx "$1"; }
params() { writes "$1" algorithm_params "$2"; }
recomp() { writes "$1" recomp_algorithm "$2"; }
default=$(chosen)

rule ABI-170 "the codecs in their fixed order, whatever modules are loaded"
is "order" "$(for name in lzo-rle lzo lz4 lz4hc zstd deflate 842; do algorithms | tr ' ' '\n' | grep -x -e "$name"; done | xargs)" \
	"$(algorithms | xargs)"
is "lzo and lzo-rle together" "$(has lzo && echo y)" "$(has lzo-rle && echo y)"
before=$(cut -d ' ' -f 1 /proc/modules | sort | xargs)
for name in $(algorithms); do
	writes ok comp_algorithm "$name"
	writes ok disksize 1M
	writes ok reset 1
done
is "no module came by choosing one" "$before" "$(cut -d ' ' -f 1 /proc/modules | sort | xargs)"

rule ABI-171 "the default"
is "lz4, as on Debian" lz4 "$default"
rzattr read "$CONTROL/hot_add" >/dev/null
is "of another device, too" lz4 "$(sed -n 's/.*\[\(.*\)\].*/\1/p' "/sys/block/${NAME}1/comp_algorithm")"

rule ABI-172 "chosen by name, for one device, while it has no size"
last=$(algorithms | xargs -n 1 | grep -vx "$default" | tail -n 1)
writes ok comp_algorithm "$last"
is "the other device is not meant" "$last $default" "$(chosen) $(sed -n 's/.*\[\(.*\)\].*/\1/p' "/sys/block/${NAME}1/comp_algorithm")"
writes EINVAL comp_algorithm "$(printf '%0127d' 0)"
writes EINVAL comp_algorithm "$(printf '%0126d' 0)$CR"
writes E2BIG comp_algorithm "$(printf '%0128d' 0)"
writes E2BIG comp_algorithm "$(printf '%0127d' 0)$CR"
is "errors change nothing" "$last" "$(chosen)"
writes ok disksize 1M
writes EBUSY comp_algorithm "$default"
is "nor does a choice that comes late" "$last" "$(chosen)"
echo 1 >"$CONTROL/hot_remove"

# late CODEC PARAMETERS ERRNO: taken when written, refused by the size, with a line in the log.
late() {
	has "$1" || {
		skip "$1 $2" "this kernel has no $1"
		return
	}
	writes ok reset 1
	writes ok comp_algorithm "$1"
	params ok "$2"
	dmesg -C 2>/dev/null
	writes "$3" disksize 1M
	check "the log has a reason" sh -c "dmesg | grep -q ."
}
rule ABI-179 "parameters are judged when the size is set, and the log has the reason"
late zstd level=23 EINVAL
late lz4 level=0 EINVAL
late lz4hc level=17 EINVAL
late deflate level=10 EINVAL
late deflate dict=$DICT EOPNOTSUPP
late lzo level=1 EOPNOTSUPP

rule ABI-180 "a level of -2147483648 is none; window bits are deflate's alone"
for name in $(codecs); do
	writes ok reset 1
	writes ok comp_algorithm "$name"
	params ok "level=100000 priority=0"
	params ok level=-2147483648
	[ "$name" = deflate ] || params ok "level=-2147483648 deflate.winbits=77"
	writes ok disksize 1M
	check "$name: data" sh -c "rzio put $NODE text 0 20 && rzio check $NODE text 0 20"
done
writes ok reset 1

rule ABI-185 "the words of algorithm_params"
each_writes ok algorithm_params priority=0 level=1 algo=lz4 dict=$DICT deflate.winbits=-11 deflate.winbits=3 nosuch=1 "nosuch=1 level=1"
each_writes EINVAL algorithm_params priority level algo dict deflate.winbits "priority=" "level=" "algo=" "dict=" "deflate.winbits=" nosuch \
	priority=x level=x level=1x level=0x1 deflate.winbits=x priority=1.0
each_writes ERANGE algorithm_params priority=2147483648 level=2147483648 level=-2147483649 deflate.winbits=99999999999
rule ABI-186 "first the words, then the state, then the target"
writes ok disksize 1M
params EINVAL level=x
params ERANGE level=2147483648
params EINVAL nosuch
params EBUSY priority=9
params EBUSY algo=nosuch
params EBUSY dict=/nosuch
writes ok reset 1
params EINVAL "priority=9 dict=/nosuch"
params EINVAL "algo=nosuch dict=/nosuch"

multi=
[ ! -e "$ATTR/recomp_algorithm" ] || multi=y
# goes_to PRIORITY TEXT: a level that zstd refuses goes to that priority, which alone has zstd.
goes_to() {
	writes ok reset 1
	echo lz4 >"$ATTR/comp_algorithm"
	for _priority in 1 2; do
		echo "algo=lz4 priority=$_priority" >"$ATTR/recomp_algorithm"
	done
	if [ "$1" -eq 0 ]; then
		echo zstd >"$ATTR/comp_algorithm"
	else
		echo "algo=zstd priority=$1" >"$ATTR/recomp_algorithm"
	fi
	params ok "$2 level=50"
	writes EINVAL disksize 1M
}
rule ABI-187 "which codec is meant: by priority, by name, by both"
params EINVAL priority=4
params EINVAL priority=-1
params EINVAL algo=nosuch
params EINVAL "algo=zstd"
params EINVAL "algo=lz 4=4"
params ok algo=lz4
params EINVAL "algo=zstd priority=0"
params ok "algo=lz4 priority=0"
if [ -n "$multi" ] && has zstd; then
	params ok "priority=3 level=1"
	params EINVAL "algo=lz4 priority=3"
	goes_to 0 ""
	goes_to 0 priority=0
	goes_to 2 priority=2
	goes_to 2 algo=zstd
	goes_to 1 "algo=zstd priority=1"
	goes_to 3 algo=zstd
	# The lowest priority of a name is meant: lz4, at 0, takes this level; zstd would not.
	writes ok reset 1
	recomp ok "algo=zstd priority=1"
	recomp ok "algo=zstd priority=2"
	params ok "algo=zstd level=50"
	recomp ok "algo=zstd priority=1"
	writes ok disksize 1M
else
	skip "secondary codecs" "this kernel's $DRIVER has none, or no zstd"
	params EINVAL priority=1
fi
writes ok reset 1

rule ABI-188 "each write replaces all parameters"
if has zstd; then
	for text in "deflate.winbits=9" "priority=0" "" " " "$CR" "dict=$DICT" "nosuch=1"; do
		echo zstd >"$ATTR/comp_algorithm"
		params ok level=50
		[ -n "$text" ] || text="  "
		params ok "$text"
		writes ok disksize 1M
		writes ok reset 1
	done
else
	skip "parameters that are replaced" "this kernel has no zstd"
fi

rule ABI-189 "a dictionary is read when it is written"
: >$DICT.empty
params ENOENT dict=/nosuch
params EINVAL "dict=$DICT.empty"
params EINVAL dict=/tmp
params EINVAL dict=/dev/null
params ENOTDIR "dict=$DICT/x"
exec 4>>$DICT.empty
printf text >&4
params ETXTBSY "dict=$DICT.empty"
exec 4>&-
params ok "dict=$DICT.empty"
truncate -s 2147483648 /tmp/large
# What opens without room for large offsets stops at the door.
params "EFBIG|EOVERFLOW" dict=/tmp/large
rm /tmp/large
if has zstd; then
	cp $DICT $DICT.gone
	echo zstd >"$ATTR/comp_algorithm"
	params ok "dict=$DICT.gone"
	rm $DICT.gone
	writes ok disksize 1M
	check "it may go then" sh -c "rzio put $NODE text 0 20 && rzio check $NODE text 0 20"
	writes ok reset 1
	echo zstd >"$ATTR/comp_algorithm"
	params ok level=50
	params ENOENT dict=/nosuch
	if on_c; then
		writes ok disksize 1M
	else
		writes EINVAL disksize 1M
		passed "parameters outlive a dictionary that can't be read (SE-19)"
	fi
	writes ok reset 1
fi

rule ABI-190 "choosing a codec forgets its parameters"
if has zstd; then
	echo zstd >"$ATTR/comp_algorithm"
	params ok level=50
	echo zstd >"$ATTR/comp_algorithm"
	writes ok disksize 1M
	writes ok reset 1
	if [ -n "$multi" ]; then
		recomp ok "algo=zstd priority=2"
		params ok "priority=2 level=50"
		echo lz4 >"$ATTR/comp_algorithm"
		recomp ok "algo=zstd priority=1"
		writes EINVAL disksize 1M
		writes ok reset 1
		recomp ok "algo=zstd priority=2"
		params ok "priority=2 level=50"
		recomp ok "algo=zstd priority=2"
		writes ok disksize 1M
		writes ok reset 1
	fi
else
	skip "parameters that are forgotten" "this kernel has no zstd"
fi

rule ABI-195 "recomp_algorithm: its words, and the order of checks"
if [ -n "$multi" ]; then
	long=$(printf '%0128d' 0)
	for text in algo priority "algo=" "priority=" "priority=1" "priority=x algo=lz4" "algo=lz4 priority=0" \
		"algo=lz4 priority=4" "algo=lz4 priority=-1" algo=nosuch nosuch "algo=lz4 nosuch" "" " "; do
		[ -n "$text" ] && recomp EINVAL "$text"
	done
	recomp ERANGE "algo=lz4 priority=2147483648"
	recomp ERANGE "algo=$long priority=2147483648"
	recomp EINVAL "algo=$long priority=9"
	recomp E2BIG "algo=$long"
	recomp ok "algo=lz4 nosuch=1$CR"
	is "priority 1 by default" "#1:" "$(tr -d '\0' <"$ATTR/recomp_algorithm" | cut -d ' ' -f 1)"
	writes ok disksize 1M
	recomp EINVAL "algo=lz4 priority=9"
	recomp E2BIG "algo=$long"
	recomp EINVAL algo=nosuch
	recomp EBUSY algo=lz4
	writes ok reset 1
else
	skip "recomp_algorithm" "this kernel's $DRIVER has none"
fi

# lines: priority and choice of each line.
lines() { tr -d '\0' <"$ATTR/recomp_algorithm" | sed -n 's/^#\([0-9]\): .*\[\(.*\)\].*/\1=\2/p' | xargs; }
rule ABI-196 "three secondary codecs at most, with gaps, the same one more than once"
if [ -n "$multi" ]; then
	other=$(algorithms | xargs -n 1 | grep -vx lz4 | tail -n 1)
	recomp ok "algo=lz4 priority=3"
	is "a gap" "3=lz4" "$(lines)"
	recomp ok "algo=lz4 priority=1"
	recomp ok "algo=$other priority=2"
	is "all three" "1=lz4 2=$other 3=lz4" "$(lines)"
	recomp ok "algo=$other priority=1"
	is "replaced" "1=$other 2=$other 3=lz4" "$(lines)"
	writes ok disksize 1M
	is "they stay with a size" "1=$other 2=$other 3=lz4" "$(lines)"
	writes ok reset 1
	is "only reset takes them away" "" "$(lines)"
else
	skip "secondary codecs" "this kernel's $DRIVER has none"
fi
finish
