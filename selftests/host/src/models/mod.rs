// SPDX-License-Identifier: GPL-2.0

//! Models of the lock-free protocols: loom runs every interleaving up to the named bound, with
//! every value that a weak memory could give. Loom does not model that the kernel's read-modify-
//! write operations are full barriers, nor interrupts: a model that passes is the stronger claim.

mod batches;
mod blocks;
mod range;
mod slot_word;
mod streams;

/// Runs every interleaving of `model` with at most `preemptions` switches that nobody waited for.
fn explore(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 10_000;
    builder.check(model);
}
