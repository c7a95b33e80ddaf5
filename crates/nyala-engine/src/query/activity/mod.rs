//! Running statements, the log of ended statements, and work that makes no progress.
//!
//! ```text
//! statement ──▶ Running ──▶ Entry, in the list of running statements ──ends──▶ in the query log
//!                             ▲ reads: system.queries, KILL QUERY, watchdog
//! ```
//!
//! A statement writes into its own entry only, with atomics or the entry's own lock. The lists change when it
//! begins and when it ends, under locks held no longer than that takes.

mod entry;
mod phases;
mod registry;
mod route;
mod running;
mod watchdog;

pub use entry::{Entry, Phase, Status, TEXT_BYTES};
pub use phases::PhaseTimes;
pub use registry::Registry;
pub use route::{BytesRead, Outcome, Profile, Progress, Route};
pub use running::{Preparing, Running, fail};
pub use watchdog::{Stuck, Watched, is_overdue, tasks, watch};
