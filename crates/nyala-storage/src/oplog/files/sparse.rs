//! Reading small ranges of a section: only the blocks that hold them, each verified.

use std::collections::HashMap;

use arrow_buffer::{Buffer, MutableBuffer};

use super::BlockFile;
use super::footer::{BLOCK_BYTES, Section, Tag};
use crate::oplog::error::Result;

/// Ranges of sections, with a cache of the blocks read for them: neighbouring ranges share one read.
#[derive(Debug)]
pub struct SparseReader<'a> {
    file: &'a BlockFile,
    blocks: HashMap<(Tag, usize), Buffer>,
}

impl<'a> SparseReader<'a> {
    pub fn new(file: &'a BlockFile) -> Self {
        Self { file, blocks: HashMap::new() }
    }

    pub fn has(&self, tag: Tag) -> bool {
        self.file.find(tag).is_some()
    }

    /// Some bytes of a section that must be there, in a buffer that is aligned for every type.
    pub fn range(&mut self, tag: Tag, from: usize, bytes: usize) -> Result<Buffer> {
        let section = self.file.find(tag).ok_or_else(|| self.file.missing(tag))?;
        let end = from.checked_add(bytes).filter(|end| *end as u64 <= section.bytes);
        let Some(end) = end else {
            let reason = format!("section {tag:?} has fewer bytes than its column needs");
            return Err(self.file.file().damaged(section.offset, reason));
        };
        let mut found = MutableBuffer::from(Vec::<i128>::with_capacity(bytes.div_ceil(size_of::<i128>())));
        for number in from / BLOCK_BYTES..end.div_ceil(BLOCK_BYTES) {
            let first = number * BLOCK_BYTES;
            let wanted = from.max(first) - first..end.min(first + BLOCK_BYTES) - first;
            found.extend_from_slice(self.block(section, number)?.get(wanted).unwrap_or_default());
        }
        Ok(found.into())
    }

    fn block(&mut self, section: &Section, number: usize) -> Result<&Buffer> {
        use std::collections::hash_map::Entry;
        match self.blocks.entry((section.tag, number)) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(free) => Ok(free.insert(self.file.read_block(section, number)?)),
        }
    }
}
