#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# vm: --kernel uml --mem 1G --cpus 2 --timeout 240
# vm: --kernel debug --mem 1G --cpus 2 --timeout 200
# tier: test
#
# Every kind of content: zero, same-filled, incompressible, text, and pages of every stored length,
# which reach every size class and every way of lying in a chain. With every codec; the counters of
# mm_stat are asked too.

. "$(dirname "$0")/lib.sh"

load
for algorithm in $(codecs); do
	set_up 64M "$algorithm"
	check "$algorithm: every stored length" rzio classes "$NODE"
	discard_all_is_zero "$algorithm, lengths"

	set_up 64M "$algorithm"
	generation=0
	for kind in zero word noise text sized:32 sized:4096; do
		check "$algorithm: $kind written" rzio put "$NODE" $kind 0 256 --generation $generation
		check "$algorithm: $kind read" rzio check "$NODE" $kind 0 256 --generation $generation
		is "$algorithm: $kind stored" 1048576 "$(mm 1)"
		case $kind in
		zero | word) is "$algorithm: $kind takes no memory" "0 0 256 0" "$(mm 2 3 6 8)" ;;
		noise) is "$algorithm: $kind is raw" "1048576 1048576 0 256" "$(mm 2 3 6 8)" ;;
		sized:4096) is "$algorithm: $kind is raw" "1048576 0 256 512" "$(mm 2 6 8 9)" ;;
		*) is "$algorithm: $kind is compressed" "1 0 0" "$([ "$(mm 2)" -lt 600000 ] && echo 1) $(mm 6 8)" ;;
		esac
		generation=$((generation + 1))
	done

	# Each kind over each kind leaves nothing of the old one.
	for old in zero word noise sized:700; do
		for new in zero word noise sized:2500; do
			rzio put "$NODE" $old 300 8 --generation 1 >/dev/null
			rzio put "$NODE" $new 300 8 --generation 2 >/dev/null
			check "$algorithm: $new over $old" rzio check "$NODE" $new 300 8 --generation 2
		done
	done
	discard_all_is_zero "$algorithm, kinds"

	# Holes: discard and zeroout of some among others.
	check "$algorithm: 256 pages" rzio put "$NODE" text 0 256
	check "$algorithm: discard in the middle" rzio discard "$NODE" 64 32
	check "$algorithm: zeroout in the middle" rzio zeroout "$NODE" 160 32
	for part in "text 0 64" "zero 64 32" "text 96 64" "zero 160 32" "text 192 64"; do
		# shellcheck disable=SC2086
		check "$algorithm: $part" rzio check "$NODE" $part
	done
	is "$algorithm: 192 are stored" $((192 * 4096)) "$(mm 1)"
	discard_all_is_zero "$algorithm, holes"
	is "$algorithm: no failed requests" "0 0" "$(io 1) $(io 2)"
done

finish
