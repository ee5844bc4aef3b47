# SPDX-License-Identifier: GPL-2.0
"""The figures of the disk itself: P4, P5, P6, P7, P9."""

from .model import Boot, Cell, Figure, Row, Series, Target

ALL = ("zram", "rzram", "ram")
BOTH = ("zram", "rzram")
CODECS = ("lzo-rle", "lz4", "zstd")
NEVER_LOWER = Target(">=", 0.98, ">=1-2%")
NEVER_HIGHER = Target("<=", 1.02, "<=1+2%")
STOCK = Boot("stock", 2, "1G")
SMALL = Boot("uml", 2, "1G")


def io_words(codec, data, phase, jobs):
    data_mb = 128 if data == "real" else 32
    return {"work": "io", "codec": codec, "mb": 128, "data": data, "data_mb": data_mb,
            "phase": phase, "jobs": jobs, "secs": 0.6}


def io_cell(codec, data, phase, jobs):
    return Cell(f"{codec}-{data}-{phase}-{jobs}", io_words(codec, data, phase, jobs), BOTH,
                seconds=0.8, group=f"{codec}-{data}", long=data != "real" and jobs > 1)


def bare(codec, data):
    words = {"work": "codec", "codec": codec, "data": data, "data_mb": 128 if data == "real" else 32}
    return Cell(f"bare-{codec}-{data}", words, ("codec",), seconds=1.5, group=f"{codec}-{data}")


READS = ("read", "randread", "randread-single")


def read_cells():
    for codec in CODECS:
        yield bare(codec, "real")
        for phase in READS:
            for jobs in (1, 2, 4):
                yield io_cell(codec, "real", phase, jobs)


def read_rows():
    for codec in CODECS:
        for phase in ("read", "randread"):
            yield Row(f"{phase}-{codec}-beyond-codec", f"{codec}-real-{phase}-1", "ns_per_page", "ns",
                      minus=Series(f"bare-{codec}-real", "codec", "decompress_ns"),
                      target=Target("<=", 0.5))
        for phase in READS:
            for jobs in (1, 2, 4):
                yield Row(f"{phase}-{codec}-{jobs}", f"{codec}-real-{phase}-{jobs}", "pages_per_s",
                          "/s", target=NEVER_LOWER)


P4 = Figure(
    "P4", "reads",
    tuple(read_cells()), tuple(read_rows()),
    """A disk of 128 MB is filled once with real memory pages (see P7) and read by 1, 2 or 4
    processes with direct I/O for 0.6 s: `read` in sequential requests of 1 MiB, each process its
    own part; `randread` 4 KiB at random places, 64 of them in one `io_submit`, so that the system
    call's share vanishes; `randread-single` with one `pread` each, as an application would. Both
    drivers' disks are filled at the same time and take turns. Before each round the codec, the disk's
    size, `mm_stat`'s first column and a part of the content are checked. "Beyond the codec" is the
    time a page of one process less the time of the bare codec, called in the same kernel on the same
    pages.""",
    plots=(("grid", "reads of real pages", "pages_per_s", "pages/s"),),
    needs=("pages", "kmod"),
)

GRID = ("read", "randread", "write", "randwrite", "rw", "randrw")


def write_cells():
    for codec in CODECS:
        for data in ("real", "const", "c11"):
            yield bare(codec, data)
            for phase in GRID:
                for jobs in (1, 2, 4):
                    if wanted(codec, data, phase, jobs):
                        yield io_cell(codec, data, phase, jobs)


def wanted(codec, data, phase, jobs):
    """The whole grid for lz4 and the two artificial sets; what the targets need for the rest."""
    if codec == "lz4" and data != "real":
        return True
    return phase in ("write", "randwrite") and jobs <= (2 if data == "real" else 1)


def write_rows():
    for codec in CODECS:
        for data in ("real", "const", "c11"):
            for phase in ("write", "randwrite"):
                yield Row(f"{phase}-{codec}-{data}-beyond-codec", f"{codec}-{data}-{phase}-1",
                          "ns_per_page", "ns",
                          minus=Series(f"bare-{codec}-{data}", "codec", "compress_ns"),
                          target=Target("<=", 0.6))
    for cell in write_cells():
        if cell.words["work"] == "io":
            yield Row(cell.name, cell.name, "pages_per_s", "/s", target=NEVER_LOWER)


P6 = Figure(
    "P6", "writes and the six phases",
    tuple(write_cells()), tuple(write_rows()),
    """As P4, with three sets of data: a 5-byte pattern repeated (compresses to almost nothing),
    11 % compressible as fio makes it (stored uncompressed by both drivers), and real pages. The six
    phases are those of the kernel's own fio grid; random ones go in batches of 64, sequential ones in
    requests of 1 MiB, mixed ones write every second request. Writers overwrite a filled disk with the
    content it already has at that place, so the content is proved again before each round.""",
    plots=(("grid", "six phases", "pages_per_s", "pages/s"),),
    needs=("pages", "kmod"),
)


def reader_cells():
    for codec in ("lz4", "zstd"):
        for request in (256, 4):
            words = {"work": "readers", "codec": codec, "mb": 480, "data": "c60",
                     "request_kb": request, "secs": 60 if request == 256 else 40}
            yield Cell(f"{codec}-{request}K", words, ALL, rounds=5 if request == 256 else 3, quick=3,
                       seconds=words["secs"] + 2, group=codec, quick_words={"secs": 15})
        words = {"work": "readers", "codec": codec, "mb": 96, "data": "c60", "request_kb": 256,
                 "secs": 60}
        yield Cell(f"stock-{codec}-256K", words, ALL, STOCK, rounds=2, quick=2, seconds=80,
                   group=codec, long=True)


def reader_rows():
    for cell in reader_cells():
        part = 1 / 40 if cell.words["codec"] == "lz4" else 1 / 100
        yield Row(f"longest-{cell.name}", cell.name, "longest_ms", "ms", test="looser",
                  over=(("ram", 2.0), ("zram", part)),
                  target=Target("<=", 1.0, f"<=2xRAM-disk-or-C/{1 / part:.0f}"))
        yield Row(f"iops-{cell.name}", cell.name, "iops", "/s", target=NEVER_LOWER)
        yield Row(f"mean-{cell.name}", cell.name, "mean_ms", "ms", target=NEVER_HIGHER)
        for name in ("p99", "deviation"):
            yield Row(f"{name}-{cell.name}", cell.name, f"{name}_ms", "ms")


P5 = Figure(
    "P5", "interactive readers behind busy ones",
    tuple(reader_cells()), tuple(reader_rows()),
    """A disk of 480 MB (96 on the stock kernel) is filled with data that is 60 % compressible as fio
    makes it. Two processes at nice -19 read 4 KiB at random places with direct I/O and sleep 500 us
    after each; behind them six processes at nice 19 read 256 KiB (or 4 KiB) without end, and two spin
    at nice 0. 60 s a run, five runs (three of 40 s
    with 4 KiB behind, two on the stock kernel; 15 s and three runs with `--quick`), every read timed. The longest read is
    held against twice the RAM disk's, or 1/40 (lz4) or 1/100 (zstd) of C's where that is looser.
    rzram's own contention statistics are in results.json.""",
    plots=(("latency", "reads of the interactive tasks", None, None),),
)


def density_cells():
    for codec in ("lz4", "zstd", "lzo-rle"):
        words = {"work": "density", "codec": codec, "mb": 420, "data": "real", "data_mb": 420}
        yield Cell(codec, words, BOTH, rounds=3, quick=2, seconds=15, group=codec)


def density_rows():
    for codec in ("lz4", "zstd", "lzo-rle"):
        target = None if codec == "lzo-rle" else Target("<=", 1.015)
        yield Row(f"pool/compressed-{codec}", codec, "fresh", "", over=None, target=target)
        yield Row(f"after-churn-{codec}", codec, "churned", "")
        yield Row(f"after-compact-{codec}", codec, "compacted", "")
        yield Row(f"compact-time-{codec}", codec, "compact_ms", "ms")
    yield Row("slot-and-header-bytes", "lz4", "metadata_bytes", "B", over=None,
              target=Target("<=", 20))
    yield Row("bytes-outside-pool-a-page", "lz4", "outside_bytes", "B")


P7 = Figure(
    "P7", "density",
    tuple(density_cells()), tuple(density_rows()),
    """420 MB of real pages, gathered once in the guest and kept: the writable memory of running
    programs (rustc, gcc, python, perl, sort, bash, stopped midway), and then text and shared libraries
    in equal parts. They are written to an empty disk with direct I/O; the figure is `mm_stat`'s third
    column over its second. Then twice as many random pages as the disk has are overwritten with others
    (three of four) or discarded, which is *after churn*; then `compact` is written. Bytes outside the
    pool: what the guest's unused memory (the allocator's per-CPU lists included) shrank by beyond the
    pool, for each stored page: slot table, handles or descriptors, streams.""",
    plots=(("bars", "pool bytes / compressed bytes", "fresh", "", False),),
    needs=("pages",),
)

P9 = Figure(
    "P9", "a disk of 100 GB on a guest of 1 GB",
    (Cell("100G", {"work": "huge", "codec": "lz4", "gb": 100}, BOTH, SMALL, seconds=4),),
    (
        Row("memory-taken", "100G", "taken_mib", "MiB", over=None, target=Target("<=", 1.0)),
        Row("discard-all", "100G", "discard_ms", "ms", over=None, target=Target("<=", 10)),
        Row("disksize", "100G", "disksize_ms", "ms"),
        Row("reset", "100G", "reset_ms", "ms"),
    ),
    """On a guest with 1 GB: unused memory (per-CPU lists included) before and after writing `100G` to
    `disksize`, streams of lz4 included; the time of that write, of one `BLKDISCARD` of the whole empty
    disk, and of `reset`.""",
    plots=(("bars", "an empty disk of 100 GB", "discard_ms", "ms", True),),
)
