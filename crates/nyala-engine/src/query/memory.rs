//! What one query holds of the memory that all share.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation};
use datafusion::execution::runtime_env::RuntimeEnv;

use super::activity::Entry;
use super::admission::Group;

/// A query's part of the pool: counts it, and bounds it if its resource group says so.
#[derive(Debug)]
struct QueryMemory {
    shared: Arc<dyn MemoryPool>,
    entry: Arc<Entry>,
    held: AtomicUsize,
    most: Option<usize>,
    group: String,
}

/// `task` with memory that is counted as that of one query.
pub(super) fn of_query(task: Arc<TaskContext>, entry: &Arc<Entry>, group: &Group) -> Arc<TaskContext> {
    let runtime = task.runtime_env();
    let memory = QueryMemory {
        shared: Arc::clone(&runtime.memory_pool),
        entry: Arc::clone(entry),
        held: AtomicUsize::new(0),
        most: group.query_memory_bytes(),
        group: group.name.clone(),
    };
    let runtime = Arc::new(RuntimeEnv { memory_pool: Arc::new(memory), ..runtime.as_ref().clone() });
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
    fn add(&self, bytes: usize) -> usize {
        let held = self.held.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.entry.holds(held);
        held
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
        self.add(additional);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.shared.shrink(reservation, shrink);
        self.held.fetch_sub(shrink, Ordering::Relaxed);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        let held = self.held.load(Ordering::Relaxed);
        if let Some(most) = self.most.filter(|most| held.saturating_add(additional) > *most) {
            // Operators that can spill take this for the sign to do so.
            return Err(datafusion::error::DataFusionError::ResourcesExhausted(format!(
                "the query would hold more than the {most} bytes that resource group `{}` allows one query",
                self.group
            )));
        }
        self.shared.try_grow(reservation, additional)?;
        self.add(additional);
        Ok(())
    }

    fn reserved(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    fn memory_limit(&self) -> MemoryLimit {
        match self.most {
            Some(most) => MemoryLimit::Finite(most),
            None => self.shared.memory_limit(),
        }
    }
}
