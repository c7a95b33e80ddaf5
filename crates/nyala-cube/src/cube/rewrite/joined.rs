//! Tables that are joined to the cells of a cuboid instead of to the rows.
//!
//! If the conditions of a join read only values that are the same in all rows of a cell, then every row of the
//! cell joins the same partners. Joining the cell as a whole repeats its states once for each partner, and
//! merging a state k times is the same as k times the rows. So the aggregation can come first:
//!
//! ```text
//! SELECT kind, sum(x)              FinishAggregate          groups: kind
//! FROM sales JOIN shop               Projection kind, states
//!   ON shop = shop_id                  Filter shop = shop_id
//! GROUP BY kind                          cells of sales by shop  ×  shop
//! ```
//!
//! Late joins serve tables that the cube does not have, and columns of its tables that are no dimensions.

use std::collections::BTreeSet;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, TableReference};
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Expr, JoinType, LogicalPlan, LogicalPlanBuilder};
use nyala_model::QualifiedName;
use nyala_sql::error::Result;

use super::matching::group_name;
use super::pairing::rename;
use super::show::show_over;
use crate::cube::block::{Block, Instance, Miss, instance_of, instances_of, qualifier, scan_plan};
use crate::cube::compile::CompiledCube;

/// The name under which the cells are joined.
const CELLS: &str = "cells";

/// The remaining work on the cells of the smaller aggregation.
#[derive(Debug, Clone)]
pub struct Late {
    tables: Vec<LateTable>,
    /// Conditions over cells and tables.
    conditions: Vec<Expr>,
    /// Group expressions over cells and tables.
    group: Vec<Expr>,
    /// How many group columns the cells have.
    keys: usize,
}

#[derive(Debug, Clone)]
struct LateTable {
    name: String,
    read: LogicalPlan,
    qualifier: TableReference,
    /// The ON conditions of a left join.
    outer: Option<Vec<Expr>>,
}

/// Considers the aggregation as it is, and else with some of its tables joined late.
pub fn with_late_joins<T>(
    cube: &CompiledCube,
    block: &Block,
    consider: impl Fn(&Block) -> std::result::Result<T, Miss>,
) -> std::result::Result<(T, Option<Late>), Miss> {
    let direct = match consider(block) {
        Ok(found) => return Ok((found, None)),
        Err(miss) => miss,
    };
    let foreign = foreign_tables(cube, block);
    let mut why_not = None;
    for away in choices(cube, block, &foreign) {
        let attempt = split(block, &away).and_then(|(smaller, late)| Ok((consider(&smaller)?, late)));
        match attempt {
            Ok((found, late)) => return Ok((found, Some(late))),
            Err(miss) => why_not = why_not.or(Some(miss)),
        }
    }
    match why_not {
        Some(why_not) if !foreign.is_empty() => {
            Err(Miss::new(format!("{direct}, and it cannot be joined to the cells: {why_not}")))
        }
        _ => Err(direct),
    }
}

/// Tables of the query that the cube does not have, or not as often.
fn foreign_tables(cube: &CompiledCube, block: &Block) -> BTreeSet<usize> {
    let known = |table: &QualifiedName| cube.block.instances.iter().filter(|i| i.table == *table).count();
    let before = |i: usize, table: &QualifiedName| {
        block.instances.iter().take(i).filter(|instance| instance.table == *table).count()
    };
    let instances = block.instances.iter().enumerate();
    let foreign = instances.filter(|(i, instance)| before(*i, &instance.table) >= known(&instance.table));
    foreign.map(|(i, _)| i).collect()
}

/// Sets of tables to join late, smallest first. The fact table stays: a cube saves the read of its rows.
fn choices(cube: &CompiledCube, block: &Block, foreign: &BTreeSet<usize>) -> Vec<BTreeSet<usize>> {
    let fact = cube.block.instances.first().map(|instance| &instance.table);
    let is_fact = |i: &usize| block.instances.get(*i).map(|instance| &instance.table) == fact;
    if foreign.iter().any(is_fact) {
        return Vec::new();
    }
    let others: Vec<usize> =
        (0..block.instances.len()).filter(|i| !foreign.contains(i) && !is_fact(i)).collect();
    let with = |more: &[usize]| foreign.iter().chain(more).copied().collect::<BTreeSet<usize>>();
    let lacking = lacking_columns(cube, block, foreign, &others);
    let and = |one: &usize| lacking.iter().chain([one]).copied().collect::<BTreeSet<usize>>();
    let mut all = vec![with(&[]), lacking.clone()];
    all.extend(others.iter().map(and));
    all.extend(others.iter().map(|other| with(&[*other])));
    all.push(with(&others));
    let mut choices: Vec<BTreeSet<usize>> = Vec::new();
    for away in all {
        if !away.is_empty() && !choices.contains(&away) {
            choices.push(away);
        }
    }
    choices
}

/// `foreign`, and those of `others` with a column that no dimension has, in a group, in a condition on the table
/// alone, or as the key of a table that is joined late.
fn lacking_columns(
    cube: &CompiledCube,
    block: &Block,
    foreign: &BTreeSet<usize>,
    others: &[usize],
) -> BTreeSet<usize> {
    let dimensions = cube.dimensions.iter().flat_map(|dimension| dimension.expression.column_refs());
    let dimensions: BTreeSet<(Option<&QualifiedName>, String)> = dimensions
        .flat_map(|column| cube.equal.equals(column))
        .map(|column| {
            (instance_of(&column).and_then(|i| cube.block.instances.get(i)).map(|i| &i.table), column.name)
        })
        .collect();
    let lacks = |expr: &&Expr, other: usize| {
        let table = block.instances.get(other).map(|instance| &instance.table);
        let mut own = expr.column_refs().into_iter().filter(|column| instance_of(column) == Some(other));
        own.any(|column| !dimensions.contains(&(table, column.name.clone())))
    };
    let mut away = foreign.clone();
    loop {
        let next = others.iter().filter(|other| !away.contains(other)).find(|other| {
            let late = |condition: &&Expr| {
                let tables = instances_of(condition);
                tables.len() == 1 || !tables.is_disjoint(&away)
            };
            let outer = block.instances.iter().filter_map(|instance| instance.outer.as_ref()).flatten();
            let conditions = block.predicates.iter().chain(outer).filter(late);
            block.group.iter().chain(conditions).any(|expr| lacks(&expr, **other))
        });
        match next {
            Some(other) => away.insert(*other),
            None => return away,
        };
    }
}

/// The aggregation without the tables of `away`, grouped by all expressions that their joins and the groups
/// need, and the remaining work.
fn split(block: &Block, away: &BTreeSet<usize>) -> std::result::Result<(Block, Late), Miss> {
    let touches = |expr: &Expr| !instances_of(expr).is_disjoint(away);
    if let Some(call) = block.aggregates.iter().find(|call| touches(call)) {
        let text = show_over(block, call);
        return Err(Miss::new(format!("{text} reads a table that would be joined to the cells")));
    }
    let mut cells = Cells { away, keys: Vec::new() };
    let mut smaller = Block { aggregates: block.aggregates.clone(), ..Block::default() };
    let mut tables = Vec::new();
    for (i, instance) in block.instances.iter().enumerate() {
        if away.contains(&i) {
            tables.push(cells.late_table(i, instance)?);
        } else if instance.outer.iter().flatten().any(touches) {
            return Err(Miss::new(format!("{} is the optional side of its join", instance.shown())));
        } else {
            smaller.instances.push(instance.clone());
        }
    }
    let (late, early): (Vec<Expr>, Vec<Expr>) = block.predicates.iter().cloned().partition(touches);
    let conditions = cells.lift_all(&late)?;
    let group = cells.lift_all(&block.group)?;
    if cells.keys.is_empty() {
        return Err(Miss::new("its join has no condition on the cells"));
    }
    smaller.predicates = early;
    smaller.group = cells.keys;
    let late = Late { tables, conditions, group, keys: smaller.group.len() };
    Ok((renumber(smaller, away), late))
}

/// Gives the remaining instances the names of their new places.
fn renumber(mut block: Block, away: &BTreeSet<usize>) -> Block {
    let total = block.instances.len() + away.len();
    let names: Vec<usize> = (0..total).map(|i| i - away.range(..i).count()).collect();
    let outer = block.instances.iter_mut().filter_map(|instance| instance.outer.as_mut()).flatten();
    let others = block.predicates.iter_mut().chain(&mut block.group).chain(&mut block.aggregates);
    for expr in outer.chain(others) {
        *expr = rename(expr, &names);
    }
    block
}

/// Collects the group expressions of the cells.
struct Cells<'a> {
    away: &'a BTreeSet<usize>,
    keys: Vec<Expr>,
}

impl Cells<'_> {
    fn late_table(&mut self, i: usize, instance: &Instance) -> std::result::Result<LateTable, Miss> {
        let outer = instance.outer.as_ref().map(|conditions| self.lift_all(conditions)).transpose()?;
        let read = scan_plan(instance).and_then(LogicalPlanBuilder::build);
        let read = read.map_err(|error| Miss::new(error.to_string()))?;
        Ok(LateTable { name: instance.shown(), read, qualifier: qualifier(i), outer })
    }

    fn lift_all(&mut self, exprs: &[Expr]) -> std::result::Result<Vec<Expr>, Miss> {
        exprs.iter().map(|expr| self.parameterise(expr)).collect()
    }

    /// `expr` with every largest part that reads no late table replaced by a column of the cells.
    fn parameterise(&mut self, expr: &Expr) -> std::result::Result<Expr, Miss> {
        if expr.is_volatile() {
            return Err(Miss::new("a condition or group gives another value each time"));
        }
        let parameterised = expr.clone().transform_down(|expr| {
            let instances = instances_of(&expr);
            if instances.is_empty() || !instances.is_disjoint(self.away) {
                return Ok(Transformed::no(expr));
            }
            let known = self.keys.iter().position(|key| *key == expr);
            let position = known.unwrap_or(self.keys.len());
            if known.is_none() {
                self.keys.push(expr);
            }
            let column = Column::new(Some(CELLS), group_name(position));
            Ok(Transformed::new(Expr::Column(column), true, TreeNodeRecursion::Jump))
        });
        parameterised.map(|done| done.data).map_err(|error| Miss::new(error.to_string()))
    }
}

impl Late {
    /// The tables that are joined, for EXPLAIN.
    pub fn tables(&self) -> impl Iterator<Item = String> {
        self.tables.iter().map(|table| table.name.clone())
    }

    /// Joins the tables to `cells` and gives the group columns and states of the larger aggregation.
    pub fn plan(self, cells: LogicalPlan) -> Result<LogicalPlan> {
        let states: Vec<Column> = cells.schema().columns().into_iter().skip(self.keys).collect();
        let mut builder = LogicalPlanBuilder::from(cells).alias(CELLS)?;
        for table in self.tables {
            let scan = LogicalPlanBuilder::from(table.read).alias(table.qualifier)?.build()?;
            builder = match table.outer {
                Some(conditions) => builder.join_on(scan, JoinType::Left, conditions)?,
                None => builder.cross_join(scan)?,
            };
        }
        if let Some(condition) = conjunction(self.conditions) {
            builder = builder.filter(condition)?;
        }
        let groups = self.group.into_iter().enumerate().map(|(i, expr)| expr.alias(group_name(i)));
        let states = states.into_iter().map(|state| {
            let name = state.name;
            Expr::Column(Column::new(Some(CELLS), name.clone())).alias(name)
        });
        Ok(builder.project(groups.chain(states).collect::<Vec<_>>())?.build()?)
    }
}
