#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# vm: --kernel uml --mem 1G --cpus 2 --timeout 300
# vm: --kernel debug --mem 1G --cpus 2 --timeout 200
# tier: test
#
# Codec parameters: levels at their edges, dictionaries, window bits; every accepted set round-trips
# pages of every stored length, every refused one has the right errno and costs no configuration.

. "$(dirname "$0")/lib.sh"

DICT=/tmp/dict
has() { algorithms | tr ' ' '\n' | grep -qx "$1"; }

# params OUTCOME TEXT: what one write to algorithm_params gives.
params() { writes "$1" algorithm_params "$2"; }

# sized OUTCOME: what giving the device a size gives.
sized() {
	writes "$1" disksize 64M
	[ "$1" = ok ] || reads "$(printf '0\n')" disksize
}

fresh() { echo 1 >"$ATTR/reset" && echo "$1" >"$ATTR/comp_algorithm"; }

# stored_lengths: pages of every stored length, or of a few; $lengths says which.
lengths="every stored length"
! short || lengths="some stored lengths"
stored_lengths() {
	if short; then
		rzio put "$NODE" text 0 16 && rzio put "$NODE" sized:2600 20 4 &&
			rzio check "$NODE" text 0 16 && rzio check "$NODE" sized:2600 20 4
	else
		rzio classes "$NODE"
	fi
}

# takes ALGORITHM TEXT: the parameters are accepted, and pages come back as they were.
takes() {
	has "$1" || {
		skip "$1 $2" "this kernel has no $1"
		return
	}
	fresh "$1"
	params ok "$2"
	sized ok
	check "$1 $2: $lengths" stored_lengths
	is "$1 $2: no failed requests" "0 0" "$(io 1) $(io 2)"
	discard_all_is_zero "$1 $2"
}

# refuses_at_size ERRNO ALGORITHM TEXT: accepted as words, refused when the size is set, and then
# the same again: the configuration is kept.
refuses_at_size() {
	has "$2" || {
		skip "$2 $3" "this kernel has no $2"
		return
	}
	fresh "$2"
	params ok "$3"
	sized "$1"
	if ! differs "SE-6" "$2 stays chosen after the failure"; then
		check "$2 stays chosen after the failure" grep -q "\[$2\]" "$ATTR/comp_algorithm"
		sized "$1"
	fi
	params ok "level=-2147483648"
	sized ok
}

load
dd if=/bin/sh of=$DICT bs=4096 count=4 2>/dev/null
: >$DICT.empty

rule ABI-174 "the parameters of lz4"
takes lz4 level=1
takes lz4 level=2147483647
takes lz4 "dict=$DICT"
refuses_at_size EINVAL lz4 level=0
refuses_at_size EINVAL lz4 level=-1
rule ABI-175 "of lz4hc"
takes lz4hc level=1
takes lz4hc level=16
takes lz4hc "level=9 dict=$DICT"
refuses_at_size EINVAL lz4hc level=0
refuses_at_size EINVAL lz4hc level=17
rule ABI-176 "of zstd"
takes zstd level=-131072
takes zstd level=0
takes zstd level=22
takes zstd "level=3 dict=$DICT"
refuses_at_size EINVAL zstd level=23
refuses_at_size EINVAL zstd level=-131073
rule ABI-177 "of deflate"
takes deflate level=0
takes deflate level=9
takes deflate "level=-1 deflate.winbits=-15"
takes deflate deflate.winbits=15
refuses_at_size EINVAL deflate level=10
refuses_at_size EINVAL deflate deflate.winbits=8
refuses_at_size EOPNOTSUPP deflate "dict=$DICT"
rule ABI-173 "lzo and lzo-rle have none"
refuses_at_size EOPNOTSUPP lzo level=1
refuses_at_size EOPNOTSUPP lzo-rle "dict=$DICT"
rule ABI-178 "nor has 842"
refuses_at_size EOPNOTSUPP 842 level=1

rule "ABI-174 ABI-175 SE-19" "dictionaries"
# lz4 takes 8 to 65536 bytes; lz4hc no more than that.
head -c 7 $DICT >$DICT.7
refuses_at_size EINVAL lz4 "dict=$DICT.7"
head -c 65537 /dev/zero >$DICT.big
refuses_at_size EINVAL lz4 "dict=$DICT.big"
differs "SE-19" "lz4hc refuses a dictionary above 64 KiB" ||
	refuses_at_size EINVAL lz4hc "dict=$DICT.big"

rule
# Words, targets and the order of checks: see also rules_codecs.sh.
fresh lz4
params EINVAL level
params EINVAL level=
params EINVAL level=x
params ERANGE level=2147483648
params ok nonsense=1
params EINVAL priority=4
params EINVAL priority=-1
params EINVAL algo=nosuch
params EINVAL "algo=zstd priority=0"
params ok "algo=lz4 priority=0 level=2"
params ENOENT dict=/nosuch
params EINVAL "dict=$DICT.empty"
params EINVAL dict=/tmp
if ! differs "SE-19" "an unreadable dictionary costs no parameters"; then
	params ok level=0
	params ENOENT dict=/nosuch
	sized EINVAL
fi
params ok ""
params ok " "
sized ok
params EBUSY level=1
params EINVAL level=x

finish
