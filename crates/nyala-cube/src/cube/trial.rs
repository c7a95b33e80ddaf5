//! Random queries that can be answered from one cuboid, to be compared with the answer of the tables.
//!
//! ```text
//! a cell of the cuboid   (1994, 'ASIA', 'CHINA')       taken at random
//! some of its dimensions are grouped by, the others must have the cell's values:
//!   GROUP BY d_year WHERE c_region = 'ASIA' AND c_nation = 'CHINA'
//! ```

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, ScalarValue};
use datafusion::datasource::provider_as_source;
use datafusion::execution::SessionState;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan, LogicalPlanBuilder, lit};
use nyala_model::{CubeEntry, CuboidEntry, SegmentEntry, SegmentRange};
use nyala_sql::error::{ErrorKind, QueryError, Result};
use nyala_sql::functions::is_repeatable;
use nyala_sql::statement::StatementLimits;

use super::compile::{CompiledCube, find_aggregate, plan_definition};
use super::partition::show_range;
use super::rewrite::ReadyCube;
use crate::scan::{CuboidPart, CuboidTable};

/// A cell is chosen among this many rows: skipping more would take longer than comparing.
const CELLS_SKIPPED: u64 = 1 << 20;
/// Largest number of dimensions that a query groups by, so that answers stay small.
const MAX_GROUPS: usize = 2;

/// Pseudo-random numbers. Choosing cells needs no better ones.
#[derive(Debug)]
pub struct Dice(u64);

impl Dice {
    /// Numbers from a random seed.
    pub fn rolled() -> Self {
        Self(RandomState::new().build_hasher().finish())
    }

    fn next(&mut self) -> u64 {
        // SplitMix64, by Steele, Lea and Flood (2014).
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// A number below `end`; 0 if there is none.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next().checked_rem(end).unwrap_or_default()
    }

    /// Brings `items` into another order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = usize::try_from(self.below(last as u64 + 1)).unwrap_or_default();
            items.swap(last, other);
        }
    }
}

/// Makes trials of a cube.
#[derive(Debug)]
pub struct Trials {
    cube: Arc<ReadyCube>,
    compiled: Arc<CompiledCube>,
    aggregate: Aggregate,
    /// Measures with a repeatable result, by number.
    calls: Vec<(u32, Expr)>,
}

/// One query, and a cube reduced to the cuboid under test.
#[derive(Debug)]
pub struct Trial {
    /// The query.
    pub plan: LogicalPlan,
    /// The cube that must answer it.
    pub only: Arc<ReadyCube>,
    /// Number of group columns; they come first.
    pub groups: usize,
    /// Readable description of the query.
    pub text: String,
}

impl Trials {
    /// Plans the aggregation from which trials are derived.
    pub async fn of(cube: Arc<ReadyCube>, state: &SessionState, limits: &StatementLimits) -> Result<Self> {
        let compiled = cube.compiled.clone().map_err(|reason| {
            QueryError::new(
                ErrorKind::InvalidDefinition,
                format!("cube `{}` cannot be used: {reason}", cube.entry.name),
            )
        })?;
        let plan = plan_definition(&cube.entry.definition.select, state, limits).await?;
        let aggregate = find_aggregate(&plan)?.1.clone();
        let numbered = compiled.measures.iter().map(|measure| measure.number).zip(&aggregate.aggr_expr);
        let repeatable = numbered.filter(|(_, call)| match (*call).clone().unalias() {
            Expr::AggregateFunction(call) => is_repeatable(&call.func),
            _ => false,
        });
        let calls = repeatable.map(|(number, call)| (number, call.clone())).collect();
        Ok(Self { cube, compiled, aggregate, calls })
    }

    /// Whether a cuboid has a measure with a repeatable result.
    pub fn can_compare(&self, cuboid: &CuboidEntry) -> bool {
        self.calls.iter().any(|(number, _)| *number < cuboid.measures)
    }

    /// Gives the dimensions of a random cell of the cuboid, in one row, or none if it has no cells.
    pub fn cell(
        &self,
        segment: &SegmentEntry,
        cuboid: &CuboidEntry,
        dice: &mut Dice,
    ) -> Result<Option<LogicalPlan>> {
        if cuboid.rows == 0 {
            return Ok(None);
        }
        let skipped = usize::try_from(dice.below(cuboid.rows.min(CELLS_SKIPPED))).unwrap_or_default();
        // The table has all columns, because memory holds the cuboid under its whole schema.
        let part = CuboidPart { folder: segment.location.clone(), cuboid: cuboid.clone() };
        let schema = self.compiled.cuboid_schema_before(cuboid.dimensions, cuboid.measures);
        let dimensions = schema.fields().iter().take(cuboid.dimensions.len());
        let columns: Vec<Expr> =
            dimensions.map(|field| Expr::Column(Column::new_unqualified(field.name()))).collect();
        if columns.is_empty() {
            return Ok(None);
        }
        let table = provider_as_source(Arc::new(CuboidTable::new(vec![part], schema)));
        let builder = LogicalPlanBuilder::scan("cells", table, None)?.project(columns)?;
        Ok(Some(builder.limit(skipped, Some(1))?.build()?))
    }

    /// A query that the cuboid of this segment can answer alone. `cell` has a value for each of its dimensions;
    /// if it is empty, the query has no conditions.
    pub fn trial(
        &self,
        segment: &SegmentEntry,
        cuboid: &CuboidEntry,
        cell: &[ScalarValue],
        dice: &mut Dice,
    ) -> Result<Trial> {
        let mut dimensions: Vec<usize> = cuboid.dimensions.iter().collect();
        dice.shuffle(&mut dimensions);
        let grouped = dice.below(dimensions.len().min(MAX_GROUPS + 1) as u64);
        let grouped = usize::try_from(grouped).unwrap_or_default();
        // A cuboid without cells has no values for conditions.
        let grouped = if cell.is_empty() { dimensions.len().min(MAX_GROUPS) } else { grouped };
        let (groups, filtered) = dimensions.split_at(grouped);
        let filtered = if cell.is_empty() { &[] } else { filtered };
        let definition = &self.cube.entry.definition;
        let name = |position: &usize| definition.dimensions.get(*position).map_or("", |d| d.name.as_str());
        let mut shown = Vec::new();
        let mut conditions = Vec::new();
        for position in filtered {
            let value = cuboid.dimensions.iter().position(|d| d == *position).and_then(|i| cell.get(i));
            let (Some(value), Some(group)) = (value, self.aggregate.group_expr.get(*position)) else {
                return Err(QueryError::internal("a cell has other dimensions than its cuboid"));
            };
            if value.is_null() {
                conditions.push(group.clone().is_null());
                shown.push(format!("{} is null", name(position)));
            } else {
                conditions.push(group.clone().eq(lit(value.clone())));
                shown.push(format!("{} = {value}", name(position)));
            }
        }
        let mut builder = LogicalPlanBuilder::from(self.input(segment)?);
        if let Some(condition) = conjunction(conditions) {
            builder = builder.filter(condition)?;
        }
        let group_exprs = groups.iter().filter_map(|i| self.aggregate.group_expr.get(*i)).cloned().collect();
        let input = Arc::new(builder.build()?);
        let calls = self.calls.iter().filter(|(number, _)| *number < cuboid.measures);
        let calls = calls.map(|(_, call)| call.clone()).collect();
        let aggregate = Aggregate::try_new(input, group_exprs, calls)?;
        if definition.partition.is_some() {
            shown.insert(0, format!("range {}", show_range(definition.partition.as_ref(), segment.range)));
        }
        let by = format!("by ({})", groups.iter().map(name).collect::<Vec<_>>().join(", "));
        let text = if shown.is_empty() { by } else { format!("{by} where {}", shown.join(", ")) };
        Ok(Trial {
            plan: LogicalPlan::Aggregate(aggregate),
            only: Arc::new(self.only(segment, cuboid)),
            groups: groups.len(),
            text,
        })
    }

    /// The rows that are aggregated, of one segment.
    fn input(&self, segment: &SegmentEntry) -> Result<LogicalPlan> {
        let input = self.aggregate.input.as_ref().clone();
        let Some(column) = &self.compiled.partition else { return Ok(input) };
        let mut first = true;
        // The fact table is the first that the SELECT names, and so the first scan of the plan.
        let restricted = input.transform_down(|node| match &node {
            LogicalPlan::TableScan(scan) if std::mem::take(&mut first) => {
                let name = Column::new(Some(scan.table_name.clone()), column.division.column.clone());
                match column.rows_of_any(&[segment.range], &Expr::Column(name)) {
                    Some(condition) => {
                        let rows = LogicalPlanBuilder::from(node).filter(condition)?.build()?;
                        Ok(Transformed::new(rows, true, TreeNodeRecursion::Jump))
                    }
                    None => Ok(Transformed::no(node)),
                }
            }
            _ => Ok(Transformed::no(node)),
        })?;
        Ok(restricted.data)
    }

    fn only(&self, segment: &SegmentEntry, cuboid: &CuboidEntry) -> ReadyCube {
        let chosen = SegmentEntry { cuboids: vec![cuboid.clone()], ..segment.clone() };
        let segments = match segment.range {
            // A query cannot be restricted to the rows of one live segment, so the other segments take part.
            SegmentRange::Written(_) => {
                let all = self.cube.entry.segments.iter();
                all.map(|s| if s.id == segment.id { chosen.clone() } else { s.clone() }).collect()
            }
            SegmentRange::Whole | SegmentRange::Keys(_) | SegmentRange::Nulls => vec![chosen],
        };
        let mut entry = CubeEntry { segments, ..self.cube.entry.as_ref().clone() };
        // A cube that is switched off is compared, too: it may be switched on.
        entry.definition.options.answers = true;
        ReadyCube {
            entry: Arc::new(entry),
            compiled: self.cube.compiled.clone(),
            coverage: self.cube.coverage.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dice_reach_every_face_and_lose_nothing() {
        let mut dice = Dice::rolled();
        let mut seen = [false; 6];
        for _ in 0..1000 {
            let face = usize::try_from(dice.below(6)).unwrap_or(usize::MAX);
            seen.iter_mut().skip(face).take(1).for_each(|seen| *seen = true);
        }
        assert_eq!(seen, [true; 6]);
        let mut cards: Vec<u32> = (0..50).collect();
        dice.shuffle(&mut cards);
        assert_ne!(cards, (0..50).collect::<Vec<_>>());
        cards.sort_unstable();
        assert_eq!(cards, (0..50).collect::<Vec<_>>());
        assert_eq!(dice.below(0), 0);
    }
}
