//! Background jobs: what they do, how far they are, how they ended.

use serde::{Deserialize, Serialize};

use crate::ids::JobId;
use crate::name::QualifiedName;

/// What a job does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobKind {
    /// Builds segments of a cube.
    Build,
    /// Builds them anew.
    Refresh,
    /// Makes one of several.
    Merge,
    /// Builds what is missing or stale because files changed, without being asked.
    AutoRefresh,
}

impl JobKind {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Build => "build",
            Self::Refresh => "refresh",
            Self::Merge => "merge",
            Self::AutoRefresh => "auto_refresh",
        }
    }
}

/// How far a job has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JobState {
    /// At work, or was when its process died.
    Running,
    /// Ended well.
    Done,
    /// Ended by an error, which the entry holds.
    Failed,
    /// Ended because someone asked for it.
    Cancelled,
}

impl JobState {
    /// The word for it.
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
    /// What it does.
    pub kind: JobKind,
    /// The cube it works for.
    pub cube: QualifiedName,
    /// How far it has come.
    pub state: JobState,
    /// Rows read from the source so far.
    pub rows_read: u64,
    /// Rows that will be read, as far as files and earlier builds tell; 0 if they do not.
    pub rows_total: u64,
    /// Cuboids finished so far.
    pub cuboids_done: u32,
    /// Cuboids to build in all.
    pub cuboids_total: u32,
    /// Bytes written so far.
    pub bytes_written: u64,
    /// Milliseconds since the Unix epoch.
    pub started_at_ms: u64,
    /// Milliseconds since the Unix epoch; none while running.
    pub ended_at_ms: Option<u64>,
    /// How often a part of it was tried again.
    pub retries: u32,
    /// Why it failed, or why a part of it is tried again.
    pub error: Option<String>,
}

impl JobEntry {
    /// How much of it is done, in per cent: rows and cuboids count alike. 100 only when it is done.
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

    /// How much longer it will run if it goes on as fast, in milliseconds; none if it does not run or has
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
