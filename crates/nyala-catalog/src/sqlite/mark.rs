//! The mark: the least number of transactions that a catalog has had, in a small file beside it.
//!
//! SQLite ends its log of changes at the first damaged record. After a crash, a flipped bit in the log would
//! silently give an older catalog, and a lost file an empty one. The mark is written after each transaction
//! and before it is acknowledged; a catalog with fewer transactions than its mark is not opened.
//!
//! ```text
//! byte 0    nyala-catalog-mark 1 <writes> <CRC-32C of the text before>   even-numbered transactions
//! byte 512  the same                                                     odd-numbered ones
//! ```
//!
//! So a write that a power cut tears leaves the previous mark intact.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crc32c::crc32c;

const TITLE: &str = "nyala-catalog-mark 1";
const SLOT_BYTES: usize = 512;
const SLOTS: usize = 2;

/// The content of a mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// There is no such file.
    Missing,
    /// Neither slot matches its checksum.
    Damaged,
    /// The number of writing transactions.
    Writes(u64),
}

/// An open mark.
#[derive(Debug, Clone)]
pub struct Mark(Arc<Mutex<Open>>);

#[derive(Debug)]
struct Open {
    file: File,
    path: PathBuf,
    writes: u64,
}

/// The mark of the catalog in `catalog`.
pub fn path_of(catalog: &Path) -> PathBuf {
    let mut name = catalog.as_os_str().to_owned();
    name.push("-mark");
    name.into()
}

/// Reads the mark of a catalog. One good slot is enough: it is at most one transaction behind.
pub fn read(catalog: &Path) -> io::Result<Found> {
    let bytes = match std::fs::read(path_of(catalog)) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Found::Missing),
        Err(error) => return Err(error),
    };
    let newest = bytes.chunks(SLOT_BYTES).take(SLOTS).filter_map(parse).max();
    Ok(newest.map_or(Found::Damaged, Found::Writes))
}

fn parse(slot: &[u8]) -> Option<u64> {
    let line = std::str::from_utf8(slot).ok()?.split('\n').next()?;
    let (text, sum) = line.rsplit_once(' ')?;
    let writes = text.strip_prefix(TITLE)?.trim_start().parse().ok()?;
    (sum == show_sum(text)).then_some(writes)
}

fn show_sum(text: &str) -> String {
    format!("{:08x}", crc32c(text.as_bytes()))
}

fn slot(writes: u64) -> Vec<u8> {
    let text = format!("{TITLE} {writes}");
    let mut bytes = format!("{text} {}\n", show_sum(&text)).into_bytes();
    bytes.resize(SLOT_BYTES, b' ');
    bytes
}

impl Mark {
    /// Creates a mark of `writes` transactions, or opens the existing one.
    pub fn open(catalog: &Path, writes: u64) -> io::Result<Self> {
        let path = path_of(catalog);
        let is_new = !path.exists();
        let mut options = File::options();
        options.create(true).truncate(false).write(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&path)?;
        if is_new {
            file.write_all(&slot(writes).repeat(SLOTS))?;
            file.sync_all()?;
            sync_folder(&path)?;
        }
        Ok(Self(Arc::new(Mutex::new(Open { file, path, writes }))))
    }

    /// Records the number of transactions. A failure is only logged: a mark that is behind detects less.
    pub async fn write(&self, writes: u64) {
        let own = self.clone();
        let written = tokio::task::spawn_blocking(move || own.write_now(writes)).await;
        if let Ok(Err((path, error))) = written {
            tracing::warn!(file = %path.display(), %error, "cannot record how many changes the catalog has had");
        }
    }

    fn write_now(&self, writes: u64) -> Result<(), (PathBuf, io::Error)> {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if writes <= open.writes {
            return Ok(());
        }
        let at = (writes % SLOTS as u64) * SLOT_BYTES as u64;
        let written = open.file.seek(SeekFrom::Start(at)).and_then(|_| open.file.write_all(&slot(writes)));
        let written = written.and_then(|()| open.file.sync_data());
        written.map_err(|error| (open.path.clone(), error))?;
        open.writes = writes;
        Ok(())
    }
}

/// Makes the file names in the folder of `path` durable.
pub fn sync_folder(path: &Path) -> io::Result<()> {
    match path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        Some(folder) => File::open(folder)?.sync_all(),
        None => File::open(".")?.sync_all(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;

    #[test]
    fn a_flipped_bit_takes_the_mark_back_by_one_at_most() {
        let folder = tempfile::tempdir().unwrap();
        let catalog = folder.path().join("c");
        assert_eq!(read(&catalog).unwrap(), Found::Missing);
        let mark = Mark::open(&catalog, 41).unwrap();
        assert_eq!(read(&catalog).unwrap(), Found::Writes(41));
        mark.write_now(42).unwrap();
        mark.write_now(43).unwrap();
        mark.write_now(40).unwrap();
        assert_eq!(read(&catalog).unwrap(), Found::Writes(43), "it never goes back");
        let whole = std::fs::read(path_of(&catalog)).unwrap();
        for bit in 0..whole.len() * 8 {
            let mut flipped = whole.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            std::fs::write(path_of(&catalog), &flipped).unwrap();
            let found = read(&catalog).unwrap();
            assert!(matches!(found, Found::Writes(42 | 43)), "bit {bit}: {found:?}");
        }
        for damaged in [&whole[..0], &whole[..10], &vec![0; 1024]] {
            std::fs::write(path_of(&catalog), damaged).unwrap();
            assert_eq!(read(&catalog).unwrap(), Found::Damaged);
        }
    }
}
