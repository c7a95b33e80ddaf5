//! Functions that make much of little, or take long over it: a few words would fill the memory outside of what is counted, or hold
//! a thread that nothing can end before the function has.
//!
//! What a call gives and costs at most is worked out from the lengths of its arguments before it runs, by one [table](rules) of all
//! functions.

mod arguments;
mod calls;
mod constant;
mod function;
mod joined;
mod numbers;
mod pattern;
mod patterns;
mod rules;

pub use calls::bound_calls;
pub(super) use function::bounded;
