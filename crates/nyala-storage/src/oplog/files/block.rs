//! Reading a block file. All content is verified before it is returned.

use std::ops::Range;

use arrow_buffer::Buffer;

use super::FileRef;
use super::footer::{ALIGN, BLOCK_BYTES, BlockHeader, END, Footer, Section, TRAILER, Tag};
use super::write::footer_crc;
use crate::oplog::codec::In;
use crate::oplog::error::{OplogError, Result};
use crate::oplog::space::Space;
use crate::oplog::vfs::{FileHandle, Folder};

/// Blocks per read: few enough that they are verified while they are still in the processor's cache.
const READ_BLOCKS: usize = 8;
const PIECE_BYTES: usize = READ_BLOCKS * BLOCK_BYTES;

/// A block file, open. It can be read after it was removed.
#[derive(Debug)]
pub struct BlockFile {
    file: FileHandle,
    footer: Footer,
}

impl BlockFile {
    /// Opens the file that `header` names and checks that it is the one in the manifest.
    pub fn open(folder: &Folder, header: &BlockHeader, expected: Option<&FileRef>) -> Result<Self> {
        let name = header.name();
        let file = folder.open(&name).map_err(|error| missing(folder, &name, error))?;
        let bytes = file.bytes()?;
        if let Some(expected) = expected.filter(|expected| expected.bytes != bytes) {
            let reason = format!("it has {bytes} bytes instead of {}", expected.bytes);
            return Err(file.damaged(bytes.min(expected.bytes), reason));
        }
        let mut own = [0; ALIGN];
        file.read_exact(&mut own, 0)?;
        if own[..] != header.encode() {
            return Err(file.damaged(0, "the header is not that of this file"));
        }
        let (footer, crc) = read_footer(&file, header, bytes)?;
        if expected.is_some_and(|expected| expected.crc != crc) {
            return Err(file.damaged(bytes - TRAILER as u64, "this is another version of the file"));
        }
        Ok(Self { file, footer })
    }

    pub fn rows(&self) -> u64 {
        self.footer.rows
    }

    pub fn file(&self) -> &FileHandle {
        &self.file
    }

    pub(super) fn find(&self, tag: Tag) -> Option<&Section> {
        self.footer.sections.iter().find(|section| section.tag == tag)
    }

    /// The content of a section, aligned for every type; none if there is no such section.
    pub fn read(&self, tag: Tag) -> Result<Option<Buffer>> {
        self.find(tag).map(|section| self.read_section(section, Space::new)).transpose()
    }

    /// The content of a section that must be there.
    pub fn require(&self, tag: Tag) -> Result<Buffer> {
        self.read(tag)?.ok_or_else(|| self.missing(tag))
    }

    /// The content of a section that must be there, in memory that is soon given back.
    pub fn require_briefly(&self, tag: Tag) -> Result<Buffer> {
        let section = self.find(tag).ok_or_else(|| self.missing(tag))?;
        self.read_section(section, Space::brief)
    }

    /// Bytes of a section, 0 if there is none.
    pub fn bytes_of(&self, tag: Tag) -> usize {
        self.find(tag).map_or(0, |section| section.bytes as usize)
    }

    pub(super) fn missing(&self, tag: Tag) -> OplogError {
        self.file.damaged(0, format!("section {tag:?} is missing"))
    }

    /// Ranges of a section that must be there, one behind the other in the result. The ranges ascend without overlap,
    /// and `ranges` gives the same ones at each call. All of the section is read and verified, but only the ranges
    /// stay in memory.
    pub fn require_ranges<I: Iterator<Item = Range<usize>>>(
        &self,
        tag: Tag,
        ranges: impl Fn() -> I,
    ) -> Result<Buffer> {
        let section = self.find(tag).ok_or_else(|| self.missing(tag))?;
        let within = |range: Range<usize>| range.end as u64 <= section.bytes;
        let beyond = || self.file.damaged(section.offset, format!("section {tag:?} ends before its values"));
        if !ranges().all(within) {
            return Err(beyond());
        }
        let bytes = ranges().map(|range| range.len()).sum();
        let mut space = Space::new(bytes);
        let mut room = space.as_mut_slice();
        let mut ranges = ranges().peekable();
        let mut space_of_piece = Space::brief((section.padded() as usize).min(PIECE_BYTES));
        for start in (0..section.padded() as usize).step_by(PIECE_BYTES) {
            let end = (start + PIECE_BYTES).min(section.padded() as usize);
            let piece = space_of_piece.as_mut_slice().get_mut(..end - start).ok_or_else(beyond)?;
            self.read_piece(section, start / PIECE_BYTES, piece)?;
            while let Some(range) = ranges.peek().filter(|range| range.start < end) {
                let wanted = range.start.max(start) - start..range.end.min(end) - start;
                let (to, rest) = std::mem::take(&mut room).split_at_mut(wanted.len());
                to.copy_from_slice(piece.get(wanted).ok_or_else(beyond)?);
                room = rest;
                if range.end > end {
                    break;
                }
                ranges.next();
            }
        }
        Ok(space.into_buffer(bytes))
    }

    fn read_section(&self, section: &Section, space: impl Fn(usize) -> Space) -> Result<Buffer> {
        let mut space = space(section.padded() as usize);
        for (number, piece) in space.as_mut_slice().chunks_mut(PIECE_BYTES).enumerate() {
            self.read_piece(section, number, piece)?;
        }
        Ok(space.into_buffer(section.bytes as usize))
    }

    /// Fills `piece` with the content of that number, and verifies it.
    fn read_piece(&self, section: &Section, number: usize, piece: &mut [u8]) -> Result<()> {
        self.file.read_exact(piece, section.offset + (number * PIECE_BYTES) as u64)?;
        let mut blocks = (number * READ_BLOCKS..).zip(piece.chunks(BLOCK_BYTES));
        blocks.try_for_each(|(number, block)| self.check_block(section, number, block))?;
        Ok(())
    }

    fn check_block(&self, section: &Section, number: usize, block: &[u8]) -> Result<()> {
        let Some(crc) = section.crcs.get(number) else { return Err(self.missing(section.tag)) };
        if crc32c::crc32c_append(Section::block_seed(section.tag, number), block) == *crc {
            return Ok(());
        }
        let offset = section.offset + (number * BLOCK_BYTES) as u64;
        Err(self.file.damaged(offset, "the checksum of the block is wrong"))
    }

    /// One block of a section.
    pub(super) fn read_block(&self, section: &Section, number: usize) -> Result<Buffer> {
        let from = (number * BLOCK_BYTES) as u64;
        let mut block = vec![0; (section.padded() - from).min(BLOCK_BYTES as u64) as usize];
        self.file.read_exact(&mut block, section.offset + from)?;
        self.check_block(section, number, &block)?;
        Ok(block.into())
    }

    /// Reads all sections; gives the errors.
    pub fn verify(&self) -> Vec<OplogError> {
        let read = self.footer.sections.iter().map(|section| self.read_section(section, Space::brief));
        read.filter_map(Result::err).collect()
    }

    /// Bytes of the sections of a column.
    pub fn column_bytes(&self, column: u32) -> u64 {
        let own = self.footer.sections.iter().filter(|section| section.tag.0 == column + 1);
        own.map(|section| section.bytes).sum()
    }
}

/// A missing file that the manifest names is damage, not a failure of the system.
fn missing(folder: &Folder, name: &str, error: OplogError) -> OplogError {
    match &error {
        OplogError::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
            OplogError::damaged(&folder.path().join(name), 0, "the file is missing")
        }
        _ => error,
    }
}

fn read_footer(file: &FileHandle, header: &BlockHeader, bytes: u64) -> Result<(Footer, u32)> {
    let bad = |reason: &str| file.damaged(bytes.saturating_sub(TRAILER as u64), reason);
    let trailer_at = bytes.checked_sub(TRAILER as u64).ok_or_else(|| bad("the file is too short"))?;
    let mut trailer = [0; TRAILER];
    file.read_exact(&mut trailer, trailer_at)?;
    let mut input = In(&trailer);
    let (length, crc) = (input.u32().unwrap_or_default(), input.u32().unwrap_or_default());
    if input.0 != END {
        return Err(bad("the end of the file is missing"));
    }
    let at = trailer_at.checked_sub(length.into()).ok_or_else(|| bad("the footer is too long"))?;
    let mut footer = vec![0; length as usize];
    file.read_exact(&mut footer, at)?;
    if footer_crc(header, &footer) != crc {
        return Err(file.damaged(at, "the checksum of the footer is wrong"));
    }
    let footer = Footer::decode(&footer, at).ok_or_else(|| file.damaged(at, "the footer makes no sense"))?;
    Ok((footer, crc))
}
