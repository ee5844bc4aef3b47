# SPDX-License-Identifier: GPL-2.0
#
# The lab root: Debian 13 with backports and the whole toolchain, made by debootstrap in the cache.
# It makes every result independent of the host's release. Sourced by tools/setup.
# shellcheck shell=bash

# host_mirror: the package mirror of this machine's own apt configuration (both file formats), or nothing.
host_mirror() {
	local uri file
	# shellcheck disable=SC2016
	uri=$(apt-get indextargets --format '$(COMPONENT) $(RELEASE) $(REPO_URI)' 'Created-By: Packages' 2>/dev/null |
		awk -v suite="$(. /etc/os-release && echo "${VERSION_CODENAME:-}")" \
			'$1 == "main" && $2 == suite { print $3; exit }') || true
	case $uri in
	mirror+file:* | mirror:file:*)
		file=${uri#*file:}
		file=/${file#"${file%%[!/]*}"}
		uri=$(awk '!/^#/ && NF { print $1; exit }' "${file%/}" 2>/dev/null) || true
		;;
	esac
	printf '%s\n' "${uri%/}"
}

# need_debootstrap: install it on the host if it is missing.
need_debootstrap() {
	command -v debootstrap >/dev/null && return
	command -v apt-get >/dev/null ||
		die "debootstrap is missing and this is not a Debian machine; install debootstrap and run again"
	run_step "installing debootstrap on this machine" host-debootstrap \
		sh -c 'apt-get install -y --no-install-recommends debootstrap ||
			{ apt-get update && apt-get install -y --no-install-recommends debootstrap; }' ||
		die "debootstrap is missing and could not be installed; install it by hand and run again"
}

# make_base: debootstrap into a folder that gets its final name only when complete.
make_base() {
	local mirror part=$RZ_ROOT.part proxy=''
	need_space 12
	need_debootstrap
	eval "$(apt-config shell proxy Acquire::http::Proxy)"
	[ -z "$proxy" ] || export http_proxy=$proxy
	mirror=$(host_mirror)
	if [ -n "$mirror" ] && command -v wget >/dev/null; then
		wget -q -T 20 -t 2 -O /dev/null "$mirror/dists/$RZ_SUITE/InRelease" ||
			die "cannot reach Debian's $RZ_SUITE on the package mirror this machine is set up with; check the network and run again"
	fi
	rm -rf "$part"
	mkdir -p "$part/etc/dpkg/dpkg.cfg.d"
	# No documentation, no syncing: this root is a tool, and can be made again.
	cat >"$part/etc/dpkg/dpkg.cfg.d/lab" <<-'END'
		force-unsafe-io
		path-exclude=/usr/share/doc/*
		path-exclude=/usr/share/man/*
		path-exclude=/usr/share/info/*
		path-exclude=/usr/share/locale/*
		path-exclude=/usr/share/lintian/*
	END
	run_step "making a Debian $RZ_SUITE root" debootstrap \
		setpriv --pdeathsig KILL unshare --mount --propagation private --pid --fork --kill-child \
		debootstrap --variant=minbase --include=ca-certificates "$RZ_SUITE" "$part" ${mirror:+"$mirror"} ||
		die "debootstrap could not make the lab root; see the log above, then run again"
	rm -rf "$RZ_ROOT"
	mv "$part" "$RZ_ROOT"
}

# configure_apt: the host's own fetch options, and backports from the mirror that debootstrap wrote down.
configure_apt() {
	local line
	apt-config dump 2>/dev/null |
		grep -E '^Acquire::(http|https|Check-Date|Check-Valid-Until|ForceIPv4|ForceIPv6)[: ]' |
		grep -Ev '"";$' >"$RZ_ROOT/etc/apt/apt.conf.d/80host" || true
	cat >"$RZ_ROOT/etc/apt/apt.conf.d/90lab" <<-'END'
		APT::Install-Recommends "false";
		Acquire::Languages "none";
		Acquire::Retries "3";
		Dpkg::Use-Pty "false";
	END
	printf '#!/bin/sh\nexit 101\n' >"$RZ_ROOT/usr/sbin/policy-rc.d"
	chmod 755 "$RZ_ROOT/usr/sbin/policy-rc.d"
	if [ -e /etc/ssl/certs/ca-certificates.crt ]; then
		cp /etc/ssl/certs/ca-certificates.crt "$RZ_ROOT/etc/ssl/certs/"
	fi
	line=$(grep -E "^deb .* $RZ_SUITE " "$RZ_ROOT/etc/apt/sources.list" | head -n 1)
	[ -n "$line" ] || die "the lab root has no package source; remove $RZ_ROOT and run again"
	printf '%s\n' "${line/ $RZ_SUITE / $RZ_SUITE-backports }" >"$RZ_ROOT/etc/apt/sources.list.d/backports.list"
}

# install_packages: everything in packages.list; "?" lines only as far as they exist.
install_packages() {
	local names optional name
	run_step "reading the package lists" apt-update in_root apt-get update ||
		die "the package mirror cannot be reached from the lab root; check the network and run again"
	names=$(sed -n 's/^\([a-z0-9].*\)$/\1/p' "$RZ_TOP/tools/lib/packages.list")
	optional=$(sed -n 's/^?//p' "$RZ_TOP/tools/lib/packages.list")
	for name in $optional; do
		if in_root apt-cache show "$name" >/dev/null 2>&1; then
			names+=" $name"
		fi
	done
	# shellcheck disable=SC2086
	run_step "installing the toolchain and the guest programs" apt-install \
		in_root sh -c 'dpkg --configure -a && apt-get -f install -y &&
			apt-get install -y -o APT::Status-Fd=1 "$@" && apt-get clean' sh $names ||
		die "the packages of the lab root could not be installed; see the log above, then run again"
}

# setup_root: all of the above, resumable.
setup_root() {
	local key
	key=root-$(cat "$RZ_TOP/tools/lib/packages.list" "$RZ_TOP/tools/lib/root.sh" | cksum | cut -d' ' -f1)
	if [ -x "$RZ_ROOT/usr/bin/env" ] && stamped "$key"; then
		return 0
	fi
	[ -d "$RZ_ROOT" ] || make_base
	configure_apt
	install_packages
	rm -f "$RZ_CACHE"/stamp/root-*
	stamp "$key"
}
