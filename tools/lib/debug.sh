# SPDX-License-Identifier: GPL-2.0
#
# The debug kernel: a small configuration of the stock kernel's source with what finds faults, built by
# clang, as KASAN and Rust together need it. Boots in QEMU. Sourced by tools/setup and tools/vm.
# shellcheck shell=bash

# debug_key: names the stamp; a changed configuration means a new build.
debug_key() {
	printf '%s-debug-%s' "$RZ_LINUX" "$(cat "$RZ_TOP/tools/lib/debug.config" | cksum | cut -d' ' -f1)"
}

debug_initrd_key() {
	printf '%s-debuginitrd-%s' "$RZ_LINUX" "$(cat "$RZ_TOP/tools/guest/initrd-init" "$RZ_TOP/tools/lib/debug.sh" | cksum | cut -d' ' -f1)"
}

build_debug_kernel() {
	local key
	key=$(debug_key)
	stamped "$key" && return
	need_space 5
	share_host_libraries debug
	run_step "building the debug kernel (about 12 minutes)" kernel-debug \
		in_root bash -c '
			set -e
			cd "$1"
			mkdir -p debug
			config=/rzram/tools/lib/debug.config
			build() { make -C "$PWD/src" O="$PWD/debug" LLVM=-19 -j"$(nproc)" "$@"; }
			build KCONFIG_ALLCONFIG="$config" allnoconfig
			grep "^CONFIG_\|^# CONFIG_" "$config" | while read -r line; do
				case $line in
				"# CONFIG_"*) name=${line#\# }; ! grep "^${name%% *}=" debug/.config ;;
				*) grep -qxF "$line" debug/.config ;;
				esac || { echo "the configuration did not take: $line"; exit 1; }
			done
			build vmlinux modules
			rm -rf debug-modules
			build INSTALL_MOD_PATH="$PWD/debug-modules" modules_install
			mkfs.erofs --quiet -E^inline_data -T0 debug.modules.new debug-modules/lib/modules
			mv debug.modules.new debug.modules
			llvm-strip-19 -o debug.vmlinux debug/vmlinux
			test -e debug/rust/libkernel.rmeta' sh "$RZ_IN_CACHE/$RZ_LINUX" ||
		die "the debug kernel could not be built; see the log above"
	rm -f "$RZ_CACHE/stamp/$RZ_LINUX"-debug-*
	stamp "$key"
}

# make_debug_initrd: no module is needed to get at the disks.
make_debug_initrd() {
	local key
	key=$(debug_initrd_key)
	stamped "$key" && return
	run_step "making the debug guest's initramfs" guest-debug-initrd \
		in_root bash -c '
			set -e
			work=$(mktemp -d)
			trap "rm -rf $work" EXIT
			mkdir -p "$work"/{bin,mod,dev,proc,sys,lower,upper,new}
			cp /bin/busybox "$work/bin/busybox"
			cp /rzram/tools/guest/initrd-init "$work/init"
			chmod 755 "$work/init"
			cd "$work"
			find . | cpio --quiet -o -H newc >"$1/debug.initrd.new"
			mv "$1/debug.initrd.new" "$1/debug.initrd"' sh "$RZ_IN_CACHE/$RZ_LINUX" ||
		die "the debug guest's initramfs could not be made"
	rm -f "$RZ_CACHE/stamp/$RZ_LINUX"-debuginitrd-*
	stamp "$key"
}

setup_debug() {
	load_kernel || die "no kernel was chosen yet; run tools/setup kobj"
	build_debug_kernel
	make_debug_initrd
}

# debug_ready: true if setup_debug has nothing to do.
debug_ready() {
	load_kernel && stamped "$(debug_key)" && stamped "$(debug_initrd_key)"
}
