// SPDX-License-Identifier: GPL-2.0

//! Object ids and object headers: how a stored object is named, and how it names its owner.
//!
//! Pure arithmetic. Nothing here sleeps, locks, or looks at memory; the packed word is sealed so
//! that no other file shifts or masks it.
//!
//! An **object id** is a place: the zspage's descriptor and the object's number in it.
//!
//! ```text
//!   63                                                             6 5        0
//!  +-----------------------------------------------------------------+---------+
//!  |  descriptor address, a multiple of 64                            |  index  |
//!  +-----------------------------------------------------------------+---------+
//! ```
//!
//! A **header** is the 32-bit word in front of every object but a raw page: the index of the slot
//! that owns the object, for the compaction to ask. Hence a device has at most [`OWNER_LIMIT`]
//! slots, just under 16 TiB at 4 KiB a page; whoever sets a device's size checks that. A free place
//! has no header: `places.rs` knows which those are.

use super::places::MAX_PLACES;

/// Alignment of zspage descriptors, in bytes.
pub(super) const DESCRIPTOR_ALIGN: usize = 64;

/// Owners are below this.
pub(crate) const OWNER_LIMIT: u32 = u32::MAX;

/// Size of an object's header, in bytes.
pub(super) const HEADER_BYTES: usize = size_of::<u32>();

const INDEX_MASK: u64 = {
    assert!(MAX_PLACES <= DESCRIPTOR_ALIGN && DESCRIPTOR_ALIGN.is_power_of_two());
    // CAST: a small constant.
    DESCRIPTOR_ALIGN as u64 - 1
};

const _: () = assert!(
    usize::BITS == u64::BITS,
    "an id holds an address in 64 bits"
);

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
    /// `address` is a multiple of [`DESCRIPTOR_ALIGN`] and `index` below [`MAX_PLACES`]; stray bits
    /// would name another object, so they are masked off.
    pub(super) const fn new(address: u64, index: u8) -> Self {
        // CAST: u8 to u64 is lossless; `From` is not const.
        Self((address & !INDEX_MASK) | (index as u64 & INDEX_MASK))
    }

    /// Returns the address of the zspage's descriptor.
    pub(super) const fn address(self) -> u64 {
        self.0 & !INDEX_MASK
    }

    /// Returns the number of the object in its zspage.
    pub(super) const fn index(self) -> u8 {
        // CAST: masked to six bits.
        (self.0 & INDEX_MASK) as u8
    }

    /// Returns the id as the word a slot stores.
    pub(crate) const fn to_bits(self) -> u64 {
        self.0
    }

    /// Makes an id out of a word that [`Self::to_bits`] returned.
    ///
    /// For the device, which takes the word out of a slot: read while the slot is held, or taken
    /// out for good. Anyone else would have to show that the object still exists.
    pub(crate) const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn id_round_trips_for_any_aligned_address() {
        for address in [
            0x40u64,
            0x0000_0000_6000_0000,
            0x0000_7fff_ffff_ffc0,
            0xffff_0000_0000_0000,
            0xffff_8880_0000_0000,
            0xffff_ffff_ffff_ffc0,
        ] {
            for index in [0, 1, 31, 32, 63] {
                let id = ObjectId::new(address, index);
                assert_eq!((id.address(), id.index()), (address, index));
                assert!(ObjectId::from_bits(id.to_bits()) == id && id != ObjectId::NONE);
            }
        }
    }

    #[test]
    fn ids_of_one_zspage_are_neighbors() {
        let a = ObjectId::new(0x1000, 63).to_bits();
        let b = ObjectId::new(0x1040, 0).to_bits();
        assert_eq!(a + 1, b);
    }
}
