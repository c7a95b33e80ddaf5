//! Resources of the machine for queries, and their fair queue.

pub(in crate::query) mod admission;
pub(in crate::query) mod line;
pub(in crate::query) mod memory;
pub(in crate::query) mod task;
pub(in crate::query) mod threads;

mod guard;
mod jobs;
mod pressure;
mod process;
mod tracer;

pub(in crate::query) use guard::MemoryGuard;
pub(in crate::query) use process::{Memory, process_limit_bytes, runtime, thread_count};
