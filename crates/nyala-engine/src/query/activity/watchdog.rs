//! The watchdog looks at statements, builds and recoveries of disk stores at intervals. Work that looks the
//! same for too long is named, with the operator at work and the cause of its wait.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::physical_plan::ExecutionPlan;
use nyala_cube::cube::build::{Builds, now_ms};
use nyala_cube::live::{LiveStores, Recovery, recoveries};
use nyala_model::JobEntry;
use tokio::runtime::Handle;

use super::entry::{Entry, Phase};
use super::registry::Registry;

/// Number of looks within the time for which work may make no progress.
const LOOKS: u32 = 10;
/// Shortest time between looks: more would cost more than they are worth.
const MIN_INTERVAL: Duration = Duration::from_millis(10);
/// By how much a look may be late on a busy machine.
const MAX_LATE: Duration = Duration::from_secs(10);

/// Work that is running, and its present step.
#[derive(Debug, Clone)]
pub struct Stuck {
    /// `query`, `build`, `recovery`, or `runtime` for the threads of this process.
    pub kind: &'static str,
    /// Id of the query or job; of a recovery, the place of its store among all by name.
    pub id: u64,
    /// Its text, the cube that is built, or the disk store that is opened.
    pub what: String,
    /// The operator that is at work, or the phase of a recovery, if that is known.
    pub operator: Option<String>,
    pub waits_for: Cow<'static, str>,
    /// How long its state has been the same; the time it has run, if it was not watched.
    pub still: Duration,
}

/// The state of some work when the watchdog looked at it, and since when it has been the same.
struct Look {
    sign: u64,
    since: Instant,
    reported: bool,
}

/// Everything that the watchdog looks at.
pub struct Watched {
    pub registry: Arc<Registry>,
    pub builds: Arc<Builds>,
    pub stores: Arc<LiveStores>,
}

/// Time between two looks, if work is stuck once its state has been the same for `after`.
fn interval(after: Duration) -> Duration {
    (after / LOOKS).max(MIN_INTERVAL)
}

/// Whether a watchdog that looked last before `since` should have looked again by now. Then the threads that it runs on
/// stand still, or a thread keeps a lock that it takes.
pub fn is_overdue(since: Duration, after: Duration) -> bool {
    since > interval(after) + MAX_LATE
}

/// Looks until its task is dropped. Work is stuck once its state has been the same for `after`.
pub async fn watch(watched: Watched, after: Duration) {
    let every = interval(after);
    let mut seen: HashMap<(&'static str, u64), Look> = HashMap::new();
    loop {
        tokio::time::sleep(every).await;
        let (queries, builds) = (watched.registry.running(), watched.builds.entries());
        let recoveries = recoveries(&watched.stores);
        let built = builds.iter().fold(0_u64, |sum, job| sum.wrapping_add(sign_of_build(job)));
        let signs = queries.iter().map(|entry| (("query", entry.id), sign_of(entry, built)));
        let signs = signs.chain(builds.iter().map(|job| (("build", job.id.0), sign_of_build(job))));
        let signs = signs.chain(recoveries.iter().map(|store| (("recovery", store.id), store.sign)));
        seen = look(seen, signs, Instant::now());
        let mut stuck = Vec::new();
        for ((kind, id), look) in &mut seen {
            let still = look.since.elapsed();
            if still < after {
                continue;
            }
            let found = match *kind {
                "query" => queries.iter().find(|entry| entry.id == *id).map(|entry| describe(entry, still)),
                "recovery" => recoveries
                    .iter()
                    .find(|store| store.id == *id)
                    .map(|store| describe_recovery(store, still)),
                _ => builds.iter().find(|job| job.id.0 == *id).map(|job| describe_build(job, still)),
            };
            let Some(found) = found else { continue };
            if !look.reported {
                look.reported = true;
                report(&found);
            }
            stuck.push(found);
        }
        stuck.sort_by_key(|stuck| std::cmp::Reverse(stuck.still));
        watched.registry.set_stuck(stuck);
    }
}

/// All work at this moment: statements, builds, recoveries, and how busy the threads are.
pub fn tasks(watched: &Watched, runtimes: &[(&'static str, &Handle)]) -> Vec<Stuck> {
    let runtimes = runtimes.iter().enumerate().map(|(id, (name, handle))| {
        let metrics = handle.metrics();
        let (tasks, queued) = (metrics.num_alive_tasks(), metrics.global_queue_depth());
        Stuck {
            kind: "runtime",
            id: id as u64,
            what: format!("{} threads {name}", metrics.num_workers()),
            operator: None,
            waits_for: format!("{tasks} tasks, {queued} in the queue").into(),
            still: Duration::ZERO,
        }
    });
    let queries = watched.registry.running();
    let queries = queries.iter().map(|entry| describe(entry, entry.begun.elapsed()));
    let now = now_ms();
    let builds = watched.builds.entries();
    let builds = builds
        .iter()
        .map(|job| describe_build(job, Duration::from_millis(now.saturating_sub(job.started_at_ms))));
    let recoveries = recoveries(&watched.stores);
    let recoveries = recoveries.iter().map(|store| describe_recovery(store, store.took));
    runtimes.chain(queries).chain(builds).chain(recoveries).collect()
}

fn report(stuck: &Stuck) {
    let seconds = stuck.still.as_secs();
    let Stuck { kind, id, what, operator, waits_for, .. } = stuck;
    let operator = operator.as_deref().unwrap_or("unknown");
    tracing::warn!(kind, id, what, operator, %waits_for, seconds, "no progress");
}

/// The states of the work that is still there, each with the time since when it has been the same.
fn look(
    mut before: HashMap<(&'static str, u64), Look>,
    signs: impl Iterator<Item = ((&'static str, u64), u64)>,
    now: Instant,
) -> HashMap<(&'static str, u64), Look> {
    let looks = signs.map(|(key, sign)| match before.remove(&key) {
        Some(look) if look.sign == sign => (key, look),
        _ => (key, Look { sign, since: now, reported: false }),
    });
    looks.collect()
}

/// A number that changes with the work done. `built`, the work of all builds, counts for a statement that waits for a
/// build.
fn sign_of(entry: &Entry, built: u64) -> u64 {
    let computed = entry.plan().map_or(0, |plan| work_of(plan.as_ref()));
    let computed = computed.wrapping_add(if entry.builds() { built } else { 0 });
    computed.wrapping_mul(31).wrapping_add(entry.rows()).wrapping_mul(31).wrapping_add(entry.phase() as u64)
}

fn sign_of_build(job: &JobEntry) -> u64 {
    let counts = [job.rows_read, job.bytes_written, u64::from(job.cuboids_done)];
    counts.iter().fold(0, |sign, count| sign.wrapping_mul(31).wrapping_add(*count))
}

/// A number that grows with all counters of the operators.
fn work_of(plan: &dyn ExecutionPlan) -> u64 {
    let own = plan.metrics().map_or(0, |metrics| {
        metrics.iter().fold(0_u64, |sum, metric| sum.wrapping_add(metric.value().as_usize() as u64))
    });
    plan.children().iter().fold(own, |sum, child| sum.wrapping_add(work_of(child.as_ref())))
}

fn describe(entry: &Entry, still: Duration) -> Stuck {
    let waits_for = match entry.phase() {
        _ if entry.is_ending() => "its threads to end",
        Phase::Planning => "planning",
        Phase::Queued => "a slot",
        Phase::Running => "an operator",
        Phase::Sending => "the client",
    };
    let operator = entry.plan().filter(|_| entry.phase() == Phase::Running);
    Stuck {
        kind: "query",
        id: entry.id,
        what: entry.text.to_string(),
        operator: operator.map(|plan| at_work(&plan).name().to_owned()),
        waits_for: waits_for.into(),
        still,
    }
}

fn describe_build(job: &JobEntry, still: Duration) -> Stuck {
    Stuck {
        kind: "build",
        id: job.id.0,
        what: job.cube.to_string(),
        operator: None,
        waits_for: "rows, or a file to be written".into(),
        still,
    }
}

fn describe_recovery(store: &Recovery, still: Duration) -> Stuck {
    Stuck {
        kind: "recovery",
        id: store.id,
        what: format!("disk store {}", store.name),
        operator: Some(store.phase.to_owned()),
        waits_for: store.progress.clone().into(),
        still,
    }
}

/// The operator at work: it has returned no rows yet, but all its inputs have.
fn at_work(plan: &Arc<dyn ExecutionPlan>) -> &Arc<dyn ExecutionPlan> {
    let gave = |plan: &Arc<dyn ExecutionPlan>| {
        plan.metrics().and_then(|metrics| metrics.output_rows()).is_some_and(|rows| rows > 0)
    };
    match plan.children().into_iter().find(|child| !gave(child)) {
        Some(child) => at_work(child),
        None => plan,
    }
}

#[cfg(test)]
mod tests {
    use tokio_util::sync::CancellationToken;

    use super::*;

    #[test]
    fn a_statement_goes_on_as_long_as_its_build_does() {
        let entry = |text| Entry::new(1, text, Arc::default(), CancellationToken::new());
        let (query, build) = (entry("SELECT 1"), entry("BUILD CUBE c"));
        build.waits_for_build();
        assert_ne!(sign_of(&build, 7), sign_of(&build, 8));
        assert_eq!(sign_of(&query, 7), sign_of(&query, 8), "it waits for none");
    }

    #[test]
    fn a_look_may_be_late_but_not_missing() {
        let seconds = Duration::from_secs;
        let check = |since, after, overdue| assert_eq!(is_overdue(since, after), overdue, "{since:?}");
        check(seconds(15), seconds(60), false);
        check(seconds(17), seconds(60), true);
        check(seconds(60), seconds(600), false);
    }

    #[test]
    fn time_without_progress_is_counted_from_the_last_change() {
        let start = Instant::now();
        let later = |seconds| start + Duration::from_secs(seconds);
        let seen = look(HashMap::new(), [(("query", 1), 5), (("query", 2), 5)].into_iter(), start);
        let seen = look(seen, [(("query", 1), 5), (("query", 2), 6)].into_iter(), later(1));
        let since = |id| seen.get(&("query", id)).map(|look| look.since);
        assert_eq!((since(1), since(2), since(3)), (Some(start), Some(later(1)), None));
        let seen = look(seen, [(("build", 1), 5)].into_iter(), later(2));
        assert_eq!(seen.len(), 1);
    }
}
