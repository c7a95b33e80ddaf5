//! Writing a block file.

use super::FileRef;
use super::footer::{ALIGN, BLOCK_BYTES, BlockHeader, END, Footer, Section, Tag};
use crate::oplog::error::Result;
use crate::oplog::vfs::{FileHandle, Folder};

const WRITE_BYTES: usize = 1 << 20;

/// Bytes of a section written and synced at a time: a larger piece would delay other threads' syncs for long.
const PIECE_BYTES: usize = if cfg!(test) { 2 << 10 } else { 8 << 20 };

/// A block file being written, section by section.
pub struct BlockWriter {
    file: FileHandle,
    header: BlockHeader,
    buffer: Vec<u8>,
    written: u64,
    footer: Footer,
}

impl BlockWriter {
    pub fn create(folder: &Folder, header: BlockHeader, rows: u64) -> Result<Self> {
        let file = folder.create_file(&header.name())?;
        let footer = Footer { rows, sections: Vec::new() };
        Ok(Self { file, header, buffer: header.encode(), written: 0, footer })
    }

    pub fn section(&mut self, tag: Tag, bytes: &[u8]) -> Result<()> {
        self.section_in_pieces(tag, bytes, &mut || Ok(()))
    }

    /// Writes a section that may be large: `between` is called after each synced piece.
    pub fn section_in_pieces(
        &mut self,
        tag: Tag,
        bytes: &[u8],
        between: &mut dyn FnMut() -> Result<()>,
    ) -> Result<()> {
        let offset = self.written + self.buffer.len() as u64;
        let mut section = Section { tag, offset, bytes: bytes.len() as u64, crcs: Vec::new() };
        let padding = [0; ALIGN];
        let padding = padding.get(..(section.padded() - section.bytes) as usize).unwrap_or_default();
        for (number, block) in bytes.chunks(BLOCK_BYTES).enumerate() {
            let crc = crc32c::crc32c_append(Section::block_seed(tag, number), block);
            section.crcs.push(crc);
        }
        if let Some(last) = section.crcs.last_mut() {
            *last = crc32c::crc32c_append(*last, padding);
        }
        self.footer.sections.push(section);
        let mut pieces = bytes.chunks(PIECE_BYTES).peekable();
        while let Some(piece) = pieces.next() {
            self.put(piece)?;
            if pieces.peek().is_some() {
                self.flush()?;
                self.file.sync()?;
                between()?;
            }
        }
        self.put(padding)
    }

    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        if self.buffer.len() + bytes.len() > WRITE_BYTES {
            self.flush()?;
        }
        if bytes.len() > WRITE_BYTES {
            self.file.write_all(bytes, self.written)?;
            self.written += bytes.len() as u64;
        } else {
            self.buffer.extend_from_slice(bytes);
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        self.file.write_all(&self.buffer, self.written)?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    /// Writes the footer and makes the content durable; the name becomes durable when the folder is synced.
    pub fn finish(mut self) -> Result<FileRef> {
        let footer = self.footer.encode();
        let crc = footer_crc(&self.header, &footer);
        self.put(&footer)?;
        self.put(&(footer.len() as u32).to_le_bytes())?;
        self.put(&crc.to_le_bytes())?;
        self.put(END)?;
        self.flush()?;
        self.file.sync()?;
        Ok(FileRef { version: self.header.version, bytes: self.written, crc })
    }
}

/// The checksum of a footer, bound to the header of its file.
pub fn footer_crc(header: &BlockHeader, footer: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&header.encode()), footer)
}
