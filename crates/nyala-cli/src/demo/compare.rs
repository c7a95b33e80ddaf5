//! Runs each query with and without cubes, and checks that both ways give the same answer.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use arrow::record_batch::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use nyala_client::split::split;
use nyala_engine::{Answer, Engine, Session};

use super::queries::{QUERIES, Query};

/// Most timed runs of one query in one way.
const MAX_RUNS: usize = 25;
/// No further run is begun once the runs of one query took this long together.
const BUDGET: Duration = Duration::from_secs(2);

/// How long to wait for the cuboids that the first run requested to be loaded.
const LOADING: Duration = Duration::from_secs(10);
/// How often to look whether they are loaded.
const LOADING_POLL: Duration = Duration::from_millis(5);

/// The times of one query.
#[derive(Debug, Clone)]
pub struct Timing {
    /// The name, such as `Q1.1`.
    pub name: &'static str,
    /// Rows of the answer.
    pub rows: usize,
    /// Median time from the tables.
    pub tables: Duration,
    /// Median time with cubes on.
    pub cubes: Duration,
    /// Whether a cube gave the answer when cubes were on.
    pub from_cube: bool,
}

/// Runs all queries; a difference between the two answers is an error.
pub async fn run_all(engine: &Engine, session: &Session) -> Result<Vec<Timing>> {
    let mut timings = Vec::with_capacity(QUERIES.len());
    for query in QUERIES {
        timings.push(
            compare(engine, session, query).await.with_context(|| format!("query {} failed", query.name))?,
        );
    }
    session.set("nyala.use_cubes", "on")?;
    Ok(timings)
}

async fn compare(engine: &Engine, session: &Session, query: Query) -> Result<Timing> {
    let text = split(query.text).first().copied().unwrap_or(query.text);
    session.set("nyala.use_cubes", "off")?;
    let (from_tables, tables) = measure(engine, session, text).await?;
    session.set("nyala.use_cubes", "on")?;
    let hits = engine.stats().cube_hits;
    let (from_cubes, cubes) = measure(engine, session, text).await?;
    let from_cube = engine.stats().cube_hits > hits;
    if from_tables != from_cubes {
        bail!(
            "the cube gives another answer than the tables do: {} rows against {}; please report this",
            from_cubes.len(),
            from_tables.len()
        );
    }
    Ok(Timing { name: query.name, rows: from_tables.len(), tables, cubes, from_cube })
}

/// The answer and the median time. The first run warms caches and is not counted.
async fn measure(engine: &Engine, session: &Session, text: &str) -> Result<(Vec<String>, Duration)> {
    let answer = sorted_rows(&run(session, text).await?)?;
    loaded(engine).await;
    let begun = Instant::now();
    let mut times = Vec::with_capacity(MAX_RUNS);
    while times.len() < MAX_RUNS && (times.is_empty() || begun.elapsed() < BUDGET) {
        let started = Instant::now();
        run(session, text).await?;
        times.push(started.elapsed());
    }
    Ok((answer, median(times)))
}

/// Waits until the cuboids that the run before requested are in memory.
async fn loaded(engine: &Engine) {
    let begun = Instant::now();
    while engine.stats().hot_cuboids.loading > 0 && begun.elapsed() < LOADING {
        tokio::time::sleep(LOADING_POLL).await;
    }
}

async fn run(session: &Session, text: &str) -> Result<Vec<RecordBatch>> {
    match session.query(text).await? {
        Answer::Rows(rows) => Ok(rows.collect().await?),
        Answer::Done(done) => bail!("the statement gave no rows but `{}`", done.tag),
    }
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// The rows as texts, sorted, since rows that ORDER BY leaves equal may come in any order.
fn sorted_rows(batches: &[RecordBatch]) -> Result<Vec<String>> {
    let format = FormatOptions::new().with_display_error(false).with_null("NULL");
    let mut rows = Vec::new();
    for batch in batches {
        let columns: Vec<_> = batch
            .columns()
            .iter()
            .map(|array| ArrayFormatter::try_new(array.as_ref(), &format))
            .collect::<Result<_, _>>()?;
        for row in 0..batch.num_rows() {
            let cells: Vec<String> =
                columns.iter().map(|column| column.value(row).try_to_string()).collect::<Result<_, _>>()?;
            // A separator that no value of the benchmark holds.
            rows.push(cells.join("\u{1f}"));
        }
    }
    rows.sort_unstable();
    Ok(rows)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array};

    use super::*;

    #[test]
    fn rows_compare_whatever_their_order() {
        let batch = |values: Vec<Option<i64>>| {
            let array: ArrayRef = Arc::new(Int64Array::from(values));
            RecordBatch::try_from_iter([("a", array)]).unwrap()
        };
        let whole = sorted_rows(&[batch(vec![Some(1), None, Some(2)])]).unwrap();
        assert_eq!(sorted_rows(&[batch(vec![Some(2)]), batch(vec![None, Some(1)])]).unwrap(), whole);
        assert_ne!(sorted_rows(&[batch(vec![Some(2), None, Some(3)])]).unwrap(), whole);
    }

    #[test]
    fn the_median_is_in_the_middle() {
        let millis = |values: &[u64]| median(values.iter().copied().map(Duration::from_millis).collect());
        assert_eq!(millis(&[9, 1, 3]), Duration::from_millis(3));
        assert_eq!(millis(&[]), Duration::ZERO);
    }
}
