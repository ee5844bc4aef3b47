# SPDX-License-Identifier: GPL-2.0
#
# Read by make before the kernel's own makefiles, by way of MAKEFILES: one more goal, the libraries that
# procedural macros are built on. The kernel has them built late, by one process, while others wait.
# make calls itself in the folder of the objects, and says so in sub_make_done; only there the kernel's
# rules are known.

ifeq ($(sub_make_done),1)
rust-host-libraries: prepare0
	$(Q)$(MAKE) $(build)=rust rust/host/libsyn.rlib
endif
