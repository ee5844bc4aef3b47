# SPDX-License-Identifier: GPL-2.0
"""The figures of swap: P1, P2, P3, P8, P10, P11, and the list of all.

Targets are design.md's. "Never lower" and "never worse" leave 2 % for noise, or two equal things
could never be told equal.
"""

from .figures_disk import P4, P5, P6, P7, P9
from .model import Boot, Cell, Figure, Row, Series, Target

ALL = ("zram", "rzram", "ram")
BOTH = ("zram", "rzram")
# Each step of deferral by itself. The words after the dash are for people.
STEPS = ("rzram-sync", "rzram-batch")

ONE = Boot("uml", 1, "2G")
TWO = Boot("uml", 2, "2G")
STOCK_ONE = Boot("stock", 1, "1G")
STOCK_TWO = Boot("stock", 2, "1G")


def munmap_cells():
    for mb in (64, 128, 192, 256, 512, 1024):
        words = {"work": "munmap", "codec": "lzo-rle", "mb": mb}
        # Those without a target have fewer rounds.
        yield Cell(str(mb), words, ALL, rounds=20 if mb <= 256 else 10, quick=5, seconds=0.5 + mb / 200,
                   long=mb > 512)


def munmap_rows():
    for mb in (64, 256):
        cell = str(mb)
        yield Row(f"munmap-{mb}MB", cell, "munmap_ms", "ms", invert=True, target=Target(">=", 18))
        yield Row(f"munmap-{mb}MB-over-floor", cell, "munmap_ms", "ms", over="ram",
                  target=Target("<=", 2.0))
        yield Row(f"munmap-{mb}MB-slowest", cell, "munmap_ms", "ms", test="tail", by="max",
                  target=Target("<=", 2.0, "<=2-medians-or-floor's"))
    for mb in (128, 192, 512, 1024):
        yield Row(f"munmap-{mb}MB", str(mb), "munmap_ms", "ms", invert=True)


P1 = Figure(
    "P1", "munmap of a swapped-out area, one process",
    tuple(munmap_cells()), tuple(munmap_rows()),
    """A process maps private memory, fills each page with 106 to 226 words of a multiplicative
    sequence (the rest is zero), and pages all of it out with `madvise(MADV_PAGEOUT)` to a swap area
    that is the only one (no `discard` option). A round counts if the page table says that at least
    99 % of the pages are out, `/proc/swaps` and the disk's `mm_stat` agree to 2 %, and the swap cache
    holds at most 2 %. Then it unmaps all of it in one call, timed by the processor's time stamp
    counter around the call. rzram's workers run meanwhile. The disk is made anew for every round.
    C zram, rzram and a RAM disk (`brd`, the floor: it needs no notification) take turns. Codec
    lzo-rle. Twenty rounds, ten above 256 MB.""",
    plots=(("bars", "munmap of swapped-out memory", "munmap_ms", "ms", True),),
)


def together_cells():
    for mb in (128, 256):
        for procs in (1, 2):
            words = {"work": "munmap", "codec": "lzo-rle", "mb": mb, "procs": procs, "pin": 1}
            yield Cell(f"{mb}x{procs}", words, ALL, seconds=1 + mb * procs / 150)


def together_rows():
    for mb in (128, 256):
        for kind, suffix in (("rzram", ""), ("zram", "-zram-itself")):
            yield Row(f"2-at-once-{mb}MB{suffix}", f"{mb}x2", "munmap_ms", "ms", kind=kind,
                      over=Series(f"{mb}x1", kind, "munmap_ms"),
                      target=Target("<=", 1.5) if kind == "rzram" else None)


P2 = Figure(
    "P2", "munmap in two processes at once",
    tuple(together_cells()), tuple(together_rows()),
    """As P1, with one and with two processes of 128 or 256 MB each, each bound to a CPU of its own
    and let go at the same moment. The figure is the slower one's time against the time of a single
    one, bound likewise, in the same boot.""",
    plots=(("bars", "munmap, one and two at once", "munmap_ms", "ms", True),),
)

RETURN = {"codec": "lzo-rle", "mb": 256}
P3 = Figure(
    "P3", "return of memory, its cost, and what others feel",
    (
        Cell("return", {"work": "return", **RETURN}, BOTH + STEPS),
        Cell("cost", {"work": "cost", **RETURN}, ALL + STEPS),
        Cell("beside-1", {"work": "isolation", "innocents": 1, **RETURN}, ALL + STEPS),
        Cell("beside-2", {"work": "isolation", "innocents": 2, **RETURN}, ALL + STEPS),
    ),
    (
        Row("returned-50%", "return", "t50_ms", "ms"),
        Row("returned-90%", "return", "t90_ms", "ms"),
        Row("returned-99%", "return", "t99_ms", "ms", target=Target("<=", 0.7)),
        Row("cpu-task-and-workers", "cost", "cpu_ms", "ms", target=Target("<=", 0.7)),
        Row("innocent-lost", "beside-1", "lost_ms", "ms"),
        Row("innocent-longest-gap", "beside-1", "gap_ms", "ms"),
        Row("both-cpus-busy-lost", "beside-2", "lost_ms", "ms"),
        Row("both-cpus-busy-lost-sync", "beside-2", "lost_ms", "ms", kind="rzram-sync"),
        Row("returned-99%-sync", "return", "t99_ms", "ms", kind="rzram-sync"),
        Row("returned-99%-batch", "return", "t99_ms", "ms", kind="rzram-batch"),
    ),
    """256 MB are paged out as for P1. *Return*: a process of the highest nice value reads the pool's
    size every quarter of a millisecond from the start of the munmap until it has been within 1 % of
    empty for 60 ms: of C zram the third column of `mm_stat`, of rzram the debugfs figure `pool_pages`,
    which does not drain. Free memory of the whole guest is noted with it. *Cost*: on every CPU a
    process of the idle policy spins, reads the time stamp counter, and adds up the gaps; what a window
    with the munmap lacks beyond the idle window just before is the processor time of task, workers and
    interrupts together. The scheduler's own sums are not used because they move by the tick on
    user-mode Linux. *Innocents*: one process, or one for each CPU, does units of arithmetic at nice 0
    meanwhile; the figure is how much of 200 ms they lost together, against the 200 ms before.
    `sync` and `batch` are rzram with `deferred_free` 0 and 1.""",
    plots=(("curves", "memory returned after munmap of 256 MB", "return", "ms"),
           ("bars", "processor time and lost time", "cpu_ms", "ms", False)),
)


def among_cells(work, seconds):
    plain = {"work": work, "codec": "zstd", "secs": 12}
    forms = (
        ("1cpu", ONE, {"writers": 4, "spinners": 1, "fronts": 1}),
        ("2cpu", TWO, {"writers": 8, "spinners": 2, "fronts": 2}),
    )
    for name, boot, words in forms:
        yield Cell(name, {**plain, **words}, ALL, boot, rounds=5, quick=5, seconds=seconds)
    for name, boot, words in (
        ("stock-1cpu", STOCK_ONE, forms[0][2]), ("stock-2cpu", STOCK_TWO, forms[1][2])
    ):
        yield Cell(name, {**plain, **words}, ALL, boot, rounds=2, quick=2, seconds=35, long=True)


def among_rows():
    for cell in ("1cpu", "2cpu", "stock-1cpu", "stock-2cpu"):
        yield Row(f"p99.9-{cell}", cell, "p999_ms", "ms", over="ram", target=Target("<=", 1.5))
        yield Row(f"over-2-ticks-{cell}", cell, "slow", "", over="ram", by="sum", test="count",
                  target=Target("<=", 1.0, "<=floor's"))
        yield Row(f"slowest-{cell}", cell, "longest_ms", "ms", by="max")


AMONG = """Swap with zstd, `vm.page-cluster` 0. On one vCPU four processes at nice 10 page out 16 MB
    each and touch it all again without end, one process spins at nice 0; on two vCPUs eight, and two.
    After a second, {front}. Twelve seconds a run, five runs. A run counts if at least 2000
    pages went out meanwhile and the swap area is the only one. "Over 2 ticks" is
    twice the kernel's tick, 20 ms on user-mode Linux and 8 ms on the stock kernel. On the stock kernel
    in QEMU (software emulation) all times are longer; only the ratios are to be read."""

P8 = Figure(
    "P8", "loads against stores",
    tuple(among_cells("loads", 16)), tuple(among_rows()),
    AMONG.format(front="a process at nice -19 (two on two vCPUs) pages its own 4 MB out and faults it "
                       "in page by page, sleeping 300 us after every eighth; each fault is timed"),
    plots=(("latency", "reads of the high-priority task", None, None),),
)
P11 = Figure(
    "P11", "a store among stores",
    tuple(among_cells("stores", 16)), tuple(among_rows()),
    AMONG.format(front="a process at nice -19 (two on two vCPUs) writes a word to each page of its "
                       "own 4 MB and pages just that page out, sleeping 300 us after every eighth; "
                       "each page-out is timed"),
    plots=(("latency", "one-page page-outs of the high-priority task", None, None),),
)

BUILD = {"work": "build", "codec": "lz4", "mb": 1024, "limit_mb": 80, "jobs": 2,
         "script": "/rzram/bench/build-job.sh"}
P10 = Figure(
    "P10", "compiling in a small group",
    (
        Cell("build", BUILD, ("zram", "rzram"), ONE, rounds=10, quick=5, seconds=28),
        Cell("stock-build", BUILD, ("zram", "rzram"), STOCK_TWO, rounds=3, seconds=200, long=True),
    ),
    (
        Row("system-time", "stock-build", "system_s", "s", target=Target("<=", 0.85)),
        Row("wall-time", "build", "wall_s", "s", target=Target("<=", 0.95)),
        Row("cpu-time", "build", "cpu_s", "s"),
        Row("wall-time-stock", "stock-build", "wall_s", "s", target=Target("<=", 0.95)),
    ),
    """The kernel's libbpf is compiled twice from its source with `gcc -O2`, two compilers at a time, in a
    control group whose `memory.max` is too small for them, with its objects on a tmpfs in the same
    group, swap on the disk, codec lz4. Times are the group's `cpu.stat` and the wall clock. A run counts
    if the build succeeded and at least 5000 pages went out. User-mode Linux runs this on one CPU only:
    with two, its kernel takes a page from a process that runs on the other CPU without stopping that
    process's stores to it, and compilers crash, on a RAM disk as well; and it books all time as system
    time, so only wall and whole processor time are read there. System time, and both CPUs busy, come
    from the stock kernel, in three rounds, as emulation makes a build of minutes.""",
    plots=(("bars", "compiling in a small group", "cpu_s", "s", False),),
    needs=("tree",),
)

FIGURES = {figure.id: figure for figure in (P1, P2, P3, P4, P5, P6, P7, P8, P9, P10, P11)}
