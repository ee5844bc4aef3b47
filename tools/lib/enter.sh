#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# enter.sh ROOT TOP CACHE COMMAND...: mount what a chroot needs and run COMMAND in it.
# Called by in_root() inside private mount and process namespaces, so nothing has to be unmounted.
set -euo pipefail

root=$1 top=$2 cache=$3
shift 3

# Both may lie below or above each other, so bind the root to itself first.
mount --bind "$root" "$root"
mkdir -p "$root/rzram" "$root/cache"
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount --rbind /dev "$root/dev"
mount --bind "$top" "$root/rzram"
mount --bind "$cache" "$root/cache"
if [ -n "${RZ_SHARE:-}" ]; then
	mkdir -p "$root/mnt/host"
	mount --bind "$RZ_SHARE" "$root/mnt/host"
fi
# Shared memory of our own: a container's may be tiny, and user-mode kernels keep their memory there.
mount -t tmpfs -o size=90%,mode=1777 shm "$root/dev/shm"
for f in /etc/resolv.conf /etc/hosts; do
	[ -e "$f" ] || continue
	[ -e "$root$f" ] || : >"$root$f"
	mount --bind "$f" "$root$f"
done

# Only what the caller means to pass goes in; the host's environment stays out. "container" tells
# packages' scripts that what is in /proc/sys is not theirs to change.
keep=()
for name in TERM MAKEFLAGS KDIR RZRAM_JOBS RZRAM_SEED; do
	[ -z "${!name+x}" ] || keep+=("$name=${!name}")
done
cd /
exec chroot "$root" /usr/bin/env -i "${keep[@]}" PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
	HOME=/root LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive RZRAM_IN_LAB=1 container=rzram-lab \
	/bin/sh -c 'cd "${RZRAM_CWD:-/rzram}" && exec "$@"' sh "$@"
