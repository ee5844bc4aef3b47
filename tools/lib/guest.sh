# SPDX-License-Identifier: GPL-2.0
#
# What the stock guest boots from: a small initramfs, a read-only image of the lab root without the
# compilers, and one of the kernel's modules. Uncompressed, as an emulated processor is slow at that.
# Sourced by tools/setup and tools/vm.
# shellcheck shell=bash

# Loaded by the initramfs, with what they depend on.
RZ_BOOT_MODULES="virtio_blk virtio_rng erofs overlay 9p 9pnet_virtio"

initrd_key() {
	printf '%s-initrd-%s' "$RZ_LINUX" "$(cat "$RZ_TOP/tools/guest/initrd-init" "$RZ_TOP/tools/lib/guest.sh" | cksum | cut -d' ' -f1)"
}

make_initrd() {
	local key
	key=$(initrd_key)
	stamped "$key" && return
	run_step "making the guest's initramfs" guest-initrd \
		in_root bash -c '
			set -e
			linux=$1 release=$2
			shift 2
			work=$(mktemp -d)
			trap "rm -rf $work" EXIT
			mkdir -p "$work"/{bin,mod,dev,proc,sys,lower,upper,new}
			cp /bin/busybox "$work/bin/busybox"
			cp /rzram/tools/guest/initrd-init "$work/init"
			chmod 755 "$work/init"
			n=100
			for m in "$@"; do
				modprobe -d "$linux/deb" -S "$release" --show-depends "$m"
			done | sed -n "s/^insmod \([^ ]*\).*/\1/p" | awk "!seen[\$0]++" | while read -r file; do
				n=$((n + 1))
				name=$work/mod/$n-$(basename "${file%.xz}")
				case $file in
				*.xz) xz -dc "$file" >"$name" ;;
				*) cp "$file" "$name" ;;
				esac
			done
			cd "$work"
			find . | cpio --quiet -o -H newc >"$linux/stock.initrd.new"
			mv "$linux/stock.initrd.new" "$linux/stock.initrd"' \
		sh "$RZ_IN_CACHE/$RZ_LINUX" "$RZ_RELEASE" $RZ_BOOT_MODULES || die "the guest's initramfs could not be made"
	rm -f "$RZ_CACHE/stamp/$RZ_LINUX"-initrd-*
	stamp "$key"
}

image_key() {
	printf 'image-%s' "$(cat "$RZ_TOP/tools/lib/packages.list" "$RZ_TOP/tools/lib/guest.sh" | cksum | cut -d' ' -f1)"
}

# make_image: the lab root as a read-only disk. --exclude-path needs the paths without a leading slash.
make_image() {
	local key
	key=$(image_key)
	stamped "$key" && return
	need_space 4
	run_step "making the guest's disk image" guest-image \
		in_root bash -c '
			set -e
			mount --bind / /mnt
			skip=()
			for p in usr/lib/rustlib usr/src usr/lib/llvm-19 usr/share/cargo usr/share/qemu usr/share/seabios \
				usr/share/doc usr/share/man usr/share/locale usr/include usr/libexec/gcc usr/lib/gcc usr/lib/git-core \
				var/cache var/lib/apt var/lib/dpkg tmp cache rzram mnt; do
				skip+=("--exclude-path=$p")
			done
			mkfs.erofs --quiet "${skip[@]}" \
				--exclude-regex="^usr/bin/(qemu|cargo|rustc|rustdoc|bindgen|clippy|.*-gnu-(lto|cpp|gcc|g\+\+)|.*(clang|llvm|lld))" \
				--exclude-regex="^usr/lib/x86_64-linux-gnu/(libLLVM|libclang|librustc_driver|qemu|.*\.a$)" \
				-E^inline_data -T0 "$1/image.erofs.new" /mnt
			mv "$1/image.erofs.new" "$1/image.erofs"
			ls -l "$1/image.erofs"' sh "$RZ_IN_CACHE" || die "the guest's disk image could not be made; see the log above"
	rm -f "$RZ_CACHE"/stamp/image-*
	stamp "$key"
}

make_module_image() {
	stamped "$RZ_LINUX-modimage" && return
	run_step "making the disk image of the stock modules" guest-modules \
		in_root bash -c '
			set -e
			mkfs.erofs --quiet -E^inline_data -T0 "$1/stock.modules.new" "$1/deb/lib/modules"
			mv "$1/stock.modules.new" "$1/stock.modules"' \
		sh "$RZ_IN_CACHE/$RZ_LINUX" || die "the disk image of the stock modules could not be made"
	stamp "$RZ_LINUX-modimage"
}

setup_guest() {
	load_kernel || die "no kernel was chosen yet; run tools/setup kobj"
	make_initrd
	make_image
	make_module_image
}

# guest_ready: true if setup_guest has nothing to do.
guest_ready() {
	load_kernel && stamped "$(initrd_key)" && stamped "$(image_key)" && stamped "$RZ_LINUX-modimage"
}
