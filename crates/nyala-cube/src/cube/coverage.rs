//! The usable part of a cube: segments with unchanged source files.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use nyala_model::{
    CubeEntry, KeySet, QualifiedName, SegmentDamage, SegmentEntry, SegmentId, SegmentRange, SegmentState,
    SourceFiles,
};
use nyala_storage::oplog::Version;

use super::compile::CompiledCube;
use super::live::{LiveVersions, live_tables, lsn_set};
use crate::scan::TableFiles;

/// The newest listings of the tables that cubes read.
pub type Listings = HashMap<QualifiedName, Arc<TableFiles>>;

/// How far a cube's segments can be trusted, by one state of the listings.
///
/// Live tables change without a listing. A segment over live tables may answer only once the versions that a
/// statement reads are known: [`Self::at`].
#[derive(Debug, Clone, Default)]
pub struct Coverage {
    /// Segments that may answer.
    usable: BTreeSet<SegmentId>,
    /// Segments with unchanged files, before the check of their live tables.
    undecided: Vec<SegmentId>,
    /// Segments that may not answer, with the reason.
    stale: Vec<(SegmentId, String)>,
    /// For each file of the fact table: its keys, whether some rows have no key, and its row count.
    files: Arc<[(KeySet, bool, Option<u64>)]>,
    /// Keys that rows of the fact table may have.
    pub data: KeySet,
    /// Whether rows of the fact table may have no key.
    pub nulls: bool,
    /// Whether segments are stale only because the statement's versions of live tables are not known yet.
    waits: bool,
    /// The live fact table; its keys are the LSNs of its rows.
    written: Option<Arc<Version>>,
}

impl Coverage {
    /// Judges every segment of `entry`.
    pub fn judge(entry: &CubeEntry, compiled: &CompiledCube, listings: &Listings) -> Self {
        let mut coverage = Self::default();
        let is_live = !live_tables(compiled).is_empty();
        for segment in entry.segments.iter().filter(|segment| segment.state != SegmentState::Building) {
            if let Some(damage) = &segment.damage {
                coverage.stale.push((segment.id, show_damage(damage)));
                continue;
            }
            match staleness(segment, entry, compiled, listings) {
                None if is_live => coverage.undecided.push(segment.id),
                None => _ = coverage.usable.insert(segment.id),
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
            (coverage.data, coverage.nulls) = (KeySet::all(), !compiled.is_live());
        }
        coverage
    }

    /// The coverage for a statement that reads these versions of the live tables, or cannot tell the versions.
    pub fn at(
        &self,
        entry: &CubeEntry,
        compiled: &CompiledCube,
        versions: &Result<LiveVersions, String>,
    ) -> Self {
        let mut coverage = self.clone();
        for id in std::mem::take(&mut coverage.undecided) {
            let segment = entry.segments.iter().find(|segment| segment.id == id);
            let Some(segment) = segment else { continue };
            let reason = match versions {
                Ok(versions) => versions.staleness(segment, entry, compiled),
                Err(reason) => Some(reason.clone()),
            };
            match reason {
                None => _ = coverage.usable.insert(id),
                Some(reason) => coverage.stale.push((id, reason)),
            }
        }
        coverage.waits = versions.is_err();
        coverage.written = versions.as_ref().ok().and_then(|versions| versions.fact(entry)).cloned();
        coverage
    }

    /// Why a segment may not answer; none if it may.
    pub fn why_stale(&self, segment: SegmentId) -> Option<&str> {
        self.stale.iter().find(|(id, _)| *id == segment).map(|(_, reason)| reason.as_str())
    }

    /// Why these segments are not all rows of `range` as they are now; none if they are.
    pub fn why_not_all(&self, range: SegmentRange, segments: &[SegmentEntry]) -> Option<String> {
        let stale = segments.iter().find_map(|segment| self.why_stale(segment.id));
        if let Some(reason) = stale {
            return Some(format!("one is stale: {reason}"));
        }
        let held = segments.iter().fold(KeySet::default(), |all, segment| all.union(&keys_of(segment.range)));
        let lacking = keys_of(range).subtract(&held);
        let lacks = segments.is_empty() || (!lacking.is_empty() && self.may_have(&lacking, false));
        lacks.then(|| "others have taken the place of some".to_owned())
    }

    /// The live fact table as the statement reads it.
    pub fn written(&self) -> Option<&Arc<Version>> {
        self.written.as_ref()
    }

    /// For each file of the fact table that has keys, its first and last.
    pub fn file_spans(&self) -> impl Iterator<Item = (i64, i64)> {
        self.files.iter().flat_map(|(keys, ..)| keys.spans())
    }

    /// First and last key of each file of the fact table that has keys, and how many rows it has, as far as it is
    /// known.
    pub fn files_with_rows(&self) -> impl Iterator<Item = (i64, i64, u64)> {
        let spans = |(keys, _, rows): &(KeySet, bool, Option<u64>)| {
            let rows = rows.unwrap_or(u64::MAX >> 32);
            keys.spans().map(move |(first, last)| (first, last, rows)).collect::<Vec<_>>()
        };
        self.files.iter().flat_map(spans)
    }

    /// Row count of the files that may hold such keys, as far as it is known.
    pub fn rows(&self, keys: &KeySet, nulls: bool) -> u64 {
        if let Some(version) = &self.written {
            return version.rows_written(&lsn_set(keys));
        }
        let near =
            self.files.iter().filter(|(held, some, _)| !held.intersect(keys).is_empty() || (nulls && *some));
        near.filter_map(|(_, _, rows)| *rows).sum()
    }

    /// Whether there may be rows with such keys, or without any.
    pub fn may_have(&self, keys: &KeySet, nulls: bool) -> bool {
        match &self.written {
            Some(_) => self.rows(keys, nulls) > 0,
            None => !keys.intersect(&self.data).is_empty() || (nulls && self.nulls),
        }
    }

    /// Segments of `entry` that may answer.
    pub fn usable<'a>(&'a self, entry: &'a CubeEntry) -> impl Iterator<Item = &'a SegmentEntry> {
        entry.segments.iter().filter(|segment| self.usable.contains(&segment.id))
    }

    /// The first reason of a stale segment.
    pub fn first_reason(&self) -> Option<&str> {
        self.stale.first().map(|(_, reason)| reason.as_str())
    }

    /// The first reason, with the remedy.
    pub fn first_advice(&self) -> Option<String> {
        let reason = self.first_reason()?;
        Some(if self.waits { reason.to_owned() } else { format!("{reason}; run BUILD CUBE") })
    }
}

/// The damage of an unusable segment, as text.
pub fn show_damage(damage: &SegmentDamage) -> String {
    match damage.file.as_str() {
        "" => damage.reason.clone(),
        file => format!("file `{file}` is damaged: {}", damage.reason),
    }
}

fn keys_of(range: SegmentRange) -> KeySet {
    match range {
        SegmentRange::Keys(keys) | SegmentRange::Written(keys) => keys.into(),
        SegmentRange::Whole | SegmentRange::Nulls => KeySet::default(),
    }
}

fn staleness(
    segment: &SegmentEntry,
    entry: &CubeEntry,
    compiled: &CompiledCube,
    listings: &Listings,
) -> Option<String> {
    // Live tables are compared later, so their versions are left out here.
    let now = match fingerprints(entry, compiled, (listings, &LiveVersions::default()), segment.range) {
        Ok(now) => now,
        Err(table) => return Some(format!("the files of table `{table}` have not been listed yet")),
    };
    if segment.sources.is_empty() {
        return Some("it was built by a version that did not record its files".to_owned());
    }
    let changed = now.iter().find(|files| !segment.sources.contains(files))?;
    Some(format!("files of table `{}` changed since it was built", changed.table))
}

/// The sources of the rows of `range`: the files of each table, or its rows if it is one of the live
/// `versions`. Fails with the name of a table that is not listed.
pub fn fingerprints(
    entry: &CubeEntry,
    compiled: &CompiledCube,
    (listings, versions): (&Listings, &LiveVersions),
    range: SegmentRange,
) -> Result<Vec<SourceFiles>, QualifiedName> {
    let live: Vec<QualifiedName> =
        live_tables(compiled).iter().map(|table| table.entry().name.clone()).collect();
    let mut sources = Vec::new();
    for (position, table) in entry.definition.sources.iter().enumerate() {
        if live.contains(table) {
            let rows = versions.rows(table, entry, compiled, range);
            let of = |live| SourceFiles {
                table: table.clone(),
                files: 0,
                fingerprint: String::new(),
                live: Some(live),
            };
            sources.extend(rows.map(of));
            continue;
        }
        let files = listings.get(table).ok_or_else(|| table.clone())?;
        sources.push(match &compiled.partition {
            Some(column) if position == 0 && !compiled.joins_fact() => {
                files.fingerprint(Some(column.index), |file| column.touches(file, range))
            }
            _ => files.fingerprint(None, |_| true),
        });
    }
    Ok(sources)
}

#[cfg(test)]
mod tests {
    use nyala_model::KeyRange;

    use super::*;

    fn segment(id: u64, from: i64, to: i64) -> SegmentEntry {
        SegmentEntry {
            id: SegmentId(id),
            state: SegmentState::Ready,
            range: SegmentRange::Keys(KeyRange { from, to }),
            sources: Vec::new(),
            location: String::new(),
            source_rows: 0,
            built_at_ms: 0,
            droppable_joins: Vec::new(),
            key_bounds: None,
            cuboids: Vec::new(),
            damage: None,
            node: nyala_model::NodeId::default(),
        }
    }

    #[test]
    fn a_range_is_whole_only_with_all_of_its_segments() {
        let range = SegmentRange::Keys(KeyRange { from: 0, to: 100 });
        let (first, second) = (segment(1, 0, 50), segment(2, 50, 100));
        let both = [first.clone(), second.clone()];
        let full = Coverage { data: KeySet::between(0, 99), ..Coverage::default() };
        assert_eq!(full.why_not_all(range, &both), None);
        for some in [vec![first.clone()], vec![second.clone()], Vec::new()] {
            assert!(full.why_not_all(range, &some).is_some(), "{some:?}");
        }
        // Keys without any row are not missing.
        let half = Coverage { data: KeySet::between(0, 40), ..Coverage::default() };
        assert_eq!(half.why_not_all(range, &[first]), None);
        let stale = vec![(SegmentId(2), "files changed".to_owned())];
        let changed = Coverage { stale, ..full };
        assert_eq!(changed.why_not_all(range, &both).as_deref(), Some("one is stale: files changed"));
    }
}
