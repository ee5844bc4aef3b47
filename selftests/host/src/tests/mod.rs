// SPDX-License-Identifier: GPL-2.0

//! Tests too large to stand beside the code they test, one file a pure file.

mod blocks;
mod grammars;
mod parse;
mod range;
mod slot_word;

use proptest::strategy::Strategy;
use proptest::test_runner::Config;
use proptest::test_runner::RngAlgorithm;
use proptest::test_runner::TestCaseError;
use proptest::test_runner::TestRng;
use proptest::test_runner::TestRunner;

const CASES: u32 = 2_000;
const SEED: u64 = 0x727a_7261_6d00_0001;

fn from_environment<T: std::str::FromStr>(name: &str, default: T) -> T {
    match std::env::var(name).ok().filter(|text| !text.is_empty()) {
        None => default,
        Some(text) => text
            .parse()
            .ok()
            .unwrap_or_else(|| panic!("{name}: bad value {text}")),
    }
}

/// Holds `property` against values of `strategy`, in a run that the seed alone decides.
pub(crate) fn holds<S: Strategy>(
    strategy: S,
    property: impl Fn(S::Value) -> Result<(), TestCaseError>,
) {
    holds_for(CASES, strategy, property);
}

/// As [`holds`], with another number of cases in the short form; ten times as many in the long one.
pub(crate) fn holds_for<S: Strategy>(
    cases: u32,
    strategy: S,
    property: impl Fn(S::Value) -> Result<(), TestCaseError>,
) {
    let full = std::env::var("RZRAM_TIER").is_ok_and(|tier| tier == "full");
    let config = Config {
        cases: if full { 10 * cases } else { cases },
        failure_persistence: None,
        ..Config::default()
    };
    let number = from_environment("RZRAM_SEED", SEED);
    println!("seed {number:#x}, {} cases", config.cases);
    let mut seed = [0; 32];
    seed[..8].copy_from_slice(&number.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &seed);
    if let Err(failure) = TestRunner::new_with_rng(config, rng).run(&strategy, property) {
        panic!("{failure}");
    }
}
