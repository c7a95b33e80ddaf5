//! What a CPU profile is taken of.

use std::time::Duration;

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CpuRequest {
    /// How long the process is watched.
    pub duration: Duration,
    /// Samples for each second of CPU time.
    pub frequency: u32,
}
