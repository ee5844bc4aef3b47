/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Declarations that the kernel's own Rust bindings do not carry: the compression libraries, the
 * out-of-memory notifier, and constants that C spells with a cast, which bindgen cannot evaluate.
 * Parsed by bindgen, never compiled.
 */
#include <linux/bio.h>
#include <linux/blkdev.h>
#include <linux/gfp.h>
#include <linux/lz4.h>
#include <linux/lzo.h>
#include <linux/oom.h>
#include <linux/part_stat.h>
#include <linux/shrinker.h>
#include <linux/sw842.h>
#include <linux/zlib.h>
#include <linux/zstd.h>

#define RZ_UINT(name) const unsigned int RZC_##name = (__force unsigned int)name
#define RZ_BYTE(name) const unsigned char RZC_##name = (__force unsigned char)name
#define RZ_SIZE(name) const size_t RZC_##name = name

RZ_UINT(BLK_FEAT_STABLE_WRITES);
RZ_UINT(BLK_FEAT_SYNCHRONOUS);

RZ_UINT(BLK_OPEN_READ);
RZ_UINT(BLK_OPEN_WRITE);
RZ_UINT(BLK_OPEN_EXCL);

RZ_BYTE(BLK_STS_OK);
RZ_BYTE(BLK_STS_NOTSUPP);
RZ_BYTE(BLK_STS_NOSPC);
RZ_BYTE(BLK_STS_RESOURCE);
RZ_BYTE(BLK_STS_IOERR);

RZ_UINT(REQ_SYNC);
RZ_UINT(REQ_IDLE);
RZ_UINT(REQ_RAHEAD);

RZ_UINT(GFP_ATOMIC);
RZ_UINT(GFP_NOWAIT);
RZ_UINT(GFP_NOIO);
RZ_UINT(GFP_KERNEL);
RZ_UINT(__GFP_ACCOUNT);
RZ_UINT(__GFP_COMP);
RZ_UINT(__GFP_DIRECT_RECLAIM);
RZ_UINT(__GFP_HIGH);
RZ_UINT(__GFP_KSWAPD_RECLAIM);
RZ_UINT(__GFP_MEMALLOC);
RZ_UINT(__GFP_MOVABLE);
RZ_UINT(__GFP_NOFAIL);
RZ_UINT(__GFP_NOMEMALLOC);
RZ_UINT(__GFP_NORETRY);
RZ_UINT(__GFP_NOWARN);
RZ_UINT(__GFP_RETRY_MAYFAIL);
RZ_UINT(__GFP_ZERO);

const unsigned long RZC_ZONES_PGSHIFT = ZONES_PGSHIFT;
const unsigned long RZC_ZONES_MASK = ZONES_MASK;

const unsigned long RZC_SHRINK_STOP = SHRINK_STOP;
const unsigned long RZC_SHRINK_EMPTY = SHRINK_EMPTY;

const size_t RZC_DISK_STATS_SIZE = sizeof(struct disk_stats);

RZ_SIZE(LZ4_MEM_COMPRESS);
RZ_SIZE(LZ4HC_MEM_COMPRESS);
RZ_SIZE(LZO1X_MEM_COMPRESS);
RZ_SIZE(LZO1X_1_MEM_COMPRESS);
RZ_SIZE(SW842_MEM_COMPRESS);
