//! Profiles of the process's CPU time and memory: stacks with weights, and formats that tools read.
//!
//! Taking profiles is a feature of the build, `profiling`. The caller checks privileges: nothing here does.

#[cfg(not(feature = "profiling"))]
mod absent;
#[cfg(feature = "profiling")]
mod cpu;
mod error;
mod flamegraph;
mod format;
#[cfg(feature = "profiling")]
mod heap;
mod pprof;
mod request;
mod stacks;

#[cfg(not(feature = "profiling"))]
pub use absent::{cpu, heap};
#[cfg(feature = "profiling")]
pub use cpu::cpu;
pub use error::ProfileError;
pub use format::Format;
#[cfg(feature = "profiling")]
pub use heap::heap;
pub use request::CpuRequest;
pub use stacks::{Profile, Unit};
