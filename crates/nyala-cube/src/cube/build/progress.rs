//! How far builds have come, readable at any time without waiting for them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use nyala_model::{JobEntry, JobId, JobState, QualifiedName};
use nyala_sql::error::QueryError;
use tokio_util::sync::CancellationToken;

/// Counters of one running build, or of a part of it.
#[derive(Debug)]
pub struct Progress {
    started: JobEntry,
    rows_read: AtomicU64,
    bytes_written: AtomicU64,
    cuboids_done: AtomicU32,
    cuboids_total: AtomicU32,
    retries: AtomicU32,
    /// Why a part of the build is retried.
    trouble: Mutex<Option<String>>,
    /// Counters of the parts of the build, on other nodes and on this one.
    parts: Mutex<Vec<Arc<Self>>>,
    cancel: CancellationToken,
}

/// What a build has done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Rows of the flat join read so far.
    pub rows_read: u64,
    /// Bytes of finished cuboids.
    pub bytes_written: u64,
    /// Finished cuboids.
    pub cuboids_done: u32,
    /// Attempts after a transient failure.
    pub retries: u32,
}

impl Progress {
    /// A build that has done nothing yet; `started` is its job as the catalog recorded it.
    pub fn new(started: JobEntry) -> Self {
        Self {
            cuboids_total: AtomicU32::new(started.cuboids_total),
            retries: AtomicU32::new(0),
            trouble: Mutex::default(),
            parts: Mutex::default(),
            cancel: CancellationToken::new(),
            started,
            rows_read: AtomicU64::new(0),
            bytes_written: AtomicU64::new(0),
            cuboids_done: AtomicU32::new(0),
        }
    }

    /// The counters of a part that is built beside others. They count for the whole build.
    pub fn part(&self) -> Arc<Self> {
        let started = JobEntry { cuboids_total: 0, ..self.started.clone() };
        let part = Arc::new(Self { cancel: self.cancel.clone(), ..Self::new(started) });
        self.parts.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&part));
        part
    }

    pub(super) fn add_rows(&self, rows: u64) {
        self.rows_read.fetch_add(rows, Ordering::Relaxed);
    }

    pub(super) fn add_cuboid(&self, bytes: u64) {
        self.bytes_written.fetch_add(bytes, Ordering::Relaxed);
        self.cuboids_done.fetch_add(1, Ordering::Relaxed);
    }

    /// Rows of the flat join read so far, without those of parts.
    pub fn rows_read(&self) -> u64 {
        self.rows_read.load(Ordering::Relaxed)
    }

    /// Adds cuboids that are to be built besides.
    pub fn expect(&self, cuboids: usize) {
        self.cuboids_total.fetch_add(u32::try_from(cuboids).unwrap_or(u32::MAX), Ordering::Relaxed);
    }

    /// The counters without those of parts, to be restored when an attempt fails.
    pub fn counts(&self) -> Counts {
        Counts {
            rows_read: self.rows_read(),
            bytes_written: self.bytes_written.load(Ordering::Relaxed),
            cuboids_done: self.cuboids_done.load(Ordering::Relaxed),
            retries: self.retries.load(Ordering::Relaxed),
        }
    }

    /// Restores the counts of rows, bytes and cuboids, but not the number of retries.
    pub fn back_to(&self, counts: Counts) {
        self.rows_read.store(counts.rows_read, Ordering::Relaxed);
        self.bytes_written.store(counts.bytes_written, Ordering::Relaxed);
        self.cuboids_done.store(counts.cuboids_done, Ordering::Relaxed);
    }

    /// Takes the counters of the node that builds this part.
    pub fn set(&self, counts: Counts) {
        self.back_to(counts);
        self.retries.store(counts.retries, Ordering::Relaxed);
    }

    /// Restores the counters after a failed attempt, and records the failure.
    pub fn retry(&self, counts: Counts, trouble: &QueryError) {
        self.back_to(counts);
        self.retries.fetch_add(1, Ordering::Relaxed);
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = Some(trouble.to_string());
    }

    /// Completes when the job is cancelled.
    pub async fn cancelled(&self) {
        self.cancel.cancelled().await;
    }

    /// The job as it stands now, with all its parts.
    pub fn entry(&self) -> JobEntry {
        let own = self.counts();
        let whole = JobEntry {
            retries: own.retries,
            cuboids_total: self.cuboids_total.load(Ordering::Relaxed),
            error: self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            rows_read: own.rows_read,
            bytes_written: own.bytes_written,
            cuboids_done: own.cuboids_done,
            ..self.started.clone()
        };
        let parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        parts.iter().fold(whole, |whole, part| {
            let part = part.entry();
            JobEntry {
                retries: whole.retries + part.retries,
                cuboids_total: whole.cuboids_total + part.cuboids_total,
                rows_read: whole.rows_read + part.rows_read,
                bytes_written: whole.bytes_written + part.bytes_written,
                cuboids_done: whole.cuboids_done + part.cuboids_done,
                error: whole.error.or(part.error),
                ..whole
            }
        })
    }
}

/// The running builds of this process.
#[derive(Debug, Default)]
pub struct Builds {
    running: Mutex<BTreeMap<JobId, Arc<Progress>>>,
    /// Cubes that are being built or altered: by one statement at a time.
    taken: Mutex<BTreeSet<QualifiedName>>,
    /// Counts of ended builds.
    ended: Mutex<BuildStats>,
    /// Ended jobs that the catalog has not recorded yet.
    held: Mutex<BTreeMap<JobId, JobEntry>>,
}

/// Counts of builds since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BuildStats {
    /// Jobs at work.
    pub running: u64,
    /// Jobs that ended well.
    pub done: u64,
    /// Jobs that failed.
    pub failed: u64,
    /// Jobs that were cancelled.
    pub cancelled: u64,
    /// Attempts after a transient failure.
    pub retries: u64,
    /// Rows read.
    pub rows: u64,
    /// Cuboids finished.
    pub cuboids: u64,
    /// Bytes of cuboids.
    pub bytes: u64,
}

impl BuildStats {
    fn add(&mut self, job: &JobEntry) {
        self.retries += u64::from(job.retries);
        self.rows = self.rows.saturating_add(job.rows_read);
        self.cuboids += u64::from(job.cuboids_done);
        self.bytes = self.bytes.saturating_add(job.bytes_written);
    }
}

impl Builds {
    /// Lists a build of a cube that was taken until the guard is dropped.
    pub fn start(&self, progress: &Arc<Progress>, taken: TakenCube) -> RunningBuild {
        let id = progress.started.id;
        self.running.lock().unwrap_or_else(PoisonError::into_inner).insert(id, Arc::clone(progress));
        RunningBuild { id, taken }
    }

    /// Keeps others from building or altering a cube until the guard is dropped. None if one does already.
    pub fn take(self: &Arc<Self>, cube: &QualifiedName) -> Option<TakenCube> {
        let free = self.taken.lock().ok()?.insert(cube.clone());
        free.then(|| TakenCube { builds: Arc::clone(self), cube: cube.clone() })
    }

    /// Cancels a running build; false if there is none of this number.
    pub fn cancel(&self, job: JobId) -> bool {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.get(&job).inspect(|progress| progress.cancel.cancel()).is_some()
    }

    /// Counts a job that has ended.
    pub fn count(&self, job: &JobEntry) {
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        let outcome = match job.state {
            JobState::Failed => &mut ended.failed,
            JobState::Cancelled => &mut ended.cancelled,
            JobState::Done | JobState::Running => &mut ended.done,
        };
        *outcome += 1;
        ended.add(job);
    }

    /// Keeps a job that has ended until the catalog knows it.
    pub fn hold(&self, job: JobEntry) {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).insert(job.id, job);
    }

    /// Forgets a job that the catalog has recorded.
    pub fn release(&self, job: JobId) {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).remove(&job);
    }

    /// Ended jobs that the catalog has not recorded yet.
    pub fn held(&self) -> Vec<JobEntry> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// Counts since the start, running builds included.
    pub fn stats(&self) -> BuildStats {
        let mut stats = *self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        for job in self.entries() {
            stats.running += 1;
            stats.add(&job);
        }
        stats
    }

    /// Every running build as it stands now.
    pub fn entries(&self) -> Vec<JobEntry> {
        self.running.lock().map(|running| running.values().map(|p| p.entry()).collect()).unwrap_or_default()
    }
}

/// Keeps a build listed.
#[derive(Debug)]
pub struct RunningBuild {
    id: JobId,
    taken: TakenCube,
}

impl Drop for RunningBuild {
    fn drop(&mut self) {
        if let Ok(mut running) = self.taken.builds.running.lock() {
            running.remove(&self.id);
        }
    }
}

/// The exclusive right to build or alter a cube.
#[derive(Debug)]
pub struct TakenCube {
    builds: Arc<Builds>,
    cube: QualifiedName,
}

impl Drop for TakenCube {
    fn drop(&mut self) {
        if let Ok(mut taken) = self.builds.taken.lock() {
            taken.remove(&self.cube);
        }
    }
}
