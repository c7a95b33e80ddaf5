//! Where the process spends its time, and what it holds: stacks with weights, and forms that tools read.
//!
//! Taking profiles is a feature of the build, `profiling`. Whoever asks is told apart before: nothing here checks who may.

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
