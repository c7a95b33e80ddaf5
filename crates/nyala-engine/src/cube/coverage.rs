//! What of a cube may be used now: segments whose source files are still those they were made from.

use std::collections::HashMap;
use std::sync::Arc;

use nyala_model::{
    CubeEntry, KeySet, QualifiedName, SegmentEntry, SegmentId, SegmentRange, SegmentState, SourceFiles,
};

use super::compile::CompiledCube;
use crate::scan::TableFiles;

/// The newest listings of the tables that cubes read.
pub(crate) type Listings = HashMap<QualifiedName, Arc<TableFiles>>;

/// How far a cube's segments can be trusted, by one state of the listings.
#[derive(Debug, Clone, Default)]
pub(crate) struct Coverage {
    /// Segments that may answer.
    usable: Vec<SegmentId>,
    /// Segments that may not, with the reason.
    stale: Vec<(SegmentId, String)>,
    /// For each file of the fact table: keys, whether some rows have none, and rows.
    files: Vec<(KeySet, bool, Option<u64>)>,
    /// Keys that rows of the fact table may have.
    pub(crate) data: KeySet,
    /// Whether rows of the fact table may have none.
    pub(crate) nulls: bool,
}

impl Coverage {
    /// Judges every segment of `entry`.
    pub(crate) fn judge(entry: &CubeEntry, compiled: &CompiledCube, listings: &Listings) -> Self {
        let mut coverage = Self::default();
        for segment in entry.segments.iter().filter(|segment| segment.state == SegmentState::Ready) {
            match staleness(segment, entry, compiled, listings) {
                None => coverage.usable.push(segment.id),
                Some(reason) => coverage.stale.push((segment.id, reason)),
            }
        }
        let fact = entry.definition.sources.first().and_then(|fact| listings.get(fact));
        if let (Some(column), Some(files)) = (&compiled.partition, fact) {
            let known = files.column(column.index).map(|(file, rows)| {
                let (keys, nulls) = column.keys(&file);
                (keys, nulls, rows)
            });
            coverage.files = known.collect();
            coverage.data = coverage.files.iter().fold(KeySet::default(), |all, (keys, ..)| all.union(keys));
            coverage.nulls = coverage.files.iter().any(|(_, nulls, _)| *nulls);
        } else {
            (coverage.data, coverage.nulls) = (KeySet::all(), true);
        }
        coverage
    }

    /// Why a segment may not answer; none if it may.
    pub(crate) fn why_stale(&self, segment: SegmentId) -> Option<&str> {
        self.stale.iter().find(|(id, _)| *id == segment).map(|(_, reason)| reason.as_str())
    }

    /// For each file of the fact table that has keys, its first and last.
    pub(crate) fn file_spans(&self) -> impl Iterator<Item = (i64, i64)> {
        self.files.iter().flat_map(|(keys, ..)| keys.spans())
    }

    /// Rows of files that may hold such keys, as far as they were counted.
    pub(crate) fn rows(&self, keys: &KeySet, nulls: bool) -> u64 {
        let near =
            self.files.iter().filter(|(held, some, _)| !held.intersect(keys).is_empty() || (nulls && *some));
        near.filter_map(|(_, _, rows)| *rows).sum()
    }

    /// Segments of `entry` that may answer.
    pub(crate) fn usable<'a>(&'a self, entry: &'a CubeEntry) -> impl Iterator<Item = &'a SegmentEntry> {
        entry.segments.iter().filter(|segment| self.usable.contains(&segment.id))
    }

    /// The first reason why something is stale.
    pub(crate) fn first_reason(&self) -> Option<&str> {
        self.stale.first().map(|(_, reason)| reason.as_str())
    }
}

fn staleness(
    segment: &SegmentEntry,
    entry: &CubeEntry,
    compiled: &CompiledCube,
    listings: &Listings,
) -> Option<String> {
    let now = match fingerprints(entry, compiled, listings, segment.range) {
        Ok(now) => now,
        Err(table) => return Some(format!("the files of table `{table}` have not been listed yet")),
    };
    if segment.sources.is_empty() {
        return Some("it was built by a version that did not record its files".to_owned());
    }
    let changed = now.iter().find(|files| !segment.sources.contains(files))?;
    Some(format!("files of table `{}` changed since it was built", changed.table))
}

/// The files that rows of `range` come from, or the table that is not listed.
pub(crate) fn fingerprints(
    entry: &CubeEntry,
    compiled: &CompiledCube,
    listings: &Listings,
    range: SegmentRange,
) -> Result<Vec<SourceFiles>, QualifiedName> {
    let sources = entry.definition.sources.iter().enumerate();
    sources
        .map(|(position, table)| {
            let files = listings.get(table).ok_or_else(|| table.clone())?;
            // A fact table that is also joined is read as a whole.
            let joined = compiled.block.instances.iter().filter(|i| i.table == *table).count() > 1;
            Ok(match &compiled.partition {
                Some(column) if position == 0 && !joined => {
                    files.fingerprint(Some(column.index), |file| column.touches(file, range))
                }
                _ => files.fingerprint(None, |_| true),
            })
        })
        .collect()
}
