//! Approximate answers from small states: sketches of Apache DataSketches.

mod approx_distinct;
mod approx_top_k;
mod hll;
mod items;

pub use approx_distinct::ApproxDistinct;
pub use approx_top_k::ApproxTopK;

#[cfg(test)]
mod tests;
