//! Rows and cells of several segments, told apart by their last column.

use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::AsArray;
use arrow::datatypes::{SchemaRef, UInt32Type};
use arrow::record_batch::RecordBatch;
use datafusion::execution::SendableRecordBatchStream;
use futures::StreamExt;
use nyala_model::{CuboidFile, DimensionSet};
use nyala_sql::error::{QueryError, Result};

use super::writer::{NewFile, Writer};

pub type Written = Result<Vec<(usize, CuboidFile)>>;

/// The files of one partition of a root, one for each segment that has cells in it.
pub struct Files {
    /// The writer of each segment; none for a segment that needs no file.
    pub writers: Vec<Option<Writer>>,
    pub root: DimensionSet,
    pub pass: usize,
    pub partition: usize,
    pub schema: SchemaRef,
}

impl Files {
    /// Cells come in the order of their segments, which their last column tells.
    pub async fn write(self, mut stream: SendableRecordBatchStream) -> Written {
        let mut written = Vec::new();
        let mut current: Option<(usize, Option<NewFile>)> = None;
        while let Some(batch) = stream.next().await {
            let batch = batch?;
            for (segment, cells) in runs(&batch)? {
                if current.as_ref().is_none_or(|(open, _)| *open != segment) {
                    written.extend(close(current.take()).await?);
                    current = Some((segment, self.open(segment)?));
                }
                if let Some((_, Some(file))) = &mut current {
                    let states = cells.num_columns() - 1;
                    file.add(cells.columns().iter().take(states).cloned().collect()).await?;
                }
            }
        }
        written.extend(close(current).await?);
        Ok(written)
    }

    fn open(&self, segment: usize) -> Result<Option<NewFile>> {
        let writer = self.writers.get(segment).and_then(Option::as_ref);
        writer.map(|writer| writer.open(self.root, self.pass, self.partition, &self.schema)).transpose()
    }
}

async fn close(file: Option<(usize, Option<NewFile>)>) -> Result<Option<(usize, CuboidFile)>> {
    match file {
        Some((segment, Some(file))) => Ok(Some((segment, file.close().await?))),
        _ => Ok(None),
    }
}

/// The cells of each segment, by its position.
fn runs(batch: &RecordBatch) -> Result<Vec<(usize, RecordBatch)>> {
    let codes = batch.columns().last().and_then(|codes| codes.as_primitive_opt::<UInt32Type>());
    let codes = codes.ok_or_else(|| QueryError::internal("cells have no segment"))?.values();
    let mut runs = Vec::new();
    let mut from = 0;
    for run in codes.chunk_by(|one, next| one == next) {
        let segment = run.first().and_then(|code| (*code as usize).checked_sub(1));
        let segment = segment.ok_or_else(|| QueryError::internal("cells belong to no segment"))?;
        runs.push((segment, batch.slice(from, run.len())));
        from += run.len();
    }
    Ok(runs)
}

/// Counts joined rows by segment, the last column of their batches.
pub struct Tally {
    rows: Vec<AtomicU64>,
}

impl Tally {
    pub fn new(segments: usize) -> Self {
        Self { rows: (0..segments).map(|_| AtomicU64::new(0)).collect() }
    }

    pub fn add(&self, batch: &RecordBatch) {
        let codes = batch.columns().last().and_then(|codes| codes.as_primitive_opt::<UInt32Type>());
        for run in codes.map(|codes| codes.values().chunk_by(|one, next| one == next)).into_iter().flatten() {
            let segment = run.first().and_then(|code| (*code as usize).checked_sub(1));
            if let Some(rows) = segment.and_then(|segment| self.rows.get(segment)) {
                rows.fetch_add(run.len() as u64, Ordering::Relaxed);
            }
        }
    }

    pub fn counts(&self) -> Vec<u64> {
        self.rows.iter().map(|rows| rows.load(Ordering::Relaxed)).collect()
    }
}
