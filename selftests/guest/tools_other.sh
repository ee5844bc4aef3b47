#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# vm: --kernel uml --mem 1G --cpus 2 --timeout 300
# tier: test
#
# Programs that know zram, as Debian has them, on rzram in compat mode: zram-tools' service, htop's
# meter, earlyoom, nohang, and the kernel's own selftest of zram. T-1 to 11, 50; field cases B59, B69.

RZRAM_COMPAT=1
. "$(dirname "$0")/lib.sh"

install_as_zram
have() { command -v "$1" >/dev/null; }

# zram-tools: the service's start, status and stop.
if have zramswap; then
	printf 'ALGO=zstd\nPERCENT=\nSIZE=100\nPRIORITY=42\n' >/etc/default/zramswap
	check "zramswap start" zramswap start
	is "swap, size, priority, codec" "/dev/zram0 42 104857600 zstd" \
		"$(awk 'NR > 1 { printf "%s %s ", $1, $5 }' /proc/swaps)$(cat "$ATTR/disksize") $(sed -n 's/.*\[\(.*\)\].*/\1/p' "$ATTR/comp_algorithm")"
	is "of the driver under test" "$DRIVER" "$(awk '$1 ~ /zram$/ { print $1 }' /proc/modules)"
	check "zramswap status" sh -c "zramswap status | grep -q '/dev/zram0 *zstd *100M.*SWAP'"
	check "swapping" swapfill --mib "$(work 32)" --procs 1 --rounds 1 --seed "$SEED"
	check "zramswap stop" zramswap stop
	is "nothing is left" "" "$(awk '$1 ~ /zram$/ { print $1 }' /proc/modules)$(grep zram /proc/swaps)"
	check "zramswap restart" zramswap start
	check "zramswap restart" zramswap restart
	check "zramswap stop" zramswap stop
else
	skip "zramswap" "not installed"
fi

modprobe zram
set_up 512M lz4
check "mkswap" mkswap "$NODE"
check "swapon" swapon -p 100 "$NODE"
# What is out stays out while the programs look.
mib=96
! short || mib=32
swapfill --mib "$mib" --procs 1 --rounds 100000 --seed "$SEED" >/dev/null 2>&1 &
filler=$!
helpers="$helpers $filler"
wait_for 60 sh -c "[ \$(awk '{ print \$1 }' $ATTR/mm_stat) -gt 20000000 ]"
children=$(pgrep -x swapfill)
# shellcheck disable=SC2086
kill -STOP $children
helpers="$helpers $children"
echo "# mm_stat: $(mm 1 2 3)"

# near NAME WANTED FOUND: megabytes, within a tenth and one.
near() {
	check "$1: $3 MiB for $2" awk -v a="$2" -v b="$3" 'BEGIN { d = a - b; exit !(b != "" && (d < 0 ? -d : d) <= a / 10 + 1) }'
}
mib() { awk -v bytes="$1" 'BEGIN { printf "%.1f", bytes / 1048576 }'; }

if have htop; then
	cat >/tmp/htoprc <<-END
		fields=0 48 17 18 38 39 40 2 46 47 49 1
		config_reader_min_version=3
		header_layout=one_100
		column_meters_0=Zram Swap Memory
		column_meter_modes_0=2 2 2
	END
	(
		sleep 6
		printf q
	) | TERM=vt100 HTOPRC=/tmp/htoprc script -qec "stty rows 40 cols 150; htop -d 20 -C" /dev/null |
		sed 's/\x1b[[(][0-9;?]*[a-zA-Z]//g; s/[\x00-\x1f]/ /g' >/tmp/screen
	zrm=$(grep -aoi 'zrm:.\{0,40\}uncompressed: *[0-9.]*[KMG]' /tmp/screen | tail -n 1)
	echo "# htop: $zrm"
	# meter WORD: the number after it, in MiB.
	meter() {
		echo "$zrm" | sed -n "s/.*$1: *\([0-9.]*\)\([KMG]\).*/\1 \2/Ip" |
			awk '{ print $2 == "K" ? $1 / 1024 : $2 == "G" ? $1 * 1024 : $1 }'
	}
	near "htop's meter: size" 512 "$(meter zrm)"
	near "htop's meter: compressed" "$(mib "$(mm 2)")" "$(meter used)"
	near "htop's meter: uncompressed" "$(mib "$(mm 1)")" "$(meter uncompressed)"
else
	skip "htop" "not installed"
fi

if have earlyoom; then
	timeout 4 earlyoom -r 1 -m 1 -s 1 >/tmp/earlyoom 2>&1
	is "earlyoom runs until it is stopped" 124 "$?"
	free=$(awk '$1 == "SwapTotal:" { total = $2 } $1 == "SwapFree:" { free = $2 } END { print free / 1024 }' /proc/meminfo)
	near "earlyoom sees the swap that is free" "$free" \
		"$(grep -o 'swap free: *[0-9]* of' /tmp/earlyoom | tail -n 1 | tr -dc 0-9)"
else
	skip "earlyoom" "not installed"
fi

if have nohang; then
	sed 's/^zram_checking_enabled *=.*/zram_checking_enabled = True/; s/^print_mem_check_results *=.*/print_mem_check_results = True/
		s/^min_mem_report_interval *=.*/min_mem_report_interval = 0/' /etc/nohang/nohang.conf >/tmp/nohang.conf
	in_background nohang --monitor --config /tmp/nohang.conf >/tmp/nohang 2>&1
	check "nohang runs and reports" wait_for 90 grep -aq MemUsedZram /tmp/nohang
	check "until it is stopped" kill "$background"
	wait "$background"
	echo "# nohang: $(grep -a Zram /tmp/nohang | tail -n 1)"
	near "nohang sees what zram takes (B59)" "$(mib "$(mm 3)")" \
		"$(sed -n 's/.*MemUsedZram[^0-9]*\([0-9.]*\).*/\1/p' /tmp/nohang | tail -n 1)"
else
	skip "nohang" "not installed"
fi
# shellcheck disable=SC2086
kill -KILL $children
wait "$filler" 2>/dev/null
check "swapoff" swapoff "$NODE"
writes ok reset 1

# B69: the kernel's own selftest, with the device made before and by itself.
selftest=/run/rzram/kselftest
rule CM-12 "the kernel's own selftest"
if [ -e $selftest/zram.sh ]; then
	mkdir -p /tmp/kselftest
	cp $selftest/*.sh /tmp/kselftest/
	chmod +x /tmp/kselftest/*.sh
	# run_selftest SCRIPT PARTS HOW
	run_selftest() {
		(cd /tmp/kselftest && "./$1") >/tmp/said 2>&1
		is "B69: the kernel's selftest, $3: exit status" 0 "$?"
		sed 's/^/# /' /tmp/said
		is "B69: the kernel's selftest, $3: no FAIL" 0 \
			"$(grep -c FAIL /tmp/said)"
		is "B69: the kernel's selftest, $3: all parts pass" "$2" "$(grep -c ' : \[PASS\]' /tmp/said)"
	}
	if algorithms | grep -qw lzo; then
		run_selftest zram.sh 2 "beside a device"
	else
		skip "B69: the kernel's selftest" "it wants lzo, which this kernel's $DRIVER has not"
	fi
	modprobe -r zram
	run_selftest zram02.sh 1 "which loads the module by itself"
	modprobe -r zram 2>/dev/null
else
	skip "B69: the kernel's selftest" "the kernel's source is not in the lab"
	modprobe -r zram
fi

finish
