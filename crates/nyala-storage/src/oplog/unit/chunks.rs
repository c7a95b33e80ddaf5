//! Rows in memory that grow at the end. A reader's copy never changes.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use arrow_array::{Array, ArrayRef};

use super::base::join;
use super::{Base, Keys, LsnSpan, Lsns, Zones};

/// Most rows of a chunk that is merged from smaller ones.
const CHUNK_ROWS: u32 = 1 << 16;
/// So many neighbouring chunks of one level become one chunk.
const FAN_IN: usize = 8;

/// Some rows, in memory.
#[derive(Debug)]
pub struct Chunk {
    pub rows: u32,
    pub columns: Vec<ArrayRef>,
    pub keys: Keys,
    pub lsns: Lsns,
    pub lsn_span: LsnSpan,
    /// Zones of each column, computed at first use: most chunks are small and merged before.
    zones: OnceLock<Vec<OnceLock<Option<Zones>>>>,
}

impl Chunk {
    pub fn new(columns: Vec<ArrayRef>, keys: Keys, lsns: Lsns) -> Self {
        let rows = columns.first().map_or(0, |column| column.len()) as u32;
        Self { rows, columns, keys, lsns, lsn_span: LsnSpan::default(), zones: OnceLock::new() }
    }

    pub fn zones(&self, position: usize) -> Option<&Zones> {
        let column = self.columns.get(position)?;
        let zones = self.zones.get_or_init(|| self.columns.iter().map(|_| OnceLock::new()).collect());
        zones.get(position)?.get_or_init(|| Zones::of(column)).as_ref()
    }

    fn joined(chunks: &[(u32, Arc<Chunk>)], key: &[usize]) -> Option<Self> {
        let width = chunks.first()?.1.columns.len();
        let pieces = |column: usize| -> Option<Vec<ArrayRef>> {
            chunks.iter().map(|(_, chunk)| chunk.columns.get(column).cloned()).collect()
        };
        let columns: Vec<ArrayRef> =
            (0..width).map(|column| join(&pieces(column)?)).collect::<Option<_>>()?;
        let (mut lsns, mut rows) = (Lsns::default(), 0);
        for (_, chunk) in chunks {
            lsns.append(rows, &chunk.lsns);
            rows += chunk.rows;
        }
        let keys: Vec<ArrayRef> = key.iter().map(|at| columns.get(*at).cloned()).collect::<Option<_>>()?;
        Some(Self::new(columns, Keys::of(&keys)?, lsns))
    }

    /// Chunks of one level are merged together: each row is copied once per level.
    fn level(&self) -> u32 {
        self.rows.max(1).ilog2() / FAN_IN.ilog2()
    }
}

/// All rows of a unit: those in files, then those in memory, each with the position of its first row.
#[derive(Debug, Clone, Default)]
pub struct Data {
    pub base: Option<Arc<Base>>,
    pub chunks: Vec<(u32, Arc<Chunk>)>,
}

impl Data {
    pub fn of_base(base: Base) -> Self {
        Self { base: Some(Arc::new(base)), chunks: Vec::new() }
    }

    /// Appends rows; small chunks are merged, so that there are few.
    pub fn push(&mut self, start: u32, chunk: Chunk, key: &[usize]) {
        self.chunks.push((start, Arc::new(chunk)));
        while let Some(split) = self.chunks.len().checked_sub(FAN_IN) {
            let Some((_, tail)) = self.chunks.split_at_checked(split) else { return };
            let Some((start, first)) = tail.first() else { return };
            let (start, level) = (*start, first.level());
            let rows: u32 = tail.iter().map(|(_, chunk)| chunk.rows).sum();
            if rows > CHUNK_ROWS || tail.iter().any(|(_, chunk)| chunk.level() != level) {
                return;
            }
            let Some(joined) = Chunk::joined(tail, key) else { return };
            self.chunks.truncate(split);
            self.chunks.push((start, Arc::new(joined)));
        }
    }

    /// The chunk that holds a row behind the base, and the row's position in it.
    fn chunk(&self, row: u32) -> Option<(&Chunk, u32)> {
        let at = self.chunks.partition_point(|(start, _)| *start <= row).checked_sub(1)?;
        let (start, chunk) = self.chunks.get(at)?;
        Some((chunk, row - start))
    }

    fn base_at(&self, row: u32) -> Option<&Arc<Base>> {
        self.base.as_ref().filter(|base| row < base.rows())
    }

    /// The keys that include a row's key, and its position in them; none if they are not in memory.
    pub fn key(&self, row: u32) -> Option<(&Keys, usize)> {
        match self.base_at(row) {
            Some(base) => Some((base.keys()?, row as usize)),
            None => self.chunk(row).map(|(chunk, at)| (&chunk.keys, at as usize)),
        }
    }

    pub fn lsn(&self, row: u32) -> u64 {
        match self.base_at(row) {
            Some(base) => base.lsns.at(row),
            None => self.chunk(row).map_or(0, |(chunk, at)| chunk.lsns.at(at)),
        }
    }

    /// Ranges of rows with one LSN, each with the LSN.
    pub fn ranges(&self) -> impl Iterator<Item = (Range<u32>, u64)> + '_ {
        let base = self.base.iter().flat_map(|base| base.lsns.ranges(base.rows()));
        let chunks = self.chunks.iter().flat_map(|(start, chunk)| {
            let ranges = chunk.lsns.ranges(chunk.rows);
            ranges.map(move |(rows, lsn)| (rows.start + *start..rows.end + *start, lsn))
        });
        base.chain(chunks)
    }

    /// The LSNs of all rows.
    pub fn lsns(&self) -> Lsns {
        let mut lsns = self.base.as_ref().map_or_else(Lsns::default, |base| base.lsns.clone());
        self.chunks.iter().for_each(|(start, chunk)| lsns.append(*start, &chunk.lsns));
        lsns
    }
}
