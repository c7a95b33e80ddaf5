//! Resources of the machine for queries, and their fair queue.

pub mod admission;
pub mod fair_queue;
pub mod memory;
pub mod task;
pub mod threads;

mod guard;
mod jobs;
mod machine;
mod pressure;
mod process;
mod tracer;

pub use guard::MemoryGuard;
pub use process::{Limits, Memory, process_limit_bytes, runtime, thread_count};
