//! `CHECK CUBE`: whether a cube's files are as written, and its answers equal those of the tables.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::collect;
use datafusion::sql::sqlparser::ast::ObjectName;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, stream};
use nyala_cube::cube::{CubeIndex, Dice, ReadyCube, Report, Routing, Trial, Trials, rewrite, show_damage};
use nyala_cube::live::Pins;
use nyala_cube::scan::{Damage, StoredFile};
use nyala_model::{CuboidEntry, QualifiedName, SegmentEntry, SegmentState};
use nyala_runtime::Scope;
use nyala_sql::error::{QueryError, Result};
use object_store::path::Path;

use super::build::pin;
use super::compare_answers::{difference, first_row};
use super::segments::missing_cube;
use crate::query::answer::Answer;
use crate::query::authorize::Caller;
use crate::query::columns::{number, numbers, text, texts};
use crate::query::command::Command;
use crate::query::engine::Engine;
use crate::query::execution::Execution;
use crate::query::plan::physical::simplify_context;
use crate::query::resources::task::Task;
use crate::session::Settings;

/// Queries compared by default.
const DEFAULT_SAMPLE: u64 = 20;
/// Files checked at the same time.
const FILES_AT_ONCE: usize = 8;

/// `CHECK CUBE`.
pub struct Check<'s> {
    pub name: &'s ObjectName,
    /// Random queries that are compared.
    pub sample: Option<u64>,
}

impl Command for Check<'_> {
    fn schema(&self) -> Option<SchemaRef> {
        Some(schema())
    }

    fn authorize(&self, caller: &Caller<'_>) -> Result<()> {
        let cube = caller.name(self.name)?;
        caller.may_build(cube.clone())?;
        // The answer shows the values that differ.
        match caller.catalog.cubes.get(&cube) {
            Some(cube) => caller.may_select(&cube.definition.sources),
            None => Ok(()),
        }
    }

    fn run<'a>(&'a self, execution: Execution<'a>) -> BoxFuture<'a, Result<Answer>> {
        run(self, execution).boxed()
    }
}

/// Columns of the answer.
fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        text("check"),
        number("segment"),
        text("cuboid"),
        text("result"),
        text("detail"),
    ]))
}

/// The result of one check.
struct Finding {
    check: &'static str,
    segment: Option<u64>,
    cuboid: Option<String>,
    result: &'static str,
    detail: String,
}

impl Finding {
    fn new(check: &'static str, result: &'static str, detail: impl Into<String>) -> Self {
        Self { check, segment: None, cuboid: None, result, detail: detail.into() }
    }

    fn of(self, segment: &SegmentEntry) -> Self {
        Self { segment: Some(segment.id.0), ..self }
    }
}

/// Checks files, then freshness, then answers.
async fn run(statement: &Check<'_>, execution: Execution<'_>) -> Result<Answer> {
    let (engine, name) = (execution.engine(), &execution.name(statement.name)?);
    let mut findings = Vec::new();
    let cube = find(engine, name)?;
    // A table that cannot be listed is a finding, not the end of the check.
    if let Err(error) = engine.check_files(Some(&cube.entry.definition.sources)).await {
        findings.push(Finding::new("source", "unreadable", error.to_string()));
    }
    let cube = find(engine, name)?;
    // Everything is compared with one version of each live table.
    let pins = Arc::new(Pins::default());
    pin(&cube, &pins).await?;
    let cube = cube.at(&pins);
    if ready(&cube).next().is_none() {
        findings.push(Finding::new("source", "stale", "it has not been built; run BUILD CUBE"));
    }
    findings.extend(files(engine, &cube).await?);
    // The cube is found again without the segments whose damage was just found.
    let cube = find(engine, name)?.at(&pins);
    findings.extend(sources(&cube));
    let runner = Runner { engine, settings: &execution.settings, pins, scope: execution.running.scope() };
    findings.extend(runner.answers(&cube, statement.sample.unwrap_or(DEFAULT_SAMPLE)).await?);
    execution.columns(schema(), columns(&findings))
}

fn find(engine: &Engine, name: &QualifiedName) -> Result<Arc<ReadyCube>> {
    let context = engine.snapshots.current();
    let entry = context.snapshot().cubes.get(name).ok_or_else(|| missing_cube(name))?;
    let cube = context.cubes().find(entry).ok_or_else(|| QueryError::internal("a cube was not opened"))?;
    Ok(Arc::clone(cube))
}

fn ready(cube: &ReadyCube) -> impl Iterator<Item = &SegmentEntry> {
    cube.entry.segments.iter().filter(|segment| segment.state == SegmentState::Ready)
}

/// Checks the files of all complete segments: one line a bad file, or else one for the segment.
async fn files(engine: &Engine, cube: &ReadyCube) -> Result<Vec<Finding>> {
    let store = engine.snapshots.stores().segments().files();
    let mut findings = Vec::new();
    for segment in cube.entry.segments.iter().filter(|segment| segment.state != SegmentState::Building) {
        let all: Vec<_> =
            segment.cuboids.iter().flat_map(|c| c.files.iter().map(move |file| (c, file))).collect();
        let checked = all.iter().map(|(cuboid, file)| {
            let path = Path::from(format!("{}{}", segment.location, file.name));
            let (file, cuboid) =
                (StoredFile::new(Arc::clone(store), path, (*file).clone()), shown(cube, cuboid));
            async move { (cuboid, check(engine, &file).await) }.boxed()
        });
        let checked: Vec<BoxFuture<'_, _>> = checked.collect();
        let checked: Vec<_> = stream::iter(checked).buffered(FILES_AT_ONCE).collect().await;
        let wrong: Vec<Finding> = checked
            .into_iter()
            .filter_map(|(cuboid, problem)| {
                let finding = Finding::new("file", problem.0?, problem.1).of(segment);
                Some(Finding { cuboid: Some(cuboid), ..finding })
            })
            .collect();
        if wrong.is_empty()
            && let Some(damage) = &segment.damage
        {
            findings.push(Finding::new("file", "damaged", show_damage(damage)).of(segment));
        } else if wrong.is_empty() {
            let rows: u64 = segment.cuboids.iter().map(|cuboid| cuboid.rows).sum();
            let detail = format!("{} files with {rows} rows", all.len());
            findings.push(Finding::new("file", "ok", detail).of(segment));
        }
        findings.extend(wrong);
    }
    Ok(findings)
}

/// Reads a whole file. Returns its problem, if any; damage takes the segment out of use from now on.
async fn check(engine: &Engine, file: &StoredFile) -> (Option<&'static str>, String) {
    let damage = match file.verify().await {
        Ok(()) => return (None, String::new()),
        Err(damage) => damage,
    };
    let result = match &damage {
        Damage::Found(reason) => {
            engine.building.damage.report(file.path(), reason).await;
            "damaged"
        }
        Damage::Unreadable(_) => "unreadable",
    };
    (Some(result), damage.into_error(file.path()).to_string())
}

/// Whether the source files of segments are unchanged.
fn sources(cube: &ReadyCube) -> Vec<Finding> {
    let judged = ready(cube).map(|segment| match cube.coverage.why_stale(segment.id) {
        Some(reason) => Finding::new("source", "stale", reason).of(segment),
        None => {
            let files: u64 = segment.sources.iter().map(|source| source.files).sum();
            let rows: u64 = segment.sources.iter().filter_map(|s| Some(s.live.as_ref()?.rows)).sum();
            let live = if rows > 0 { format!(", {rows} rows of live tables") } else { String::new() };
            let detail = format!("{files} files of {} tables{live}", segment.sources.len());
            Finding::new("source", "ok", detail).of(segment)
        }
    });
    judged.collect()
}

fn shown(cube: &ReadyCube, cuboid: &CuboidEntry) -> String {
    format!("({})", cube.entry.definition.dimension_names(cuboid.dimensions).join(", "))
}

/// Runs the queries of trials.
struct Runner<'a> {
    engine: &'a Arc<Engine>,
    settings: &'a Settings,
    pins: Arc<Pins>,
    scope: Scope,
}

impl Runner<'_> {
    /// Compares `sample` random answers, taking all pairs of segment and cuboid in turn.
    async fn answers(&self, cube: &Arc<ReadyCube>, sample: u64) -> Result<Vec<Finding>> {
        let mut pairs: Vec<(&SegmentEntry, &CuboidEntry)> =
            cube.coverage.usable(&cube.entry).flat_map(|s| s.cuboids.iter().map(move |c| (s, c))).collect();
        if pairs.is_empty() || sample == 0 {
            return Ok(Vec::new());
        }
        let (engine, settings) = (self.engine, self.settings);
        let (state, limits) = (engine.snapshots.current().state(settings), *engine.snapshots.limits());
        let own = Arc::clone(cube);
        let trials =
            engine.runtime.threads.plan(async move { Trials::of(own, &state, &limits).await }).await?;
        pairs.retain(|(_, cuboid)| trials.can_compare(cuboid));
        if pairs.is_empty() {
            let detail = "every measure is an estimate that is not the same each time";
            return Ok(vec![Finding::new("answer", "not compared", detail)]);
        }
        let mut dice = Dice::rolled();
        dice.shuffle(&mut pairs);
        let mut findings = Vec::new();
        for (segment, cuboid) in pairs.iter().cycle().take(usize::try_from(sample).unwrap_or(usize::MAX)) {
            let found = match self.compare(&trials, segment, cuboid, &mut dice).await {
                Ok(found) => found,
                Err(error) => Finding::new("answer", "unreadable", error.to_string()),
            };
            findings.push(Finding { cuboid: Some(shown(cube, cuboid)), ..found.of(segment) });
        }
        Ok(findings)
    }

    async fn compare(
        &self,
        trials: &Trials,
        segment: &SegmentEntry,
        cuboid: &CuboidEntry,
        dice: &mut Dice,
    ) -> Result<Finding> {
        let cell = match trials.cell(segment, cuboid, dice)? {
            Some(plan) => first_row(&self.rows(plan, None).await?.0)?,
            None => Vec::new(),
        };
        let trial = trials.trial(segment, cuboid, &cell, dice)?;
        let (routed, report) = self.rows(trial.plan.clone(), Some(&trial)).await?;
        if report.hits() == 0 {
            return Ok(Finding::new("answer", "not compared", format!("{}: {report}", trial.text)));
        }
        let (raw, _) = self.rows(trial.plan.clone(), None).await?;
        let Some(difference) = difference(trial.groups, &routed, &raw)? else {
            let rows: usize = raw.iter().map(RecordBatch::num_rows).sum();
            return Ok(Finding::new("answer", "ok", format!("{}: {rows} rows", trial.text)));
        };
        // A difference does not count if the files changed meanwhile.
        let name = &trial.only.entry.name;
        let sources = &trial.only.entry.definition.sources;
        if self.engine.check_files(Some(sources)).await.is_ok()
            && let Some(reason) = find(self.engine, name)?.coverage.why_stale(segment.id)
        {
            return Ok(Finding::new("answer", "stale", reason));
        }
        Ok(Finding::new("answer", "differs", format!("{}: {difference}", trial.text)))
    }

    /// Runs `plan`, from the trial's cuboid if there is one.
    async fn rows(&self, plan: LogicalPlan, trial: Option<&Trial>) -> Result<(Vec<RecordBatch>, Report)> {
        let mut state = self.engine.snapshots.current().state(self.settings);
        let pins = Arc::clone(&self.pins);
        state.config_mut().set_extension(Arc::clone(&pins));
        let task = state.task_ctx();
        let only = trial.map(|trial| CubeIndex::new([Arc::clone(&trial.only)]));
        let work = async move {
            let mut report = Report::default();
            let plan = match only {
                Some(cubes) => {
                    let simplify = simplify_context(&state);
                    let routing =
                        Routing { cubes: &cubes, simplify: &simplify, pins: &pins, explains: false };
                    rewrite(plan, &routing, &mut report)?
                }
                None => plan,
            };
            let plan = state.optimizer().optimize(plan, &state, |_, _| {})?;
            Ok((state.query_planner().create_physical_plan(&plan, &state).await?, report))
        };
        let (plan, report) = self.engine.runtime.threads.plan(work).await?;
        let work = async move { Ok(collect(plan, task).await?) };
        Ok((Task::spawn(&self.engine.runtime.threads, self.scope.clone(), work).join().await?, report))
    }
}

fn columns(findings: &[Finding]) -> Vec<ArrayRef> {
    vec![
        texts(findings.iter().map(|found| Some(found.check))),
        numbers(findings.iter().map(|found| found.segment)),
        texts(findings.iter().map(|found| found.cuboid.as_deref())),
        texts(findings.iter().map(|found| Some(found.result))),
        texts(findings.iter().map(|found| Some(found.detail.as_str()))),
    ]
}
