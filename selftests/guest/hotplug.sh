#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# vm: --kernel stock --mem 1G --cpus 2 --timeout 240
# vm: --kernel debug --mem 1G --cpus 2 --timeout 200
# tier: test
#
# CPU 1 goes and comes every tenth of a second under verified load, with a codec that keeps state and
# with one that does not, and with streams held in the long way: no stream is used after its CPU died,
# and a CPU without a stream borrows.

. "$(dirname "$0")/lib.sh"
SHORT_LINES=1000

CPU=/sys/devices/system/cpu/cpu1/online
[ -e $CPU ] || skip_all "CPU 1 cannot be taken off"
SECONDS_EACH="$(work 6)"

# toggle: until it is killed.
toggle() {
	while :; do
		echo 0 >$CPU
		sleep 0.1
		echo 1 >$CPU
		sleep 0.1
	done
}

torture() {
	set_up 64M "$1"
	in_background toggle
	_end=$(($(date +%s) + SECONDS_EACH))
	_rounds=0
	while [ "$(date +%s)" -lt $_end ]; do
		# shellcheck disable=SC2086
		check "$2 $1: round $_rounds" rzio race "$NODE" --seed $((SEED + _rounds)) --ops 400 \
			--threads 4 --span 512 $ALIGNED
		_rounds=$((_rounds + 1))
	done
	kill "$background"
	wait "$background" 2>/dev/null
	echo 1 >$CPU 2>/dev/null || :
	is "$2 $1: CPU 1 is back" 1 "$(cat $CPU)"
	check "$2 $1: I/O on CPU 1" taskset -c 1 rzio put "$NODE" text 0 64
	check "$2 $1: and back" taskset -c 1 rzio check "$NODE" text 0 64
	is "$2 $1: no failed requests" "0 0" "$(io 1) $(io 2)"
	discard_all_is_zero "$2 $1"
}

# B15, B19: devices are made while the CPU goes and comes; one that has just come has no stream yet.
make_devices() {
	in_background toggle
	_wrong=0
	for _round in $(seq $((4 * SCALE))); do
		for _algorithm in $(algorithms); do
			set_up 16M "$_algorithm" || _wrong=$((_wrong + 1))
		done
	done
	kill "$background"
	wait "$background" 2>/dev/null
	echo 1 >$CPU 2>/dev/null || :
	is "B15: devices made while CPU 1 goes and comes" 0 "$_wrong"
	set_up 16M zstd
	_wrong=0
	for _round in $(seq $((10 * SCALE))); do
		echo 0 >$CPU
		echo 1 >$CPU
		taskset -c 1 rzio put "$NODE" text 0 8 --generation "$_round" >/dev/null || _wrong=$((_wrong + 1))
		taskset -c 1 rzio check "$NODE" text 0 8 --generation "$_round" >/dev/null || _wrong=$((_wrong + 1))
	done
	is "B19: I/O on a CPU that has just come" 0 "$_wrong"
	discard_all_is_zero "B19"
}

load
make_devices
torture lz4 "B17: auto"
torture zstd "B17: auto"
if ! on_c; then
	echo 1 >"$ATTR/reset"
	unload
	load stream_hold=2
	torture zstd "B17: long"
fi
finish
