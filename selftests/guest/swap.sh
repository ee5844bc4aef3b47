#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# vm: --kernel stock --mem 384M --cpus 2 --timeout 300
# vm: --kernel debug --mem 512M --cpus 2 --timeout 200
# tier: test
#
# Swap under pressure: processes that together hold more than the machine has, each page checked
# when it comes back; overwrites, frees by fault and by unmapping; then nothing may be left. With
# small pages and with huge ones, with every codec that fits the time. The debug tier fills less than
# the machine has. Field case B55: a disk of 100 GiB on a small machine.

. "$(dirname "$0")/lib.sh"

load
echo 100 >/proc/sys/vm/swappiness

# mib COUNT: of so many the tier's share, which is enough to see pages go out.
mib() {
	if short; then
		echo $(($1 / 4 + 4))
	else
		echo "$1"
	fi
}

# swap_with ALGORITHM NAME SWAPFILL-ARGUMENT...
swap_with() {
	algorithm=$1
	name=$2
	shift 2
	set_up 768M "$algorithm"
	check "$name: mkswap" mkswap "$NODE"
	check "$name: swapon" swapon "$NODE"
	check "$name: every page is right" swapfill --seed "$SEED" "$@"
	check "$name: the disk was used ($(io 4) slots freed)" [ "$(io 4)" -gt 1000 ]
	# All of them are gone. Under real pressure others' pages went out as well, and may stay.
	used=$(awk -v node="$NODE" '$1 == node { print $4 * 1024 }' /proc/swaps)
	check "$name: no more is stored ($(mm 1)) than swap has in use ($used)" [ "$(mm 1)" -le $((used + 4096)) ]
	check "$name: swapoff" swapoff "$NODE"
	is "$name: no failed requests, no missed free" "0 0 0" \
		"$(io 1) $(io 2) $(awk 'NR == 2 { print $2 }' "$ATTR/debug_stat")"
	discard_all_is_zero "$name"
}

swap_with lz4 "more than the machine has" --procs 3 --mib "$(mib 110)" --rounds $SCALE
swap_with lz4 "huge pages" --procs 2 --mib "$(mib 40)" --rounds $SCALE --huge
for algorithm in $(algorithms | tr ' ' '\n' | grep -v '^lz4$' | head -n "$(work 2)"); do
	swap_with "$algorithm" "$algorithm" --procs 2 --mib "$(mib 24)" --rounds $SCALE
done

# With discard: everything but the first page is discarded at swapon.
set_up 256M
check "mkswap" mkswap "$NODE"
check "swapon with discard" swapon -d "$NODE"
check "notify_free counts the discarded slots" [ "$(io 4)" -ge 65535 ]
check "with discard: every page is right" swapfill --seed "$SEED" --procs 2 --mib "$(mib 24)" --rounds $SCALE
check "swapoff" swapoff "$NODE"
discard_all_is_zero "with discard"

# Swapoff brings everything back while the owner holds it.
set_up 256M
mkswap "$NODE" >/dev/null
swapon "$NODE"
swapfill --seed "$SEED" --procs 1 --mib "$(mib 48)" --rounds "$(work 4)" >/tmp/fill 2>&1 &
filler=$!
check "pages go out" wait_for 60 sh -c "[ \$(awk '{ print \$1 }' $ATTR/mm_stat) -gt $(($(mib 48) * 400000)) ]"
check "swapoff under use" swapoff "$NODE"
wait "$filler"
is "every page is right after swapoff" 0 "$?"
discard_all_is_zero "after swapoff"

# B55: the table of a large disk costs nothing until it is written.
before=$(awk '/^MemAvailable/ { print $2 }' /proc/meminfo)
rule CM-7 "100 GiB on a small machine"
differs SE-28 "B55: 100 GiB on a small machine" || {
	writes ok reset 1
	writes ok disksize 107374182400
	writes ok mem_limit 1M
	after=$(awk '/^MemAvailable/ { print $2 }' /proc/meminfo)
	check "B55: it costs less than 16 MiB ($((before - after)) KiB)" [ $((before - after)) -lt 16384 ]
	check "B55: mkswap" mkswap "$NODE"
	check "B55: swapon" swapon "$NODE"
	check "B55: swapoff" swapoff "$NODE"
	is "B55: first and last page" "ok ok" "$(rzio put "$NODE" word 0 1 >/dev/null && echo ok) \
$(rzio put "$NODE" word 26214399 1 >/dev/null && rzio check "$NODE" word 26214399 1 >/dev/null && echo ok)"
	check "B55: discard of all of it" blkdiscard "$NODE"
	is "B55: nothing is left" "0 0 0" "$(mm 1 2 3)"
}

finish
