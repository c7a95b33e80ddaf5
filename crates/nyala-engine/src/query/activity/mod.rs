//! What runs now, what ran before, and what makes no progress.
//!
//! ```text
//! statement ──▶ Running ──▶ Entry, in the list of what runs ──ends──▶ in the log of what ran
//!                             ▲ reads: system.queries, KILL QUERY, watchdog
//! ```
//!
//! A statement writes into its own entry only, with atomics. The lists are touched when it begins and when it
//! ends, under locks that nobody holds for longer than that takes.

mod entry;
mod phases;
mod registry;
mod running;
mod watchdog;

pub use entry::{Entry, Phase, Status, TEXT_BYTES};
pub use phases::PhaseTimes;
pub use registry::Registry;
pub use running::{Preparing, Running, fail};
pub use watchdog::{Stuck, Watched, tasks, watch};
