// SPDX-License-Identifier: GPL-2.0

//! Pages whose content names its own place.
//!
//! A page is made from a [`Tag`]: the page's number, who wrote it, which generation it is, and what
//! kind of content it has. Each sector of a page opens with the tag (`Sized` pages carry it in
//! their first sector only, `Word` pages in the repeated word), so a page found in the wrong place
//! or half of one generation and half of another says where it came from. The rest follows from
//! the tag alone, so a checker needs no copy: it makes the page again and compares all of it.

use std::fmt;
use std::str::FromStr;

use crate::rng::Rng;

/// Bytes of a page.
pub const PAGE_BYTES: usize = 4096;
/// Bytes of a sector.
pub const SECTOR_BYTES: usize = 512;
/// Sectors of a page.
pub const PAGE_SECTORS: u64 = 8;

const NAME_BYTES: usize = 32;
const MAGIC: u32 = 0x6d61_727a;
const WORD_MARK: u64 = 0xa5;

/// What a page is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Zeroes: kept as a fill.
    Zero,
    /// One repeated 8-byte word that names the page: kept as a fill.
    Word,
    /// The name and random bytes: does not compress, kept raw.
    Noise,
    /// The name and words of a small vocabulary: compresses to about a third.
    Text,
    /// The name, random bytes up to this length, then one repeated byte: compresses to a few bytes
    /// more than the length, so that 32 to 4096 reaches every size class.
    Sized(u16),
}

impl Kind {
    /// Returns a kind drawn from all of them, `Sized` most often.
    pub fn any(rng: &mut Rng) -> Self {
        match rng.below(10) {
            0 => Self::Zero,
            1 => Self::Word,
            2 => Self::Noise,
            3 | 4 => Self::Text,
            _ => {
                Self::Sized(u16::try_from(NAME_BYTES + rng.below(PAGE_BYTES - NAME_BYTES)).unwrap())
            }
        }
    }

    fn code(self) -> u32 {
        match self {
            Self::Zero => 0,
            Self::Word => 1,
            Self::Noise => 2,
            Self::Text => 3,
            Self::Sized(bytes) => 0x1_0000 | u32::from(bytes),
        }
    }

    fn from_code(code: u32) -> Option<Self> {
        match code {
            2 => Some(Self::Noise),
            3 => Some(Self::Text),
            _ if code >> 16 == 1 => Some(Self::Sized(u16::try_from(code & 0xffff).ok()?)),
            _ => None,
        }
    }
}

impl FromStr for Kind {
    type Err = ();

    /// Reads `zero`, `word`, `noise`, `text` or `sized:BYTES`.
    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "zero" => Ok(Self::Zero),
            "word" => Ok(Self::Word),
            "noise" => Ok(Self::Noise),
            "text" => Ok(Self::Text),
            _ => {
                let bytes = text.strip_prefix("sized:").ok_or(())?;
                let bytes = bytes.parse::<u16>().map_err(|_| ())?;
                let fits = (NAME_BYTES..=PAGE_BYTES).contains(&usize::from(bytes));
                fits.then_some(Self::Sized(bytes)).ok_or(())
            }
        }
    }
}

/// Everything that decides a page's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    /// Number of the page on the device or in the area; `Word` pages keep 32 bits of it.
    pub page: u64,
    /// Who wrote it; `Word` pages keep 8 bits of it.
    pub writer: u32,
    /// How often it was written before; `Word` pages keep 16 bits of it.
    pub generation: u32,
    /// What it is made of.
    pub kind: Kind,
}

impl fmt::Display for Tag {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "page {} of writer {} generation {} ({:?})",
            self.page, self.writer, self.generation, self.kind
        )
    }
}

impl Tag {
    /// Makes the page that belongs to the tag. `page` is [`PAGE_BYTES`] long.
    pub fn fill(&self, page: &mut [u8]) {
        match self.kind {
            Kind::Zero => page.fill(0),
            Kind::Word => {
                let word = self.word().to_le_bytes();
                page.chunks_exact_mut(8)
                    .for_each(|to| to.copy_from_slice(&word));
            }
            Kind::Noise => {
                self.noise().fill(page);
                self.name_sectors(page);
            }
            Kind::Text => {
                self.fill_text(page);
                self.name_sectors(page);
            }
            Kind::Sized(bytes) => {
                let (head, tail) = page.split_at_mut(usize::from(bytes));
                self.noise().fill(head);
                tail.fill(0x5a);
                head[..NAME_BYTES].copy_from_slice(&self.name(0));
            }
        }
    }

    /// Returns the page that belongs to the tag.
    pub fn make(&self) -> Vec<u8> {
        let mut page = vec![0; PAGE_BYTES];
        self.fill(&mut page);
        page
    }

    /// Returns the tag that `page` claims to be made from, if any sector of it names one.
    pub fn read(page: &[u8]) -> Option<Self> {
        page.chunks_exact(SECTOR_BYTES).find_map(Self::read_sector)
    }

    fn read_sector(sector: &[u8]) -> Option<Self> {
        let word = u64::from_le_bytes(sector[..8].try_into().ok()?);
        if sector
            .chunks_exact(8)
            .all(|other| other == word.to_le_bytes())
        {
            return Self::from_word(word);
        }
        let part = |at: usize| u32::from_le_bytes(sector[at..at + 4].try_into().unwrap());
        let tag = Self {
            page: (u64::from(part(12)) << 32 | u64::from(part(8))) / PAGE_SECTORS,
            writer: part(16),
            generation: part(20),
            kind: Kind::from_code(part(4))?,
        };
        let sector_of_page = u64::from(part(8)) % PAGE_SECTORS;
        (tag.name(sector_of_page) == sector[..NAME_BYTES]).then_some(tag)
    }

    /// Returns an error that says what is wrong unless `page` is exactly the page number `number`
    /// of some writer and generation. A page of zeroes gives the tag of kind `Zero`.
    ///
    /// # Errors
    ///
    /// The message names the sector.
    pub fn verify(page: &[u8], number: u64) -> Result<Self, String> {
        let zero = Self {
            page: number,
            writer: 0,
            generation: 0,
            kind: Kind::Zero,
        };
        if page.iter().all(|byte| *byte == 0) {
            return Ok(zero);
        }
        let Some(tag) = Self::read(page) else {
            let sector = number * PAGE_SECTORS;
            return Err(format!(
                "sector {sector}: {}",
                describe(&page[..SECTOR_BYTES])
            ));
        };
        let wanted = Self {
            page: number,
            ..tag
        };
        compare(&wanted.make(), page, number * PAGE_SECTORS)?;
        Ok(wanted)
    }

    fn word(&self) -> u64 {
        WORD_MARK << 56
            | u64::from(self.writer & 0xff) << 48
            | u64::from(self.generation & 0xffff) << 32
            | self.page & 0xffff_ffff
    }

    fn from_word(word: u64) -> Option<Self> {
        let part = |shift: u32, mask: u64| u32::try_from(word >> shift & mask).ok();
        if word >> 56 != WORD_MARK {
            return None;
        }
        Some(Self {
            page: word & 0xffff_ffff,
            writer: part(48, 0xff)?,
            generation: part(32, 0xffff)?,
            kind: Kind::Word,
        })
    }

    /// The bytes that open sector number `sector` of the page.
    fn name(&self, sector: u64) -> [u8; NAME_BYTES] {
        let mut name = [0; NAME_BYTES];
        name[..4].copy_from_slice(&MAGIC.to_le_bytes());
        name[4..8].copy_from_slice(&self.kind.code().to_le_bytes());
        name[8..16].copy_from_slice(&(self.page * PAGE_SECTORS + sector).to_le_bytes());
        name[16..20].copy_from_slice(&self.writer.to_le_bytes());
        name[20..24].copy_from_slice(&self.generation.to_le_bytes());
        let mut check = Rng::new(0);
        for word in name[..24].chunks_exact(8) {
            check = check.fork(u64::from_le_bytes(word.try_into().unwrap()));
        }
        name[24..].copy_from_slice(&check.bits().to_le_bytes());
        name
    }

    fn name_sectors(&self, page: &mut [u8]) {
        for (sector, bytes) in (0..).zip(page.chunks_exact_mut(SECTOR_BYTES)) {
            bytes[..NAME_BYTES].copy_from_slice(&self.name(sector));
        }
    }

    fn noise(&self) -> Rng {
        let who = u64::from(self.writer) << 32 | u64::from(self.generation);
        Rng::new(self.page)
            .fork(who)
            .fork(u64::from(self.kind.code()))
    }

    /// Words of eight bytes, sixteen to a random number: cheap where the processor is emulated.
    fn fill_text(&self, page: &mut [u8]) {
        const WORDS: [&[u8; 8]; 16] = [
            b"the     ",
            b"page    ",
            b"was     ",
            b"kept in ",
            b"memory  ",
            b"until   ",
            b"somebody",
            b" asked  ",
            b"for it  ",
            b"again   ",
            b"with    ",
            b"patience",
            b" and    ",
            b"care.  \n",
            b"nothing ",
            b"is lost ",
        ];
        let mut noise = self.noise();
        for line in page.chunks_mut(16 * 8) {
            let mut bits = noise.bits();
            for word in line.chunks_exact_mut(8) {
                word.copy_from_slice(WORDS[(bits & 15) as usize]);
                bits >>= 4;
            }
        }
    }
}

/// Compares bytes that start at sector number `first_sector`.
///
/// # Errors
///
/// The message names the first sector that differs, where in it, and what is there instead.
pub fn compare(wanted: &[u8], found: &[u8], first_sector: u64) -> Result<(), String> {
    if wanted == found {
        return Ok(());
    }
    let pairs = wanted.chunks(SECTOR_BYTES).zip(found.chunks(SECTOR_BYTES));
    for (sector, (wanted, found)) in (first_sector..).zip(pairs) {
        let Some(at) = wanted
            .iter()
            .zip(found)
            .position(|(one, other)| one != other)
        else {
            continue;
        };
        return Err(format!(
            "sector {sector}: differs from byte {at} on: found {}, wanted {}",
            describe(found),
            describe(wanted)
        ));
    }
    Err(format!("sector {first_sector}: lengths differ"))
}

fn describe(sector: &[u8]) -> String {
    if sector.iter().all(|byte| *byte == 0) {
        return "zeroes".to_owned();
    }
    match (sector.len() == SECTOR_BYTES)
        .then(|| Tag::read_sector(sector))
        .flatten()
    {
        Some(tag) => tag.to_string(),
        None => format!("bytes {:02x?}..", &sector[..sector.len().min(8)]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tag(kind: Kind) -> Tag {
        Tag {
            page: 77,
            writer: 3,
            generation: 9,
            kind,
        }
    }

    #[test]
    fn every_kind_names_its_place() {
        for kind in [
            Kind::Word,
            Kind::Noise,
            Kind::Text,
            Kind::Sized(32),
            Kind::Sized(4096),
        ] {
            assert_eq!(Tag::verify(&tag(kind).make(), 77), Ok(tag(kind)));
            assert!(Tag::verify(&tag(kind).make(), 78).is_err());
        }
    }

    #[test]
    fn one_changed_byte_is_found() {
        for kind in [Kind::Word, Kind::Noise, Kind::Text, Kind::Sized(40)] {
            for at in [0, 31, 511, 512, 4095] {
                let mut page = tag(kind).make();
                page[at] ^= 1;
                let message = Tag::verify(&page, 77).unwrap_err();
                assert!(
                    message.contains(&format!("sector {}", 616 + at / 512)),
                    "{message}"
                );
            }
        }
    }

    #[test]
    fn a_page_of_two_generations_is_found() {
        let mut page = tag(Kind::Text).make();
        let newer = Tag {
            generation: 10,
            ..tag(Kind::Text)
        };
        page[2048..].copy_from_slice(&newer.make()[2048..]);
        assert!(Tag::verify(&page, 77).is_err());
    }
}
