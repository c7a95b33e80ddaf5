//! Runs a query that no cached plan answers.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use datafusion::common::ScalarValue;
use futures::future::BoxFuture;
use futures::{FutureExt, TryFutureExt};
use nyala_cube::cube::Report;
use nyala_sql::error::{ErrorKind, Result};

use super::answer::Answer;
use super::answer::Source;
use super::answer::{PlanAnew, Start};
use super::engine::Engine;
use super::execution::Execution;
use super::history::Recorded;
use super::plan::logical::Unoptimized;
use super::plan::parameters::bind;
use super::plan::physical::{Plans, plan_query};
use super::plan_learning::Planned;
use super::plans::{answers_of, check_constant, is_fit};
use super::resources::memory;
use crate::session::{Settings, SnapshotContext};

/// A query with resolved names.
pub struct Query<'a> {
    pub plan: &'a Unoptimized,
    /// The text it was parsed from, if a cached plan may answer it again.
    pub text: Option<&'a Arc<str>>,
    pub parameters: &'a [ScalarValue],
}

/// Plans and starts a query.
pub async fn run(query: Query<'_>, execution: Execution<'_>) -> Result<Answer> {
    let Execution { session, settings, deadline, running } = execution;
    let engine = &session.engine;
    let group = session.group(&settings)?;
    let context = engine.snapshots.current();
    let state = context.state(&settings);
    let task = state.task_ctx();
    let bound = bind(query.plan.clone(), query.parameters)?;
    let begun = Instant::now();
    let plan_anew =
        engine.snapshots.stores().has_remote()?.then(|| plan_anew(engine, &bound, &context, &settings));
    let work = plan_query(bound, Arc::clone(&context), state, settings.clone());
    let (mut plans, plan_anew) = match (engine.runtime.threads.plan(work).await, plan_anew) {
        (Err(error), Some(plan_anew)) if error.kind == ErrorKind::Changed => (plan_anew().await?, None),
        (planned, plan_anew) => (planned?, plan_anew),
    };
    engine.snapshots.plans.count(false);
    count(engine, &plans.report);
    let answers = answers_of(&plans.report, &plans.logical)?;
    let answers = answers.filter(|answers| is_fit(plans.physical.as_ref(), answers));
    if let (Some(text), Some(answers)) = (query.text, answers) {
        let (context, settings, schema) = (context, settings.clone(), plans.physical.schema());
        session.learn_plan(text, Planned { context, settings, answers, schema });
    }
    let (from_cuboids, class) = (plans.reads_cuboids_only()?, plans.cost_class()?);
    running.entry().follows(&plans.physical, false, plans.report.answered_from().map(Into::into));
    let asked = Arc::new(Recorded::new(std::mem::take(&mut plans.report.asked)));
    let source = from_cuboids.then(|| source_of(query.plan, &plans.report, &asked, &settings)).flatten();
    let recording = engine.observed.history.begin(asked, begun);
    let task = memory::of_query(&task, running.entry(), &group);
    let slot = match class.queue() {
        Some(queue) => Some(group.admit(queue, running.entry()).await?),
        None => None,
    };
    let plan_anew = plan_anew.map(|plan_anew| {
        let physical = || plan_anew().map_ok(|plans| plans.physical).boxed();
        Box::new(physical) as PlanAnew
    });
    let start = Start { plan: plans.physical, task, deadline, recording, slot, source, plan_anew };
    Ok(start.place(&engine.placement, class, &engine.runtime.threads, running))
}

/// Plans the same query with the files as they are then.
fn plan_anew(
    engine: &Arc<Engine>,
    bound: &Unoptimized,
    context: &Arc<SnapshotContext>,
    settings: &Settings,
) -> impl FnOnce() -> BoxFuture<'static, Result<Plans>> + Send + use<> {
    let (engine, bound) = (Arc::clone(engine), bound.clone());
    let (context, settings) = (Arc::clone(context), settings.clone());
    move || {
        async move {
            engine.snapshots.stores().forget_lists();
            let state = context.state(&settings);
            let work = plan_query(bound, context, state, settings);
            engine.runtime.threads.plan(work).await
        }
        .boxed()
    }
}

/// The source of an answer, if the session uses the result cache and the answer does not change by itself.
fn source_of(
    query: &Unoptimized,
    report: &Report,
    asked: &Arc<Recorded>,
    settings: &Settings,
) -> Option<Source> {
    let wanted = settings.nyala().result_cache;
    let stays = !report.reads_live() && check_constant(query.logical()).is_ok();
    (wanted && stays).then(|| Source {
        plan: Arc::new(query.clone()),
        asked: Arc::clone(asked),
        answered_from: report.answered_from().map(Into::into),
    })
}

fn count(engine: &Engine, report: &Report) {
    let hits = report.hits();
    let misses = report.blocks.len() - hits;
    engine.observed.count_hits(hits);
    engine.observed.counters.cube_misses.fetch_add(misses as u64, Ordering::Relaxed);
}
