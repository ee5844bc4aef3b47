#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# vm: --kernel uml --mem 1G --cpus 2 --timeout 120
# vm: --kernel debug --mem 1G --cpus 2 --timeout 200
# tier: test
#
# What can be seen of the pool. Most of it is inside C zram's, and tested there only, so that what is
# said of it stays true; of rzram's own pool what any pool must do. ABI-301 to 327.

. "$(dirname "$0")/lib.sh"

load
mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug
CLASSES=/sys/kernel/debug/zsmalloc/$DISK/classes
set_up 64M lz4
put() { taskset -c 0 rzio put "$NODE" "$@" >/dev/null; }
# hidden NAME: true, and a skip, if this pool's classes can't be seen.
hidden() {
	! own "$1" || return 0
	[ ! -e "$CLASSES" ] || return 1
	skip "$1" "this kernel keeps no such figures"
}

# The classes as the rule makes them: "INDEX:SIZE/PAGES/OBJECTS", for chains of at most 8 pages.
cat >/tmp/classes.py <<-'END'
	PAGE, CHAIN, STEP = 4096, 8, 16

	def chain(size):
	    if size & (size - 1) == 0:
	        return 1
	    return min(range(1, CHAIN + 1), key=lambda pages: (pages * PAGE % size, pages))

	nominal = []
	for index in range(255):
	    size = min(32 + index * STEP, PAGE)
	    pages = chain(size)
	    nominal.append((index, size, pages, pages * PAGE // size))
	distinct = [c for c, after in zip(nominal, nominal[1:] + [None]) if after is None or c[2:] != after[2:]]
	print(*(f"{i}:{s}/{p}/{n}" for i, s, p, n in distinct))
END
wanted=$(python3 /tmp/classes.py)
# shown FIELDS: those of each class, as the file has them.
shown() { awk -v with_pages="$1" '$1 ~ /^[0-9]+$/ { printf "%s%s:%s%s", n++ ? " " : "", $1, $2, with_pages ? "/" $17 : "" }' "$CLASSES"; }
# of_class INDEX COLUMN
of_class() { awk -v index_="$1" -v column="$2" '$1 == index_ { print $column }' "$CLASSES"; }

rule ABI-301 "nominal sizes from 32 to a page, by 16"
hidden "sizes" || {
	is "the smallest and the largest" "0:32 254:4096" "$(shown | awk '{ print $1, $NF }')"
	is "each is 32 and 16 times its index" "" "$(shown | tr ' ' '\n' | awk -F: '$2 != 32 + 16 * $1 && $2 != 4096')"
}
rule ABI-302 "an object takes its length and 8 bytes"
hidden "class by length" || {
	for bytes in 51 200 700 1500 2900; do
		length=$(mm 2)
		put sized:$bytes 100 1
		length=$(($(mm 2) - length))
		class=$(echo "$wanted" | tr ' ' '\n' | awk -F '[:/]' -v need=$((length + 8)) '$2 >= need { print $1; exit }')
		is "a page of $length bytes is in class $class" 1 "$(of_class "$class" 15)"
		rzio discard "$NODE" 100 1 >/dev/null
	done
	put noise 100 3
	is "whole pages need no header" 3 "$(of_class 254 15)"
	rzio discard "$NODE" 100 3 >/dev/null
}
rule ABI-303 "pages of a chain: least waste, the first of equals"
hidden "chains" || is "of every class" "$(echo "$wanted" | tr ' ' '\n' | sed 's|/[^/]*$||' | xargs)" "$(shown y)"
rule ABI-304 "neighbors with equal chains are one class"
hidden "merging" || is "distinct classes" "119 $(echo "$wanted" | tr ' ' '\n' | sed 's|/.*||' | xargs)" "$(shown | wc -w) $(shown)"
rule ABI-305 "the largest class that shares a page"
hidden "largest" || is "the last but one" 225:3632 "$(shown | awk '{ print $(NF - 1) }')"

rule ABI-306 "the threshold for whole pages, as recompress knows it"
if [ -e "$ATTR/recompress" ]; then
	# 3632 less 7; rzram's last class begins later.
	threshold=3849
	! on_c || threshold=3625
	echo 1 >"$ATTR/reset"
	echo algo=lz4 >"$ATTR/recomp_algorithm"
	echo 64M >"$ATTR/disksize"
	writes ok recompress "threshold=$((threshold - 1))"
	writes EINVAL recompress "threshold=$threshold"
else
	skip "the threshold" "this kernel's $DRIVER cannot recompress"
fi

rule ABI-318 "cells of handles in a slab cache"
own "handles" || check "there is one" sh -c "[ -e /sys/kernel/slab/zs_handle ] || grep -q '^zs_handle ' /proc/slabinfo"

rule ABI-319 "pages are charged when they come and released when their last object goes"
set_up 64M lz4
put sized:51 0 1
own "a whole chain at once" || is "a whole chain at once" 20480 "$(mm 3)"
first=$(mm 3)
is "whole pages" 0 $((first % 4096))
put sized:51 1 20
# Lengths differ by some bytes, and rzram has a class for each few.
if ! on_c; then
	first=$(mm 3)
	put sized:51 21 20
fi
is "objects that fit in take none" "$first" "$(mm 3)"
rzio discard "$NODE" 21 20 >/dev/null
rzio discard "$NODE" 0 20 >/dev/null
on_c || first=4096
is "as long as one is left" "$first" "$(mm 3)"
rzio discard "$NODE" 20 1 >/dev/null
check "then all goes" wait_for 2 sh -c "[ \$(awk '{ print \$3 }' $ATTR/mm_stat) -eq 0 ]"

rule ABI-321 "groups by use"
hidden "groups" || {
	# 256 objects of 80 bytes a chain: column 3 + 10 is full, 3 + used / 10 the rest.
	put sized:44 0 256
	is "full" 1 "$(of_class 3 13)"
	for row in 255:12 192:10 128:8 26:4 25:3 1:3; do
		left=${row%:*}
		rzio discard "$NODE" "$left" $((256 - left)) >/dev/null
		is "$left of 256 used" 1 "$(of_class 3 "${row#*:}")"
	done
	rzio discard "$NODE" 0 256 >/dev/null
}

# holes: a pool of which three of four objects are gone.
holes() {
	set_up 64M lz4
	put sized:1000 0 2000
	perforate 2000
}
rule ABI-322 "compaction moves objects together until nothing is gained"
holes
before=$(mm 3)
writes ok compact 1
check "at least half of the memory is back ($before, $(mm 3))" [ "$(mm 3)" -lt $((before / 2)) ]
compacted=$(mm 7)
writes ok compact 1
is "a second time there is nothing to gain" "$compacted" "$(mm 7)"
check "objects are right" sh -c "for page in \$(seq 3 100 1999); do rzio check $NODE sized:1000 \$page 1 || exit; done"

rule ABI-323 "the kernel's reclaim compacts as well"
holes
echo 2 >/proc/sys/vm/drop_caches
check "pages were given back ($(mm 7))" [ "$(mm 7)" -gt 50 ]
check "objects are right" sh -c "for page in \$(seq 3 100 1999); do rzio check $NODE sized:1000 \$page 1 || exit; done"

rule ABI-325 "the system's counter of pool pages"
pool_pages() {
	echo 1 >/proc/sys/vm/stat_refresh
	awk '/^nr_zspages/ { print $2 }' /proc/vmstat
}
set_up 64M lz4
before=$(pool_pages)
put noise 0 200
is "200 raw pages" 200 $(($(pool_pages) - before))
is "the same by zone" "$(pool_pages)" "$(awk '$1 == "nr_zspages" { sum += $2 } END { print sum + 0 }' /proc/zoneinfo)"
echo 1 >"$ATTR/reset"
is "after reset" "$before" "$(pool_pages)"
own "slab caches" || check "slab caches" sh -c "[ -e /sys/kernel/slab/zs_handle -a -e /sys/kernel/slab/zspage ] || grep -q '^zspage ' /proc/slabinfo"

rule ABI-326 "the file of classes: its form and its sums"
set_up 64M lz4
put sized:1000 0 500
put noise 600 50
rzio discard "$NODE" 100 77 >/dev/null
hidden "the file" || {
	is "columns" "class size 10% 20% 30% 40% 50% 60% 70% 80% 90% 99% 100% obj_allocated obj_used pages_used pages_per_zspage freeable" \
		"$(head -n 1 "$CLASSES" | xargs)"
	is "a blank line and the total at the end" "Total" "$(tail -n 2 "$CLASSES" | awk 'NR == 1 && NF { print "no blank" } END { print $1 }')"
	is "objects, all and in use" "" "$(echo "$wanted" | tr ' ' '\n' | awk -F '[:/]' 'NR == FNR { objects[$1] = $4; pages[$1] = $3; next }
		{ split($0, c, " ") } c[1] ~ /^[0-9]+$/ && (c[16] != c[14] / objects[c[1]] * pages[c[1]] ||
		c[18] != int((c[14] - c[15]) / objects[c[1]]) * pages[c[1]]) { print $0 }' - "$CLASSES")"
	is "in use are as many as are stored" 473 "$(awk '$1 ~ /^[0-9]+$/ { sum += $15 } END { print sum }' "$CLASSES")"
}
rule ABI-327 "the pool's functions are there for other modules"
own "symbols" || for name in zs_create_pool zs_destroy_pool zs_malloc zs_free zs_obj_read_begin zs_obj_read_end zs_obj_write \
	zs_compact zs_pool_stats zs_get_total_pages zs_huge_class_size zs_lookup_class_index; do
	check "$name" grep -qw "$name" /proc/kallsyms
done
finish
