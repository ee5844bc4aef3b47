# SPDX-License-Identifier: GPL-2.0
#
# The stock kernel: picks one version of the wanted series, unpacks its packages, prepares the object
# tree that modules build against. Sourced by tools/setup.
#
# Below $RZ_CACHE/linux-VERSION: deb/ (the packages unpacked), src/ (KSRC), stock/ (KOBJ of the stock
# kernel), and one folder for each kernel built here. Paths seen inside the root start with /cache.
# shellcheck shell=bash

# series_release SERIES: the newest stock release string of a series ("" = of any), or nothing.
series_release() {
	in_root apt-cache pkgnames linux-headers- |
		sed -n 's/^linux-headers-\([0-9].*+deb[0-9]*-amd64\)$/\1/p' |
		awk -v series="$1" 'series == "" || index($0, series ".") == 1 || index($0, series "+") == 1' |
		sort -V | tail -n 1
}

# package_version NAME: the candidate version of a package, or nothing.
package_version() {
	in_root apt-cache madison "$1" 2>/dev/null | awk -F' *[|] *' '/Packages/ { print $2; exit }' | tr -d ' '
}

# select_kernel: decide on one version and write it down; later runs keep to it.
select_kernel() {
	local series found release version part chosen=$RZ_CACHE/kernel.selected
	series=$(grep -v '^#' "$RZ_TOP/tools/kernel-series" | tr -d '[:space:]')
	if [ -e "$chosen" ] && grep -qx "WANTED=$series" "$chosen"; then
		return 0
	fi
	found=$series
	release=$(series_release "$series")
	if [ -z "$release" ]; then
		release=$(series_release '')
		[ -n "$release" ] || die "the package mirror has no stock kernel headers; run again when it is complete"
		found=$(printf '%s\n' "$release" | cut -d. -f1,2)
		say "the mirror has left kernel series $series (tools/kernel-series); taking the newest, $found"
	fi
	version=$(package_version "linux-headers-$release")
	for part in "linux-source-$found" "linux-image-$release"; do
		[ "$(package_version "$part")" = "$version" ] ||
			die "the mirror is being updated: $part is not at version $version as the headers are; run again later"
	done
	cat >"$chosen.new" <<-END
		WANTED=$series
		SERIES=$found
		RELEASE=$release
		VERSION=$version
	END
	mv "$chosen.new" "$chosen"
}

# load_kernel: set RZ_SERIES, RZ_RELEASE, RZ_VERSION and the folder RZ_LINUX; false if nothing is chosen.
load_kernel() {
	local file=$RZ_CACHE/kernel.selected
	[ -e "$file" ] || return 1
	RZ_SERIES=$(sed -n 's/^SERIES=//p' "$file")
	RZ_RELEASE=$(sed -n 's/^RELEASE=//p' "$file")
	RZ_VERSION=$(sed -n 's/^VERSION=//p' "$file")
	RZ_LINUX=linux-${RZ_VERSION//[^A-Za-z0-9.+-]/_}
}

# fetch_kernel: download the packages and unpack them without installing.
fetch_kernel() {
	local names="linux-headers-$RZ_RELEASE linux-image-$RZ_RELEASE" extra
	stamped "$RZ_LINUX-deb" && return
	need_space 10
	stamped "$RZ_LINUX-src" || names+=" linux-source-$RZ_SERIES"
	# Newer packages split the image in several.
	for extra in "linux-binary-$RZ_RELEASE" "linux-modules-$RZ_RELEASE" "linux-base-$RZ_RELEASE"; do
		[ -z "$(package_version "$extra")" ] || names+=" $extra"
	done
	rm -rf "${RZ_CACHE:?}/$RZ_LINUX/deb"
	mkdir -p "$RZ_CACHE/$RZ_LINUX/deb"
	# shellcheck disable=SC2086
	run_step "downloading linux $RZ_VERSION: source, headers, image" kernel-fetch \
		in_root sh -c 'cd "$1" && shift && for n in "$@"; do set -- "$@" "$n='"$RZ_VERSION"'"; shift; done &&
			apt-get download -o APT::Sandbox::User=root -o APT::Status-Fd=1 "$@" &&
			for d in *.deb; do echo "unpacking $d" && dpkg-deb -x "$d" . && rm "$d" || exit; done' \
		sh "$RZ_IN_CACHE/$RZ_LINUX/deb" $names ||
		die "the kernel packages could not be downloaded; check the network and run again"
	stamp "$RZ_LINUX-deb"
}

# unpack_source: the kernel's source tree, whole.
unpack_source() {
	stamped "$RZ_LINUX-src" && return
	rm -rf "${RZ_CACHE:?}/$RZ_LINUX/src"
	mkdir -p "$RZ_CACHE/$RZ_LINUX/src"
	run_step "unpacking the kernel source" kernel-unpack \
		in_root sh -c 'cd "$1" && tar -C src --strip-components=1 --no-same-owner -xf deb/usr/src/linux-source-*.tar.xz &&
			rm deb/usr/src/linux-source-*.tar.xz' sh "$RZ_IN_CACHE/$RZ_LINUX" ||
		die "the kernel source could not be unpacked; see the log above"
	stamp "$RZ_LINUX-src"
}

# prepare_modules: the stock image and its modules where guests find them.
prepare_modules() {
	stamped "$RZ_LINUX-modules" && return
	run_step "indexing the stock kernel's modules" kernel-modules \
		in_root bash -c '
			set -e
			cd "$1/deb"
			[ -e lib ] || ln -s usr/lib lib
			ln -sfn "$1/stock" "lib/modules/$2/build"
			depmod -b "$PWD" "$2"
			for image in "boot/vmlinuz-$2" "lib/modules/$2/vmlinuz"; do
				[ ! -e "$image" ] || ln -sfn "deb/$image" ../stock.vmlinuz
			done
			test -e ../stock.vmlinuz' sh "$RZ_IN_CACHE/$RZ_LINUX" "$RZ_RELEASE" ||
		die "the stock kernel's modules could not be indexed; see the log above"
	stamp "$RZ_LINUX-modules"
}

# configure_stock: the stock kernel's configuration, from its headers package, and what its build and the
# other kernels' run on this machine: the largest part are the libraries of all procedural macros.
configure_stock() {
	if stamped "$RZ_LINUX-configured" || stamped "$RZ_LINUX-stock"; then return; fi
	run_step "configuring the stock kernel and building its host tools" kernel-host \
		in_root bash -c '
			set -e
			cd "$1"
			rm -rf stock && mkdir stock
			headers=deb/usr/src/linux-headers-$2
			cp "$headers/.config" stock/.config
			make -C "$PWD/src" O="$PWD/stock" olddefconfig
			# Only the name of the compiler may differ: anything else means other symbol hashes.
			if diff <(grep -v "^CONFIG_CC_VERSION_TEXT=\|^#" "$headers/.config") \
				<(grep -v "^CONFIG_CC_VERSION_TEXT=\|^#" stock/.config); then :; else
				echo "the configuration changed: the toolchain is not the one that built the stock kernel"
				exit 1
			fi
			MAKEFILES=/rzram/tools/lib/host-libraries.mk make -C "$PWD/src" O="$PWD/stock" -j"$(nproc)" \
				KERNELRELEASE="$2" CONFIG_DEBUG_INFO_BTF= tools/objtool rust-host-libraries
			test -e stock/rust/host/libsyn.rlib' sh "$RZ_IN_CACHE/$RZ_LINUX" "$RZ_RELEASE" ||
		die "the stock kernel could not be configured; see the log above"
	stamp "$RZ_LINUX-configured"
}

# prepare_stock: the Rust metadata of the stock kernel.
prepare_stock() {
	stamped "$RZ_LINUX-stock" && return
	# Without the kernel image modules get no BTF, so the tool that makes it is not built.
	run_step "preparing the stock kernel's metadata (a minute or two)" kernel-stock \
		in_root bash -c '
			set -e
			cd "$1"
			make -C "$PWD/src" O="$PWD/stock" -j"$(nproc)" KERNELRELEASE="$2" CONFIG_DEBUG_INFO_BTF= \
				prepare modules_prepare
			cp "deb/usr/src/linux-headers-$2/Module.symvers" stock/
			test -e stock/rust/libkernel.rmeta' sh "$RZ_IN_CACHE/$RZ_LINUX" "$RZ_RELEASE" ||
		die "the stock kernel's metadata could not be built; see the log above"
	stamp "$RZ_LINUX-stock"
}

# share_host_libraries FOLDER: gives another kernel's build the libraries that the stock kernel's made: no
# configuration changes them. Should they not fit, that build makes its own.
share_host_libraries() {
	mkdir -p "$RZ_CACHE/$RZ_LINUX/$1/rust/host"
	cp -pR "$RZ_CACHE/$RZ_LINUX/stock/rust/host/." "$RZ_CACHE/$RZ_LINUX/$1/rust/host/"
}

# setup_source: choose a kernel and have its packages here, resumable.
setup_source() {
	select_kernel
	load_kernel
	fetch_kernel
	unpack_source
	prepare_modules
	configure_stock
}

# setup_kobj: what modules are built against and guests load, resumable.
setup_kobj() {
	load_kernel
	prepare_stock
}

# kernel_info: where things are, for people.
kernel_info() {
	load_kernel || die "no kernel was chosen yet; run tools/setup kobj"
	cat <<-END
		lab root   $RZ_ROOT
		kernel     $RZ_VERSION, release $RZ_RELEASE
		KSRC       $RZ_CACHE/$RZ_LINUX/src     inside the root: $RZ_IN_CACHE/$RZ_LINUX/src
		KOBJ       $RZ_CACHE/$RZ_LINUX/stock   inside the root: $RZ_IN_CACHE/$RZ_LINUX/stock
	END
}
