//! What queries may use of the machine, and who is next.

pub(in crate::query) mod admission;
pub(in crate::query) mod line;
pub(in crate::query) mod memory;
pub(in crate::query) mod threads;

mod jobs;
mod process;

pub(in crate::query) use process::{Memory, runtime, thread_count};
