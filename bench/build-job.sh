#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# build-job.sh JOBS: the work of P10, run in the guest inside the small group: compiles every file of the
# tree with JOBS compilers at a time, on a tmpfs of the group's own.
set -euo pipefail

jobs=$1
work=$(mktemp -d /tmp/build.XXXXXX)
trap 'rm -rf "$work"' EXIT
tar -C "$work" -xf /mnt/host/tree.tar
cd "$work/tools/lib/bpf"
flags=(-O2 -g -std=gnu11 -D_GNU_SOURCE -D_LARGEFILE64_SOURCE -D_FILE_OFFSET_BITS=64 -fPIC -w
	-I. -I../../include -I../../include/uapi -I../../arch/x86/include)
# Two passes under different names, so that both CPUs stay busy to the end.
# The file names are the inner shell's.
# shellcheck disable=SC2016
for pass in 1 2; do
	for file in *.c; do
		printf '%s %s\n' "$file" "$work/$pass-${file%.c}.o"
	done
done | xargs -n 2 -P "$jobs" sh -c 'exec gcc '"${flags[*]}"' -c "$0" -o "$1"'
