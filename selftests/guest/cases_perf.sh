#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# vm: --kernel uml --mem 1G --cpus 2 --timeout 200
# tier: full
#
# Field cases about speed, beside C zram in the same guest, by wide margins: B79 (one lock for the
# pool) and B81 (reading statistics). Measuring proper is bench/'s.

. "$(dirname "$0")/lib.sh"

! on_c || skip_all "both drivers are compared"
modprobe zram || skip_all "this kernel has no zram to compare with"
load
# run DISK: milliseconds that two writers and readers take.
run() {
	echo 1 >"/sys/block/$1/reset"
	echo lz4 >"/sys/block/$1/comp_algorithm"
	echo 256M >"/sys/block/$1/disksize"
	_begin=$(date +%s%N)
	fio --name=w --filename="/dev/$1" --rw=randrw --size=128M --bs=4k --direct=1 --numjobs=2 --offset_increment=128M \
		--randseed="$SEED" --minimal --buffer_compress_percentage=60 --refill_buffers >/dev/null || echo "# fio failed"
	echo $((($(date +%s%N) - _begin) / 1000000))
}
best_c=999999
best=999999
for _ in 1 2 3 4 5; do
	took=$(run zram0)
	[ "$took" -ge "$best_c" ] || best_c=$took
	took=$(run rzram0)
	[ "$took" -ge "$best" ] || best=$took
done
check "B79: two CPUs in one pool: $best ms, C zram $best_c ms" [ "$best" -le $((best_c * 14 / 10)) ]

# reads DISK: microseconds of CPU for 3000 reads of mm_stat.
reads() {
	python3 -c '
import os, sys
begin = os.times()
for _ in range(3000):
    with open(sys.argv[1], "rb", buffering=0) as file:
        file.read()
end = os.times()
print(int((end.user + end.system - begin.user - begin.system) * 1e6))' "/sys/block/$1/mm_stat"
}
set_up 1G
empty=$(reads rzram0)
rzio put "$NODE" word 0 200000 >/dev/null
full=$(reads rzram0)
check "B81: statistics of 200000 slots cost what those of none do: $full us, $empty us" [ "$full" -le $((empty * 3 / 2 + 20000)) ]
echo 1 >/sys/block/zram0/reset
rmmod zram
finish
