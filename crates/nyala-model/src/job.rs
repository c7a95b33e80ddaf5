//! Background jobs: their kind, progress and outcome.

use serde::{Deserialize, Serialize};

use crate::ids::{JobId, NodeId};
use crate::name::QualifiedName;

/// The kind of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobKind {
    /// Builds segments of a cube.
    Build,
    /// Rebuilds segments.
    Refresh,
    /// Merges several segments into one.
    Merge,
    /// Builds missing or stale cuboids after files changed, without a statement.
    AutoRefresh,
}

impl JobKind {
    /// The name of the kind in answers and metrics.
    pub fn word(self) -> &'static str {
        match self {
            Self::Build => "build",
            Self::Refresh => "refresh",
            Self::Merge => "merge",
            Self::AutoRefresh => "auto_refresh",
        }
    }
}

/// State of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JobState {
    /// Running, or was when its process died.
    Running,
    /// Ended well.
    Done,
    /// Ended by an error, which the entry holds.
    Failed,
    /// Ended by a request.
    Cancelled,
}

impl JobState {
    /// The name of the state in answers and errors.
    pub fn word(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

/// A background job and its outcome. Jobs are not part of a snapshot: their progress changes far more
/// often than anything a query depends on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobEntry {
    /// Identity.
    pub id: JobId,
    /// Its kind.
    pub kind: JobKind,
    /// The cube it works for.
    pub cube: QualifiedName,
    /// Its state.
    pub state: JobState,
    /// Rows read from the source so far.
    pub rows_read: u64,
    /// Estimate of all rows to read, from files and earlier builds; 0 if unknown.
    pub rows_total: u64,
    /// Cuboids finished so far.
    pub cuboids_done: u32,
    /// Total cuboids to build.
    pub cuboids_total: u32,
    /// Bytes written so far.
    pub bytes_written: u64,
    /// Milliseconds since the Unix epoch.
    pub started_at_ms: u64,
    /// Milliseconds since the Unix epoch; none while running.
    pub ended_at_ms: Option<u64>,
    /// Number of retries of its parts.
    pub retries: u32,
    /// Why it failed, or why a part of it is retried.
    pub error: Option<String>,
    /// The node that runs it.
    pub node: NodeId,
}

impl JobEntry {
    /// Progress in per cent: rows and cuboids count alike. 100 only when it is done.
    pub fn percent(&self) -> u32 {
        if self.state == JobState::Done {
            return 100;
        }
        let share = |done: u64, total: u64| match total {
            0 => None,
            total => u32::try_from(u128::from(done.min(total)) * 100 / u128::from(total)).ok(),
        };
        let cuboids = share(self.cuboids_done.into(), self.cuboids_total.into()).unwrap_or(0);
        let percent = share(self.rows_read, self.rows_total).map_or(cuboids, |rows| (rows + cuboids) / 2);
        percent.min(99)
    }

    /// Estimate of the remaining time at the same speed, in milliseconds; none if it does not run or has
    /// hardly begun.
    pub fn remaining_ms(&self, now_ms: u64) -> Option<u64> {
        let percent = u64::from(self.percent());
        if self.state != JobState::Running || percent == 0 {
            return None;
        }
        Some(now_ms.saturating_sub(self.started_at_ms).saturating_mul(100 - percent) / percent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_and_cuboids_count_alike_and_only_the_end_is_all() {
        let job = |rows_read, rows_total, cuboids_done, state| JobEntry {
            id: JobId(1),
            kind: JobKind::Build,
            cube: QualifiedName::new("public", "c"),
            state,
            rows_read,
            rows_total,
            cuboids_done,
            cuboids_total: 4,
            bytes_written: 0,
            started_at_ms: 1_000,
            ended_at_ms: None,
            retries: 0,
            error: None,
            node: NodeId::default(),
        };
        assert_eq!(job(0, 100, 0, JobState::Running).percent(), 0);
        assert_eq!(job(50, 100, 1, JobState::Running).percent(), 37);
        assert_eq!(job(500, 100, 4, JobState::Running).percent(), 99);
        assert_eq!(job(500, 0, 1, JobState::Failed).percent(), 25);
        assert_eq!(job(0, 0, 0, JobState::Done).percent(), 100);
        assert_eq!(job(100, 100, 0, JobState::Running).remaining_ms(3_000), Some(2_000));
        assert_eq!(job(0, 100, 0, JobState::Running).remaining_ms(3_000), None);
        assert_eq!(job(100, 100, 4, JobState::Done).remaining_ms(3_000), None);
    }
}
