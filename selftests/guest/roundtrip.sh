#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# vm: --kernel uml --mem 1G --cpus 2 --timeout 240
# vm: --kernel debug --mem 1G --cpus 2 --timeout 200
# tier: test
#
# Direct requests of 4 KiB to 1 MiB from and into memory at every 512-byte offset, one vector or
# many, against a byte model, with every codec. C zram corrupts data and memory here (SE-1): on it
# only whole pages are tried, and one test shows that the program finds the fault.

. "$(dirname "$0")/lib.sh"
SHORT_LINES=1000

load
first=y
for algorithm in $(codecs); do
	set_up 64M "$algorithm" || skip "$algorithm" "can't be set up"
	if [ -n "$first" ]; then
		check "B21: $algorithm: all offsets, lengths, shapes" rzio sweep "$NODE" $ALIGNED
		on_c && refuses "C zram is caught (SE-1)" rzio sweep "$NODE"
	fi
	check "B21: $algorithm: random requests" rzio random "$NODE" --seed "$SEED" --span 2048 \
		--ops "$(work 1500)" $ALIGNED
	first=
	is "$algorithm: no failed requests" "0 0" "$(io 1) $(io 2)"
	discard_all_is_zero "$algorithm"
done
# A span of a few pages: the same slots over and over.
set_up 64M
check "random requests on 8 pages" rzio random "$NODE" --seed "$SEED" --span 8 \
	--ops "$(work 4000)" $ALIGNED
discard_all_is_zero "8 pages"
# The last pages of a disk of odd size.
set_up 4100K
check "random requests on a whole small disk" rzio random "$NODE" --seed "$SEED" --span 1025 \
	--ops "$(work 1500)" $ALIGNED
discard_all_is_zero "small disk"

finish
