#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# vm: --kernel uml --mem 1G --cpus 2 --timeout 120
# vm: --kernel debug --mem 1G --cpus 2 --timeout 200
# tier: test
#
# How swap drives the disk, page by page: one process sends its pages out by madvise and brings them
# back, and counts what reached the disk. ABI-80, 151 to 161.

. "$(dirname "$0")/lib.sh"

load

# steps DISK PAGES ZEROES: prints what each step added to the counters, as NAME KEY=VALUE...
cat >/tmp/steps.py <<-'END'
	import mmap, sys, time
	disk, pages, zeroes = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
	PAGEOUT = 21

	def columns(name):
	    return [int(word) for word in open(f"/sys/block/{disk}/{name}").read().split()]

	def counters():
	    stat, vm = columns("stat"), dict(line.split() for line in open("/proc/vmstat"))
	    return {"out": int(vm["pswpout"]), "zero": int(vm["swpout_zero"]), "reads": stat[0], "read_sectors": stat[2],
	            "writes": stat[4], "write_sectors": stat[6], "notify": columns("io_stat")[3],
	            "stored": columns("mm_stat")[0] // 4096}

	before = counters()

	def step(name):
	    global before
	    now = counters()
	    print(name, *(f"{key}={now[key] - before[key]}" for key in now))
	    before = now

	def content(page):
	    return (b"page %d of many, " % page * 300)[:4096] if page < pages else bytes(4096)

	area = mmap.mmap(-1, (pages + zeroes) * 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
	for page in range(pages + zeroes):
	    area[page * 4096:page * 4096 + 4096] = content(page)
	step("fill")
	area.madvise(PAGEOUT)
	step("pageout")
	middle = pages // 2 * 4096
	first = area[middle]
	step("read")
	area[middle + 8192] = area[middle + 8192 + 16]
	step("write")
	bad = 0
	for page in range(0, pages + zeroes, 2):
	    at = page * 4096
	    bad += area[at + 100:at + 4096] != content(page)[100:]
	print("wrong", bad)
	step("half")
	area.close()
	for _ in range(40):
	    if counters()["stored"] <= before["stored"] - pages // 2 + 2:
	        break
	    time.sleep(0.05)
	step("close")
END
# of STEP KEY: what that step added.
of() { awk -v step="$1" -v key="$2" '$1 == step { for (i = 2; i <= NF; i++) if (split($i, a, "=") && a[1] == key) print a[2] }' /tmp/steps; }

echo 3 >/proc/sys/vm/page-cluster
PAGES=256
ZEROES=32
rule ABI-155 "swapon: exclusive, without seek costs, discards all but the first page when asked"
set_up 64M
mkswap -L label "$NODE" >/dev/null
dmesg -C 2>/dev/null
check "swapon" swapon -d "$NODE"
is "all but the first page was discarded" 16383 "$(io 4)"
is "the first page is there" label "$(blkid -p -s LABEL -o value "$NODE")"
check "the log says: no seek costs (SS)" sh -c "dmesg | grep '$NODE' | grep -q ' SS'"
is "nobody else may have it" "EBUSY EBUSY" "$(rzattr write "$ATTR/reset" 1) $(rzattr write "$CONTROL/hot_remove" 0)"
refuses "nor mount it" mount -t ext4 "$NODE" /mnt
swapoff "$NODE"

set_up 64M
mkswap "$NODE" >/dev/null
swapon "$NODE"
python3 /tmp/steps.py "$DISK" $PAGES $ZEROES >/tmp/steps 2>&1
sed 's/^/# /' /tmp/steps
rule ABI-156 "a page out is one request, which is done when submitted"
is "pages, requests, sectors" "$PAGES $PAGES $((PAGES * 8))" "$(of pageout out) $(of pageout writes) $(of pageout write_sectors)"
is "all are stored" $PAGES "$(of pageout stored)"
rule ABI-157 "pages of zeroes are never written"
is "swap kept them by itself" $ZEROES "$(of pageout zero)"
rule ABI-158 "a page in is one request, and no more pages come with it"
is "reading one page" "1 8" "$(of read reads) $(of read read_sectors)"
is "writing to one" "1 8" "$(of write reads) $(of write read_sectors)"
is "half of all, each its own" "$((PAGES / 2 - 2)) $((PAGES * 4 - 16))" "$(of half reads) $(of half read_sectors)"
is "all of them are right" 0 "$(awk '$1 == "wrong" { print $2 }' /tmp/steps)"
rule ABI-80 "the disk is known as synchronous: swap does not read ahead"
is "page-cluster asks for 8 pages, and one is read" "3 1" "$(cat /proc/sys/vm/page-cluster) $(of read reads)"
rule ABI-160 "a page that came in frees its slot at once"
is "after a read" "1 -1" "$(of read notify) $(of read stored)"
is "after a write" "1 -1" "$(of write notify) $(of write stored)"
rule ABI-151 "one notify for each entry that swap frees"
total=$(($(of read notify) + $(of write notify) + $(of half notify) + $(of close notify)))
is "pages and zeroes, each once" $((PAGES + ZEROES)) "$total"
rule ABI-152 "a notify frees its slot, and counts whether or not there was anything"
is "nothing is left of them" "-$PAGES" \
	"$(($(of read stored) + $(of write stored) + $(of half stored) + $(of close stored)))"
check "zeroes counted, too" [ "$total" -gt $PAGES ]
rule ABI-153 "frees that were missed"
missed=$(awk 'NR == 2 { print $2 }' "$ATTR/debug_stat")
if on_c; then
	check "the number of them ($missed)" [ "$missed" -ge 0 ]
else
	for _ in 1 2 3; do
		python3 /tmp/steps.py "$DISK" $PAGES 0 >/dev/null &
	done
	wait
	is "rzram misses none, also with three at once" 0 "$(awk 'NR == 2 { print $2 }' "$ATTR/debug_stat")"
fi

rule ABI-161 "what cannot be written stays in memory, and the log tells"
echo 4096 >"$ATTR/mem_limit"
rzio put "$NODE" noise 16000 1 >/dev/null 2>&1
dmesg -C 2>/dev/null
python3 /tmp/steps.py "$DISK" $PAGES 0 >/tmp/steps 2>&1
check "some could not go out ($(io 2) failed)" [ "$(io 2)" -gt 0 ]
is "all are right" 0 "$(awk '$1 == "wrong" { print $2 }' /tmp/steps)"
check "the log names the device" sh -c "dmesg | grep -q 'Write-error on swap-device'"
echo 0 >"$ATTR/mem_limit"
python3 /tmp/steps.py "$DISK" $PAGES 0 >/tmp/steps 2>&1
is "with memory they go out again" "$PAGES 0" "$(of pageout out) $(awk '$1 == "wrong" { print $2 }' /tmp/steps)"
swapoff "$NODE"

rule ABI-154 "no notify for swap in a file"
set_up 64M
mkdir -p "$MNT"
mkfs.ext4 -qF -E nodiscard,lazy_itable_init=0,lazy_journal_init=0 "$NODE"
mount "$NODE" "$MNT"
dd if=/dev/zero of="$MNT/swap" bs=1M count=16 status=none
chmod 600 "$MNT/swap"
mkswap "$MNT/swap" >/dev/null
sync
before=$(io 4)
check "swapon of a file" swapon "$MNT/swap"
python3 /tmp/steps.py "$DISK" $PAGES 0 >/tmp/steps 2>&1
is "pages went out and are right" "$PAGES 0" "$(of pageout out) $(awk '$1 == "wrong" { print $2 }' /tmp/steps)"
is "no slot was freed" "$before" "$(io 4)"
swapoff "$MNT/swap"
umount "$MNT"

finish
