/* SPDX-License-Identifier: GPL-2.0 */
/* The compression libraries, for bindgen. Never compiled. */
#include <linux/lz4.h>
#include <linux/lzo.h>
#include <linux/zstd.h>

const size_t RZC_LZ4_WORK = LZ4_MEM_COMPRESS;
const size_t RZC_LZO_WORK = LZO1X_MEM_COMPRESS;
