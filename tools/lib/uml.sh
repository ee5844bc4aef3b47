# SPDX-License-Identifier: GPL-2.0
#
# The user-mode kernel: C zram, a RAM disk and rzram side by side at the processor's real speed.
# Built from the same source as the stock kernel's metadata. Sourced by tools/setup.
# shellcheck shell=bash

# uml_key: names the stamp; a changed configuration means a new build.
uml_key() {
	printf '%s-uml-%s' "$RZ_LINUX" "$(cat "$RZ_TOP/tools/lib/uml.config" | cksum | cut -d' ' -f1)"
}

setup_uml() {
	local key
	load_kernel || die "no kernel was chosen yet; run tools/setup kobj"
	key=$(uml_key)
	stamped "$key" && return
	need_space 4
	share_host_libraries uml
	run_step "building the user-mode kernel (about 4 minutes)" kernel-uml \
		in_root bash -c '
			set -e
			cd "$1"
			mkdir -p uml
			export ARCH=um
			build() { make -C "$PWD/src" O="$PWD/uml" -j"$(nproc)" "$@"; }
			build x86_64_defconfig
			src/scripts/kconfig/merge_config.sh -m -O uml uml/.config /rzram/tools/lib/uml.config
			build olddefconfig
			grep "^CONFIG_\|^# CONFIG_" /rzram/tools/lib/uml.config | while read -r line; do
				case $line in
				"# CONFIG_"*) name=${line#\# }; ! grep "^${name%% *}=" uml/.config ;;
				*) grep -qxF "$line" uml/.config ;;
				esac || { echo "the configuration did not take: $line"; exit 1; }
			done
			build linux modules
			rm -rf uml-modules
			build INSTALL_MOD_PATH="$PWD/uml-modules" modules_install
			test -e uml/rust/libkernel.rmeta' sh "$RZ_IN_CACHE/$RZ_LINUX" ||
		die "the user-mode kernel could not be built; see the log above"
	rm -f "$RZ_CACHE/stamp/$RZ_LINUX"-uml-*
	stamp "$key"
}
