# SPDX-License-Identifier: GPL-2.0
#
# rzram: the module for one kernel (make), and everything that needs the lab (make run, make test).
# Kbuild holds the module's own rules; the kernel's build reads that file and not this one.

KDIR ?= /lib/modules/$(shell uname -r)/build

.DEFAULT_GOAL := module
.PHONY: module install clean help setup run test test-full lint bench

module:
	@tools/preflight '$(KDIR)'
	$(MAKE) -C '$(KDIR)' M='$(CURDIR)' modules

install: module
	$(MAKE) -C '$(KDIR)' M='$(CURDIR)' modules_install
	depmod

clean:
	@if [ -e '$(KDIR)/Makefile' ]; then $(MAKE) -C '$(KDIR)' M='$(CURDIR)' clean; fi

help:
	@echo 'For a kernel of your own:'
	@echo '  make [KDIR=DIR]   build rzram.ko for the kernel whose build folder is DIR (the running one)'
	@echo '  make install      install it there'
	@echo '  make clean        remove what make built'
	@echo 'In the lab (root, Debian 12 or 13; made in RZRAM_CACHE, by default ~/.cache/rzram):'
	@echo '  make run          swap on rzram in a guest with 1 GB, every page verified'
	@echo '  make test         every test, within the time budget; tools/test --help for parts of it'
	@echo '  make test-full    the long soaks as well'
	@echo '  make lint         rustfmt, clippy and the gates'
	@echo '  make bench        the comparison with zram'
	@echo '  make setup        only prepare the lab'

setup:
	@tools/setup all

run:
	@tools/run

test:
	@tools/test

test-full:
	@tools/test --full

lint:
	@tools/lint

bench:
	@bench/run --report
