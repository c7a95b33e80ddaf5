//! `RECOMMEND CUBE`: proposes cubes for recorded queries that no cube answered.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};
use datafusion::execution::SessionState;
use datafusion::physical_plan::collect;
use futures::FutureExt;
use futures::future::BoxFuture;
use nyala_cube::cube::{Advice, advise, quoted, stars, without_covered};
use nyala_model::{CatalogSnapshot, QualifiedName, QueryHistoryEntry};
use nyala_sql::error::{ErrorKind, QueryError, Result};
use nyala_sql::statement::{self, RecommendFor, StatementLimits, folded};

use super::budget::{Budget, Proposal};
use super::unused::{Cause, Unread, unread_cubes};
use crate::query::answer::Answer;
use crate::query::authorize::Caller;
use crate::query::columns::{number, numbers, text, texts};
use crate::query::command::Command;
use crate::query::execution::Execution;
use crate::query::names::name_of;
use crate::query::resources::task::Task;
use crate::session::SnapshotContext;

/// `RECOMMEND CUBE`.
pub struct Recommend<'s>(pub &'s statement::Recommend);

impl Command for Recommend<'_> {
    fn schema(&self) -> Option<SchemaRef> {
        Some(schema())
    }

    fn authorize(&self, caller: &Caller<'_>) -> Result<()> {
        // The answer shows queries of other sessions.
        caller.require_superuser("a recommendation from the query history")
    }

    fn run<'a>(&'a self, execution: Execution<'a>) -> BoxFuture<'a, Result<Answer>> {
        run(self.0, execution).boxed()
    }
}

/// Columns of the answer.
fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        text("statement"),
        number("queries"),
        Field::new("share_of_time", DataType::Float64, true),
        number("cuboids"),
        number("cells"),
        number("bytes"),
        number("rows_to_scan"),
        text("detail"),
    ]))
}

/// A line of the answer: a proposed cube, a cube that queries do not read, with the statement that drops it if they do not need it, or
/// queries without a cube.
enum Line {
    Cube { statement: String, advice: Advice },
    Unread { statement: Option<String>, reason: String, cells: u64, bytes: u64 },
    Unserved { entries: Vec<QueryHistoryEntry>, reason: String },
}

/// Reads the history and samples of the tables; changes nothing.
async fn run(wish: &statement::Recommend, execution: Execution<'_>) -> Result<Answer> {
    let budget = Budget::of(&wish.options)?;
    let (engine, settings) = (execution.engine(), &execution.settings);
    let history = engine.observed.history.entries().await;
    let context = engine.snapshots.current();
    let snapshot = Arc::clone(context.snapshot());
    let wanted = scope(&wish.scope, &snapshot, settings.schema())?;
    let history: Vec<QueryHistoryEntry> =
        history.into_iter().filter(|entry| wanted(entry) && exists(entry, &snapshot)).collect();
    let total_us: u64 = history.iter().map(|entry| entry.total_us).sum();
    let (state, limits) = (context.state(settings), *engine.snapshots.limits());
    let work = async move {
        let advisor = Advisor { context: &context, state: &state, limits: &limits, budget };
        let mut lines = advisor.proposals(&history).await?;
        lines.extend(unread(&snapshot, &history));
        Ok(lines)
    };
    let lines = Task::spawn(&engine.runtime.threads, execution.running.scope(), work).join().await?;
    execution.columns(schema(), columns(&lines, total_us))
}

type Filter = Box<dyn Fn(&QueryHistoryEntry) -> bool + Send>;

/// Tells which entries of the history the statement is about.
fn scope(wish: &RecommendFor, snapshot: &CatalogSnapshot, schema: &str) -> Result<Filter> {
    match wish {
        RecommendFor::Table(name) => {
            let name = name_of(name, schema)?;
            if !snapshot.tables.contains_key(&name) {
                let message = format!("table `{name}` does not exist");
                return Err(
                    QueryError::new(ErrorKind::UndefinedTable, message).hint("SHOW TABLES lists the tables")
                );
            }
            Ok(Box::new(move |entry| entry.shape.tables.iter().any(|table| table.table == name)))
        }
        RecommendFor::Schema(name) => {
            let name = folded(name);
            if !snapshot.schemas.contains(&name) {
                let message = format!("schema `{name}` does not exist");
                return Err(
                    QueryError::new(ErrorKind::UndefinedObject, message).hint("CREATE SCHEMA makes one")
                );
            }
            Ok(Box::new(move |entry| entry.shape.tables.iter().all(|table| table.table.schema == name)))
        }
    }
}

fn exists(entry: &QueryHistoryEntry, snapshot: &CatalogSnapshot) -> bool {
    entry.shape.tables.iter().all(|table| snapshot.tables.contains_key(&table.table))
}

/// Whether a cube that still exists answered the entry's queries the last time.
fn is_served(entry: &QueryHistoryEntry, snapshot: &CatalogSnapshot) -> bool {
    let last = entry.answers.iter().max_by_key(|answer| answer.last_ms);
    last.is_some_and(|last| {
        last.last_ms > entry.last_miss_ms && snapshot.cubes.values().any(|cube| cube.id == last.cube)
    })
}

/// Cubes over the tables of the history that queries do not read.
fn unread(snapshot: &CatalogSnapshot, history: &[QueryHistoryEntry]) -> Vec<Line> {
    let near: Vec<&QueryHistoryEntry> = history.iter().collect();
    let tables: BTreeSet<&QualifiedName> =
        history.iter().flat_map(|entry| entry.shape.tables.iter().map(|table| &table.table)).collect();
    let all = unread_cubes(snapshot, &near).into_iter();
    let all = all.filter(|one| one.cube.definition.sources.first().is_some_and(|fact| tables.contains(fact)));
    let line = |Unread { cube, cause }: Unread<'_>| {
        let cuboids = || cube.segments.iter().flat_map(|segment| &segment.cuboids);
        let name = format!("{}.{}", quoted(&cube.name.schema), quoted(&cube.name.name));
        let (statement, reason) = match cause {
            Cause::Unneeded(reason) => (Some(format!("DROP CUBE {name}")), reason),
            Cause::Off => {
                let switch = format!("ALTER CUBE {name} SET (answers = on) switches it on");
                (None, format!("cube `{}` is switched off, so no query reads it; {switch}", cube.name))
            }
        };
        let (cells, bytes) = (cuboids().map(|c| c.rows).sum(), cuboids().map(|c| c.bytes).sum());
        Line::Unread { statement, reason, cells, bytes }
    };
    all.map(line).collect()
}

/// Finds cubes for queries.
struct Advisor<'a> {
    context: &'a SnapshotContext,
    state: &'a SessionState,
    limits: &'a StatementLimits,
    budget: Budget,
}

impl Advisor<'_> {
    async fn proposals(&self, history: &[QueryHistoryEntry]) -> Result<Vec<Line>> {
        let snapshot = self.context.snapshot();
        let missed = history.iter().filter(|entry| !is_served(entry, snapshot)).cloned();
        let entries = without_covered(missed.collect(), self.context.cubes(), self.state, self.limits).await;
        let (proposals, mut rest) = self.search(entries).await?;
        let (kept, beyond) = self.budget.keep(proposals);
        rest.extend(beyond);
        let mut names = BTreeSet::new();
        let mut lines: Vec<Line> = Vec::new();
        for Proposal { fact, advice } in kept {
            let name = free_name(&fact, snapshot, &mut names);
            lines.push(Line::Cube { statement: format!("CREATE CUBE {name} AS {}", advice.select), advice });
        }
        let mut reasons: BTreeMap<String, Vec<QueryHistoryEntry>> = BTreeMap::new();
        for (entry, reason) in rest {
            reasons.entry(reason).or_default().push(entry);
        }
        lines.extend(reasons.into_iter().map(|(reason, entries)| Line::Unserved { entries, reason }));
        Ok(lines)
    }

    /// Cubes for all entries, and the entries without one.
    async fn search(
        &self,
        entries: Vec<QueryHistoryEntry>,
    ) -> Result<(Vec<Proposal>, Vec<(QueryHistoryEntry, String)>)> {
        let tables: BTreeSet<&QualifiedName> =
            entries.iter().flat_map(|entry| entry.shape.tables.iter().map(|table| &table.table)).collect();
        let mut rows: BTreeMap<QualifiedName, u64> = BTreeMap::new();
        for table in tables {
            rows.insert(table.clone(), count(table, self.state).await?);
        }
        let size = |table: &QualifiedName| rows.get(table).copied().unwrap_or_default();
        let mut proposals = Vec::new();
        let mut rest: Vec<(QueryHistoryEntry, String)> = Vec::new();
        // Queries over fewer tables that a wide join cannot serve get a cube of their own.
        for exact in [false, true] {
            let entries =
                if exact { rest.drain(..).map(|(entry, _)| entry).collect() } else { entries.clone() };
            for star in stars(entries, size, exact) {
                let fact = star.join.tables.iter().find(|table| table.alias == star.fact);
                let Some(fact) = fact.map(|table| table.table.clone()) else { continue };
                let (advice, unserved) = advise(&star, size(&fact), self.state, self.limits).await?;
                rest.extend(unserved);
                proposals.extend(advice.map(|advice| Proposal { fact, advice }));
            }
        }
        Ok((proposals, rest))
    }
}

async fn count(table: &QualifiedName, state: &SessionState) -> Result<u64> {
    let sql = format!("SELECT count(*) FROM {}.{}", quoted(&table.schema), quoted(&table.name));
    let plan = state.create_logical_plan(&sql).await?;
    let batches = collect(state.create_physical_plan(&plan).await?, state.task_ctx()).await?;
    let counts = batches.first().and_then(|batch| batch.columns().first()?.as_primitive_opt::<Int64Type>());
    let count = counts.filter(|counts| !counts.is_empty()).map(|counts| counts.value(0));
    Ok(count.and_then(|count| u64::try_from(count).ok()).unwrap_or_default())
}

/// `table_cube`, with a number if that is taken.
fn free_name(fact: &QualifiedName, snapshot: &CatalogSnapshot, taken: &mut BTreeSet<String>) -> String {
    let names = (1_usize..).map(|n| match n {
        1 => format!("{}_cube", fact.name),
        n => format!("{}_cube_{n}", fact.name),
    });
    let mut free = names.filter(|name| {
        let full = QualifiedName::new(&fact.schema, name);
        let known = snapshot.cubes.contains_key(&full) || snapshot.tables.contains_key(&full);
        !known && !taken.contains(&full.to_string())
    });
    let name = free.next().unwrap_or_default();
    taken.insert(QualifiedName::new(&fact.schema, &name).to_string());
    format!("{}.{}", quoted(&fact.schema), quoted(&name))
}

fn columns(lines: &[Line], total_us: u64) -> Vec<ArrayRef> {
    let sizes = |line: &Line| match line {
        Line::Cube { advice, .. } => {
            [Some(advice.cuboids as u64), Some(advice.cells), Some(advice.bytes), Some(advice.rows)]
        }
        Line::Unread { cells, bytes, .. } => [None, Some(*cells), Some(*bytes), None],
        Line::Unserved { .. } => [None; 4],
    };
    let size = |n: usize| numbers(lines.iter().map(move |line| sizes(line).get(n).copied().flatten()));
    #[expect(clippy::cast_precision_loss, reason = "it is a share")]
    let shares = lines.iter().map(|line| {
        let took: u64 = entries_of(line).iter().map(|entry| entry.total_us).sum();
        Some(took as f64 / total_us.max(1) as f64)
    });
    vec![
        texts(lines.iter().map(|line| match line {
            Line::Cube { statement, .. } => Some(statement.as_str()),
            Line::Unread { statement, .. } => statement.as_deref(),
            Line::Unserved { .. } => None,
        })),
        numbers(lines.iter().map(|line| Some(entries_of(line).iter().map(|entry| entry.asked).sum()))),
        Arc::new(shares.collect::<Float64Array>()),
        size(0),
        size(1),
        size(2),
        size(3),
        texts(lines.iter().map(|line| match line {
            Line::Cube { .. } => None,
            Line::Unread { reason, .. } | Line::Unserved { reason, .. } => Some(reason.as_str()),
        })),
    ]
}

fn entries_of(line: &Line) -> &[QueryHistoryEntry] {
    match line {
        Line::Cube { advice, .. } => &advice.served,
        Line::Unread { .. } => &[],
        Line::Unserved { entries, .. } => entries,
    }
}
