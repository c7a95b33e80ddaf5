//! Disk failures, and the guarantees that remain.

use super::commit::Committer;
use super::inner::{Inner, Status};
use crate::oplog::error::{OplogError, Result};

/// The file that is removed when the disk is full.
pub const RESERVE: &str = "reserve";

/// The error for the statements that were to be written from `from` on. None of them is visible. None is found at the
/// next start either, unless the error says that it may be.
pub fn after_write(committer: &mut Committer, inner: &Inner, from: u64, error: OplogError) -> OplogError {
    let full = error.is_full();
    if full {
        inner.enter_full();
    }
    // No sync came since the write was refused, so that the file can be cut without repeating that write.
    let appended = committer.log.end > from;
    let certain = full && !appended && committer.log.cut_back(from).is_ok();
    // A failed fsync is not repeated, since it is not known how much of the file is on disk. A new log that says where
    // this one ends decides that no frame behind counts, if all frames before were confirmed.
    let certain = certain || (committer.log.synced == from && committer.rotate(inner, from).is_ok());
    if !certain {
        let reason = error.to_string();
        // No statement was applied: the next LSN is that of the first frame behind `from`.
        committer.log.forget(from, committer.next_lsn - 1);
        inner.set_status(Status::ReadOnly(reason.clone()));
        return OplogError::Unconfirmed { reason };
    }
    if full { OplogError::DiskFull { folder: inner.folder.path().to_owned() } } else { error }
}

impl Inner {
    /// The disk is full: gives up the reserve, so that statements that free space can run.
    pub fn enter_full(&self) {
        if !self.set_status(Status::Full) {
            return;
        }
        if let Err(error) = self.folder.remove(RESERVE) {
            tracing::warn!(%error, "the reserved space could not be given up");
        }
    }

    /// Keeps space in reserve. A full store takes writes again once the reserve could be written.
    pub fn keep_reserve(&self) {
        match self.status() {
            Status::Writable if self.reserve_is_there() => {}
            Status::ReadOnly(_) => {}
            _ => match self.write_reserve() {
                Ok(()) => {
                    self.set_status(Status::Writable);
                }
                Err(error) => {
                    if let Err(error) = self.folder.remove(RESERVE) {
                        tracing::warn!(%error, "an unfinished reserve could not be removed");
                    }
                    if error.is_full() {
                        self.set_status(Status::Full);
                    }
                }
            },
        }
    }

    fn reserve_is_there(&self) -> bool {
        let bytes = self.folder.open(RESERVE).and_then(|file| file.bytes());
        self.options.reserve_bytes == 0 || bytes.is_ok_and(|bytes| bytes == self.options.reserve_bytes)
    }

    fn write_reserve(&self) -> Result<()> {
        // Some bytes are written even without a reserve, to find out whether there is space.
        let bytes = self.options.reserve_bytes.max(4096);
        let file = self.folder.create_file(RESERVE)?;
        let zeros = vec![0; 1 << 16];
        let mut at = 0;
        while at < bytes {
            let piece = zeros.get(..(bytes - at).min(zeros.len() as u64) as usize).unwrap_or_default();
            file.write_all(piece, at)?;
            at += piece.len() as u64;
        }
        file.sync()?;
        if self.options.reserve_bytes == 0 { self.folder.remove(RESERVE) } else { Ok(()) }
    }
}
