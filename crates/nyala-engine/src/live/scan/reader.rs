//! Reads the rows of one partition, part by part.

use std::sync::Arc;

use arrow::array::BooleanArray;
use arrow::compute::filter_record_batch;
use arrow::datatypes::{Schema, SchemaRef};
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::error::Result;
use datafusion::physical_plan::metrics::Count;
use futures::stream::{BoxStream, StreamExt, try_unfold};
use nyala_storage::oplog::{LiveTable, Part, Projection, Version};

use super::conditions::{Checks, Conditions};
use super::source::{LiveScan, conform};
use crate::error::QueryError;
use crate::live::prune::matching;

/// What is left of one partition.
pub(super) struct Reader {
    table: LiveTable,
    version: Arc<Version>,
    parts: std::vec::IntoIter<Part>,
    checks: Checks,
    /// The columns that conditions name.
    seen: Projection,
    /// The others that are given.
    rest: Projection,
    given: SchemaRef,
    /// Parts that had no row anybody wants, as was seen by their bounds.
    skipped: Count,
}

impl Reader {
    /// The share of one partition of all rows that fulfil `conditions`, with the columns `given`.
    pub(super) fn new(
        scan: &LiveScan,
        table: LiveTable,
        (partition, partitions): (usize, usize),
        conditions: &Conditions,
        given: &SchemaRef,
        skipped: Count,
    ) -> Result<Self> {
        let version = scan.pin(&table);
        let named = conditions.columns();
        let (seen, rest): (Vec<_>, Vec<_>) =
            scan.schema.fields().iter().cloned().enumerate().partition(|(at, _)| named.contains(at));
        let rest = rest.into_iter().filter(|(_, field)| given.index_of(field.name()).is_ok());
        let seen = Schema::new(seen.into_iter().map(|(_, field)| field).collect::<Vec<_>>());
        let rest = Schema::new(rest.map(|(_, field)| field).collect::<Vec<_>>());
        let (seen_columns, rest) = (scan.projection(&version, &seen)?, scan.projection(&version, &rest)?);
        let checks = Checks::new(conditions, Arc::clone(seen_columns.schema()))?;

        let mut parts = version.parts().map_err(QueryError::from)?;
        let all = parts.len();
        if let Some(written) = &scan.written {
            parts.retain(|part| part.may_hold(written));
        }
        if let Some(bounds) = &scan.bounds {
            parts = matching(&version, parts, bounds)?;
        }
        if partition == 0 {
            skipped.add(all - parts.len());
        }
        let own: Vec<Part> = parts.into_iter().skip(partition).step_by(partitions.max(1)).collect();
        let (parts, given) = (own.into_iter(), Arc::clone(given));
        Ok(Self { table, version, parts, checks, seen: seen_columns, rest, given, skipped })
    }

    pub(super) fn batches(self) -> BoxStream<'static, Result<RecordBatch>> {
        try_unfold(self, Self::next).boxed()
    }

    /// The rows of the next part that has some.
    async fn next(mut self) -> Result<Option<(RecordBatch, Self)>> {
        while let Some(part) = self.parts.next() {
            // Many parts without a row must not keep the thread.
            tokio::task::consume_budget().await;
            let read;
            // Memory is read at once, the disk by threads that may wait for it.
            if self.table.is_loaded() {
                read = self.read(part)?;
            } else {
                let task = move || self.read(part).map(|read| (read, self));
                (read, self) = tokio::task::spawn_blocking(task).await.map_err(joined)??;
            }
            if let Some(rows) = read {
                return Ok(Some((rows, self)));
            }
        }
        Ok(None)
    }

    /// The rows of a part that are wanted, if any.
    fn read(&mut self, part: Part) -> Result<Option<RecordBatch>> {
        let live = self.seen.live_rows(&part);
        if live.as_ref().is_some_and(|live| live.count_set_bits() == 0) {
            return Ok(None);
        }
        let part = match self.checks.bounds()? {
            None => part,
            Some(bounds) => match matching(&self.version, vec![part], bounds)?.pop() {
                Some(part) => part,
                None => {
                    self.skipped.add(1);
                    return Ok(None);
                }
            },
        };
        let seen = self.seen.values(&part).map_err(QueryError::from)?;
        let wanted = match (self.checks.chosen(&seen)?, live) {
            (Some(chosen), Some(live)) => Some(&chosen & &live),
            (chosen, live) => chosen.or(live),
        };
        if wanted.as_ref().is_some_and(|wanted| wanted.count_set_bits() == 0) {
            return Ok(None);
        }
        let rest = self.rest.values(&part).map_err(QueryError::from)?;
        let rows = conform(&beside(&seen, &rest)?, &self.given)?;
        Ok(Some(match wanted {
            Some(wanted) => filter_record_batch(&rows, &BooleanArray::new(wanted, None))?,
            None => rows,
        }))
    }
}

/// Columns of the same rows as one batch.
fn beside(some: &RecordBatch, others: &RecordBatch) -> Result<RecordBatch> {
    let fields = some.schema_ref().fields().iter().chain(others.schema_ref().fields()).cloned();
    let columns = some.columns().iter().chain(others.columns()).cloned().collect();
    let options = RecordBatchOptions::new().with_row_count(Some(some.num_rows()));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    Ok(RecordBatch::try_new_with_options(schema, columns, &options)?)
}

pub(super) fn joined(error: tokio::task::JoinError) -> QueryError {
    QueryError::internal(format!("reading a live table ended early: {error}"))
}
