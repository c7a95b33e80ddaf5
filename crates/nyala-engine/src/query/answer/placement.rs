//! Where a planned query runs.

use std::fmt::Debug;

use nyala_sql::error::Result;

use super::rows::Answer;
use super::start::Start;
use crate::query::activity::Running;
use crate::query::plan::cost_class::CostClass;
use crate::query::resources::threads::Threads;

/// Decides where a query runs, once it is planned and has its slot.
pub trait Placement: Debug + Send + Sync {
    /// Starts the plan. `threads` are those of this process.
    fn place(&self, start: Start, class: CostClass, threads: &Threads, running: Running) -> Result<Answer>;
}

/// Every query runs in the process that planned it, on the threads of its cost class.
#[derive(Debug)]
pub struct HereOnly;

impl Placement for HereOnly {
    fn place(&self, start: Start, class: CostClass, threads: &Threads, running: Running) -> Result<Answer> {
        Ok(match class {
            CostClass::Small => start.small(threads, running),
            CostClass::Short => start.short(threads, running),
            CostClass::Joins | CostClass::Long => start.large(threads, running),
        })
    }
}
