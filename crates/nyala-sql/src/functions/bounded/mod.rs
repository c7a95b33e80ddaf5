//! Bounds for functions with large results or a long run time: a few words would fill memory that is not counted, or
//! hold a thread that nothing can end before the function returns.
//!
//! The largest result and cost of a call are worked out from the lengths of its arguments before it runs, by one
//! [table](rules) of all functions.

mod arguments;
mod calls;
mod constant;
mod function;
mod joined;
mod numbers;
mod pattern;
mod patterns;
mod rules;

pub use calls::{bound_call, constants_for_rows, needs_bound};
pub use function::bounded;
pub use joined::Joined;
