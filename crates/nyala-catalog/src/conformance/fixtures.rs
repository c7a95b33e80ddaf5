//! Sample changes, and a catalog that is checked after every change.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use async_trait::async_trait;
use nyala_model::{
    CatalogSnapshot, CubeDefinition, CubeEntry, CuboidEntry, CuboidFile, Dimension, DimensionSet,
    DiskStoreEntry, ExternalSource, FileFormat, KeyKind, LiveSource, Measure, NodeId, QualifiedName,
    RangePartition, SegmentId, SegmentRange, SourceFiles, StateColumn, Step, TableEntry, TableSource,
    ViewSource,
};

use crate::{Catalog, CatalogError, CatalogStore, Change, Committed, NewTable};

/// A database that holds one catalog, empty at first.
#[async_trait]
pub trait Backend: Send + Sync {
    /// Connects to it as a new process would; earlier commits are there.
    async fn open(&self) -> Arc<dyn CatalogStore>;
}

/// Compares the published snapshot with the stored one after every change.
pub struct Subject {
    pub catalog: Catalog,
    pub store: Arc<dyn CatalogStore>,
}

impl Subject {
    pub async fn open(backend: &dyn Backend) -> Self {
        let store = backend.open().await;
        Self { catalog: Catalog::open(Arc::clone(&store)).await.unwrap(), store }
    }

    pub async fn commit(&self, change: Change) -> Result<Committed, CatalogError> {
        let before = self.catalog.snapshot();
        let result = self.catalog.commit(change).await;
        let (after, stored) = (self.catalog.snapshot(), self.store.load().await.unwrap());
        assert_eq!(*after, stored);
        assert!(self.store.is_newest(&after).await.unwrap());
        let changed = result.as_ref().is_ok_and(|committed| committed.changed);
        assert_eq!(after.version.0, before.version.0 + u64::from(changed));
        assert_eq!(
            changed,
            after.schemas != before.schemas
                || after.tables != before.tables
                || after.disk_stores != before.disk_stores
                || after.cubes != before.cubes
                || after.roles != before.roles
        );
        result
    }

    /// A change that must take place.
    pub async fn make(&self, change: Change) -> Committed {
        let committed = self.commit(change.clone()).await.unwrap_or_else(|e| panic!("{change:?}: {e}"));
        assert!(committed.changed, "{change:?}");
        committed
    }

    /// A change that must succeed without effect.
    pub async fn forgive(&self, change: Change) {
        let committed = self.commit(change.clone()).await.unwrap_or_else(|e| panic!("{change:?}: {e}"));
        assert!(!committed.changed, "{change:?}");
    }

    /// A change that must be refused with exactly this message.
    pub async fn refuse(&self, change: Change, message: &str) {
        let refusal = self.commit(change).await.expect_err(message);
        assert_eq!(refusal.to_string(), message);
    }

    pub fn cube(&self, cube: &str) -> Arc<CubeEntry> {
        Arc::clone(&self.catalog.snapshot().cubes[&name(cube)])
    }

    /// Begins a segment of `cube`.
    pub async fn begin(&self, cube: &str) -> SegmentId {
        self.begin_range(cube, SegmentRange::Whole).await
    }

    /// Begins a segment of `cube` for the rows in `range`.
    pub async fn begin_range(&self, cube: &str, range: SegmentRange) -> SegmentId {
        let change = Change::BeginSegment {
            cube: self.cube(cube).id,
            revision: self.cube(cube).definition.revision,
            location: "file:///segments/".to_owned(),
            range,
            sources: sources(),
            node: node(),
        };
        self.make(change).await.segment.unwrap()
    }
}

/// Files of one table.
pub fn sources() -> Vec<SourceFiles> {
    vec![SourceFiles { table: name("sales"), files: 2, fingerprint: "f00d".to_owned(), live: None }]
}

/// `schema.name`, or a name in `public`.
pub fn name(name: &str) -> QualifiedName {
    let (schema, name) = name.split_once('.').unwrap_or(("public", name));
    QualifiedName::new(schema, name)
}

pub fn create_schema(name: &str) -> Change {
    Change::CreateSchema { name: name.to_owned(), if_not_exists: false }
}

pub fn drop_schema(name: &str, cascade: bool) -> Change {
    Change::DropSchema { name: name.to_owned(), if_exists: false, cascade }
}

pub fn create_table(table: &str) -> Change {
    Change::CreateTable { table: new_table(table), if_not_exists: false }
}

pub fn drop_table(table: &str) -> Change {
    drop_tables(&[table], false, false)
}

/// Drops tables, or else views, and maybe the views that read them.
pub fn drop_tables(tables: &[&str], views: bool, cascade: bool) -> Change {
    let names = tables.iter().map(|table| name(table)).collect();
    Change::DropTables { names, views, if_exists: false, cascade }
}

pub fn rename(table: &str, to: &str) -> Change {
    let statement = format!("ALTER TABLE {table} RENAME TO {to}");
    Change::RenameTable { name: name(table), to: name(to), if_exists: false, statement }
}

/// A view over tables that are there.
pub fn new_view(view: &str, reads: &[&Arc<TableEntry>]) -> NewTable {
    let reads = reads.iter().map(|table| (table.name.clone(), table.id)).collect();
    let source = ViewSource { query: format!("SELECT {view}"), reads, columns: vec!["a".to_owned()] };
    NewTable { source: TableSource::View(source), ..new_table(view) }
}

pub fn create_cube(cube: &str, sources: &[&str]) -> Change {
    Change::CreateCube {
        name: name(cube),
        definition: definition(sources),
        statement: format!("CREATE CUBE {cube} AS SELECT 1"),
        if_not_exists: false,
    }
}

pub fn drop_cube(cube: &str) -> Change {
    Change::DropCube { name: name(cube), if_exists: false }
}

pub fn publish(segment: SegmentId) -> Change {
    Change::PublishSegment {
        segment,
        source_rows: 6_000_000,
        built_at_ms: 1_700_000_000_000,
        droppable_joins: vec![3, 1],
        key_bounds: Some((i64::MIN, i64::MAX)),
    }
}

/// The same change with `IF EXISTS` or `IF NOT EXISTS`.
pub fn lenient(mut change: Change) -> Change {
    match &mut change {
        Change::CreateSchema { if_not_exists: flag, .. }
        | Change::CreateTable { if_not_exists: flag, .. }
        | Change::CreateCube { if_not_exists: flag, .. }
        | Change::DropSchema { if_exists: flag, .. }
        | Change::DropTables { if_exists: flag, .. }
        | Change::RenameTable { if_exists: flag, .. }
        | Change::CreateDiskStore { if_not_exists: flag, .. }
        | Change::DropDiskStore { if_exists: flag, .. }
        | Change::DropCube { if_exists: flag, .. } => *flag = true,
        other => panic!("{other:?} has no such clause"),
    }
    change
}

pub fn new_table(table: &str) -> NewTable {
    NewTable {
        name: name(table),
        source: TableSource::External(files(table)),
        schema_ipc: (0..=255).collect(),
        definition: format!("CREATE EXTERNAL TABLE {table}"),
    }
}

pub fn files(table: &str) -> ExternalSource {
    ExternalSource {
        format: FileFormat::Parquet,
        location: format!("file:///data/{table}/"),
        partition_columns: vec!["year".to_owned()],
        options: BTreeMap::from([("format.delimiter".to_owned(), "|".to_owned())]),
    }
}

pub fn create_store(store: &str) -> Change {
    let store = DiskStoreEntry {
        name: store.to_owned(),
        folder: format!("stores/{store}"),
        options: BTreeMap::from([("seal_bytes".to_owned(), "4096".to_owned())]),
        leftovers: BTreeSet::new(),
        node: node(),
    };
    Change::CreateDiskStore { store, if_not_exists: false }
}

pub fn drop_store(store: &str) -> Change {
    Change::DropDiskStore { name: store.to_owned(), if_exists: false }
}

/// A live table in `store`.
pub fn create_live_table(table: &str, store: &str) -> Change {
    let source = LiveSource {
        store: store.to_owned(),
        stored_as: format!("{table}-1"),
        key: vec!["year".to_owned(), "id".to_owned()],
        numbered: false,
        defaults: BTreeMap::from([("id".to_owned(), "7 + 1".to_owned())]),
    };
    let table = NewTable { source: TableSource::Live(source), ..new_table(table) };
    Change::CreateTable { table, if_not_exists: false }
}

pub fn definition(sources: &[&str]) -> CubeDefinition {
    let text = |text: &str| text.to_owned();
    CubeDefinition {
        select: text("SELECT year, sum(price) FROM sales GROUP BY ROLLUP (year)"),
        sources: sources.iter().map(|source| name(source)).collect(),
        dimensions: vec![Dimension {
            name: text("year"),
            expression: text("year"),
            data_type: text("Int32"),
        }],
        measures: vec![Measure {
            number: 0,
            expression: text("sum(price)"),
            function: text("sum"),
            argument_types: vec![text("Int64")],
            distinct: false,
            state_version: 1,
            states: vec![StateColumn { name: text("sum(price)[sum]"), data_type: text("Int64") }],
        }],
        next_measure: 1,
        grouping_sets: vec![DimensionSet::from_bits(1), DimensionSet::EMPTY],
        revision: 0,
        options: nyala_model::CubeOptions {
            retention: Some(Step::Months(24)),
            auto_merge: vec![Step::Months(3), Step::Months(12)],
            auto_refresh: true,
            fold_rows: Some(1000),
            fold_after_ms: None,
            answers: false,
        },
        partition: Some(RangePartition {
            column: text("day"),
            kind: KeyKind::Timestamp { per_second: 1000 },
            step: Step::Months(1),
        }),
    }
}

/// A cuboid of one file over the dimensions in `bits`.
pub fn cuboid(bits: u64, rows: u64) -> CuboidEntry {
    let file = CuboidFile {
        name: format!("{bits}-{rows}.parquet"),
        rows,
        bytes: rows * 8,
        tail_from: rows,
        tail_crc: u32::MAX,
    };
    CuboidEntry {
        dimensions: DimensionSet::from_bits(bits),
        rows,
        bytes: rows * 8,
        measures: 1,
        repeats: false,
        wider: false,
        files: vec![file],
    }
}

/// The table entries' names, for short comparisons.
pub fn table_names(snapshot: &CatalogSnapshot) -> Vec<String> {
    snapshot.tables.keys().map(ToString::to_string).collect()
}

/// The node that makes segments and runs jobs.
pub fn node() -> NodeId {
    NodeId("here".to_owned())
}
