# SPDX-License-Identifier: GPL-2.0
"""The host side of the bench: what is measured, running it, judging it, showing it."""
