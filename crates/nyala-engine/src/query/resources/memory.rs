//! Memory of one query, as a part of the shared pool.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation};
use datafusion::execution::runtime_env::RuntimeEnv;

use super::admission::Group;
use crate::query::activity::Entry;

/// A query's part of the pool: counts it, and bounds it if its resource group says so.
#[derive(Debug)]
struct QueryMemory {
    shared: Arc<dyn MemoryPool>,
    entry: Arc<Entry>,
    held: AtomicUsize,
    most: Option<usize>,
    group: String,
}

/// `runtime` with memory that is counted for one query.
pub fn runtime_of_query(runtime: &RuntimeEnv, entry: &Arc<Entry>, group: &Group) -> Arc<RuntimeEnv> {
    let memory = QueryMemory {
        shared: Arc::clone(&runtime.memory_pool),
        entry: Arc::clone(entry),
        held: AtomicUsize::new(0),
        most: group.query_memory_bytes(),
        group: group.name.clone(),
    };
    Arc::new(RuntimeEnv { memory_pool: Arc::new(memory), ..runtime.clone() })
}

/// `runtime` with memory for parts of another node's query. The pool divides what operators that can spill may hold evenly among
/// all of them; the parts of a few queries have hundreds of operators, and each would spill at a few megabytes. So they count as one
/// operator that cannot spill: they get what there is, and still spill when there is no more.
pub fn runtime_of_parts(runtime: &RuntimeEnv, entry: &Arc<Entry>, group: &Group) -> Arc<RuntimeEnv> {
    let all = MemoryConsumer::new(format!("parts of query {}", entry.id)).register(&runtime.memory_pool);
    let together = Together { all, shared: Arc::clone(&runtime.memory_pool) };
    let runtime = RuntimeEnv { memory_pool: Arc::new(together), ..runtime.clone() };
    runtime_of_query(&runtime, entry, group)
}

/// Whether a query failed because other queries held the memory: it never held half of its own limit. Then another attempt may succeed.
pub fn is_held_by_others(error: &DataFusionError, pool: &dyn MemoryPool, entry: &Entry) -> bool {
    let MemoryLimit::Finite(limit) = pool.memory_limit() else { return false };
    let is_lack = matches!(error.find_root(), DataFusionError::ResourcesExhausted(_));
    is_lack && entry.peak_memory_bytes() < limit / 2
}

/// The memory of many operators as that of one.
#[derive(Debug)]
struct Together {
    all: MemoryReservation,
    /// The pool in which all operators together have a reservation.
    shared: Arc<dyn MemoryPool>,
}

impl std::fmt::Display for Together {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.all.consumer().name())
    }
}

impl MemoryPool for Together {
    fn name(&self) -> &str {
        "together"
    }

    fn grow(&self, _: &MemoryReservation, additional: usize) {
        self.all.grow(additional);
    }

    fn shrink(&self, _: &MemoryReservation, shrink: usize) {
        self.all.shrink(shrink);
    }

    fn try_grow(&self, _: &MemoryReservation, additional: usize) -> Result<()> {
        self.all.try_grow(additional)
    }

    fn reserved(&self) -> usize {
        self.all.size()
    }

    /// The limit of the shared pool: aggregations spill only if the pool has a limit.
    fn memory_limit(&self) -> MemoryLimit {
        self.shared.memory_limit()
    }
}

/// `task` with memory that is counted for one query.
pub fn of_query(task: &TaskContext, entry: &Arc<Entry>, group: &Group) -> Arc<TaskContext> {
    let runtime = runtime_of_query(&task.runtime_env(), entry, group);
    Arc::new(TaskContext::new(
        task.task_id(),
        task.session_id(),
        task.session_config().clone(),
        task.scalar_functions().clone(),
        task.higher_order_functions().clone(),
        task.aggregate_functions().clone(),
        task.window_functions().clone(),
        runtime,
    ))
}

impl QueryMemory {
    /// Takes so many bytes, if the query may hold them; returns the total. Atomic: partitions ask at once.
    fn take(&self, bytes: usize) -> Result<usize> {
        let most = self.most.unwrap_or(usize::MAX);
        let within = |held: usize| held.checked_add(bytes).filter(|held| *held <= most);
        let before = self.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, within);
        before.map(|before| before + bytes).map_err(|_| {
            // Operators that can spill do so on this error.
            DataFusionError::ResourcesExhausted(format!(
                "the query would hold more than the {most} bytes that resource group `{}` allows one query",
                self.group
            ))
        })
    }

    fn give_back(&self, bytes: usize) {
        self.held.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl std::fmt::Display for QueryMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "query {} of {}", self.entry.id, self.shared)
    }
}

impl MemoryPool for QueryMemory {
    fn name(&self) -> &str {
        "query"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.shared.register(consumer);
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.shared.unregister(consumer);
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.shared.grow(reservation, additional);
        let before = self.held.fetch_add(additional, Ordering::Relaxed);
        self.entry.holds(before + additional);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.shared.shrink(reservation, shrink);
        self.give_back(shrink);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        let held = self.take(additional)?;
        self.shared.try_grow(reservation, additional).inspect_err(|_| self.give_back(additional))?;
        self.entry.holds(held);
        Ok(())
    }

    fn reserved(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    fn memory_limit(&self) -> MemoryLimit {
        match (self.most, self.shared.memory_limit()) {
            (Some(most), MemoryLimit::Finite(all)) => MemoryLimit::Finite(most.min(all)),
            (Some(most), MemoryLimit::Infinite | MemoryLimit::Unknown) => MemoryLimit::Finite(most),
            (None, all) => all,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Mutex;

    use datafusion::execution::memory_pool::{GreedyMemoryPool, UnboundedMemoryPool};
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::query::activity::{Registry, Running};

    /// Has another partition of the query ask while the request of the first is decided.
    #[derive(Debug, Default)]
    struct Meanwhile {
        other: Mutex<Option<MemoryReservation>>,
        all: UnboundedMemoryPool,
    }

    impl std::fmt::Display for Meanwhile {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("meanwhile")
        }
    }

    impl MemoryPool for Meanwhile {
        fn name(&self) -> &str {
            "meanwhile"
        }

        fn grow(&self, reservation: &MemoryReservation, additional: usize) {
            self.all.grow(reservation, additional);
        }

        fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
            self.all.shrink(reservation, shrink);
        }

        fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
            let other = self.other.lock().unwrap().take();
            if let Some(other) = other {
                other.try_grow(additional).unwrap_err();
            }
            self.all.try_grow(reservation, additional)
        }

        fn reserved(&self) -> usize {
            self.all.reserved()
        }
    }

    #[test]
    fn parts_of_queries_hold_what_there_is_however_many_they_are() {
        use datafusion::execution::memory_pool::FairSpillPool;
        use datafusion::execution::runtime_env::RuntimeEnvBuilder;
        use nyala_model::config::AdmissionConfig;

        use crate::query::resources::admission::Admission;

        let runtime = RuntimeEnvBuilder::new().with_memory_pool(Arc::new(FairSpillPool::new(1000)));
        let runtime = runtime.build().unwrap();
        let registry = Arc::new(Registry::new(None));
        let running =
            Running::begin(&Arc::default(), &registry, "SELECT 1", &Arc::default(), CancellationToken::new());
        let admission = Admission::new(&AdmissionConfig::default(), 2);
        let group = admission.group("", &Arc::default(), "public", &Default::default()).unwrap();
        let parts = runtime_of_parts(&runtime, running.entry(), group);
        let sorts: Vec<MemoryReservation> = (0..100)
            .map(|sort| {
                MemoryConsumer::new(format!("sort {sort}")).with_can_spill(true).register(&parts.memory_pool)
            })
            .collect();
        sorts[0].try_grow(900).unwrap();
        sorts[1].try_grow(101).unwrap_err();
        assert_eq!(runtime.memory_pool.reserved(), 900);
        drop(sorts);
        drop(parts);
        assert_eq!(runtime.memory_pool.reserved(), 0);
    }

    /// The limit that operators of a query see, and whether a query that has `held` bytes and asks for `asked` more is to wait for others.
    fn limit_and_wait(most: Option<usize>, others: usize, held: usize, asked: usize) -> (usize, bool) {
        let registry = Arc::new(Registry::new(None));
        let token = CancellationToken::new();
        let running = Running::begin(&Arc::default(), &registry, "SELECT 1", &Arc::default(), token);
        let shared: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(1000));
        let other = MemoryConsumer::new("other").register(&shared);
        other.try_grow(others).unwrap();
        let all = MemoryConsumer::new("parts").register(&shared);
        let pool: Arc<dyn MemoryPool> = Arc::new(QueryMemory {
            shared: Arc::new(Together { all, shared }),
            entry: Arc::clone(running.entry()),
            held: AtomicUsize::new(0),
            most,
            group: "default".to_owned(),
        });
        let limit = match pool.memory_limit() {
            MemoryLimit::Finite(limit) => limit,
            MemoryLimit::Infinite | MemoryLimit::Unknown => 0,
        };
        let sort = MemoryConsumer::new("sort").register(&pool);
        sort.try_grow(held).unwrap();
        let error = sort.try_grow(asked).unwrap_err().context("sort");
        (limit, is_held_by_others(&error, pool.as_ref(), running.entry()))
    }

    #[test]
    fn a_query_waits_for_memory_of_others_and_not_for_its_own() {
        assert_eq!(limit_and_wait(None, 800, 150, 100), (1000, true));
        assert_eq!(limit_and_wait(None, 100, 800, 200), (1000, false));
        // The bound of its group stays, however much the others give back.
        assert_eq!(limit_and_wait(Some(200), 0, 150, 100), (200, false));
        assert_eq!(limit_and_wait(Some(200), 900, 50, 100), (200, true));
        assert_eq!(limit_and_wait(Some(5000), 800, 150, 100), (1000, true));
    }

    #[test]
    fn partitions_that_ask_at_once_hold_no_more_than_their_query_may() {
        let registry = Arc::new(Registry::new(None));
        let token = CancellationToken::new();
        let running = Running::begin(&Arc::default(), &registry, "SELECT 1", &Arc::default(), token);
        let shared = Arc::new(Meanwhile::default());
        let query: Arc<dyn MemoryPool> = Arc::new(QueryMemory {
            shared: Arc::clone(&shared) as _,
            entry: Arc::clone(running.entry()),
            held: AtomicUsize::new(0),
            most: Some(100),
            group: "default".to_owned(),
        });
        let register = |name: &str| MemoryConsumer::new(name).register(&query);
        let (one, other) = (register("one"), register("other"));
        *shared.other.lock().unwrap() = Some(other);
        one.try_grow(60).unwrap();
        assert_eq!((query.reserved(), shared.reserved(), running.entry().peak_memory_bytes()), (60, 60, 60));
        one.try_grow(41).unwrap_err();
        one.try_grow(40).unwrap();
        drop(one);
        assert_eq!((query.reserved(), shared.reserved()), (0, 0));
    }
}
