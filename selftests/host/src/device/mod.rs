// SPDX-License-Identifier: GPL-2.0

//! The pure files of the driver's `device` room, by path.

#[path = "../../../../device/candidates.rs"]
pub(crate) mod candidates;
#[path = "../../../../device/parse.rs"]
pub(crate) mod parse;
#[path = "../../../../device/range.rs"]
pub(crate) mod range;
#[path = "../../../../device/slot_word.rs"]
pub(crate) mod slot_word;
#[path = "../../../../device/word.rs"]
pub(crate) mod word;
