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

use super::planning::Plans;
use super::resources::admission::Queue;

/// Rows that are compared with each other in less than some tenths of a second.
const LITTLE_PAIRS: u64 = 1 << 26;
/// Rows that a join by keys meets at most, if all keys are the same, before it counts as more than a look-up.
const FEW_MATCHES: u64 = 1 << 30;
/// Rows that a leaf is taken to have that does not tell.
const USUAL_ROWS: u64 = 1 << 12;
/// Rows that a query reads of tables in some tenths of a second.
const SHORT_ROWS: u64 = 1 << 22;

/// From the least to the most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Burden {
    /// It is over before others notice, so that it needs no slot and no low priority.
    Little,
    /// It reads little, and may make much of it: at low priority.
    Joins,
    /// It reads tables, and few rows: it takes a slot for short queries.
    Short,
    /// It takes a slot for long queries.
    Long,
}

impl Burden {
    /// The slots that it takes one of.
    pub(super) fn queue(self) -> Option<Queue> {
        match self {
            Self::Little | Self::Joins => None,
            Self::Short => Some(Queue::Short),
            Self::Long => Some(Queue::Long),
        }
    }
}

impl Plans {
    /// Cells are few beside rows, and dashboards wait for them: also while they still come from files.
    pub(super) fn burden(&self) -> Result<Burden> {
        let plan = self.physical.as_ref();
        let mut burden = Burden::Little;
        most_rows(plan, &mut burden);
        if self.reads_cuboids_only()? || reads_little(plan) {
            return Ok(burden);
        }
        let is_short = burden == Burden::Little && rows_read(plan) <= SHORT_ROWS;
        Ok(if is_short { Burden::Short } else { Burden::Long })
    }

    pub(super) fn reads_cuboids_only(&self) -> Result<bool> {
        Ok(self.report.all_from_cuboids() && reads_cuboids_only(&self.logical)?)
    }
}

/// Whether a plan reads no table, also beside its aggregations: `SELECT … FROM (SELECT sum(x) …) JOIN t …` may.
pub(super) fn reads_cuboids_only(plan: &LogicalPlan) -> Result<bool> {
    let mut only = true;
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node {
            only &= source_as_provider(&scan.source)?.is::<CuboidTable>();
        }
        Ok(if only { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    })?;
    Ok(only)
}

/// Whether nothing is read but memory, and little of it.
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

/// How many rows a plan gives at most, roughly. What its joins make of them adds to the burden.
fn most_rows(plan: &dyn ExecutionPlan, burden: &mut Burden) -> u64 {
    let children: Vec<u64> =
        plan.children().into_iter().map(|child| most_rows(child.as_ref(), burden)).collect();
    let pairs = || children.iter().fold(1_u64, |pairs, rows| pairs.saturating_mul((*rows).max(1)));
    if plan.is::<CrossJoinExec>() || plan.is::<NestedLoopJoinExec>() {
        if pairs() > LITTLE_PAIRS {
            *burden = Burden::Long;
        }
        return pairs();
    }
    if (plan.is::<HashJoinExec>() || plan.is::<SortMergeJoinExec>()) && pairs() > FEW_MATCHES {
        *burden = Burden::Joins.max(*burden);
    }
    if plan.is::<UnnestExec>() {
        // Nobody knows how many there will be.
        *burden = Burden::Joins.max(*burden);
    }
    match children.iter().max() {
        Some(most) => *most,
        None => leaf_rows(plan),
    }
}

/// How many rows all leaves give, roughly. One that does not tell may give any number.
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
