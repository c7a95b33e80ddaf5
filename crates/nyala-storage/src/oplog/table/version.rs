//! A reader's snapshot: a table at one LSN.

use std::sync::Arc;

use arrow_array::{BooleanArray, RecordBatch, RecordBatchOptions};
use arrow_buffer::BooleanBuffer;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use arrow_select::filter::filter_record_batch;

use crate::oplog::error::{Damage, OplogError, Result};
use crate::oplog::meta::TableMeta;
use crate::oplog::unit::{LsnSet, Part, UnitView};

/// A table at one LSN. It never changes, holds no lock, and keeps the files it may still have to read.
#[derive(Debug, Clone)]
pub struct Version {
    meta: Arc<TableMeta>,
    lsn: u64,
    units: Vec<Arc<UnitView>>,
    damage: Vec<Damage>,
}

impl Version {
    /// Name of the column that has the LSN at which a row was last written.
    pub const ROW_VERSION: &'static str = "_version";

    pub(crate) fn new(
        meta: Arc<TableMeta>,
        lsn: u64,
        units: Vec<Arc<UnitView>>,
        damage: Vec<Damage>,
    ) -> Self {
        Self { meta, lsn, units, damage }
    }

    /// LSN of the table's last change in this version.
    pub fn lsn(&self) -> u64 {
        self.lsn
    }

    /// The table's columns.
    pub fn schema(&self) -> SchemaRef {
        self.meta.current().map_or_else(|_| Arc::new(Schema::empty()), |version| version.schema.clone())
    }

    /// Number of rows. Known before any value is read.
    pub fn rows(&self) -> u64 {
        self.units.iter().map(|unit| u64::from(unit.live())).sum()
    }

    /// Number of rows that were last written at `written`. No value is read.
    pub fn rows_written(&self, written: &LsnSet) -> u64 {
        self.units.iter().map(|unit| unit.live_written(written)).sum()
    }

    /// LSNs that separate rows cheaply: rows written up to such an LSN lie in other files than rows written after it.
    /// Ascending, and the last is that of this version.
    pub fn seams(&self) -> Vec<u64> {
        let mut bounds: Vec<(u64, u64)> = self.units.iter().filter_map(|unit| unit.lsn_bounds()).collect();
        bounds.sort_unstable();
        let mut seams: Vec<u64> = Vec::new();
        let mut highest = 0;
        for (from, to) in bounds {
            if from > highest && highest > 0 {
                seams.push(highest);
            }
            highest = highest.max(to);
        }
        seams.push(self.lsn);
        seams.dedup();
        seams
    }

    /// Damage of the table's files; if there is any, the table cannot be scanned.
    pub fn damage(&self) -> &[Damage] {
        &self.damage
    }

    pub(crate) fn units(&self) -> &[Arc<UnitView>] {
        &self.units
    }

    pub(super) fn unit(&self, id: u64) -> Option<&Arc<UnitView>> {
        self.units.iter().find(|unit| unit.id == id)
    }

    pub(crate) fn meta(&self) -> &Arc<TableMeta> {
        &self.meta
    }

    /// All rows in parts, to be read in any order and in parallel.
    pub fn parts(&self) -> Result<Vec<Part>> {
        match self.damage.first() {
            Some(damage) => Err(OplogError::Damaged(damage.clone())),
            None => Ok(self.units.iter().filter(|unit| unit.live() > 0).flat_map(UnitView::parts).collect()),
        }
    }

    /// Id and type of a column.
    pub(super) fn column(&self, position: usize) -> Result<(u32, DataType)> {
        let missing = || OplogError::invalid(format!("table `{}` has fewer columns", self.meta.name));
        let column = self.meta.current()?.columns.get(position).ok_or_else(missing)?;
        Ok((column.id, column.field.data_type().clone()))
    }

    /// The columns of a scan, by their positions in [`Self::schema`], then, if `row_version`, the LSN of each row as
    /// [`Self::ROW_VERSION`].
    pub fn projection(&self, columns: &[usize], row_version: bool) -> Result<Projection> {
        let (mut ids, mut fields) = (Vec::new(), Vec::new());
        for position in columns {
            ids.push(self.column(*position)?);
            fields.extend(self.meta.current()?.columns.get(*position).map(|column| column.field.clone()));
        }
        if row_version {
            fields.push(Arc::new(Field::new(Self::ROW_VERSION, DataType::UInt64, false)));
        }
        let (meta, schema) = (self.meta.clone(), Arc::new(Schema::new(fields)));
        Ok(Projection { meta, ids, schema, row_version, written: None })
    }

    /// All rows and columns, at once.
    pub fn read_all(&self) -> Result<Vec<RecordBatch>> {
        let columns: Vec<usize> = (0..self.schema().fields().len()).collect();
        let projection = self.projection(&columns, false)?;
        self.parts()?.iter().map(|part| projection.read(part)).collect()
    }
}

/// The columns of a scan.
#[derive(Debug, Clone)]
pub struct Projection {
    meta: Arc<TableMeta>,
    ids: Vec<(u32, DataType)>,
    schema: SchemaRef,
    row_version: bool,
    written: Option<Arc<LsnSet>>,
}

impl Projection {
    /// Schema of the batches.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    pub(super) fn ids(&self) -> &[(u32, DataType)] {
        &self.ids
    }

    pub(super) fn row_version(&self) -> bool {
        self.row_version
    }

    /// Restricts scans with these columns to rows last written at `lsns`. Reads of single rows are not affected.
    pub fn only_written(self, lsns: Arc<LsnSet>) -> Self {
        Self { written: Some(lsns), ..self }
    }

    /// The live rows of a part. It blocks while columns that are not in memory are read, and fails if their files are
    /// damaged.
    pub fn read(&self, part: &Part) -> Result<RecordBatch> {
        match self.live_rows(part) {
            None => self.values(part),
            Some(live) if live.count_set_bits() == 0 => Ok(RecordBatch::new_empty(self.schema.clone())),
            Some(live) => filter_record_batch(&self.values(part)?, &BooleanArray::new(live, None))
                .map_err(|error| OplogError::invalid(error.to_string())),
        }
    }

    /// Bit 1 for every row of a part that [`Self::read`] gives; none if it gives all. No value is read.
    pub fn live_rows(&self, part: &Part) -> Option<BooleanBuffer> {
        part.wanted(self.written.as_deref())
    }

    /// All rows of a part, dead ones included, without a copy of values in memory: for callers that filter by some
    /// values before they read others, and leave out the rows that are not in [`Self::live_rows`].
    pub fn values(&self, part: &Part) -> Result<RecordBatch> {
        let columns = part.values(&self.ids, self.row_version, &self.meta)?;
        let options = RecordBatchOptions::new().with_row_count(Some(part.rows()));
        RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)
            .map_err(|error| OplogError::invalid(error.to_string()))
    }
}
