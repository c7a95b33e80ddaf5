//! The source of a scan: table, keys and columns.

use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use datafusion::error::Result;
use datafusion::physical_optimizer::pruning::PruningPredicate;
use nyala_sql::error::{ErrorKind, QueryError};
use nyala_storage::oplog::{LiveTable, LsnSet, Projection, RowId, Version};

use crate::live::pins::Pins;
use crate::live::provider::ROW_VERSION;
use crate::live::table::LiveRef;

/// Up to this many rows one partition is faster than any division of work.
const SINGLE_PARTITION_ROWS: u64 = 131_072;

/// Rows of a live table, in terms of columns by name.
#[derive(Debug, Clone)]
pub struct LiveScan {
    pub table: Arc<LiveRef>,
    /// The columns of the output, and those that conditions read.
    pub schema: SchemaRef,
    /// The only keys that rows of the output can have.
    pub keys: Option<RecordBatch>,
    /// A predicate over bounds: parts that it rules out are not read.
    pub bounds: Option<Arc<PruningPredicate>>,
    /// LSNs of the last write of the rows that are wanted; none for all rows.
    pub written: Option<Arc<LsnSet>>,
    pub pins: Arc<Pins>,
}

impl LiveScan {
    /// Whether few rows are read of a version with `rows` rows.
    pub(super) fn is_little(&self, rows: Option<u64>) -> bool {
        self.keys.is_some() || rows.is_some_and(|rows| rows <= SINGLE_PARTITION_ROWS)
    }

    /// The version that the statement reads.
    pub(super) fn pin(&self, table: &LiveTable) -> Arc<Version> {
        self.pins.get_or(self.table.entry().id, || table.version())
    }

    /// Number of rows of `version`, without those that `written` leaves out.
    pub(super) fn rows_of(&self, version: &Version) -> u64 {
        self.written.as_ref().map_or_else(|| version.rows(), |written| version.rows_written(written))
    }

    /// Some columns in `version`, whose columns may have changed since the scan was planned.
    pub(super) fn projection(&self, version: &Version, columns: &Schema) -> Result<Projection> {
        let known = version.schema();
        let altered = || {
            QueryError::new(
                ErrorKind::InUse,
                format!("table `{}` was altered meanwhile", self.table.entry().name),
            )
            .hint("try again")
        };
        let (mut positions, mut row_version) = (Vec::new(), false);
        for field in columns.fields() {
            match known.index_of(field.name()) {
                Ok(at) if known.field(at).data_type() == field.data_type() => positions.push(at),
                Err(_) if field.name() == ROW_VERSION => row_version = true,
                _ => return Err(altered().into()),
            }
        }
        let projection = version.projection(&positions, row_version).map_err(QueryError::from)?;
        Ok(match &self.written {
            Some(written) => projection.only_written(Arc::clone(written)),
            None => projection,
        })
    }

    /// The rows with the keys; none if one of them was changed after the version that this statement reads, which must then be
    /// scanned.
    pub(super) fn look_up(&self, table: &LiveTable, keys: &RecordBatch) -> Result<Option<RecordBatch>> {
        let id = self.table.entry().id;
        let (version, rows) = match self.pins.get(id) {
            Some(version) => {
                let rows = table.locate_in(&version, keys).map_err(QueryError::from)?;
                (version, rows)
            }
            None => {
                let found = table.locate(keys).map_err(QueryError::from)?;
                let version = self.pins.get_or(id, || Arc::clone(&found.version));
                // Another scan of this statement may have chosen its version in the meantime.
                let same = Arc::ptr_eq(&version, &found.version);
                (version, same.then_some(found.rows))
            }
        };
        let Some(rows) = rows else { return Ok(None) };
        let rows: Vec<RowId> = rows.into_iter().flatten().collect();
        let projection = self.projection(&version, &self.schema)?;
        let found = version.take(&rows, &projection).map_err(QueryError::from)?;
        conform(&found, &self.schema).map(Some)
    }
}

/// The columns of `schema`, by name and in this order: storage gives the version of rows last.
pub fn conform(rows: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let given = rows.schema();
    let column = |name: &String| given.index_of(name).map(|at| Arc::clone(rows.column(at)));
    let columns = schema.fields().iter().map(|field| column(field.name()));
    let columns = columns.collect::<std::result::Result<Vec<_>, _>>()?;
    let options = arrow::record_batch::RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?)
}
