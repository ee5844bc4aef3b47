// SPDX-License-Identifier: GPL-2.0

//! The seal of a block that holds an object: whether it came back as it was written.
//!
//! Pure: needs `core` only.
//!
//! ```text
//! 0              length of the object                             page - 8      page
//! | the object   | zeroes                                         | the seal    |
//! ```
//!
//! No codec notices every flipped bit, and a block may come back with what another slot once wrote
//! there. So the end of a block, which no object reaches, has a checksum of the object and of whose it
//! is. It finds accidents: every change within one aligned word for certain, others but for one in
//! 2^64. It is no signature: who can write the device can seal as well, and the decoders must stand it.
//!
//! A page that is written as it is fills its block and has no seal, as on any disk.

/// Bytes of a seal.
const SEAL_BYTES: usize = size_of::<u64>();
/// Odd, so that multiplying loses nothing; the bits of the golden ratio.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// What a seal covers beside the bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Owner {
    /// Index of the slot.
    pub(crate) index: u32,
    /// Priority of the codec that made the object.
    pub(crate) priority: u8,
}

/// Takes a word into a sum; different words, or different sums, give different sums.
const fn mix(sum: u64, word: u64) -> u64 {
    (sum ^ word).wrapping_mul(FACTOR).rotate_left(29)
}

fn checksum(object: &[u8], owner: Owner) -> u64 {
    let len = u64::try_from(object.len()).unwrap_or(u64::MAX);
    let who = u64::from(owner.index) << 8 | u64::from(owner.priority);
    let mut sum = mix(mix(0, len), who);
    let mut words = object.chunks_exact(SEAL_BYTES);
    for word in &mut words {
        sum = mix(sum, u64::from_le_bytes(word.try_into().unwrap_or_default()));
    }
    let mut last = [0; SEAL_BYTES];
    for (to, from) in last.iter_mut().zip(words.remainder()) {
        *to = *from;
    }
    mix(mix(sum, u64::from_le_bytes(last)), len)
}

/// Splits a page into the object, which is `len` bytes long, and the seal; nothing if they meet.
fn parts(page: &[u8], len: usize) -> Option<(&[u8], &[u8])> {
    let (front, seal) = page.split_at_checked(page.len().checked_sub(SEAL_BYTES)?)?;
    Some((front.get(..len)?, seal))
}

/// Seals a page that starts with an object of `len` bytes, if there is room.
pub(crate) fn seal(page: &mut [u8], len: usize, owner: Owner) {
    let Some(sum) = parts(page, len).map(|(object, _)| checksum(object, owner)) else {
        return;
    };
    for (to, from) in page.iter_mut().rev().zip(sum.to_le_bytes().iter().rev()) {
        *to = *from;
    }
}

/// Returns whether a page still starts with the object that was sealed.
pub(crate) fn is_intact(page: &[u8], len: usize, owner: Owner) -> bool {
    match parts(page, len) {
        Some((object, seal)) => seal == checksum(object, owner).to_le_bytes(),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWNER: Owner = Owner {
        index: 77,
        priority: 1,
    };

    fn sealed(len: usize) -> Vec<u8> {
        let mut page: Vec<u8> = (0..4096u32).map(|i| (i * 7 + i / 13) as u8).collect();
        page[len..].fill(0);
        seal(&mut page, len, OWNER);
        page
    }

    #[test]
    fn what_was_sealed_is_intact_and_no_other_is() {
        for len in [0, 1, 7, 8, 9, 100, 3848, 4088] {
            let page = sealed(len);
            assert!(is_intact(&page, len, OWNER), "{len}");
            assert!(!is_intact(&page, len + 1, OWNER) || len == 4088);
            assert!(!is_intact(&page, len, Owner { index: 78, ..OWNER }));
            assert!(!is_intact(
                &page,
                len,
                Owner {
                    priority: 0,
                    ..OWNER
                }
            ));
        }
        assert!(!is_intact(&[0; 4096], 100, OWNER));
        assert!(!is_intact(&[0xff; 4096], 100, OWNER));
    }

    #[test]
    fn every_flipped_bit_of_object_and_seal_is_found() {
        let len = 203;
        let mut page = sealed(len);
        for byte in (0..len).chain(4088..4096) {
            for bit in 0..8 {
                page[byte] ^= 1 << bit;
                assert!(!is_intact(&page, len, OWNER), "{byte}.{bit}");
                page[byte] ^= 1 << bit;
            }
        }
        page[len] ^= 1;
        assert!(is_intact(&page, len, OWNER), "what nobody reads may change");
    }

    #[test]
    fn without_room_nothing_is_written() {
        let mut page = vec![5; 4096];
        seal(&mut page, 4089, OWNER);
        assert_eq!(page, vec![5; 4096]);
        assert!(!is_intact(&page, 4089, OWNER));
        seal(&mut [1, 2, 3], 0, OWNER);
    }
}
