#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# vm: --kernel uml --mem 1G --cpus 2 --timeout 300
# vm-full: --kernel stock --mem 1G --cpus 2 --timeout 300
# vm: --kernel debug --mem 1G --cpus 2 --timeout 200
# tier: test
#
# Post-processing in memory: idle marks, recompression, and block_state, where both can be seen.
# ABI-91, 105 to 109, 200 to 212, 250 to 252; field cases B37, B39, B75; SE-9, 10, 12, 20, 26, 39.

. "$(dirname "$0")/lib.sh"
SHORT_LINES=100

load
[ -e "$ATTR/recompress" ] || skip_all "this kernel's $DRIVER cannot recompress"
mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug
STATE=/sys/kernel/debug/$NAME/$DISK/block_state
for primary in lz4 lzo-rle lzo; do
	algorithms | grep -qw "$primary" && break
done
for strong in zstd deflate 842; do
	algorithms | grep -qw "$strong" && break
done
algorithms | grep -qw "$strong" || skip_all "this kernel has no second, stronger codec"

# The first 256 pages are text, then 64 pages that no codec makes smaller, 32 of which half is noise,
# 8 filled ones. Between them lie slots that were never written.
NOISE=1000
HALF=2000
WORD=3000
fill() {
	rzio put "$NODE" text 0 256 && rzio put "$NODE" noise $NOISE 64 &&
		rzio put "$NODE" sized:2600 $HALF 32 && rzio put "$NODE" word $WORD 8
}
verify() {
	rzio check "$NODE" text 0 256 && rzio check "$NODE" noise $NOISE 64 &&
		rzio check "$NODE" sized:2600 $HALF 32 && rzio check "$NODE" word $WORD 8
}

# fresh [PRIORITY...]: a filled device with the strong codec at these priorities.
fresh() {
	echo 1 >"$ATTR/reset" && echo "$primary" >"$ATTR/comp_algorithm" || return
	for _priority in "$@"; do
		echo "algo=$strong priority=$_priority" >"$ATTR/recomp_algorithm" || return
	done
	echo 64M >"$ATTR/disksize" && fill >/dev/null
}

# stronger PAGES: how many of the first pages were made by the secondary codec.
stronger() { awk -v n="$1" '$1 < n' "$STATE" | grep -c ' ....r.$'; }
# flagged PATTERN: how many slots have flags like this.
flagged() { grep -c " $1\$" "$STATE"; }
# slot INDEX: its flags.
slot() { awk -v index_="$1" '$1 == index_ { print $3 }' "$STATE"; }
# stamps FIRST COUNT: access times of those slots, joined.
stamps() { awk -v a="$1" -v n="$2" '$1 >= a && $1 < a + n { printf "%s ", $2 }' "$STATE"; }

# B37 without a size.
rule "ABI-91 ABI-201" "modes; what is refused without a size"
is "mode of recompress and idle" "200 200" "$(stat -c %a "$ATTR/recompress" "$ATTR/idle" | xargs)"
is "recompress can't be opened for reading" EACCES "$(rzattr open-read "$ATTR/recompress")"
is "mode of block_state" 400 "$(stat -c %a "$STATE")"
is "block_state without a size (ABI-109)" EINVAL "$(rzattr read "$STATE")"
writes EINVAL recompress type=idle
writes EINVAL recompress " "
writes EINVAL idle all
writes ok idle 4000000000
writes EINVAL idle 0

# B37.
rule ABI-200 "the keys and their values"
# The table. Without a secondary codec nothing is accepted; with one, exactly what is right.
check "a device without secondary codec" fresh
for text in "type=idle" "priority=1" "max_pages=0" " "; do
	writes EINVAL recompress "$text"
done
check "a device with one secondary codec" fresh 1
before=$(mm 1 2 8)
for text in type=foo "type=" type idle huge "type=idle,huge" type=huge_idle_ type=incompressible TYPE \
	threshold=99999 threshold=4096 threshold=-1 threshold=0x10 "threshold=" threshold=1k \
	max_pages=-1 max_pages=ten "max_pages=" priority=0 priority=2 priority=3 priority=4 \
	priority=9 priority=-1 "priority=" priority=one algo=nosuch "algo=" "algo=$primary" \
	"algo=$strong priority=2" "algo=nosuch priority=1" "type=bogus type=idle"; do
	writes EINVAL recompress "$text"
done
for text in threshold=4294967296 priority=2147483648 max_pages=18446744073709551616; do
	writes ERANGE recompress "$text"
done
differs SE-39 "a bad type after a good one" || writes EINVAL recompress "type=idle type=bogus"
is "errors change nothing" "$before" "$(mm 1 2 8)"
for text in "type=idle" "type=huge_idle" "type=idle type=huge_idle" "max_pages=0" \
	"type=idle unknown=1" "type=idle   
" "type=\"idle\"" "type=idle priority=1" "type=idle algo=$strong" "priority=9 priority=1 type=idle" \
	"type=idle algo=$strong priority=1" "threshold=3000 max_pages=0" "max_pages=+0"; do
	writes ok recompress "$text"
done
long=$(printf 'type=idle%4086s' "")
writes ok recompress "$long"
is "nothing was idle, so nothing changed" "$before" "$(mm 1 2 8)"
check "data after the table" verify

rule "ABI-106 ABI-107 ABI-108" "the lines of block_state"
check "a device to look at" fresh 1
lines=$(wc -l <"$STATE")
is "a line for each slot that holds anything" 360 "$lines"
is "each line has 40 bytes" $((40 * lines)) "$(wc -c <"$STATE")"
is "each line has the format" "$lines" \
	"$(grep -cE '^ {0,11}[0-9]+ {1,12}[0-9]+\.000000 [s.][w.][h.][i.][r.][n.]$' "$STATE")"
check "lines ascend" sort -nc -k1,1 "$STATE"
is "the first and the last slot" "0 $((WORD + 7))" \
	"$(awk 'NR == 1 { printf "%s ", $1 } END { print $1 }' "$STATE")"
is "flags: text, noise, half, word" "...... ..h... ...... s....." \
	"$(slot 0) $(slot $NOISE) $(slot $HALF) $(slot $WORD)"
uptime=$(cut -d. -f1 /proc/uptime)
check "access times are of the last seconds" awk -v now="$uptime" \
	'$2 + 0 > now + 2 || $2 + 0 < now - 60 { exit 1 }' "$STATE"

# B75.
rule "ABI-109 SE-26" "reading block_state by any size"
# Buffers of all sizes see every line.
cp "$STATE" /tmp/whole
for bytes in 40 41 79 80 81 4096 65536 1000000; do
	differs SE-26 "block_state by $bytes bytes" && continue
	check "block_state by $bytes bytes is the same" sh -c \
		"dd if=$STATE bs=$bytes status=none | cmp - /tmp/whole"
done
for bytes in 1 7 39; do
	differs SE-26 "block_state by $bytes bytes" && continue
	refuses "block_state by $bytes bytes is an error, not the end" \
		dd "if=$STATE" "bs=$bytes" count=1 status=none of=/dev/null
done
differs SE-26 "position counts slots" ||
	is "the position counts slots" "$NOISE" \
		"$(dd "if=$STATE" bs=400 iflag=skip_bytes "skip=$((NOISE - 1))" count=1 status=none |
			awk 'NR == 1 { print $1 }')"

rule ABI-250 "all are marked idle but filled pages"
writes ok idle all
is "all but filled slots are idle" "352 0" "$(flagged '...i..') $(flagged 's..i..')"
rule ABI-252 "what ends idleness"
check "reading" rzio check "$NODE" text 0 10
check "writing" rzio put "$NODE" noise $NOISE 5
check "discarding" rzio discard "$NODE" $HALF 1
is "access takes the mark" "$((352 - 16))" "$(flagged '...i..')"
rule ABI-251 "idle by age"
for text in -1 x "" "all " "1 " 4294967296 ALL 1s; do
	case $text in
	"") writes ok idle "$text" ;;
	*) writes EINVAL idle "$text" ;;
	esac
done
writes ok idle 4294967295
is "an age before boot changes nothing (SE-20)" "$((352 - 16))" "$(flagged '...i..')"
if on_c && [ "$(stamps 0 1)" = "0.000000 " ]; then
	skip "idle by age" "no access times"
else
	uptime=$(cut -d. -f1 /proc/uptime)
	writes ok idle $((uptime - 1))
	is "nothing is as old as the system, so no mark is left" 0 "$(flagged '...i..')"
	sleep 3
	check "reading" rzio check "$NODE" text 0 10
	writes ok idle 0x1
	is "what was not used for a second is idle" "$((351 - 10))" "$(flagged '...i..')"
	is "what was just read is not" "...... ...i.." "$(slot 9) $(slot 10)"
fi

rule "ABI-203 ABI-206 ABI-208 ABI-212" "recompression of all that can be made smaller"
# All that can be made smaller is, and reads as before.
check "a device to recompress" fresh 1
before=$(stamps 0 $WORD)
sleep 1.1
bytes=$(mm 2)
rule "ABI-210 SE-8" "recompression heeds no limit; the peak"
check "the limit is below what is used" sh -c "echo 64K >$ATTR/mem_limit"
peak=$(mm 5)
writes ok recompress ""
writes ok recompress "priority=1"
writes ok mem_limit 0
check "stored bytes shrink: $bytes, $(mm 2)" [ "$(mm 2)" -lt "$bytes" ]
differs SE-8 "peak" || check "the peak is what was really held" [ "$(mm 5)" -ge "$peak" ]
rule "ABI-203 ABI-206 ABI-208 ABI-212"
is "all text is made by the secondary codec" 256 "$(stronger 256)"
is "noise is incompressible (ABI-208)" 64 "$(flagged '..h..n')"
is "filled slots are as before" 8 "$(flagged 's.....')"
rule "ABI-211 SE-10" "the time of the last access"
differs SE-10 "access times" || is "access times are kept (SE-10)" "$before" "$(stamps 0 $WORD)"
rule ABI-212
check "data after recompression" verify
rule ABI-203
bytes=$(mm 2)
writes ok recompress "priority=1"
is "once more changes nothing" "$bytes" "$(mm 2)"
check "overwriting" fill
is "new content knows nothing of the old" "64 0 0" \
	"$(flagged '..h...') $(flagged '....r.') $(flagged '.....n')"
is "and is as large as it was" 64 "$(mm 8)"

rule "ABI-200 ABI-203" "only those of the type"
writes ok recompress type=idle
is "nothing is idle" 0 "$(flagged '....r.')"
writes ok idle all
check "reading" rzio check "$NODE" text 0 100
writes ok recompress "type=idle max_pages=1000000"
is "only idle slots were taken" "0 156" \
	"$(stronger 100) $(stronger 256)"
is "attempts end idleness (ABI-206)" 0 "$(flagged '...i..')"
is "raw slots were tried as well" 64 "$(flagged '..h..n')"
check "overwriting" fill
writes ok recompress type=huge
is "only raw slots were tried" "0 64" "$(stronger 256) $(flagged '..h..n')"
check "data after recompression by type" verify

rule "ABI-204 ABI-205 ABI-206" "max_pages counts attempts; the order"
# max_pages counts attempts, largest first, highest slot first.
check "overwriting" fill
writes ok recompress max_pages=10
is "ten attempts" "10 $(seq -s ' ' $((NOISE + 54)) $((NOISE + 63)))" \
	"$(flagged '.....n') $(grep ' .....n$' "$STATE" | awk '{ print $1 }' | xargs)"
writes ok recompress max_pages=10
is "a second run goes on where the first ended" 20 "$(flagged '.....n')"
writes ok recompress max_pages=54
is "after the largest comes the next band" "64 0" "$(flagged '.....n') $(stronger 256)"

rule "ABI-205 ABI-207 SE-9" "the threshold"
check "overwriting" fill
small=$(mm 2)
writes ok recompress threshold=64
differs SE-9 "marks after a threshold" ||
	is "gained, but not enough: neither replaced nor barred" "0 0" \
		"$(stronger 256) $(awk '$1 < 256' "$STATE" | grep -c ' .....n$')"
is "and nothing changed" "$small" "$(mm 2)"
differs SE-9 "retry" || {
	writes ok recompress threshold=0
	is "a later run without threshold takes them" 256 "$(stronger 256)"
}
check "data after threshold" verify

rule "ABI-202 ABI-208" "which priority is meant"
# Several priorities; only the highest may say that nothing helps.
check "a device with three secondary codecs" fresh 1 2 3
writes ok recompress type=huge
is "a lower priority leaves no verdict" 0 "$(flagged '.....n')"
writes ok recompress "type=huge priority=3"
is "the highest does" 64 "$(flagged '.....n')"
writes ok recompress "algo=$strong"
is "a name means the lowest priority" 256 "$(stronger 256)"
bytes=$(mm 2)
writes ok recompress priority=2
is "the same codec once more gains nothing" "$bytes" "$(mm 2)"
check "data after all priorities" verify

rule SE-37 "writers and readers beside recompression"
# B39: writers, readers and discards beside recompression.
# Few slots and a slow codec, so that most slots are used while they are compressed.
echo 1 >"$ATTR/reset"
echo "algo=$strong priority=1" >"$ATTR/recomp_algorithm"
[ "$strong" != zstd ] || echo "priority=1 level=19" >"$ATTR/algorithm_params"
echo 64M >"$ATTR/disksize"
rzio race "$NODE" --seed "$SEED" --ops "$(work 20000)" --threads 3 --span 48 --discard \
	$ALIGNED >/tmp/race 2>&1 &
racer=$!
runs=0
while kill -0 "$racer" 2>/dev/null; do
	echo all >"$ATTR/idle"
	echo priority=1 >"$ATTR/recompress" || break
	runs=$((runs + 1))
done
wait "$racer"
status=$?
is "B39: every page is right beside $runs runs ($(cat /tmp/race))" 0 "$status"
check "recompressing what is left" sh -c "echo priority=1 >$ATTR/recompress"
discard_all_is_zero "after the race"

rule SE-12 "statistics do not wait; a second run, a kill, a reset"
# Statistics do not wait, a second run is told, a kill and a reset end a run.
background=
if ! differs SE-12 "runs that can be ended"; then
	echo 1 >"$ATTR/reset"
	echo "$primary" >"$ATTR/comp_algorithm"
	echo "algo=$strong priority=1" >"$ATTR/recomp_algorithm"
	[ "$strong" != zstd ] || echo "priority=1 level=19" >"$ATTR/algorithm_params"
	echo 512M >"$ATTR/disksize"
	rzio put "$NODE" text 0 16000 >/dev/null
	in_background sh -c "exec rzattr write $ATTR/recompress priority=1 >/tmp/outcome"
	if wait_for 5 sh -c "grep -qm1 ' ....r.\$' $STATE"; then
		is "another run" EAGAIN "$(rzattr write "$ATTR/recompress" priority=1)"
		check "B39: statistics and marks while it runs" timeout 2 sh -c \
			"cat $ATTR/mm_stat $ATTR/io_stat; echo all >$ATTR/idle; echo 0 >$ATTR/mem_limit"
		check "the run is under way" kill -0 "$background"
		kill -KILL "$background"
		check "a kill ends it" wait_for 2 sh -c \
			"! kill -0 $background || grep -q '^State:.Z' /proc/$background/status"
		wait "$background" 2>/dev/null
		check "no slot was lost" [ "$(mm 1)" -eq $((16000 * 4096)) ]
		in_background sh -c "exec rzattr write $ATTR/recompress priority=1 >/tmp/outcome"
		done_before=$(flagged '....r.')
		check "it goes on where it ended" wait_for 5 sh -c \
			"[ \$(grep -c ' ....r.\$' $STATE) -gt $done_before ]"
		check "reset ends a run" timeout 5 sh -c "echo 1 >$ATTR/reset"
		wait "$background"
		is "which is told so" EINTR "$(cat /tmp/outcome)"
	else
		skip "runs that can be ended" "the run was too short"
	fi
fi

rule
# Codecs with state on both sides, their streams borrowed as for slow levels: B39.
weak=$(algorithms | tr ' ' '\n' | grep -vx "$strong" | grep -xm1 -e deflate -e 842 -e zstd)
if ! differs B39 "borrowed streams" && [ -n "$weak" ]; then
	check "reset" sh -c "echo 1 >$ATTR/reset"
	unload
	load stream_hold=2
	primary=$weak
	check "a device with long streams" fresh 1
	writes ok recompress priority=1
	check "data from $weak to $strong" verify
	check "something was made by the secondary codec" [ "$(grep -c ' ....r.$' "$STATE")" -gt 0 ]
	echo 1 >"$ATTR/reset"
	echo "$strong" >"$ATTR/comp_algorithm"
	echo "algo=$strong priority=1" >"$ATTR/recomp_algorithm"
	[ "$strong" != zstd ] || echo "priority=1 level=19" >"$ATTR/algorithm_params"
	echo 64M >"$ATTR/disksize"
	check "filling" fill
	check "recompression with the same codec" sh -c "echo priority=1 >$ATTR/recompress"
	check "data after that" verify
	discard_all_is_zero "after long streams"
fi
finish
