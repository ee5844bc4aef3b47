# SPDX-License-Identifier: GPL-2.0
#
# Builds the module and the guest programs for one lab kernel, in the cache, so that kernels do not
# overwrite each other's objects and the checkout stays clean. Sourced by tools/vm, tools/test, tools/lint.
# shellcheck shell=bash

# flavor_dir FLAVOR: the build folder of a kernel flavor for this checkout, relative to the cache.
flavor_dir() {
	printf 'build/%s-%s' "$1" "$(printf '%s' "$RZ_TOP" | cksum | cut -d' ' -f1)"
}

# kobj_of FLAVOR: the kernel object tree of stock, uml, debug, or of a variant such as stock-clippy.
kobj_of() {
	printf '%s/%s/%s' "$RZ_IN_CACHE" "$RZ_LINUX" "${1%%-*}"
}

# sync_sources DIR: copy what the module is built from; only what changed, so builds stay incremental.
sync_sources() {
	mkdir -p "$RZ_CACHE/$1"
	in_root rsync -a --delete --prune-empty-dirs --exclude='*_generated.rs' --exclude='*.mod.rs' \
		--exclude='/.*' --exclude='/selftests/' --exclude='/bench/' --exclude='/tools/' --exclude='/Documentation/' \
		--include='*/' --include='*.rs' --include='*.h' --include='*.S' --include=Kbuild --exclude='*' \
		"$RZ_IN_TOP/" "$RZ_IN_CACHE/$1/"
}

# build_module_locked FLAVOR [MAKE-ARG...]
build_module_locked() {
	local flavor=$1 dir arch=() log
	dir=$(flavor_dir "$flavor")
	log=$RZ_LOG/${dir//\//-}.log
	shift
	case $flavor in
	uml*) arch=(ARCH=um) ;;
	debug*) arch=(LLVM=-19) ;;
	esac
	sync_sources "$dir"
	if ! in_root make -C "$(kobj_of "$flavor")" M="$RZ_IN_CACHE/$dir" "${arch[@]}" "$@" modules >"$log" 2>&1; then
		grep -v '^make' "$log" >&2 || true
		say "the module does not build for the $flavor kernel"
		return 1
	fi
	# Warnings must not hide behind a build that works.
	if grep -q '^warning' "$log"; then
		grep -v '^make\|^  [A-Z]' "$log" >&2 || true
	fi
}

# build_module FLAVOR [MAKE-ARG...]: build rzram.ko for a lab kernel; quick when nothing changed.
build_module() {
	load_kernel || die "no kernel was chosen yet; run tools/setup kobj"
	# Checkouts build side by side.
	with_lock "$(flavor_dir "$1" | tr / -)" build_module_locked "$@"
}

# module_path FLAVOR: where build_module leaves the module, on the host.
module_path() {
	printf '%s/%s/rzram.ko' "$RZ_CACHE" "$(flavor_dir "$1")"
}

# cargo_in_root TARGET CRATE SUBCOMMAND [ARG...]: cargo on a crate of the checkout with Debian's crates,
# its build folder in the cache. CARGO_HOME's configuration also reaches cargo's own subcommands.
cargo_in_root() {
	local target=$1 crate=$2
	shift 2
	mkdir -p "$RZ_CACHE/cargo"
	cmp -s "$RZ_TOP/tools/lib/cargo.toml" "$RZ_CACHE/cargo/config.toml" ||
		cp "$RZ_TOP/tools/lib/cargo.toml" "$RZ_CACHE/cargo/config.toml"
	in_root env CARGO_HOME="$RZ_IN_CACHE/cargo" CARGO_TERM_COLOR=never \
		CARGO_TARGET_DIR="$RZ_IN_CACHE/$(flavor_dir "$target")" RUSTFLAGS="${RZ_RUSTFLAGS:-}" \
		RZRAM_TIER="${RZRAM_TIER:-test}" \
		cargo "$1" --manifest-path "$RZ_IN_TOP/$crate/Cargo.toml" --locked --offline "${@:2}"
}

# build_programs: compile selftests/bin.
build_programs() {
	local log=$RZ_LOG/build-programs.log
	[ -e "$RZ_TOP/selftests/bin/Cargo.toml" ] || return 0
	if ! cargo_in_root programs selftests/bin build --release >"$log" 2>&1; then
		cat "$log" >&2
		say "the guest programs do not build"
		return 1
	fi
}

# programs_path: the folder of compiled guest programs, on the host.
programs_path() {
	printf '%s/%s/release' "$RZ_CACHE" "$(flavor_dir programs)"
}
