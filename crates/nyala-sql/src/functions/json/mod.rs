//! JSON as text: checked when it is cast or written, and taken apart by operators and functions.

mod calls;
mod operators;
mod text;

pub use calls::{JsonCall, checked, checked_json};
pub use operators::JsonOperators;
pub use text::{is_json, normal_json};
