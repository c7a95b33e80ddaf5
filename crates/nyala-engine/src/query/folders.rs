//! Folders of disk stores that are being opened or closed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// Folders of disk stores. One task at a time opens or closes the store of a folder. That may take long for a
/// large store, so only tasks for the same folder wait.
#[derive(Debug, Default)]
pub struct Folders {
    taken: Mutex<BTreeSet<PathBuf>>,
    given_back: Notify,
}

/// A folder reserved for one task.
#[derive(Debug)]
pub struct Taken<'a> {
    folders: &'a Folders,
    folder: &'a Path,
}

impl Folders {
    /// Waits until no other task has the folder.
    pub async fn take<'a>(&'a self, folder: &'a Path) -> Taken<'a> {
        loop {
            // Made before the check, so that a folder given back in between is not missed.
            let given_back = self.given_back.notified();
            if self.taken().insert(folder.to_owned()) {
                return Taken { folders: self, folder };
            }
            given_back.await;
        }
    }

    fn taken(&self) -> MutexGuard<'_, BTreeSet<PathBuf>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.folders.taken().remove(self.folder);
        self.folders.given_back.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn a_folder_is_taken_by_one_at_a_time() {
        let folders = Folders::default();
        let (one, other) = (Path::new("one"), Path::new("other"));
        let first = folders.take(one).await;
        assert!(folders.take(other).now_or_never().is_some(), "another folder is free");
        let mut second = Box::pin(folders.take(one));
        assert!((&mut second).now_or_never().is_none());
        drop(first);
        assert!(second.now_or_never().is_some());
        assert!(folders.take(one).now_or_never().is_some(), "it was given back");
    }
}
