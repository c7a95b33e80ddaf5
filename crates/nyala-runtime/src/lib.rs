//! What a statement uses of the process: which thread computes it, for how long at a time, how much memory it holds there, and
//! how it is told to end.
//!
//! It deliberately knows neither queries nor operators nor storage: those say in which [`Scope`] they compute, ask between two
//! batches whether they must end, and decide themselves which statement has to.

mod memory;
mod scope;
mod threads;
mod work;

pub use memory::{Allocator, active_bytes, count_bytes_with, give_back_freed, resident_bytes};
pub use scope::{Scope, check, settle, turn_is_over};
pub use threads::{ThreadClass, join_class};
pub use work::{Ended, Reason, Work};
