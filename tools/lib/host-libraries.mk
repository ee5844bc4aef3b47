# SPDX-License-Identifier: GPL-2.0
#
# Read by make before the kernel's own makefiles, by way of MAKEFILES: one more goal, the libraries that
# procedural macros are built on. The kernel has them built late, by one process, while others wait.
# make calls itself until it is quiet about folders; only then the kernel's rules are there.

ifneq ($(filter --no-print-directory,$(MAKEFLAGS)),)
rust-host-libraries: prepare0
	$(Q)$(MAKE) $(build)=rust rust/host/libsyn.rlib
endif
