//! Reading a log, frame by frame.

use std::ops::Range;

use super::file::FILLER;
use super::frame::{Frame, HEAD_BYTES};
use crate::oplog::error::Result;
use crate::oplog::space::Space;
use crate::oplog::vfs::FileHandle;

const READ_BYTES: usize = 1 << 20;

/// How a scan ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScanEnd {
    /// Offset behind the last valid frame.
    pub offset: u64,
    /// LSN of the next frame.
    pub next_lsn: u64,
    /// Whether all frames up to the requested end are valid.
    pub whole: bool,
}

/// Calls `visit` with every frame from `from` to `to` and its offset, until a frame is not valid or does not have the
/// next LSN. `next_lsn` is the LSN of the first frame; none accepts any.
pub fn scan(
    file: &FileHandle,
    seed: u32,
    (from, to): (u64, u64),
    next_lsn: Option<u64>,
    visit: &mut dyn FnMut(u64, Frame<'_>) -> Result<()>,
) -> Result<ScanEnd> {
    let mut window = Window::new(file, from, to);
    let mut end = ScanEnd { offset: from, next_lsn: next_lsn.unwrap_or_default(), whole: false };
    let mut expected = next_lsn;
    while end.offset < to {
        let Some(bytes) = window.frame_at(end.offset)? else { return Ok(end) };
        let Some(frame) = Frame::parse(seed, bytes) else { return Ok(end) };
        if expected.is_some_and(|lsn| lsn != frame.lsn) {
            return Ok(end);
        }
        visit(end.offset, frame)?;
        end.offset += frame.bytes();
        end.next_lsn = frame.lsn + 1;
        expected = Some(end.next_lsn);
    }
    end.whole = end.offset == to;
    Ok(end)
}

/// Like [`scan`], but goes on behind invalid frames; `lost` gets the offset and the LSNs of the missing frames.
pub fn scan_around_damage(
    file: &FileHandle,
    seed: u32,
    (mut from, to): (u64, u64),
    mut next_lsn: u64,
    visit: &mut dyn FnMut(u64, Frame<'_>) -> Result<()>,
    lost: &mut dyn FnMut(u64, Range<u64>) -> Result<()>,
) -> Result<()> {
    loop {
        let end = scan(file, seed, (from, to), Some(next_lsn), visit)?;
        if end.whole {
            return Ok(());
        }
        let Some((offset, lsn)) = next_frame(file, seed, &end, to)? else {
            return lost(end.offset, end.next_lsn..u64::MAX);
        };
        lost(end.offset, end.next_lsn..lsn)?;
        (from, next_lsn) = (offset, lsn);
    }
}

/// Offset and LSN of the first valid frame behind an invalid one.
fn next_frame(file: &FileHandle, seed: u32, broken: &ScanEnd, to: u64) -> Result<Option<(u64, u64)>> {
    let mut found = None;
    frames_behind(file, seed, broken.offset, to, broken.next_lsn + 1, &mut |offset, frame| {
        found = Some((offset, frame.lsn));
        true
    })?;
    Ok(found)
}

/// A part of the file in memory.
struct Window<'a> {
    file: &'a FileHandle,
    to: u64,
    /// Offset of the window in the file.
    start: u64,
    /// Bytes of the window that were read.
    filled: usize,
    room: Space,
}

impl<'a> Window<'a> {
    fn new(file: &'a FileHandle, from: u64, to: u64) -> Self {
        let room = Space::brief(READ_BYTES.min(to.saturating_sub(from) as usize));
        Self { file, to, start: from, filled: 0, room }
    }

    /// The bytes of the frame at `offset`, as long as its header says; none if it reaches beyond the end.
    fn frame_at(&mut self, offset: u64) -> Result<Option<&[u8]>> {
        let Some(head) = self.get(offset, HEAD_BYTES)? else { return Ok(None) };
        let bytes = HEAD_BYTES + Frame::payload_bytes(head).unwrap_or_default();
        self.get(offset, bytes)
    }

    fn get(&mut self, offset: u64, bytes: usize) -> Result<Option<&[u8]>> {
        if offset + bytes as u64 > self.to {
            return Ok(None);
        }
        if (offset - self.start) as usize + bytes > self.filled {
            self.move_to(offset, bytes)?;
        }
        let skip = (offset - self.start) as usize;
        let read = self.room.as_slice().get(..self.filled).unwrap_or_default();
        Ok(read.get(skip..skip + bytes))
    }

    /// Moves the window to `offset`, which is in it or right behind it, and reads at least so many bytes.
    fn move_to(&mut self, offset: u64, bytes: usize) -> Result<()> {
        let known = (offset - self.start) as usize..self.filled;
        let kept = known.len();
        if bytes > self.room.as_slice().len() {
            let mut room = Space::brief(bytes);
            let known = self.room.as_slice().get(known).unwrap_or_default();
            if let Some(to) = room.as_mut_slice().get_mut(..known.len()) {
                to.copy_from_slice(known);
            }
            self.room = room;
        } else if !known.is_empty() {
            self.room.as_mut_slice().copy_within(known, 0);
        }
        let wanted = bytes.max(READ_BYTES).min((self.to - offset) as usize);
        let fresh = self.room.as_mut_slice().get_mut(kept..wanted).unwrap_or_default();
        self.filled = kept + self.file.read_up_to(fresh, offset + kept as u64)?;
        self.start = offset;
        Ok(())
    }
}

/// The end of the written bytes between `from` and `to`: behind it there is only filler.
pub fn written_end(file: &FileHandle, from: u64, to: u64) -> Result<u64> {
    let mut piece = vec![0; READ_BYTES.min(to.saturating_sub(from) as usize)];
    let (mut at, mut end) = (from, from);
    while at < to {
        let wanted = piece.len().min((to - at) as usize);
        let read = file.read_up_to(piece.get_mut(..wanted).unwrap_or_default(), at)?;
        if read == 0 {
            break;
        }
        let known = piece.get(..read).unwrap_or_default();
        end = known.iter().rposition(|byte| *byte != FILLER).map_or(end, |last| at + last as u64 + 1);
        at += read as u64;
    }
    Ok(end)
}

/// Whether a valid frame behind `broken` says that this place was on disk when that frame was written. Then the place
/// is damaged; otherwise no statement was confirmed there.
pub fn confirmed_further_on(
    file: &FileHandle,
    seed: u32,
    broken: u64,
    to: u64,
    next_lsn: u64,
) -> Result<bool> {
    let mut confirmed = false;
    frames_behind(file, seed, broken, to, next_lsn, &mut |at, frame| {
        confirmed = at - u64::from(frame.back) > broken;
        confirmed
    })?;
    Ok(confirmed)
}

/// The smallest unit that a disk writes.
const SECTOR: usize = 512;

/// Whether the invalid frame at `broken` was written whole and has one wrong bit. A frame that was being written when
/// the machine stopped misses much more: at least one sector is as it was before, zeros or filler.
pub fn has_flipped_bit(file: &FileHandle, seed: u32, broken: u64, to: u64) -> Result<bool> {
    let mut window = Window::new(file, broken, to);
    let Some(head) = window.get(broken, HEAD_BYTES)? else { return Ok(false) };
    let length = Frame::payload_bytes(head).unwrap_or_default();
    let has_sectors = |frame: &[u8]| {
        let (first, others) = frame.split_at(frame.len().min(SECTOR - (broken % SECTOR as u64) as usize));
        let is_written = |part: &[u8]| [FILLER, 0].iter().all(|blank| part.iter().any(|byte| byte != blank));
        is_written(first) && others.chunks(SECTOR).all(is_written)
    };
    let frame = window.get(broken, HEAD_BYTES + length)?;
    if frame.is_some_and(|frame| has_sectors(frame) && Frame::is_one_bit_off(seed, frame)) {
        return Ok(true);
    }
    // If the bit is one of the frame's length, the frame ends elsewhere than its header says.
    for bit in 0..u32::BITS {
        let length = length ^ (1 << bit);
        let Some(frame) = window.get(broken, HEAD_BYTES + length)? else { continue };
        let mut frame = frame.to_vec();
        if let Some(claimed) = frame.get_mut(..4) {
            claimed.copy_from_slice(&(length as u32).to_le_bytes());
        }
        if Frame::parse(seed, &frame).is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Calls `visit` with every valid frame found behind `broken`, at any byte offset, until it returns true. LSNs are at
/// least `next_lsn`.
fn frames_behind(
    file: &FileHandle,
    seed: u32,
    broken: u64,
    to: u64,
    next_lsn: u64,
    visit: &mut dyn FnMut(u64, Frame<'_>) -> bool,
) -> Result<()> {
    let mut bytes = vec![0; to.saturating_sub(broken) as usize];
    let read = file.read_up_to(&mut bytes, broken)?;
    bytes.truncate(read);
    let lsns = next_lsn..next_lsn + (bytes.len() / HEAD_BYTES) as u64 + 2;
    let mut rest: &[u8] = &bytes;
    while let Some((_, next)) = rest.split_first() {
        rest = next;
        let at = broken + (read - rest.len()) as u64;
        if Frame::claimed_lsn(rest).is_none_or(|lsn| !lsns.contains(&lsn)) {
            continue;
        }
        if Frame::parse(seed, rest).is_some_and(|frame| visit(at, frame)) {
            return Ok(());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use super::*;
    use crate::oplog::log::frame::{Kind, Record};
    use crate::oplog::vfs::Folder;
    use crate::oplog::vfs::sim::SimDisk;

    const SEED: u32 = 7;

    /// A log of frames with payloads of these lengths, cut by some bytes.
    fn log(lengths: &[usize], cut: usize) -> FileHandle {
        let mut bytes = Vec::new();
        for (number, length) in lengths.iter().enumerate() {
            let record = Record::new(Kind::Write, 1, payload(number, *length));
            record.write_head(&mut bytes, SEED, 10 + number as u64, 0);
            bytes.extend_from_slice(&record.payload);
        }
        bytes.truncate(bytes.len() - cut);
        let disk = SimDisk::new(1);
        disk.put(Path::new("/store/log"), bytes);
        Folder::new(Arc::new(disk), Path::new("/store")).open("log").unwrap()
    }

    fn payload(number: usize, length: usize) -> Vec<u8> {
        (0..length).map(|at| (at * 31 + number) as u8).collect()
    }

    /// Frames at the border of one read, larger frames, and small ones behind these.
    #[test]
    fn frames_of_all_lengths_are_read_whole() {
        let border = READ_BYTES - HEAD_BYTES;
        for lengths in [
            vec![0, 1, border, 5, 3 * READ_BYTES, 1, border - 1, border + 1, 2, READ_BYTES, 0],
            vec![border - HEAD_BYTES - 3, 4, 4, 4],
            vec![2 * READ_BYTES, 2 * READ_BYTES + 1, 17],
            vec![],
        ] {
            let file = log(&lengths, 0);
            let mut found = Vec::new();
            let end = scan(&file, SEED, (0, file.bytes().unwrap()), Some(10), &mut |_, frame| {
                assert!(frame.payload == payload(found.len(), frame.payload.len()), "{lengths:?}");
                found.push(frame.payload.len());
                Ok(())
            });
            let end = end.unwrap();
            assert_eq!((&found, end.whole, end.next_lsn), (&lengths, true, 10 + lengths.len() as u64));
        }
    }

    #[test]
    fn a_frame_that_is_cut_ends_the_scan_before_it() {
        let lengths = [9, 2 * READ_BYTES, READ_BYTES];
        for cut in [1, READ_BYTES, READ_BYTES + HEAD_BYTES - 1] {
            let file = log(&lengths, cut);
            let expected = (2 * HEAD_BYTES + 9 + 2 * READ_BYTES) as u64;
            // The scan ends there even if `to` is behind the end of the file.
            for to in [file.bytes().unwrap(), file.bytes().unwrap() + cut as u64] {
                let mut frames = 0;
                let end = scan(&file, SEED, (0, to), Some(10), &mut |_, _| {
                    frames += 1;
                    Ok(())
                });
                let end = end.unwrap();
                assert_eq!((frames, end.offset, end.whole), (2, expected, false), "{cut} {to}");
            }
        }
    }
}
