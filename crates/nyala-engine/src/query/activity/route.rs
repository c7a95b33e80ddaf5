//! How a statement is answered, and what that took: for the people who look at it.

use std::sync::Arc;
use std::time::Duration;

use datafusion::physical_plan::ExecutionPlan;
use nyala_cube::cube::{BlockReport, Report};

use super::entry::{Entry, Phase, Status};
use super::phases::PREPARING;

/// What answers a query: cubes or tables, here or on other nodes. All executions of one plan share it.
#[derive(Debug, Default)]
pub struct Route {
    /// A report for each aggregation that reads the fact table of a cube.
    pub aggregations: Vec<BlockReport>,
    /// Which nodes do parts of the query, or why no other node does. Empty without other nodes.
    pub nodes: String,
    /// The cubes that answer; none if the tables do.
    pub answered_from: Option<String>,
}

impl Route {
    /// The route that the cube rewrite found.
    pub fn new(report: &Report, nodes: &str) -> Self {
        let answered_from = report.answered_from();
        Self { aggregations: report.blocks.clone(), nodes: nodes.to_owned(), answered_from }
    }

    /// Cells of cuboids, and rows of tables where no segment holds them, that its aggregations read at most.
    pub fn most_cells(&self) -> u64 {
        let chosen = self.aggregations.iter().filter_map(|aggregation| aggregation.chosen.as_ref());
        chosen.fold(0, |cells, chosen| cells.saturating_add(chosen.rows))
    }

    /// The first reason why a cube does not answer an aggregation that no cube answers.
    pub fn miss_reason(&self) -> Option<String> {
        let missed = self.aggregations.iter().find(|aggregation| aggregation.chosen.is_none())?;
        missed.misses.first().map(|(cube, reason)| format!("cube `{cube}`: {reason}"))
    }
}

/// Bytes of files that a statement read, by where they were found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BytesRead {
    /// Bytes found in the memory of the block cache.
    pub memory: u64,
    /// Bytes found on the disk of the block cache.
    pub disk: u64,
    /// Bytes read from the store of the files.
    pub store: u64,
}

impl BytesRead {
    /// What the operators of a plan have read of remote files until now.
    pub fn of(plan: &dyn ExecutionPlan) -> Self {
        let mut bytes = Self::default();
        bytes.add(plan);
        bytes
    }

    fn add(&mut self, plan: &dyn ExecutionPlan) {
        if let Some(metrics) = plan.metrics() {
            let sum = |name| metrics.sum_by_name(name).map_or(0, |value| value.as_usize() as u64);
            self.memory += sum("bytes_from_memory");
            self.disk += sum("bytes_from_disk");
            self.store += sum("bytes_from_store");
        }
        plan.children().into_iter().for_each(|child| self.add(child.as_ref()));
    }
}

/// How far the computation of a query has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Rows that were read of tables and cuboids.
    pub rows_read: u64,
    /// An estimate of all of them; none where tables have no statistics.
    pub rows_total: Option<u64>,
}

/// Rows that the leaves of a plan have given until now.
pub fn rows_read(plan: &dyn ExecutionPlan) -> u64 {
    let children = plan.children();
    if children.is_empty() {
        return plan.metrics().and_then(|metrics| metrics.output_rows()).unwrap_or(0) as u64;
    }
    children.into_iter().map(|child| rows_read(child.as_ref())).sum()
}

/// What every answer of a door may tell of its statement. A whole [`Profile`] has the text without its secrets, which takes longer to
/// find than the rows of a small query.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Its number on its node.
    pub query_id: u64,
    /// What answers it; none if it is no query, or was not planned yet.
    pub route: Option<Arc<Route>>,
    /// Whether the result cache answered.
    pub from_result_cache: bool,
    /// Bytes that the statement has read of remote files.
    pub bytes: BytesRead,
    /// Rows that scans have given, or the cells of cuboids that were read at most if these are more.
    pub rows_read: u64,
}

impl Outcome {
    /// The outcome of a statement, as it stands now.
    pub fn of(entry: &Entry) -> Self {
        let (route, from_result_cache) = (entry.route().cloned(), entry.was_given_again());
        let cells = route.as_ref().filter(|_| !from_result_cache).map_or(0, |route| route.most_cells());
        // A ready plan reads no remote file and no table, so the metrics of its operators need not be added up.
        let (bytes, rows) = match entry.was_known() {
            true => (None, None),
            false => (entry.bytes_read(), entry.rows_read()),
        };
        Self {
            query_id: entry.id,
            route,
            from_result_cache,
            bytes: bytes.unwrap_or_default(),
            // A scan of memory that groups cells gives the groups, and has read the cells.
            rows_read: rows.unwrap_or(0).max(cells),
        }
    }
}

/// What is known of a statement that runs or ran.
#[derive(Debug, Clone)]
pub struct Profile {
    /// Its number on its node.
    pub query_id: u64,
    /// Its phase, or how it ended.
    pub state: &'static str,
    /// Its text, without secrets and cut.
    pub text: String,
    /// The error that ended it.
    pub error: Option<String>,
    /// What answers it; none if it is no query, or was not planned yet.
    pub route: Option<Arc<Route>>,
    /// Whether it ran a plan that was made for an earlier statement of the same shape.
    pub ready_plan: bool,
    /// Whether the result cache answered.
    pub from_result_cache: bool,
    /// Time in each phase; `preparing` is before its begin, and not part of `took`.
    pub phases: Vec<(&'static str, Duration)>,
    /// Time since its begin, or until its end.
    pub took: Duration,
    /// Rows that it has given.
    pub rows: u64,
    /// How far it has come; none if that is not known, or if it has ended.
    pub progress: Option<Progress>,
    /// Bytes that the statement has read of remote files; none of a ready plan, which reads none.
    pub bytes: Option<BytesRead>,
    /// Peak memory, in bytes.
    pub peak_memory_bytes: usize,
}

impl Profile {
    /// The profile of a statement, as it stands now.
    pub fn of(entry: &Entry) -> Self {
        let end = entry.end();
        Self {
            query_id: entry.id,
            state: entry.state(),
            text: entry.text.to_string(),
            error: match end.map(|end| &end.status) {
                Some(Status::Failed(error)) => Some(error.clone()),
                _ => None,
            },
            route: entry.route().cloned(),
            ready_plan: entry.ready_plan(),
            from_result_cache: entry.was_given_again(),
            phases: std::iter::once((PREPARING, entry.preparing()))
                .chain(Phase::ALL.map(|phase| (phase.name(), entry.spent(phase))))
                .collect(),
            took: end.map_or_else(|| entry.begun.elapsed(), |end| end.took),
            rows: entry.rows(),
            progress: if end.is_none() { entry.progress() } else { None },
            bytes: entry.bytes_read(),
            peak_memory_bytes: entry.peak_memory_bytes(),
        }
    }
}

#[cfg(test)]
mod tests {
    use nyala_cube::cube::Chosen;
    use tokio_util::sync::CancellationToken;

    use super::*;

    fn answered_from(cells: u64) -> BlockReport {
        let chosen = Chosen {
            cube: "public.sales".to_owned(),
            cuboids: Vec::new(),
            segments: None,
            joined: Vec::new(),
            raw: None,
            lacking: None,
            live: false,
            rows: cells,
        };
        BlockReport { chosen: Some(chosen), misses: Vec::new() }
    }

    #[test]
    fn an_answer_has_read_the_cells_of_its_cuboids_but_not_from_the_result_cache() {
        let missed = BlockReport { chosen: None, misses: Vec::new() };
        let aggregations = vec![answered_from(70), missed, answered_from(7)];
        let route = Arc::new(Route { aggregations, ..Route::default() });
        let entry = Entry::new(1, "SELECT 1", Arc::default(), CancellationToken::new());
        assert_eq!(Outcome::of(&entry).rows_read, 0);
        entry.takes(Arc::clone(&route));
        assert_eq!(Outcome::of(&entry).rows_read, 77);
        entry.is_given_again();
        assert_eq!(Outcome::of(&entry).rows_read, 0);
        let endless = Route { aggregations: vec![answered_from(u64::MAX); 2], ..Route::default() };
        assert_eq!(endless.most_cells(), u64::MAX);
    }
}
