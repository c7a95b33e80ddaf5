//! The options of a CPU profile.

use std::time::Duration;

/// The options of a CPU profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CpuRequest {
    /// How long the process is watched.
    pub duration: Duration,
    /// Samples for each second of CPU time.
    pub frequency: u32,
}
