//! Header and footer of block files.

use crate::oplog::codec::{In, Out};

/// Bytes of the header, and the multiple to which sections are padded.
pub const ALIGN: usize = 64;
/// Bytes that have a checksum each.
pub const BLOCK_BYTES: usize = 64 << 10;
/// Bytes of the trailer.
pub const TRAILER: usize = 16;
pub const END: &[u8; 8] = b"NYALAEND";
const MAGIC: &[u8; 8] = b"NYALABLK";
const FORMAT: u32 = 1;

/// The content of a block file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum BlockKind {
    Values = 1,
    Keys = 2,
    Dead = 3,
}

/// The owner of a block file: its store, table and unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockHeader {
    pub kind: BlockKind,
    pub store: [u8; 16],
    pub table: u32,
    pub unit: u64,
    pub version: u64,
}

impl BlockHeader {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Out::default();
        out.raw(MAGIC);
        out.u32(FORMAT);
        out.u32(self.kind as u32);
        out.raw(&self.store);
        out.u32(self.table);
        out.u32(0);
        out.u64(self.unit);
        out.u64(self.version);
        out.u32(0);
        let crc = crc32c::crc32c(&out.0);
        out.u32(crc);
        out.0
    }
}

/// Identifies a section: column plus 1 or 0, node, buffer.
pub type Tag = (u32, u32, u32);

/// Where a section lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    pub tag: Tag,
    pub offset: u64,
    pub bytes: u64,
    pub crcs: Vec<u32>,
}

impl Section {
    pub fn padded(&self) -> u64 {
        self.bytes.next_multiple_of(ALIGN as u64)
    }

    /// Initial value of a block's checksum.
    pub fn block_seed(tag: Tag, block: usize) -> u32 {
        let place = [tag.0, tag.1, tag.2, block as u32];
        place.iter().fold(0, |crc, part| crc32c::crc32c_append(crc, &part.to_le_bytes()))
    }
}

/// The index of the sections, which stands behind them.
#[derive(Debug, Default)]
pub struct Footer {
    pub rows: u64,
    pub sections: Vec<Section>,
}

impl Footer {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Out::default();
        out.var(self.rows);
        out.var(self.sections.len() as u64);
        for section in &self.sections {
            for number in [section.tag.0, section.tag.1, section.tag.2] {
                out.var(number.into());
            }
            out.var(section.offset);
            out.var(section.bytes);
            section.crcs.iter().for_each(|crc| out.u32(*crc));
        }
        out.0
    }

    /// Reads a footer that stands at `at`; sections must lie between it and the header without gaps.
    pub fn decode(bytes: &[u8], at: u64) -> Option<Self> {
        let mut input = In(bytes);
        let mut footer = Self { rows: input.var()?, sections: Vec::new() };
        let mut next = ALIGN as u64;
        for _ in 0..input.count()? {
            let tag = (input.small()?, input.small()?, input.small()?);
            let (offset, bytes) = (input.var()?, input.var()?);
            if offset != next || bytes > at {
                return None;
            }
            let mut section = Section { tag, offset, bytes, crcs: Vec::new() };
            next += section.padded();
            for _ in 0..section.padded().div_ceil(BLOCK_BYTES as u64) {
                section.crcs.push(input.u32()?);
            }
            footer.sections.push(section);
        }
        (input.is_empty() && next == at).then_some(footer)
    }
}
