// SPDX-License-Identifier: GPL-2.0

//! The pure files of the driver's `device` room, by path.

#[path = "../../../../device/blocks.rs"]
pub(crate) mod blocks;
#[path = "../../../../device/candidates.rs"]
pub(crate) mod candidates;
#[path = "../../../../device/parse.rs"]
pub(crate) mod parse;
#[path = "../../../../device/range.rs"]
pub(crate) mod range;
#[path = "../../../../device/request.rs"]
pub(crate) mod request;
#[path = "../../../../device/seal.rs"]
pub(crate) mod seal;
#[path = "../../../../device/slot_word.rs"]
pub(crate) mod slot_word;
#[path = "../../../../device/targets.rs"]
pub(crate) mod targets;
#[path = "../../../../device/word.rs"]
pub(crate) mod word;
