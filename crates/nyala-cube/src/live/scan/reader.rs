//! Reads the rows of one partition, part by part.

use std::sync::Arc;

use arrow::array::BooleanArray;
use arrow::buffer::BooleanBuffer;
use arrow::compute::filter_record_batch;
use arrow::datatypes::{FieldRef, Schema, SchemaRef};
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::error::Result;
use datafusion::physical_plan::metrics::{Count, Time};
use futures::stream::{BoxStream, StreamExt, try_unfold};
use nyala_sql::error::QueryError;
use nyala_storage::oplog::{LiveTable, Part, Projection, Version};

use super::conditions::{Checks, Conditions};
use super::source::{LiveScan, conform};
use crate::live::prune::kept;

/// The unread rest of one partition.
pub struct Reader {
    table: LiveTable,
    version: Arc<Version>,
    parts: std::vec::IntoIter<Share>,
    /// The part that is being read.
    open: Option<Open>,
    /// Whether all values were in memory when the part was opened, since checking every column takes a while.
    loaded: bool,
    checks: Checks,
    /// The columns that conditions read.
    seen: Projection,
    /// The other columns of the output.
    rest: Projection,
    given: SchemaRef,
    /// Rows that are checked together: few enough for the processor's cache.
    batch_rows: usize,
    metrics: ReaderMetrics,
}

/// Counts of a reader.
pub struct ReaderMetrics {
    /// Parts that were skipped because of their bounds.
    pub skipped: Count,
    pub time: Time,
}

/// A part that is to be read.
#[derive(Clone)]
struct Share {
    part: Part,
    /// Whether the bounds of the part prove that all its rows fulfil the fixed conditions.
    certain: bool,
}

/// A part that is being read.
struct Open {
    share: Share,
    /// Bit 1 for every row that is not deleted; none if no row is.
    live: Option<BooleanBuffer>,
    seen: RecordBatch,
    /// The other columns, read when the first row is wanted.
    rest: Option<RecordBatch>,
    from: usize,
}

impl Reader {
    /// A reader of one partition of the rows that fulfil `conditions`, with the columns `given`.
    pub fn new(
        scan: &LiveScan,
        table: LiveTable,
        (partition, partitions): (usize, usize),
        conditions: &Conditions,
        (given, batch_rows): (&SchemaRef, usize),
        metrics: ReaderMetrics,
    ) -> Result<Self> {
        let version = scan.pin(&table);
        let named = conditions.columns();
        let (seen, rest): (Vec<_>, Vec<_>) =
            scan.schema.fields().iter().cloned().enumerate().partition(|(at, _)| named.contains(at));
        let rest = rest.into_iter().filter(|(_, field)| given.index_of(field.name()).is_ok());
        let columns = |fields: Vec<FieldRef>| scan.projection(&version, &Schema::new(fields));
        let seen = columns(seen.into_iter().map(|(_, field)| field).collect())?;
        let rest = columns(rest.map(|(_, field)| field).collect())?;
        let checks = Checks::new(conditions, Arc::clone(seen.schema()))?;

        let mut parts = version.parts().map_err(QueryError::from)?;
        let all = parts.len();
        if let Some(written) = &scan.written {
            parts.retain(|part| part.may_hold(written));
        }
        if partition == 0 {
            metrics.skipped.add(all - parts.len());
        }
        // Parts are divided among the partitions before their bounds are checked. The bounds of rows in a log are known only when it is
        // read, which may be after the first partition has begun and before the last has.
        let mut own: Vec<Part> = parts.into_iter().skip(partition).step_by(partitions.max(1)).collect();
        if let Some(bounds) = &scan.bounds {
            let (all, kept) = (own.len(), kept(&version, &own, bounds));
            own = own.into_iter().zip(kept).filter_map(|(part, kept)| kept.then_some(part)).collect();
            metrics.skipped.add(all - own.len());
        }
        let doubtful = match conditions.counterpart(&scan.schema)? {
            Some(counterpart) => kept(&version, &own, &counterpart),
            None => vec![true; own.len()],
        };
        let own = own.into_iter().zip(doubtful).map(|(part, doubtful)| Share { part, certain: !doubtful });
        let own: Vec<Share> = own.collect();
        let (parts, given) = (own.into_iter(), Arc::clone(given));
        let (open, loaded) = (None, false);
        Ok(Self { table, version, parts, open, loaded, checks, seen, rest, given, batch_rows, metrics })
    }

    pub fn batches(self) -> BoxStream<'static, Result<RecordBatch>> {
        try_unfold(self, Self::next).boxed()
    }

    /// The next rows; none if there are no more.
    async fn next(mut self) -> Result<Option<(RecordBatch, Self)>> {
        while self.open.is_some() || self.parts.len() > 0 {
            // Skipping many rows must not block the thread.
            tokio::task::consume_budget().await;
            if self.open.is_none() {
                self.loaded = self.table.is_loaded();
            }
            let read;
            // Values in memory are read at once, and values on disk by a blocking thread.
            if self.loaded {
                read = self.read()?;
            } else {
                let task = move || self.read().map(|read| (read, self));
                (read, self) = tokio::task::spawn_blocking(task).await.map_err(joined)??;
            }
            if let Some(rows) = read {
                return Ok(Some((rows, self)));
            }
        }
        Ok(None)
    }

    /// Reads the next rows of the open part, or opens the next part.
    fn read(&mut self) -> Result<Option<RecordBatch>> {
        let time = self.metrics.time.clone();
        let _timer = time.timer();
        match self.open.take() {
            Some(open) => self.read_on(open),
            None => {
                self.open = self.parts.next().map(|share| self.open(share)).transpose()?.flatten();
                Ok(None)
            }
        }
    }

    /// Opens a part, unless none of its rows can be wanted.
    fn open(&mut self, share: Share) -> Result<Option<Open>> {
        let live = self.seen.live_rows(&share.part);
        if live.as_ref().is_some_and(|live| live.count_set_bits() == 0) {
            return Ok(None);
        }
        if let Some(bounds) = self.checks.bounds()?
            && kept(&self.version, std::slice::from_ref(&share.part), bounds) == [false]
        {
            self.metrics.skipped.add(1);
            return Ok(None);
        }
        let seen = self.seen.values(&share.part).map_err(QueryError::from)?;
        Ok(Some(Open { share, live, seen, rest: None, from: 0 }))
    }

    /// The next rows of a part that are wanted; none if no row of this step is.
    fn read_on(&mut self, mut open: Open) -> Result<Option<RecordBatch>> {
        let (from, rows) = (open.from, self.batch_rows.min(open.seen.num_rows() - open.from));
        open.from += rows;
        let seen = open.seen.slice(from, rows);
        let live = open.live.as_ref().map(|live| live.slice(from, rows));
        self.checks.refresh()?;
        let wanted = match (self.checks.chosen(&seen, open.share.certain)?, live) {
            (Some(chosen), Some(live)) => Some(&chosen & &live),
            (chosen, live) => chosen.or(live),
        };
        let some = wanted.as_ref().is_none_or(|wanted| wanted.count_set_bits() > 0);
        let mut given = None;
        if some {
            let rest = match open.rest.take() {
                Some(rest) => rest,
                None => self.rest.values(&open.share.part).map_err(QueryError::from)?,
            };
            let rows = conform(&beside(&seen, &rest.slice(from, rows))?, &self.given)?;
            open.rest = Some(rest);
            given = Some(match wanted {
                Some(wanted) => filter_record_batch(&rows, &BooleanArray::new(wanted, None))?,
                None => rows,
            });
        }
        self.open = Some(open).filter(|open| open.from < open.seen.num_rows());
        Ok(given)
    }
}

/// The columns of two batches of the same rows in one batch.
fn beside(some: &RecordBatch, others: &RecordBatch) -> Result<RecordBatch> {
    let fields = some.schema_ref().fields().iter().chain(others.schema_ref().fields()).cloned();
    let columns = some.columns().iter().chain(others.columns()).cloned().collect();
    let options = RecordBatchOptions::new().with_row_count(Some(some.num_rows()));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    Ok(RecordBatch::try_new_with_options(schema, columns, &options)?)
}

pub fn joined(error: tokio::task::JoinError) -> QueryError {
    QueryError::internal(format!("reading a live table ended early: {error}"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::Path;

    use arrow::array::{ArrayRef, AsArray, Int64Array};
    use arrow::datatypes::{DataType, Field, Int64Type};
    use datafusion::logical_expr::Operator;
    use datafusion::physical_expr::expressions::{binary, col, lit};
    use datafusion::physical_optimizer::pruning::PruningPredicateBuilder;
    use futures::TryStreamExt;
    use nyala_model::{LiveSource, QualifiedName, TableEntry, TableId, TableSource};
    use nyala_storage::oplog::{DiskStore, Environment, StoreOptions, TableSpec, Write};

    use super::*;
    use crate::live::table::LiveRef;

    /// The rows fill four parts.
    const ROWS: i64 = 200_000;

    /// A store without background work: only scans read its log.
    fn open(folder: &Path) -> DiskStore {
        let options = StoreOptions { background: false, load_values: false, ..StoreOptions::default() };
        DiskStore::open(folder, options, Environment::default()).unwrap()
    }

    /// A scan for the last ten rows.
    fn scan(schema: &SchemaRef) -> LiveScan {
        let source = LiveSource {
            store: "s".to_owned(),
            stored_as: "t".to_owned(),
            key: vec!["id".to_owned()],
            defaults: BTreeMap::new(),
            numbered: false,
        };
        let entry = TableEntry {
            id: TableId(1),
            name: QualifiedName::new("public", "t"),
            source: TableSource::Live(source.clone()),
            schema_ipc: Vec::new(),
            definition: String::new(),
        };
        let last = binary(col("n", schema).unwrap(), Operator::GtEq, lit(ROWS - 10), schema).unwrap();
        LiveScan {
            table: Arc::new(LiveRef::new(Arc::new(entry), source, None)),
            schema: Arc::clone(schema),
            keys: None,
            bounds: PruningPredicateBuilder::new().with_file_schema(Arc::clone(schema)).build(last),
            written: None,
            pins: Arc::default(),
        }
    }

    #[tokio::test]
    async fn partitions_have_every_row_once_though_bounds_become_known_between_them() {
        let folder = tempfile::tempdir().unwrap();
        let fields = ["id", "n"].map(|name| Field::new(name, DataType::Int64, false));
        let schema: SchemaRef = Arc::new(Schema::new(fields.to_vec()));
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..ROWS));
        let rows = RecordBatch::try_new(Arc::clone(&schema), vec![Arc::clone(&numbers), numbers]).unwrap();
        let store = open(folder.path());
        let table = store.create_table(TableSpec::new("t", Arc::clone(&schema), &["id"])).unwrap();
        table.write(Write::upsert(rows)).unwrap();
        store.checkpoint().unwrap();
        drop((table, store));

        let store = open(folder.path());
        let table = store.table("t").unwrap();
        assert!(!table.is_loaded(), "nothing is known of a log before it is read");
        let scan = scan(&schema);
        let mut found: Vec<i64> = Vec::new();
        for partition in 0..2 {
            let metrics = ReaderMetrics { skipped: Count::new(), time: Time::new() };
            let (share, conditions) = ((partition, 2), Conditions::default());
            let reader =
                Reader::new(&scan, table.clone(), share, &conditions, (&schema, 8192), metrics).unwrap();
            for rows in reader.batches().try_collect::<Vec<_>>().await.unwrap() {
                found.extend(rows.column(1).as_primitive::<Int64Type>().values());
            }
            assert!(table.is_loaded(), "the first partition has read the log");
        }
        found.retain(|number| *number >= ROWS - 10);
        found.sort_unstable();
        assert_eq!(found, (ROWS - 10..ROWS).collect::<Vec<_>>());
    }
}
