//! Writes outcomes to stdout in the chosen format.

use std::io::Write;
use std::time::{Duration, Instant};

use anyhow::Result;
use futures::StreamExt;
use nyala_server::rest::formats::{Format, Summary};

use super::client::{Outcome, Rows};
use super::table;
use crate::args::OutputFormat;

/// How outcomes are shown.
#[derive(Debug, Clone, Copy)]
pub struct Output {
    /// The format.
    pub format: OutputFormat,
    /// Whether tables tell how long it took.
    pub timing: bool,
    /// Whether each value has a line of its own.
    pub expanded: bool,
    /// Most rows of a table; none means all.
    pub max_rows: Option<usize>,
}

impl Output {
    /// Writes one outcome; `started` is when its statement was sent.
    pub async fn write(self, outcome: Outcome, started: Instant, out: &mut impl Write) -> Result<()> {
        let streamed = match self.format {
            OutputFormat::Table => return self.write_table(outcome, started, out).await,
            OutputFormat::Csv => Format::Csv,
            OutputFormat::Json => Format::Json,
            OutputFormat::Ndjson => Format::NdJson,
        };
        match outcome {
            Outcome::Rows(rows) => write_rows(rows, streamed, started, out).await,
            // A program that reads rows has no use for a notice.
            Outcome::Done { .. } => Ok(()),
        }
    }

    async fn write_table(self, outcome: Outcome, started: Instant, out: &mut impl Write) -> Result<()> {
        match outcome {
            Outcome::Rows(rows) => self.write_rows_as_table(rows, started, out).await,
            Outcome::Done { tag, rows } => {
                let rows = rows.map(|rows| format!(" {rows}")).unwrap_or_default();
                let time =
                    if self.timing { format!(" ({})", duration(started.elapsed())) } else { String::new() };
                writeln!(out, "{tag}{rows}{time}")?;
                Ok(())
            }
        }
    }

    async fn write_rows_as_table(self, rows: Rows, started: Instant, out: &mut impl Write) -> Result<()> {
        let Rows { schema, mut batches } = rows;
        let limit = self.max_rows.unwrap_or(usize::MAX);
        let (mut gathered, mut count, mut more) = (Vec::new(), 0_usize, false);
        while let Some(batch) = batches.next().await.transpose()? {
            let room = limit.saturating_sub(count);
            more = batch.num_rows() > room;
            let shown = batch.num_rows().min(room);
            count += shown;
            gathered.push(batch.slice(0, shown));
            if more {
                break;
            }
        }
        // Dropping the rows ends the query if there are more.
        drop(batches);
        let elapsed = started.elapsed();
        match self.expanded {
            true => write!(out, "{}", table::expand(&schema, &gathered)?)?,
            false => writeln!(out, "{}", table::draw(&schema, &gathered)?)?,
        }
        writeln!(out, "{}", self.footer(count, more, elapsed))?;
        Ok(())
    }

    fn footer(self, rows: usize, more: bool, elapsed: Duration) -> String {
        let noun = if rows == 1 { "row" } else { "rows" };
        let time = if self.timing { format!(", {}", duration(elapsed)) } else { String::new() };
        if more {
            format!("(first {rows} {noun} of more{time}; `--max-rows` and `--format csv` show the rest)")
        } else {
            format!("({rows} {noun}{time})")
        }
    }
}

async fn write_rows(rows: Rows, format: Format, started: Instant, out: &mut impl Write) -> Result<()> {
    let Rows { schema, mut batches } = rows;
    let mut encoder = format.encoder(schema)?;
    let mut summary = Summary::default();
    let mut text = Vec::new();
    encoder.head(&mut text)?;
    while let Some(batch) = batches.next().await.transpose()? {
        summary.rows += batch.num_rows() as u64;
        encoder.rows(&batch, &mut text)?;
        out.write_all(&text)?;
        text.clear();
    }
    summary.elapsed = started.elapsed();
    encoder.tail(&summary, &mut text)?;
    out.write_all(&text)?;
    out.flush()?;
    Ok(())
}

/// A duration for people: `2.1 ms`, `1.25 s`, `3 min 20 s`.
pub fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    if seconds < 1.0 {
        format!("{:.1} ms", seconds * 1000.0)
    } else if seconds < 60.0 {
        format!("{seconds:.2} s")
    } else {
        format!("{} min {} s", duration.as_secs() / 60, duration.as_secs() % 60)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array};
    use arrow::record_batch::RecordBatch;
    use futures::stream;

    use super::*;

    #[tokio::test]
    async fn a_table_ends_with_its_row_count_and_says_when_there_is_more() {
        assert!(written(OutputFormat::Table, None).await.ends_with("(4 rows)\n"));
        assert!(written(OutputFormat::Table, Some(4)).await.ends_with("(4 rows)\n"));
        let cut = written(OutputFormat::Table, Some(3)).await;
        assert!(cut.contains("(first 3 rows of more;"), "{cut}");
        assert_eq!(cut.matches("| 2 |").count(), 1, "{cut}");
    }

    #[tokio::test]
    async fn other_formats_hold_every_row_whatever_the_limit() {
        assert_eq!(written(OutputFormat::Csv, Some(1)).await, "n\n1\n2\n1\n2\n");
        assert_eq!(written(OutputFormat::Ndjson, Some(1)).await.lines().count(), 4);
    }

    #[test]
    fn durations_read_well() {
        let check =
            |millis: u64, expected: &str| assert_eq!(duration(Duration::from_millis(millis)), expected);
        check(2, "2.0 ms");
        check(1_250, "1.25 s");
        check(200_000, "3 min 20 s");
    }

    /// Two batches of two rows each.
    async fn written(format: OutputFormat, max_rows: Option<usize>) -> String {
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
        let batch = RecordBatch::try_from_iter([("n", numbers)]).unwrap();
        let schema = batch.schema();
        let batches = stream::iter([Ok(batch.clone()), Ok(batch)]).boxed();
        let mut out = Vec::new();
        let output = Output { format, timing: false, expanded: false, max_rows };
        output.write(Outcome::Rows(Rows { schema, batches }), Instant::now(), &mut out).await.unwrap();
        String::from_utf8(out).unwrap()
    }
}
