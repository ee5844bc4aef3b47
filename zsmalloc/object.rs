// SPDX-License-Identifier: GPL-2.0

//! Object ids and object headers: how a stored object is named, and how it names its owner.
//!
//! Pure arithmetic. Nothing here sleeps, locks, or looks at memory; the two packed words are sealed
//! so that no other file shifts or masks them.
//!
//! An **object id** is a place: the zspage's descriptor and the object's number in it.
//!
//! ```text
//!   63                                                        10 9          0
//!  +------------------------------------------------------------+------------+
//!  |  descriptor address, bits 59..6                             |   index    |
//!  +------------------------------------------------------------+------------+
//! ```
//!
//! Descriptors are aligned to 64 bytes, so six bits of the address are zero and make room for six
//! bits of the index; shifting the address left by four makes room for the other four. The four
//! bits lost at the top equal bit 59 in every kernel address of the 64-bit architectures built
//! (57-bit addresses or less, sign-extended), so an arithmetic shift brings them back.
//!
//! A **header** is the 32-bit word in front of every object but a raw page:
//!
//! ```text
//!  0x0000_0000 ..= 0xFFFF_FBFF   the object is stored: index of the slot that owns it
//!  0xFFFF_FC00 | next            the place is free: index of the next free place, or END
//! ```
//!
//! Hence a device has at most [`OWNER_LIMIT`] slots, just under 16 TiB at 4 KiB a page; whoever
//! sets a device's size checks that.

/// Alignment of zspage descriptors, in bytes.
pub(crate) const DESCRIPTOR_ALIGN: usize = 64;

/// Bits of an object id that hold the index.
const INDEX_BITS: u32 = 10;

/// Left shift of the descriptor address in an object id.
const ADDRESS_SHIFT: u32 = INDEX_BITS - DESCRIPTOR_ALIGN.ilog2();

const INDEX_MASK: u64 = (1 << INDEX_BITS) - 1;

/// Free link of the last free place: no place has this index.
pub(super) const END: u16 = (1 << INDEX_BITS) - 1;

/// Most objects a zspage can hold: indices `0..MAX_OBJECTS` leave [`END`] unused.
pub(super) const MAX_OBJECTS: u16 = END;

/// Owners are below this; header words from here on are free links.
pub(crate) const OWNER_LIMIT: u32 = u32::MAX - INDEX_MASK_32;

const INDEX_MASK_32: u32 = (1 << INDEX_BITS) - 1;

/// Size of an object's header, in bytes.
pub(crate) const HEADER_BYTES: usize = size_of::<u32>();

const _: () = {
    assert!(usize::BITS == u64::BITS, "an id packs a 64-bit address");
    assert!(1 << (INDEX_BITS - ADDRESS_SHIFT) == DESCRIPTOR_ALIGN);
    assert!(
        ADDRESS_SHIFT <= 7,
        "57-bit addresses have seven equal bits at the top"
    );
    assert!(OWNER_LIMIT == 0xFFFF_FC00);
    assert!(
        OWNER_LIMIT & INDEX_MASK_32 == 0,
        "free links must not collide with owners"
    );
};

/// The place of an object.
///
/// Only the pool makes ids that name something. A value that went through [`Self::to_bits`] and
/// back is a mere claim: it names an object if and only if the slot that holds it is held and was
/// given it by the pool.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct ObjectId(u64);

impl ObjectId {
    /// Stands for no object.
    pub(super) const NONE: Self = Self(0);

    /// Packs a descriptor's address and an index.
    ///
    /// `address` is a multiple of [`DESCRIPTOR_ALIGN`] and `index` below [`MAX_OBJECTS`]; stray
    /// bits would name another object, so they are masked off.
    pub(super) const fn new(address: u64, index: u16) -> Self {
        // CAST: u16 to u64 is lossless; `From` is not const.
        Self(((address << ADDRESS_SHIFT) & !INDEX_MASK) | (index as u64 & INDEX_MASK))
    }

    /// Returns the address of the zspage's descriptor.
    pub(super) const fn address(self) -> u64 {
        // CAST: the arithmetic shift copies bit 63 into the four lost bits; see the file's header.
        (((self.0 & !INDEX_MASK) as i64) >> ADDRESS_SHIFT) as u64
    }

    /// Returns the number of the object in its zspage.
    pub(super) const fn index(self) -> u16 {
        // CAST: masked to ten bits.
        (self.0 & INDEX_MASK) as u16
    }

    /// Returns the id as the word a slot stores.
    pub(crate) const fn to_bits(self) -> u64 {
        self.0
    }

    /// Makes an id out of a word that [`Self::to_bits`] returned.
    ///
    /// The only caller is `device/slot.rs`, which holds the slot the word was stored in. A second
    /// one would have to show that the object still exists.
    pub(crate) const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }
}

/// What the word in front of an object says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Header {
    /// The object is stored and belongs to this slot.
    Owner(u32),
    /// The place is free; the value is the next free place, or [`END`].
    Free(u16),
}

impl Header {
    /// Packs the header into its word.
    ///
    /// An owner of [`OWNER_LIMIT`] or more would read back as a free link; the pool refuses such
    /// owners at the door.
    pub(super) const fn to_bits(self) -> u32 {
        match self {
            Self::Owner(slot) => slot,
            // CAST: u16 to u32 is lossless; `From` is not const.
            Self::Free(next) => OWNER_LIMIT | (next as u32 & INDEX_MASK_32),
        }
    }

    /// Reads a header word; every word has a meaning.
    pub(super) const fn from_bits(bits: u32) -> Self {
        if bits < OWNER_LIMIT {
            Self::Owner(bits)
        } else {
            // CAST: masked to ten bits.
            Self::Free((bits & INDEX_MASK_32) as u16)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn id_round_trips_at_the_edges_of_kernel_address_space() {
        let addresses = [
            0xffff_8880_0000_0000u64, // x86, 4 levels: direct map
            0xff11_0000_0000_0040,    // x86, 5 levels
            0xffff_ffff_ffff_ffc0,
            0xffff_0000_0000_0000, // arm64, 48 bits
            0xfff0_0000_0000_0000, // arm64, 52 bits
            0x0000_0000_6000_0000, // user-mode kernel
            0x0000_7fff_ffff_ffc0,
        ];
        for address in addresses {
            for index in [0, 1, 511, 512, MAX_OBJECTS - 1, END] {
                let id = ObjectId::new(address, index);
                assert_eq!(id.address(), address);
                assert_eq!(id.index(), index);
                assert!(ObjectId::from_bits(id.to_bits()) == id);
            }
        }
    }

    #[test]
    fn header_tells_owner_from_free_link() {
        for (header, bits) in [
            (Header::Owner(0), 0),
            (Header::Owner(OWNER_LIMIT - 1), 0xffff_fbff),
            (Header::Free(0), 0xffff_fc00),
            (Header::Free(MAX_OBJECTS - 1), 0xffff_fffe),
            (Header::Free(END), 0xffff_ffff),
        ] {
            assert_eq!(header.to_bits(), bits);
            assert_eq!(Header::from_bits(bits), header);
        }
    }
}
