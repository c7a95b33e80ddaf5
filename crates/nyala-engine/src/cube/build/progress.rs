//! How far builds have come, readable at any time without waiting for them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use nyala_model::{JobEntry, JobId, QualifiedName};

/// Counters of one running build.
#[derive(Debug)]
pub(crate) struct Progress {
    started: JobEntry,
    rows_read: AtomicU64,
    bytes_written: AtomicU64,
    cuboids_done: AtomicU32,
}

impl Progress {
    /// A build that has done nothing yet; `started` is its job as the catalog recorded it.
    pub(crate) fn new(started: JobEntry) -> Self {
        Self {
            started,
            rows_read: AtomicU64::new(0),
            bytes_written: AtomicU64::new(0),
            cuboids_done: AtomicU32::new(0),
        }
    }

    pub(super) fn add_rows(&self, rows: u64) {
        self.rows_read.fetch_add(rows, Ordering::Relaxed);
    }

    pub(super) fn add_cuboid(&self, bytes: u64) {
        self.bytes_written.fetch_add(bytes, Ordering::Relaxed);
        self.cuboids_done.fetch_add(1, Ordering::Relaxed);
    }

    /// Rows of the flat join read so far.
    pub(crate) fn rows_read(&self) -> u64 {
        self.rows_read.load(Ordering::Relaxed)
    }

    /// The job as it stands now.
    pub(crate) fn entry(&self) -> JobEntry {
        JobEntry {
            rows_read: self.rows_read(),
            bytes_written: self.bytes_written.load(Ordering::Relaxed),
            cuboids_done: self.cuboids_done.load(Ordering::Relaxed),
            ..self.started.clone()
        }
    }
}

/// The running builds of this process.
#[derive(Debug, Default)]
pub(crate) struct Builds {
    running: Mutex<BTreeMap<JobId, Arc<Progress>>>,
    /// Cubes that are being built or altered: by one statement at a time.
    taken: Mutex<BTreeSet<QualifiedName>>,
}

impl Builds {
    /// Lists a build until the guard is dropped. None if the cube is being built or altered already.
    pub(crate) fn start(self: &Arc<Self>, progress: &Arc<Progress>) -> Option<RunningBuild> {
        let taken = self.take(&progress.started.cube)?;
        let id = progress.started.id;
        self.running.lock().ok()?.insert(id, Arc::clone(progress));
        Some(RunningBuild { id, taken })
    }

    /// Keeps others from building or altering a cube until the guard is dropped. None if one does already.
    pub(crate) fn take(self: &Arc<Self>, cube: &QualifiedName) -> Option<TakenCube> {
        let free = self.taken.lock().ok()?.insert(cube.clone());
        free.then(|| TakenCube { builds: Arc::clone(self), cube: cube.clone() })
    }

    /// Every running build as it stands now.
    pub(crate) fn entries(&self) -> Vec<JobEntry> {
        self.running.lock().map(|running| running.values().map(|p| p.entry()).collect()).unwrap_or_default()
    }
}

/// Keeps a build listed.
#[derive(Debug)]
pub(crate) struct RunningBuild {
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

/// A cube that nobody else may build or alter.
#[derive(Debug)]
pub(crate) struct TakenCube {
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
