//! Runs a query that no cached plan answers.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use datafusion::common::ScalarValue;
use futures::{FutureExt, TryFutureExt};
use nyala_cube::cube::Report;
use nyala_model::{NodeId, QualifiedName};
use nyala_sql::error::{ErrorKind, Owner, QueryError, Result};

use super::activity::{Entry, Route};
use super::answer::{Again, Answer, Attempts, Placed, PlanAnew, Purpose, Source, Start};
use super::engine::Engine;
use super::execution::Execution;
use super::history::Recorded;
use super::place_query::{part_of, place};
use super::plan::logical::Unoptimized;
use super::plan::parameters::bind;
use super::plan::physical::{AllReasons, Plans, plan_query};
use super::plan_learning::Planned;
use super::plans::{Answers, answers_of, check_constant, is_fit};
use super::resources::memory;
use crate::session::{Settings, SnapshotContext};

/// A query with resolved names.
pub struct Query<'a> {
    pub plan: &'a Unoptimized,
    /// The text it was parsed from, if a cached plan may answer it again.
    pub text: Option<&'a Arc<str>>,
    pub parameters: &'a [ScalarValue],
    /// The tables that a session must be allowed to read to get its answer from the result cache; none if it is not kept there.
    pub reads: Option<&'a Arc<[QualifiedName]>>,
}

/// Plans and starts a query.
pub async fn run(query: Query<'_>, execution: Execution<'_>) -> Result<Answer> {
    let Execution { session, settings, deadline, running, only_here } = execution;
    let engine = &session.engine;
    let group = session.group(&settings)?;
    let context = engine.snapshots.current();
    let bound = bind(query.plan.clone(), query.parameters)?;
    let begun = Instant::now();
    let planning = Planning {
        engine: Arc::clone(engine),
        query: bound,
        context: Arc::clone(&context),
        settings: settings.clone(),
        entry: Arc::clone(running.entry()),
        alone: false,
    };
    // The query may have to be planned anew: files in buckets change while they are read, and nodes that read them are lost.
    let mut again = engine.snapshots.stores().has_remote()?.then(|| planning.clone());
    let mut planned = planning.plan().await;
    if let Some(again) = again.take_if(|_| matches!(&planned, Err(error) if error.kind == ErrorKind::Changed))
    {
        planned = again.plan_anew(Again::Divided).await;
    }
    let (mut plans, placed) = planned?;
    if session.options().sent_by.is_none()
        && !only_here
        && settings.nyala().distributed
        && let Some(node) = plans.kept_by()?
    {
        if let Some(text) = query.text {
            let schema = plans.physical.schema();
            let answers = Answers::new();
            session
                .learn_plan(text, Planned { context, settings, answers, schema, node: Some(node.clone()) });
        }
        return Err(kept_elsewhere(node));
    }
    engine.snapshots.plans.count(false);
    count(engine, &plans.report);
    let answers = answers_of(&plans.report, &plans.logical)?;
    let answers = answers.filter(|answers| is_fit(plans.physical.as_ref(), answers));
    if let (Some(text), Some(answers)) = (query.text, answers) {
        let (context, settings, schema) = (context, settings.clone(), plans.physical.schema());
        session.learn_plan(text, Planned { context, settings, answers, schema, node: None });
    }
    let (from_cuboids, class) = (plans.reads_cuboids_only()?, plans.cost_class()?);
    let route = Arc::new(Route::new(&plans.report, &placed.note));
    running.entry().follows(&placed.plan, false, Some(Arc::clone(&route)));
    running.entry().reads(Some(plans.rows_read()).filter(|rows| *rows < u64::MAX).unwrap_or(0));
    let asked = Arc::new(Recorded::new(std::mem::take(&mut plans.report.asked)));
    let source = from_cuboids.then(|| source_of(&query, (&plans.report, route), &asked, &settings)).flatten();
    let recording = engine.observed.history.begin(asked, begun);
    let task = memory::of_query(&placed.task, running.entry(), &group);
    let slot = match class.queue() {
        Some(queue) => Some(group.admit(queue, placed.site(), running.entry()).await?),
        None => None,
    };
    let plan_anew = again.map(|again| {
        let (entry, group) = (Arc::clone(running.entry()), Arc::clone(&group));
        let anew = move |how| {
            let (entry, group) = (Arc::clone(&entry), Arc::clone(&group));
            let planned = again.clone().plan_anew(how);
            planned
                .map_ok(move |(_, placed)| (placed.plan, memory::of_query(&placed.task, &entry, &group)))
                .boxed()
        };
        Box::new(anew) as PlanAnew
    });
    let (plan, is_spread) = (placed.plan, placed.is_spread);
    let attempts = Attempts::default();
    let start = Start { plan, task, deadline, recording, slot, source, plan_anew, is_spread, attempts };
    Ok(start.begin(class, &engine.runtime.threads, running))
}

/// The error of a query that was not run, because another node has its cuboids in memory.
pub fn kept_elsewhere(node: NodeId) -> QueryError {
    let message = format!("node `{node}` keeps the cuboids of this query in memory");
    let owner = Some(Box::new(Owner { node, optional: true }));
    QueryError { owner, ..QueryError::new(ErrorKind::Unreadable, message) }
}

/// All that a query is planned with.
#[derive(Clone)]
struct Planning {
    engine: Arc<Engine>,
    query: Unoptimized,
    context: Arc<SnapshotContext>,
    settings: Settings,
    entry: Arc<Entry>,
    /// Whether no other node may do a part of it.
    alone: bool,
}

impl Planning {
    /// Plans the query, and divides it among nodes.
    async fn plan(self) -> Result<(Plans, Placed)> {
        let engine = Arc::clone(&self.engine);
        engine.runtime.threads.plan(self.plan_here()).await
    }

    /// Plans the same query with the files and the nodes as they are then.
    async fn plan_anew(self, how: Again) -> Result<(Plans, Placed)> {
        self.engine.snapshots.stores().forget_lists();
        Self { alone: how == Again::Alone, ..self }.plan().await
    }

    async fn plan_here(self) -> Result<(Plans, Placed)> {
        let mut state = self.context.state(&self.settings);
        if self.settings.shows_route() {
            state.config_mut().set_extension(Arc::new(AllReasons));
        }
        let plans = plan_query(self.query, Arc::clone(&self.context), state, self.settings.clone()).await?;
        if self.alone {
            let placed = Placed::here(Arc::clone(&plans.physical), &plans.state);
            return Ok((plans, placed));
        }
        let statement = |class| part_of(&self.engine, &self.entry, &self.context, &self.settings, class);
        let placed = place(&self.engine, &plans, (&self.settings, Purpose::Answer), &statement).await?;
        Ok((plans, placed))
    }
}

/// The source of an answer, if the session uses the result cache and the answer does not change by itself.
fn source_of(
    query: &Query<'_>,
    (report, route): (&Report, Arc<Route>),
    asked: &Arc<Recorded>,
    settings: &Settings,
) -> Option<Source> {
    let reads = query.reads.filter(|_| settings.nyala().result_cache)?;
    let stays = !report.reads_live() && check_constant(query.plan.logical()).is_ok();
    stays.then(|| Source { reads: Arc::clone(reads), asked: Arc::clone(asked), route })
}

fn count(engine: &Engine, report: &Report) {
    let hits = report.hits();
    let misses = report.blocks.len() - hits;
    engine.observed.count_hits(hits);
    engine.observed.counters.cube_misses.fetch_add(misses as u64, Ordering::Relaxed);
}
