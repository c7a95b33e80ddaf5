//! A log being written.

use super::frame::Record;
use super::log_name;
use crate::oplog::codec::{In, Out};
use crate::oplog::error::{OplogError, Result};
use crate::oplog::vfs::{FileHandle, Folder};

const MAGIC: &[u8; 8] = b"NYALALOG";
/// Format 2 added labels.
const FORMAT: u32 = 2;
const OLDEST_FORMAT: u32 = 1;
/// Payloads of at least this size are written from their own buffer, not copied together first.
const COPY_BYTES: usize = 64 << 10;
/// An append this many times smaller than the preallocated piece is small.
const SMALL_SHARE: u64 = 16;
/// Fills a log behind its end. No frame begins with it, as no frame is that long, and a page that a disk returns as
/// zeros or at random does not pass for an unwritten one.
pub const FILLER: u8 = 0xA5;

/// The first 64 bytes of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogHeader {
    pub store: [u8; 16],
    pub number: u64,
    pub first_lsn: u64,
    /// Offset at which the log before ends.
    pub previous_end: u64,
}

impl LogHeader {
    pub const BYTES: usize = 64;

    fn encode(&self, format: u32) -> Vec<u8> {
        let mut out = Out::default();
        out.raw(MAGIC);
        out.u32(format);
        out.u32(0);
        out.raw(&self.store);
        out.u64(self.number);
        out.u64(self.first_lsn);
        out.u64(self.previous_end);
        out.u32(0);
        let crc = crc32c::crc32c(&out.0);
        out.u32(crc);
        out.0
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let mut input = In(bytes);
        let (magic, format) = (input.raw(8)?, input.u32()?);
        let known = (OLDEST_FORMAT..=FORMAT).contains(&format);
        let fixed = magic == MAGIC && known && input.u32()? == 0;
        let header = Self {
            store: input.array()?,
            number: input.u64()?,
            first_lsn: input.u64()?,
            previous_end: input.u64()?,
        };
        (fixed && header.encode(format) == bytes).then_some(header)
    }

    /// Where the checksums of a log's frames start: frames of other logs and stores are not valid here.
    pub fn seed(store: &[u8; 16], number: u64) -> u32 {
        crc32c::crc32c_append(crc32c::crc32c(store), &number.to_le_bytes())
    }

    /// Reads and checks the header of log `number` of `store`.
    pub fn read(file: &FileHandle, store: &[u8; 16], number: u64) -> Result<Self> {
        let mut bytes = [0; Self::BYTES];
        file.read_exact(&mut bytes, 0)?;
        let header = Self::decode(&bytes).ok_or_else(|| file.damaged(0, "this is no log header"))?;
        if header.store != *store || header.number != number {
            return Err(file.damaged(16, "the log belongs to another store or has another number"));
        }
        Ok(header)
    }
}

/// The log that is written to.
#[derive(Debug)]
pub struct Log {
    /// None if the logs are damaged: no append goes behind the damage.
    file: Option<FileHandle>,
    pub number: u64,
    seed: u32,
    /// End of the part that is known to be on disk.
    pub synced: u64,
    /// End of the written frames.
    pub end: u64,
    /// LSN of the last frame that is known to be on disk.
    pub synced_lsn: u64,
    /// LSN of the last frame.
    last_lsn: u64,
    /// The end of the filler, if that is behind the end.
    filled: u64,
    /// Bytes filled at a time; 0 turns filling off.
    preallocate: u64,
    /// The error of a failed sync. Afterwards it is not known how much of the file is on disk, and the kernel would confirm
    /// the next sync without writing the pages it dropped: the file is not used again.
    failed: Option<OplogError>,
}

impl Log {
    /// Makes a new log; durable, name and header, when this returns.
    pub fn create(folder: &Folder, header: LogHeader, preallocate: u64) -> Result<Self> {
        let file = folder.create_file(&log_name(header.number))?;
        file.write_all(&header.encode(FORMAT), 0)?;
        file.sync()?;
        folder.sync()?;
        let seed = LogHeader::seed(&header.store, header.number);
        let log = Self::unwritten(header.number, LogHeader::BYTES as u64, header.first_lsn.saturating_sub(1));
        Ok(Self { file: Some(file), seed, preallocate, ..log })
    }

    /// A log that is not written to.
    pub fn unwritten(number: u64, end: u64, last_lsn: u64) -> Self {
        let (synced, synced_lsn) = (end, last_lsn);
        let (filled, preallocate) = (end, 0);
        Self {
            file: None,
            number,
            seed: 0,
            synced,
            end,
            synced_lsn,
            last_lsn,
            filled,
            preallocate,
            failed: None,
        }
    }

    fn file(&self) -> Result<&FileHandle> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        self.file.as_ref().ok_or_else(|| OplogError::invalid("the log is damaged and not written to"))
    }

    /// Appends records, the first with LSN `lsn`. After an error the end of the file is unknown.
    pub fn append(&mut self, records: &[Record], lsn: u64) -> Result<()> {
        let (mut buffer, mut at) = (Vec::new(), self.end);
        for (record, lsn) in records.iter().zip(lsn..) {
            let back = at + buffer.len() as u64 - self.synced;
            record.write_head(&mut buffer, self.seed, lsn, back);
            if record.payload.len() < COPY_BYTES {
                buffer.extend_from_slice(&record.payload);
                continue;
            }
            for bytes in [&buffer, &record.payload] {
                self.file()?.write_all(bytes, at)?;
                at += bytes.len() as u64;
            }
            buffer.clear();
        }
        self.file()?.write_all(&buffer, at)?;
        self.end = at + buffer.len() as u64;
        self.last_lsn = (lsn + records.len() as u64).saturating_sub(1);
        Ok(())
    }

    /// Fills the file some way behind its end. Later writes there are durable without a new file length, for which a
    /// file system would write to its own journal, on a thread of its own, each time. A large statement takes so long
    /// itself that the journal does not count.
    fn fill_ahead(&mut self) {
        let small = (self.end - self.synced).saturating_mul(SMALL_SHARE) <= self.preallocate;
        if self.preallocate == 0 || self.end < self.filled || !small {
            return;
        }
        let Ok(file) = self.file() else { return };
        let filler = vec![FILLER; self.preallocate as usize];
        match file.write_all(&filler, self.end) {
            Ok(()) => self.filled = self.end + self.preallocate,
            Err(error) => {
                // The failure costs only time, because the log then grows with each append. Other files may need the space.
                tracing::debug!(%error, "a log could not be filled ahead");
                if let Err(error) = file.truncate(self.end) {
                    tracing::debug!(%error, "what a log is filled with could not be cut off");
                    self.filled = self.end + self.preallocate;
                }
                self.preallocate = 0;
            }
        }
    }

    /// Makes all appends durable. A failed sync is not tried again: every later call fails.
    pub fn sync(&mut self) -> Result<()> {
        self.fill_ahead();
        let done = self.file()?.sync();
        match &done {
            Ok(()) => (self.synced, self.synced_lsn) = (self.end, self.last_lsn),
            Err(error) => self.failed = Some(error.clone()),
        }
        done
    }

    /// Gives back the filled space behind the end, since the log gets no more appends. A failure costs only space.
    pub fn finish(&self) {
        if let Ok(file) = self.file()
            && self.filled > self.end
            && let Err(error) = file.truncate(self.end)
        {
            tracing::debug!(%error, "what a log is filled with could not be cut off");
        }
    }

    /// Whether a sync failed.
    pub fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    /// Cuts off the bytes that a failed append left behind `end`, durably.
    pub fn cut_back(&mut self, end: u64) -> Result<()> {
        self.file()?.truncate(end)?;
        (self.filled, self.preallocate) = (end, 0);
        self.sync()
    }

    /// Ignores the frames appended from `end` on, even if some are in the file. The last frame before has this LSN.
    pub fn forget(&mut self, end: u64, last_lsn: u64) {
        (self.end, self.last_lsn) = (end, last_lsn);
    }
}
