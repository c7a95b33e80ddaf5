//! Approximate answers from small states: sketches of Apache DataSketches.

mod approx_distinct;
mod approx_top_k;
mod hll;
mod items;

pub(super) use approx_distinct::ApproxDistinct;
pub(super) use approx_top_k::ApproxTopK;

#[cfg(test)]
mod tests;
