//! Cursors: DECLARE, FETCH, MOVE, CLOSE.
//!
//! A cursor gives its rows as the query computes them, forwards. One that was declared with SCROLL has them all in memory,
//! and may go to any of them.
//!
//! ```text
//! place   0    1   2   …   n   n + 1
//!       before     rows        behind
//! ```

use std::ops::Range;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use arrow::datatypes::SchemaRef;
use bytes::BytesMut;
use datafusion::sql::sqlparser::ast::{FetchDirection, ValueWithSpan};
use nyala_engine::Statement;

use crate::pgwire::errors::{Failure, Stop, sqlstate};
use crate::pgwire::protocol::connection::{Connection, Reply};
use crate::pgwire::protocol::portal::{Bound, Portal, Progress, Stored, unknown_portal};
use crate::pgwire::values::encode::{RowWriter, WriteRows};

/// Bytes of rows that a cursor with SCROLL may keep.
const MAX_STORED_BYTES: usize = 256 << 20;

/// Rows in memory, and a place among them.
pub struct StoredRows {
    pub schema: SchemaRef,
    rows: RecordBatch,
    place: usize,
}

/// Where a FETCH goes from the place of the cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// So many rows forwards, or all that are left.
    Forward(Option<usize>),
    /// So many rows backwards, or all that are left.
    Backward(Option<usize>),
    /// To the row with this number, counted from the end if it is negative.
    Absolute(i64),
    /// To the row this far away.
    Relative(i64),
}

impl Step {
    /// The step of a direction.
    ///
    /// # Errors
    /// The count is no number.
    pub fn of(direction: &FetchDirection) -> Result<Self, Failure> {
        let counted = |count: i64| match usize::try_from(count) {
            Ok(0) => Self::Relative(0),
            Ok(count) => Self::Forward(Some(count)),
            Err(_) => Self::Backward(usize::try_from(count.unsigned_abs()).ok()),
        };
        Ok(match direction {
            FetchDirection::Next => Self::Forward(Some(1)),
            FetchDirection::Prior => Self::Backward(Some(1)),
            FetchDirection::First => Self::Absolute(1),
            FetchDirection::Last => Self::Absolute(-1),
            FetchDirection::All | FetchDirection::ForwardAll => Self::Forward(None),
            FetchDirection::BackwardAll => Self::Backward(None),
            FetchDirection::Absolute { limit } => Self::Absolute(number(limit)?),
            FetchDirection::Relative { limit } => Self::Relative(number(limit)?),
            FetchDirection::Count { limit } | FetchDirection::Forward { limit: Some(limit) } => {
                counted(number(limit)?)
            }
            FetchDirection::Backward { limit: Some(limit) } => counted(-number(limit)?),
            FetchDirection::Forward { limit: None } => Self::Forward(Some(1)),
            FetchDirection::Backward { limit: None } => Self::Backward(Some(1)),
        })
    }

    /// How many rows the step takes of a cursor that goes forwards only; none for all.
    fn forwards(self) -> Result<Option<usize>, Failure> {
        match self {
            Self::Forward(count) => Ok(count),
            Self::Relative(1) => Ok(Some(1)),
            _ => Err(Failure::error("55000", "cursor can only scan forward")
                .hint("declare it with SCROLL to go to any row")),
        }
    }
}

fn number(limit: &ValueWithSpan) -> Result<i64, Failure> {
    limit.to_string().parse().map_err(|_| {
        Failure::error(sqlstate::SYNTAX_ERROR, format!("`{limit}` is no number of rows"))
            .hint("give a whole number")
    })
}

/// The rows that a step takes of `count`, whether they go backwards, and the place where it ends.
fn taken(step: Step, place: usize, count: usize) -> (Range<usize>, bool, usize) {
    let to = |target: i64| match usize::try_from(target) {
        Ok(target) if (1..=count).contains(&target) => (target - 1..target, false, target),
        Ok(target) => (0..0, false, target.min(count + 1)),
        Err(_) => (0..0, false, 0),
    };
    let signed = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
    match step {
        Step::Forward(wanted) => {
            let first = place.min(count);
            let last = wanted.map_or(count, |wanted| first.saturating_add(wanted).min(count));
            let is_over = wanted.is_none_or(|wanted| last - first < wanted);
            (first..last, false, if is_over { count + 1 } else { last })
        }
        Step::Backward(wanted) => {
            let last = place.saturating_sub(1);
            let first = wanted.map_or(0, |wanted| last.saturating_sub(wanted));
            let is_over = wanted.is_none_or(|wanted| last - first < wanted);
            (first..last, true, if is_over { 0 } else { first + 1 })
        }
        Step::Absolute(target) if target < 0 => to(signed(count) + 1 + target),
        Step::Absolute(target) => to(target),
        Step::Relative(distance) => to(signed(place).saturating_add(distance)),
    }
}

/// Writes nothing: MOVE only counts.
struct Nothing;

impl WriteRows for Nothing {
    fn write(&mut self, _: &RecordBatch, _: &mut BytesMut) -> Result<(), Failure> {
        Ok(())
    }
}

/// Keeps rows.
#[derive(Default)]
struct Keep {
    batches: Vec<RecordBatch>,
    bytes: usize,
}

impl WriteRows for Keep {
    fn write(&mut self, batch: &RecordBatch, _: &mut BytesMut) -> Result<(), Failure> {
        self.bytes += batch.get_array_memory_size();
        if self.bytes > MAX_STORED_BYTES {
            let message = format!("a cursor with SCROLL keeps at most {} MiB", MAX_STORED_BYTES >> 20);
            return Err(Failure::error(sqlstate::PROGRAM_LIMIT_EXCEEDED, message)
                .hint("declare it without SCROLL, or ask for fewer rows"));
        }
        self.batches.push(batch.clone());
        Ok(())
    }
}

impl Connection {
    /// Opens a cursor.
    pub async fn declare(
        &mut self,
        cursor: &str,
        (hold, scroll): (bool, bool),
        query: &Statement,
        asked_by: &Bound,
    ) -> Result<(), Stop> {
        if !hold && !self.transaction.is_open() {
            let message = "DECLARE CURSOR can only be used in transaction blocks";
            return Err(Failure::error(sqlstate::NO_ACTIVE_TRANSACTION, message)
                .hint("add WITH HOLD")
                .into());
        }
        let plan = self.plan(query.clone()).await?;
        let stored = Stored::new(plan, asked_by.stored.parameter_types.clone());
        let bound = Bound::new(Arc::new(stored), asked_by.parameters.clone(), Vec::new());
        let mut portal = Portal { hold, scroll, ..Portal::new(bound) };
        // The cursor is opened at once, so that a wrong query fails here, and the cursor keeps to the data of this moment.
        Box::pin(self.open(&mut portal)).await?;
        if scroll {
            self.store_rows(&mut portal).await?;
        }
        Ok(self.keep_portal(cursor.to_owned(), portal)?)
    }

    async fn store_rows(&mut self, portal: &mut Portal) -> Result<(), Stop> {
        let Progress::Running(rows) = &mut portal.progress else { return Ok(()) };
        let (mut kept, schema) = (Keep::default(), Arc::clone(&rows.schema));
        rows.send(&mut kept, None, &mut self.input, &mut self.output).await?;
        let rows = concat_batches(&schema, &kept.batches)
            .map_err(|error| Failure::error(sqlstate::INTERNAL, error.to_string()))?;
        portal.progress = Progress::Stored(Box::new(StoredRows { schema, rows, place: 0 }));
        Ok(())
    }

    /// Sends rows of a cursor itself, in the formats that `asked_by` wants, because the cursor keeps the rest. MOVE sends none.
    pub async fn fetch(
        &mut self,
        cursor: &str,
        step: Step,
        moves: bool,
        asked_by: &Bound,
    ) -> Result<Reply, Stop> {
        let mut portal = self.portals.remove(cursor).ok_or_else(|| unknown_portal(cursor))?;
        let fetched = self.fetch_of(&mut portal, step, moves, asked_by).await;
        self.portals.insert(cursor.to_owned(), portal);
        let word = if moves { "MOVE" } else { "FETCH" };
        Ok(Reply::Done(format!("{word} {}", fetched?)))
    }

    async fn fetch_of(
        &mut self,
        portal: &mut Portal,
        step: Step,
        moves: bool,
        asked_by: &Bound,
    ) -> Result<usize, Stop> {
        let bound = Arc::clone(&portal.bound);
        let writer = |schema: &SchemaRef, connection: &mut Self| -> Result<RowWriter, Failure> {
            let prepared = bound.stored.plan.prepared();
            let options = connection.settings.format_options();
            let writer = RowWriter::of(prepared, schema, &asked_by.formats, options)?;
            if asked_by.described_on_run {
                connection.output.buffer().extend_from_slice(writer.description());
            }
            Ok(writer)
        };
        match &mut portal.progress {
            Progress::Stored(stored) => {
                let (range, backwards, place) = taken(step, stored.place, stored.rows.num_rows());
                stored.place = place;
                if moves {
                    return Ok(range.len());
                }
                let mut writer = writer(&stored.schema, self)?;
                for row in range.clone() {
                    let row = if backwards { range.end - 1 - (row - range.start) } else { row };
                    writer.write(&stored.rows.slice(row, 1), self.output.buffer())?;
                }
                Ok(range.len())
            }
            Progress::Running(rows) => {
                let count = step.forwards()?;
                let (sent, _) = if moves {
                    rows.send(&mut Nothing, count, &mut self.input, &mut self.output).await?
                } else {
                    let mut writer = writer(&rows.schema, self)?;
                    rows.send(&mut writer, count, &mut self.input, &mut self.output).await?
                };
                Ok(sent)
            }
            Progress::New | Progress::Finished => Ok(0),
        }
    }

    /// Closes one cursor, or all.
    pub fn close_cursor(&mut self, name: Option<&str>) -> Result<&'static str, Failure> {
        match name {
            None => {
                self.portals.clear();
                Ok("CLOSE CURSOR ALL")
            }
            Some(name) => {
                self.portals.remove(name).map(|_| "CLOSE CURSOR").ok_or_else(|| unknown_portal(name))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_end_where_postgresqls_do() {
        let check = |step, place, rows: Range<usize>, backwards, end| {
            assert_eq!(taken(step, place, 3), (rows, backwards, end), "{step:?} from {place}");
        };
        check(Step::Forward(Some(2)), 0, 0..2, false, 2);
        check(Step::Forward(Some(2)), 2, 2..3, false, 4);
        check(Step::Forward(None), 1, 1..3, false, 4);
        check(Step::Forward(Some(1)), 4, 3..3, false, 4);
        check(Step::Backward(Some(1)), 4, 2..3, true, 3);
        check(Step::Backward(None), 3, 0..2, true, 0);
        check(Step::Absolute(2), 0, 1..2, false, 2);
        check(Step::Absolute(-1), 0, 2..3, false, 3);
        check(Step::Absolute(9), 0, 0..0, false, 4);
        check(Step::Absolute(0), 2, 0..0, false, 0);
        check(Step::Relative(-1), 3, 1..2, false, 2);
        check(Step::Relative(0), 2, 1..2, false, 2);
    }
}
