//! Cost class of a plan: whether it takes a slot, and on which threads it computes.

use datafusion::catalog::memory::{DataSourceExec, MemorySourceConfig};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec};
use datafusion::physical_plan::placeholder_row::PlaceholderRowExec;
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::streaming::StreamingTableExec;
use datafusion::physical_plan::unnest::UnnestExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use nyala_cube::live::LiveScanExec;
use nyala_cube::scan::{CuboidTable, HotCuboidExec};
use nyala_sql::error::Result;

use super::physical::Plans;
use crate::query::resources::admission::Queue;

/// Pairs of rows that a join compares in less than some tenths of a second.
const MAX_SMALL_PAIRS: u64 = 1 << 26;
/// Most pairs of rows, if all keys are equal, for which a join by keys still counts as a look-up.
const MAX_LOOKUP_PAIRS: u64 = 1 << 30;
/// Rows assumed for a leaf without statistics.
const USUAL_ROWS: u64 = 1 << 12;
/// Rows that a query reads from tables in some tenths of a second.
const SHORT_ROWS: u64 = 1 << 22;

/// Cost classes, from the least to the most work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CostClass {
    /// Ends so soon that it needs no slot and no low priority.
    Small,
    /// Reads little, but may make many rows of it: runs at low priority.
    Joins,
    /// Reads few rows of tables: takes a slot for short queries.
    Short,
    /// Takes a slot for long queries.
    Long,
}

impl CostClass {
    /// The queue in which the plan waits for a slot; none if it needs no slot.
    pub fn queue(self) -> Option<Queue> {
        match self {
            Self::Small | Self::Joins => None,
            Self::Short => Some(Queue::Short),
            Self::Long => Some(Queue::Long),
        }
    }
}

impl Plans {
    /// The cost class. A plan that reads only cuboids takes no slot unless a join makes too many pairs, also while they
    /// come from files: cells are few beside rows, and dashboards wait for them.
    pub fn cost_class(&self) -> Result<CostClass> {
        let plan = self.physical.as_ref();
        let mut class = CostClass::Small;
        most_rows(plan, &mut class);
        if self.reads_cuboids_only()? || reads_little(plan) {
            return Ok(class);
        }
        let is_short = class == CostClass::Small && rows_read(plan) <= SHORT_ROWS;
        Ok(if is_short { CostClass::Short } else { CostClass::Long })
    }

    /// The rows that it reads of all tables and cuboids; the largest number if those of one are not known.
    pub fn rows_read(&self) -> u64 {
        rows_read(self.physical.as_ref())
    }

    pub fn reads_cuboids_only(&self) -> Result<bool> {
        Ok(self.report.all_from_cuboids() && reads_cuboids_only(&self.logical)?)
    }
}

/// Whether a plan reads no table, also outside its aggregations, as `SELECT … FROM (SELECT sum(x) …) JOIN t …` does.
pub fn reads_cuboids_only(plan: &LogicalPlan) -> Result<bool> {
    let mut only = true;
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node {
            only &= source_as_provider(&scan.source)?.is::<CuboidTable>();
        }
        Ok(if only { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    })?;
    Ok(only)
}

/// Whether a plan reads only memory, and little of it.
fn reads_little(plan: &dyn ExecutionPlan) -> bool {
    let children = plan.children();
    if children.is_empty() {
        let is_one = plan.output_partitioning().partition_count() == 1;
        return plan.is::<HotCuboidExec>() && is_one
            || plan.downcast_ref::<LiveScanExec>().is_some_and(LiveScanExec::is_little)
            || plan.is::<PlaceholderRowExec>()
            || plan.is::<EmptyExec>()
            || plan.is::<StreamingTableExec>()
            || plan
                .downcast_ref::<DataSourceExec>()
                .is_some_and(|scan| scan.data_source().downcast_ref::<MemorySourceConfig>().is_some());
    }
    children.into_iter().all(|child| reads_little(child.as_ref()))
}

/// Rough upper bound of the rows that a plan returns. Joins of many rows raise the cost class.
fn most_rows(plan: &dyn ExecutionPlan, class: &mut CostClass) -> u64 {
    let children: Vec<u64> =
        plan.children().into_iter().map(|child| most_rows(child.as_ref(), class)).collect();
    let pairs = || children.iter().fold(1_u64, |pairs, rows| pairs.saturating_mul((*rows).max(1)));
    if plan.is::<CrossJoinExec>() || plan.is::<NestedLoopJoinExec>() {
        if pairs() > MAX_SMALL_PAIRS {
            *class = CostClass::Long;
        }
        return pairs();
    }
    if (plan.is::<HashJoinExec>() || plan.is::<SortMergeJoinExec>()) && pairs() > MAX_LOOKUP_PAIRS {
        *class = CostClass::Joins.max(*class);
    }
    if plan.is::<UnnestExec>() {
        // The lengths of the lists are unknown.
        *class = CostClass::Joins.max(*class);
    }
    match children.iter().max() {
        Some(most) => *most,
        None => leaf_rows(plan),
    }
}

/// Rough number of rows of all leaves. A leaf without statistics may have any number.
fn rows_read(plan: &dyn ExecutionPlan) -> u64 {
    let children = plan.children();
    if children.is_empty() {
        return known_rows(plan).unwrap_or(u64::MAX);
    }
    children.into_iter().fold(0, |rows, child| rows_read(child.as_ref()).saturating_add(rows))
}

fn leaf_rows(plan: &dyn ExecutionPlan) -> u64 {
    known_rows(plan).unwrap_or(USUAL_ROWS)
}

fn known_rows(plan: &dyn ExecutionPlan) -> Option<u64> {
    if plan.is::<PlaceholderRowExec>() || plan.is::<EmptyExec>() {
        return Some(1);
    }
    let known = plan.statistics_from_inputs(&[], &StatisticsArgs::new()).ok()?;
    let rows = known.num_rows.get_value()?;
    Some(u64::try_from(*rows).unwrap_or(u64::MAX))
}
