//! Cubes over live tables: the source rows of a segment, compared with the versions a statement reads.
//!
//! ```text
//! LSN         1 ─────────── 40 │ 41 ────── 90 │ 91 ── 97 ─▶
//! rows        segment 1        │ segment 2    │ not folded yet
//! a statement cells, if as many of its rows   │ Partial over rows
//!             live as when it was made        │
//! ```
//!
//! A cube with a live fact table is divided by the LSN of each row's last write. A rewritten row gets a later
//! LSN, and leaves its range; so the rows of a range can only become fewer, and a segment is current as long as
//! their number is the same. The count reads no values. The other live tables of a cube must be unchanged as a
//! whole.

use std::sync::Arc;

use datafusion::datasource::{provider_as_source, source_as_provider};
use datafusion::logical_expr::TableScan;
use nyala_model::{CubeEntry, KeyRange, KeySet, LiveRows, QualifiedName, SegmentEntry, SegmentRange};
use nyala_sql::error::{QueryError, Result};
use nyala_storage::oplog::{LsnSet, Version};

use super::block::Instance;
use super::compile::CompiledCube;
use crate::live::{LiveProvider, LiveRef, OpenedAt, Pins};

/// The live tables of a cube, as one statement reads them.
#[derive(Debug, Clone, Default)]
pub struct LiveVersions(Vec<LiveVersion>);

#[derive(Debug, Clone)]
struct LiveVersion {
    table: QualifiedName,
    stored_as: String,
    version: Arc<Version>,
    opened: OpenedAt,
}

/// The live tables of a cube, each once.
pub fn live_tables(compiled: &CompiledCube) -> Vec<Arc<LiveRef>> {
    let mut tables: Vec<Arc<LiveRef>> = Vec::new();
    for table in compiled.block.instances.iter().filter_map(|instance| live_table(&instance.scan)) {
        if !tables.iter().any(|known| known.entry().id == table.entry().id) {
            tables.push(table);
        }
    }
    tables
}

/// The live table that is scanned.
pub fn live_table(scan: &TableScan) -> Option<Arc<LiveRef>> {
    let provider = source_as_provider(&scan.source).ok()?;
    Some(Arc::clone(provider.downcast_ref::<LiveProvider>()?.table()))
}

impl CompiledCube {
    /// Whether its fact table is live.
    pub fn is_live(&self) -> bool {
        self.block.instances.first().is_some_and(|fact| live_table(&fact.scan).is_some())
    }

    /// Whether all its rows are in files that every node reaches.
    pub fn reads_shared_files(&self) -> bool {
        self.block.instances.iter().all(Instance::is_shared)
    }

    /// Whether its fact table is joined once more, and so read as a whole.
    pub(super) fn joins_fact(&self) -> bool {
        let mut tables = self.block.instances.iter().map(|instance| &instance.table);
        tables.next().is_some_and(|fact| tables.any(|table| table == fact))
    }
}

impl Instance {
    /// The instance with only the rows that were last written at `lsns`.
    pub fn only_written(&self, lsns: &KeySet) -> Result<Self> {
        let provider = source_as_provider(&self.scan.source)?;
        let live = provider.downcast_ref::<LiveProvider>();
        let live =
            live.ok_or_else(|| QueryError::internal("only live tables know when rows were written"))?;
        let mut instance = self.clone();
        instance.scan.source = provider_as_source(Arc::new(live.only_written(lsn_set(lsns))));
        Ok(instance)
    }
}

impl LiveVersions {
    /// The versions of a cube's live tables that a statement with these `pins` reads, or why that is not known.
    pub fn of(compiled: &CompiledCube, pins: &Pins) -> std::result::Result<Self, String> {
        let versions = live_tables(compiled).into_iter().map(|table| {
            let name = &table.entry().name;
            let pinned = table.pinned(pins).map_err(|error| error.to_string())?;
            let (version, opened) = pinned.ok_or_else(|| {
                format!("disk store `{}` of table `{name}` is being opened", table.source().store)
            })?;
            let stored_as = table.source().stored_as.clone();
            Ok(LiveVersion { table: name.clone(), stored_as, version, opened })
        });
        versions.collect::<std::result::Result<_, String>>().map(Self)
    }

    fn find(&self, table: &QualifiedName) -> Option<&LiveVersion> {
        self.0.iter().find(|live| live.table == *table)
    }

    /// The version of the cube's fact table, if that is live.
    pub(super) fn fact(&self, entry: &CubeEntry) -> Option<&Arc<Version>> {
        self.find(entry.definition.sources.first()?).map(|live| &live.version)
    }

    /// The rows of one table in a segment of `range`; none if the table is not live.
    pub(super) fn rows(
        &self,
        table: &QualifiedName,
        entry: &CubeEntry,
        compiled: &CompiledCube,
        range: SegmentRange,
    ) -> Option<LiveRows> {
        let live = self.find(table)?;
        let (version, stored_as) = (&live.version, live.stored_as.clone());
        Some(match written(table, entry, compiled, range) {
            Some(range) => {
                let up_to = seen_of(range, version.lsn());
                LiveRows { stored_as, up_to, rows: version.rows_written(&lsn_set(&range.into())) }
            }
            None => LiveRows { stored_as, up_to: version.lsn(), rows: version.rows() },
        })
    }

    /// Why a segment may not answer a statement that reads these versions; none if it may.
    pub(super) fn staleness(
        &self,
        segment: &SegmentEntry,
        entry: &CubeEntry,
        compiled: &CompiledCube,
    ) -> Option<String> {
        self.0.iter().find_map(|live| {
            let name = &live.table;
            let recorded = segment.sources.iter().find(|source| source.table == *name);
            let Some(then) = recorded.and_then(|source| source.live.as_ref()) else {
                return Some(format!("it was not built from what table `{name}` is now"));
            };
            if then.stored_as != live.stored_as {
                return Some(format!("table `{name}` was made anew since it was built"));
            }
            // A store that lost writes, or was restored from a copy, gives their LSNs to new writes.
            let is_older = then.up_to > live.opened.lsn && segment.built_at_ms <= live.opened.at_ms;
            if is_older || then.up_to > live.version.lsn() {
                return Some(format!("the disk store of table `{name}` is older than it"));
            }
            let rows = |lsns: &LsnSet| live.version.rows_written(lsns);
            match written(name, entry, compiled, segment.range) {
                Some(range) if holds_the_same(range, then, rows) => None,
                Some(_) => {
                    Some(format!("rows of table `{name}` that it holds were written or deleted since"))
                }
                None if live.version.rows() == then.rows && rows(&LsnSet::up_to(then.up_to)) == then.rows => {
                    None
                }
                None => Some(format!("rows of table `{name}` changed since it was built")),
            }
        })
    }
}

/// The last LSN of `range` known to a reader of the table up to `lsn`. The range of a segment that is rebuilt
/// over an older store reaches beyond it.
fn seen_of(range: KeyRange, lsn: u64) -> u64 {
    u64::try_from(range.to.saturating_sub(1)).unwrap_or_default().min(lsn)
}

/// Whether the `rows` of `range` are still the rows of `then`. Rows that got an LSN of the range later are different
/// rows, even if there are as many.
fn holds_the_same(range: KeyRange, then: &LiveRows, rows: impl Fn(&LsnSet) -> u64) -> bool {
    let range = KeySet::from(range);
    let seen = range.intersect(&KeySet::at_most(i64::try_from(then.up_to).unwrap_or(i64::MAX)));
    let later = range.subtract(&seen);
    rows(&lsn_set(&seen)) == then.rows && (later.is_empty() || rows(&lsn_set(&later)) == 0)
}

/// The LSNs of this table in a segment, if it is the fact table and the segment has only a range of it.
fn written(
    table: &QualifiedName,
    entry: &CubeEntry,
    compiled: &CompiledCube,
    range: SegmentRange,
) -> Option<KeyRange> {
    match range {
        SegmentRange::Written(range)
            if entry.definition.sources.first() == Some(table) && !compiled.joins_fact() =>
        {
            Some(range)
        }
        _ => None,
    }
}

/// Keys as LSNs.
pub fn lsn_set(keys: &KeySet) -> LsnSet {
    let spans = keys.intersect(&KeySet::at_least(0));
    let lsn = |key: i64| u64::try_from(key).unwrap_or_default();
    LsnSet::new(spans.spans().map(|(first, last)| lsn(first)..=lsn(last)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many rows, written at `lsns`, a set has.
    fn count(lsns: &[u64]) -> impl Fn(&LsnSet) -> u64 {
        move |set| {
            lsns.iter().filter(|lsn| set.ranges().iter().any(|range| range.contains(*lsn))).count() as u64
        }
    }

    #[test]
    fn rows_that_take_the_place_of_others_are_not_the_same() {
        let check = |range: (i64, i64), lsn: u64, then: &[u64], now: &[u64], expected: bool| {
            let range = KeyRange { from: range.0, to: range.1 };
            let rows = count(then)(&lsn_set(&range.into()));
            let recorded = LiveRows { stored_as: String::new(), up_to: seen_of(range, lsn), rows };
            assert_eq!(holds_the_same(range, &recorded, count(now)), expected, "{range:?} {now:?}");
        };
        // The range ends where the version did.
        check((0, 5), 4, &[1, 2, 3, 4], &[1, 2, 3, 4, 5], true);
        check((0, 5), 4, &[1, 2, 3, 4], &[1, 2, 4, 5], false);
        check((2, 4), 9, &[1, 2, 3, 4], &[2, 3, 10], true);
        // The range ends after the version, as over a store that was restored from a copy.
        check((0, 9), 4, &[1, 2, 3, 4], &[1, 2, 3, 4], true);
        check((0, 9), 4, &[1, 2, 3, 4], &[1, 2, 5, 6], false);
        check((0, 9), 4, &[1, 2, 3, 4], &[1, 2, 3, 4, 5], false);
        check((0, 9), 4, &[1, 2, 3, 4], &[1, 2, 3, 4, 9], true);
    }
}
