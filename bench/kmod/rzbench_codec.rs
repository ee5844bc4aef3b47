// SPDX-License-Identifier: GPL-2.0

//! Times the kernel's compression libraries on pages given from user space, with no driver around
//! them: what P4 and P6 take off a driver's time a page.
//!
//! `/dev/rzbench` knows one ioctl: a codec's number and memory in, nanoseconds out. Pages of one
//! repeated word are left out, as every driver leaves them to no codec; pages that compress badly
//! are copied instead of decompressed, as they would be stored raw. Nothing else happens between
//! the two readings of the clock around a batch.

use kernel::fs::File;
use kernel::miscdevice::MiscDevice;
use kernel::miscdevice::MiscDeviceOptions;
use kernel::miscdevice::MiscDeviceRegistration;
use kernel::prelude::*;
use kernel::time::Instant;
use kernel::time::Monotonic;
use kernel::uaccess::UserPtr;
use kernel::uaccess::UserSlice;

#[allow(
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    missing_docs,
    dead_code,
    non_camel_case_types,
    non_upper_case_globals,
    non_snake_case,
    unreachable_pub,
    unsafe_op_in_unsafe_fn
)]
mod c {
    use kernel::ffi;
    include!(concat!(env!("RZBENCH_GEN"), "/codec_generated.rs"));
}

const PAGE: usize = 4096;
/// A compressed page has this much room, more than any codec makes of a page.
const ROOM: usize = 2 * PAGE;
/// Pages between two readings of the clock.
const BATCH: usize = 64;
/// What compresses to more is stored raw: zsmalloc's largest class that is not a whole page.
const RAW: usize = 3264;
/// `_IOWR('z', 1, struct of 48 bytes)`.
const BARE_CODEC: u32 = (3 << 30) | (48 << 16) | 0x7a01;
const WORDS: usize = 6;

module! {
    type: Bench,
    name: "rzbench_codec",
    authors: ["the rzram developers"],
    description: "bare codec timing for the rzram bench",
    license: "GPL",
}

#[pin_data]
struct Bench {
    #[pin]
    device: MiscDeviceRegistration<Opened>,
}

impl kernel::InPlaceModule for Bench {
    fn init(_module: &'static ThisModule) -> impl PinInit<Self, Error> {
        let options = MiscDeviceOptions { name: c"rzbench" };
        try_pin_init!(Self { device <- MiscDeviceRegistration::register(options) })
    }
}

struct Opened;

#[vtable]
impl MiscDevice for Opened {
    type Ptr = KBox<Self>;

    fn open(_file: &File, _device: &MiscDeviceRegistration<Self>) -> Result<KBox<Self>> {
        Ok(KBox::new(Opened, GFP_KERNEL)?)
    }

    fn ioctl(_me: &Self, _file: &File, command: u32, argument: usize) -> Result<isize> {
        if command != BARE_CODEC {
            return Err(ENOTTY);
        }
        let (mut reader, mut writer) =
            UserSlice::new(UserPtr::from_addr(argument), WORDS * 8).reader_writer();
        let mut words = [0_u64; WORDS];
        for word in &mut words {
            *word = reader.read()?;
        }
        let [number, address, count, ..] = words;
        // CAST: 64-bit kernels only.
        let times = run(number, address as usize, count as usize)?;
        // The fields that were read are written back as they are.
        for word in [
            number,
            address,
            count,
            times.compress,
            times.decompress,
            times.bytes,
        ] {
            writer.write(&word)?;
        }
        Ok(0)
    }
}

#[derive(Default)]
struct Times {
    compress: u64,
    decompress: u64,
    bytes: u64,
}

/// Memory of a batch.
struct Buffers {
    pages: KVVec<u8>,
    compressed: KVVec<u8>,
    lengths: KVVec<usize>,
    back: KVVec<u8>,
}

fn zeroed(bytes: usize) -> Result<KVVec<u8>> {
    Ok(KVVec::from_elem(0, bytes, GFP_KERNEL)?)
}

fn run(number: u64, address: usize, count: usize) -> Result<Times> {
    let mut codec = Codec::new(number)?;
    let mut buffers = Buffers {
        pages: zeroed(BATCH * PAGE)?,
        compressed: zeroed(BATCH * ROOM)?,
        lengths: KVVec::from_elem(0, BATCH, GFP_KERNEL)?,
        back: zeroed(PAGE)?,
    };
    let mut times = Times::default();
    let mut done = 0;
    while done < count {
        let now = BATCH.min(count - done);
        let start = UserPtr::from_addr(address.wrapping_add(done * PAGE));
        let mut reader = UserSlice::new(start, now * PAGE).reader();
        reader.read_slice(&mut buffers.pages[..now * PAGE])?;
        batch(&mut codec, &mut buffers, now, &mut times)?;
        done += now;
    }
    Ok(times)
}

/// Tells whether a page is one word repeated.
fn is_fill(page: &[u8]) -> bool {
    let (first, rest) = page.split_at(8);
    rest.chunks_exact(8).all(|word| word == first)
}

fn since(begin: Instant<Monotonic>) -> u64 {
    u64::try_from(begin.elapsed().as_nanos()).unwrap_or(0)
}

fn batch(codec: &mut Codec, buffers: &mut Buffers, count: usize, times: &mut Times) -> Result {
    // Fill pages go out of the batch before the clock starts.
    let mut kept = 0;
    for index in 0..count {
        if !is_fill(&buffers.pages[index * PAGE..][..PAGE]) {
            buffers
                .pages
                .copy_within(index * PAGE..(index + 1) * PAGE, kept * PAGE);
            kept += 1;
        }
    }
    let begin = Instant::<Monotonic>::now();
    for index in 0..kept {
        let page = &buffers.pages[index * PAGE..][..PAGE];
        let out = &mut buffers.compressed[index * ROOM..][..ROOM];
        buffers.lengths[index] = codec.compress(page, out)?;
    }
    times.compress += since(begin);
    let begin = Instant::<Monotonic>::now();
    for index in 0..kept {
        let length = buffers.lengths[index];
        if length > RAW {
            let page = &buffers.pages[index * PAGE..][..PAGE];
            buffers.back.copy_from_slice(page);
        } else {
            let object = &buffers.compressed[index * ROOM..][..length];
            codec.decompress(object, &mut buffers.back)?;
        }
    }
    times.decompress += since(begin);
    let bytes: usize = buffers.lengths[..kept]
        .iter()
        .map(|length| (*length).min(PAGE))
        .sum();
    times.bytes += bytes as u64;
    // The last page of the batch stands for all: a codec that returns something else is no codec.
    let last = kept
        .checked_sub(1)
        .map(|index| &buffers.pages[index * PAGE..][..PAGE]);
    if last.is_some_and(|page| page != &buffers.back[..]) {
        return Err(EIO);
    }
    Ok(())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    LzoRle,
    Lz4,
    Zstd,
    Lzo,
}

/// A codec with its working memory.
struct Codec {
    kind: Kind,
    work: KVVec<u8>,
    back: KVVec<u8>,
    zstd: Option<c::zstd_parameters>,
    compressor: *mut c::zstd_cctx,
    decompressor: *mut c::zstd_dctx,
}

impl Codec {
    fn new(number: u64) -> Result<Self> {
        let kind = *[Kind::LzoRle, Kind::Lz4, Kind::Zstd, Kind::Lzo]
            .get(usize::try_from(number).map_err(|_| EINVAL)?)
            .ok_or(EINVAL)?;
        let mut codec = Self {
            kind,
            work: KVVec::new(),
            back: KVVec::new(),
            zstd: None,
            compressor: core::ptr::null_mut(),
            decompressor: core::ptr::null_mut(),
        };
        match kind {
            Kind::LzoRle | Kind::Lzo => codec.work = zeroed(c::RZC_LZO_WORK)?,
            Kind::Lz4 => codec.work = zeroed(c::RZC_LZ4_WORK)?,
            Kind::Zstd => codec.make_zstd()?,
        }
        Ok(codec)
    }

    /// As zram does without parameters: the default level, tuned for pages.
    fn make_zstd(&mut self) -> Result {
        // SAFETY: Pure functions of numbers.
        let parameters = unsafe { c::zstd_get_params(c::zstd_default_clevel(), PAGE as u64) };
        // SAFETY: Pure functions; the structure is valid.
        let (to, from) = unsafe {
            (
                c::zstd_cctx_workspace_bound(&parameters.cParams),
                c::zstd_dctx_workspace_bound(),
            )
        };
        self.work = zeroed(to)?;
        self.back = zeroed(from)?;
        // SAFETY: Each workspace is as large as asked for, aligned as vmalloc or kmalloc aligns, and
        // lives as long as the codec, which never moves it again.
        unsafe {
            self.compressor = c::zstd_init_cctx(self.work.as_mut_ptr().cast(), to);
            self.decompressor = c::zstd_init_dctx(self.back.as_mut_ptr().cast(), from);
        }
        if self.compressor.is_null() || self.decompressor.is_null() {
            return Err(ENOMEM);
        }
        self.zstd = Some(parameters);
        Ok(())
    }

    fn compress(&mut self, page: &[u8], out: &mut [u8]) -> Result<usize> {
        let (from, to) = (page.as_ptr(), out.as_mut_ptr());
        let mut length = out.len();
        let work = self.work.as_mut_ptr().cast();
        // SAFETY: In each call the page is readable for its length, the output is writable for
        // `ROOM` bytes, and the working memory is as large as its library asks for.
        let ok = unsafe {
            match (self.kind, &self.zstd) {
                (Kind::LzoRle, _) => {
                    c::lzorle1x_1_compress_safe(from, PAGE, to, &mut length, work) == 0
                }
                (Kind::Lzo, _) => c::lzo1x_1_compress_safe(from, PAGE, to, &mut length, work) == 0,
                (Kind::Lz4, _) => {
                    let made = c::LZ4_compress_fast(from, to, PAGE as i32, ROOM as i32, 1, work);
                    length = usize::try_from(made).unwrap_or(0);
                    length != 0
                }
                (Kind::Zstd, Some(parameters)) => {
                    let (to, from) = (to.cast(), from.cast());
                    length =
                        c::zstd_compress_cctx(self.compressor, to, ROOM, from, PAGE, parameters);
                    c::zstd_is_error(length) == 0
                }
                (Kind::Zstd, None) => false,
            }
        };
        if ok {
            Ok(length)
        } else {
            Err(EIO)
        }
    }

    fn decompress(&mut self, object: &[u8], page: &mut [u8]) -> Result {
        let (from, to) = (object.as_ptr(), page.as_mut_ptr());
        // SAFETY: The object is readable for its length and the page is writable for `PAGE` bytes.
        let made = unsafe {
            match self.kind {
                Kind::LzoRle | Kind::Lzo => {
                    let mut length = PAGE;
                    match c::lzo1x_decompress_safe(from, object.len(), to, &mut length) {
                        0 => length,
                        _ => 0,
                    }
                }
                Kind::Lz4 => {
                    let made = c::LZ4_decompress_safe(from, to, object.len() as i32, PAGE as i32);
                    usize::try_from(made).unwrap_or(0)
                }
                Kind::Zstd => {
                    let (to, from) = (to.cast(), from.cast());
                    c::zstd_decompress_dctx(self.decompressor, to, PAGE, from, object.len())
                }
            }
        };
        if made == PAGE {
            Ok(())
        } else {
            Err(EIO)
        }
    }
}
