//! Resources of a statement in the process: the class of its threads, its turns on them, its memory, and its
//! end.
//!
//! It deliberately knows neither queries nor operators nor storage: these enter a [`Scope`] to compute, check
//! between two batches whether they must end, and decide which statement must.

mod memory;
mod reclaim;
mod scope;
mod threads;
mod work;

pub use memory::{Allocator, active_bytes, count_bytes_with, give_back_freed, resident_bytes};
pub use reclaim::{DroppedSoon, before_sleep, drop_removed};
pub use scope::{Scope, check, settle, turn_is_over};
pub use threads::{ThreadClass, join_class};
pub use work::{Ended, Reason, Work};
