#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# build-tree.sh TARBALL: packs the source tree that P10 compiles: libbpf and the headers it needs, out of
# the lab's kernel source. Run by bench/run inside the lab root.
set -euo pipefail

target=$1
version=$(sed -n 's/^VERSION=//p' /cache/kernel.selected)
source=/cache/linux-${version//[^A-Za-z0-9.+-]/_}/src
cd "$source"
tar -cf "$target.new" tools/lib/bpf tools/include tools/arch/x86/include include/uapi
mv "$target.new" "$target"
