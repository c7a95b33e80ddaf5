//! Whether a cube can answer an aggregation, and how.

use std::collections::{BTreeSet, HashSet};

use datafusion::logical_expr::Expr;
use nyala_model::DimensionSet;

use super::cell::made_together;
use super::dimensions::Dimensions;
use super::pairing::{pairings, rename};
use super::show::show;
use super::states::{CellStates, States};
use crate::cube::block::{Block, Miss};
use crate::cube::call::Call;
use crate::cube::compile::{CompiledCube, CompiledMeasure};
use crate::cube::expression::{Equalities, column_pair, normalize};
use crate::cube::outer::refuses_null;

/// How a cube answers an aggregation, in terms of cuboid columns.
#[derive(Debug, Clone)]
pub struct Match {
    /// Dimensions a cuboid must have.
    pub needed: DimensionSet,
    /// Whether every cell must stand for at least one row. The cell of the grand total may stand for none.
    pub of_rows: bool,
    /// Conditions left to check on the cuboid's rows.
    pub residual: Vec<Expr>,
    /// Group expressions over dimensions.
    pub group: Vec<Expr>,
    /// For each aggregate of the query, its state columns. A partial aggregation of raw rows by the query's own
    /// aggregate gives the same states.
    pub states: Vec<Vec<Expr>>,
    /// The query's occurrence of the cube's fact table.
    pub fact: usize,
    /// Numbers of the measures that are read.
    pub measures: BTreeSet<u32>,
}

/// Tries every pairing of the query's tables with the cube's. `droppable` tells which of the cube's
/// tables neither add nor remove rows, as verified when the segment was built.
pub fn match_cube(cube: &CompiledCube, droppable: &BTreeSet<usize>, query: &Block) -> Result<Match, Miss> {
    let mut miss = None;
    for pairing in pairings(cube, query)? {
        let attempt = Attempt { cube, droppable, pairing: &pairing };
        match attempt.run(query) {
            Ok(found) => return Ok(found),
            Err(reason) => miss = miss.or(Some(reason)),
        }
    }
    Err(miss.unwrap_or_else(|| Miss::new("its tables cannot be paired with the query's")))
}

/// The dimensions that a cuboid must have to answer `query`, and whether its cells must stand for rows.
pub fn needed(
    cube: &CompiledCube,
    droppable: &BTreeSet<usize>,
    query: &Block,
) -> Result<(DimensionSet, bool), Miss> {
    match_cube(cube, droppable, query).map(|found| (found.needed, found.of_rows))
}

impl Match {
    /// The columns that a cuboid contributes to the answer: group columns first, then the states of each
    /// aggregate, all under names of their own.
    pub fn columns(&self) -> Vec<Expr> {
        let groups = self.group.iter().enumerate().map(|(i, expr)| expr.clone().alias(group_name(i)));
        let states = self.states.iter().enumerate().flat_map(|(i, states)| {
            states.iter().enumerate().map(move |(k, state)| state.clone().alias(format!("s{i}_{k}")))
        });
        groups.chain(states).collect()
    }
}

/// The name of a group column in the input of `FinishAggregate`.
pub fn group_name(position: usize) -> String {
    format!("g{position}")
}

/// Consequences of joins that differ between query and cube, normalised.
#[derive(Default)]
struct OuterJoins {
    /// Conditions that hold in the query too.
    assumed: Vec<Expr>,
    /// Conditions of the query that hold in every cell that fulfils its other conditions.
    settled: Vec<Expr>,
}

struct Attempt<'a> {
    cube: &'a CompiledCube,
    droppable: &'a BTreeSet<usize>,
    /// For each table of the query, the cube's.
    pairing: &'a [usize],
}

impl Attempt<'_> {
    fn run(&self, query: &Block) -> Result<Match, Miss> {
        let mut assumed = self.check_extra_tables()?;
        let predicates: Vec<Expr> = query.predicates.iter().map(|p| self.rename(p)).collect();
        let outer = self.check_outer_joins(query, &predicates)?;
        assumed.extend(outer.assumed);
        self.check_cube_predicates(&predicates, &assumed)?;
        let mut found = Match {
            needed: DimensionSet::EMPTY,
            of_rows: !query.group.is_empty(),
            residual: Vec::new(),
            group: Vec::new(),
            states: Vec::new(),
            fact: self.pairing.iter().position(|paired| *paired == 0).unwrap_or_default(),
            measures: BTreeSet::new(),
        };
        for predicate in self.open(&predicates).into_iter().filter(|p| !outer.settled.contains(p)) {
            found.residual.push(self.express(&predicate, &mut found.needed)?);
        }
        for group in &query.group {
            found.group.push(self.express(&self.normal(group), &mut found.needed)?);
        }
        for aggregate in &query.aggregates {
            let states = self.states(aggregate)?;
            found.needed = found.needed.union(states.needed);
            found.of_rows |= states.of_rows;
            found.states.push(made_together(states.columns, &found.group));
        }
        found.measures = self.measures_of(&found.states);
        Ok(found)
    }

    /// Tables that only the cube reads must be known to keep every row exactly once; then the
    /// conditions that join them can be assumed to hold in the query too.
    fn check_extra_tables(&self) -> Result<Vec<Expr>, Miss> {
        let mut assumed = Vec::new();
        for (i, instance) in self.cube.block.instances.iter().enumerate() {
            if self.pairing.contains(&i) {
                continue;
            }
            let edge = self.cube.edges.get(i).and_then(Option::as_ref);
            match edge {
                // The condition of a left join need not hold: its columns may be null.
                Some(_) if self.droppable.contains(&i) && instance.outer.is_some() => {}
                Some(edge) if self.droppable.contains(&i) => assumed.extend(edge.conditions.iter().cloned()),
                _ => {
                    return Err(Miss::new(format!(
                        "the cube joins `{}`, which the query does not, and that join may add or remove rows",
                        instance.table
                    )));
                }
            }
        }
        Ok(assumed)
    }

    /// Tables must be joined in the same or an equivalent way: a left join is an inner join if every row has
    /// exactly one partner in the table, or if a condition of the query refuses the rows without a partner.
    fn check_outer_joins(&self, query: &Block, predicates: &[Expr]) -> Result<OuterJoins, Miss> {
        let mut joins = OuterJoins::default();
        for (instance, paired) in query.instances.iter().zip(self.pairing) {
            let ours = self.cube.block.instances.get(*paired).and_then(|i| i.outer.as_ref());
            let theirs = instance.outer.as_ref();
            let theirs = theirs.map(|all| all.iter().map(|e| self.normal(e)).collect::<Vec<_>>());
            let same = match (theirs, ours) {
                (None, None) => true,
                (Some(theirs), Some(ours)) => same_set(&theirs, &self.normal_all(ours)),
                (Some(theirs), None) => {
                    let edge = self.cube.edges.get(*paired).and_then(Option::as_ref);
                    let lossless = edge.filter(|edge| {
                        self.droppable.contains(paired)
                            && same_set(&theirs, &self.normal_all(&edge.conditions))
                    });
                    joins.assumed.extend(lossless.iter().flat_map(|edge| edge.conditions.iter().cloned()));
                    lossless.is_some()
                }
                (None, Some(ours)) => {
                    let ours = self.normal_all(ours);
                    let normal = self.normal_all(predicates);
                    let mut others = predicates.iter().zip(&normal).filter(|(_, p)| !ours.contains(p));
                    let refused = others.any(|(predicate, _)| refuses_null(predicate, *paired));
                    let same = refused && ours.iter().all(|condition| normal.contains(condition));
                    joins.settled.extend(ours.into_iter().filter(|_| same));
                    same
                }
            };
            if !same {
                return Err(Miss::new(format!("the query joins `{}` in another way", instance.table)));
            }
        }
        Ok(joins)
    }

    /// Every row of the query's join must be a row of the cube's join.
    fn check_cube_predicates(&self, predicates: &[Expr], assumed: &[Expr]) -> Result<(), Miss> {
        let known = Equalities::of(predicates.iter().chain(assumed));
        let normal = self.normal_all(predicates.iter().chain(assumed));
        for condition in &self.cube.block.predicates {
            // Normalised, every equality of one class looks alike; only the classes can tell. They do not
            // record the equality of a column with itself.
            let holds = match column_pair(condition) {
                Some((left, right)) if left != right => known.imply(condition),
                _ => normal.contains(&normalize(condition, &self.cube.equal)),
            };
            if !holds {
                let text = show(self.cube, condition);
                return Err(Miss::new(format!("the cube only has rows where {text}")));
            }
        }
        Ok(())
    }

    /// Conditions of the query that the cube's rows do not fulfil by themselves, normalised.
    fn open(&self, predicates: &[Expr]) -> Vec<Expr> {
        let own = self.normal_all(&self.cube.block.predicates);
        let open = predicates.iter().filter(|predicate| !self.cube.equal.imply(predicate));
        open.map(|predicate| normalize(predicate, &self.cube.equal)).filter(|p| !own.contains(p)).collect()
    }

    fn express(&self, expr: &Expr, needed: &mut DimensionSet) -> Result<Expr, Miss> {
        let expressed = Dimensions { cube: self.cube }.express(expr)?;
        *needed = needed.union(expressed.needed);
        Ok(expressed.expr)
    }

    fn states(&self, aggregate: &Expr) -> Result<CellStates, Miss> {
        let call = Call::of(&self.normal(aggregate))?.canonical();
        States { cube: self.cube }.of(&call)
    }

    /// Numbers of the measures with state columns in `states`.
    fn measures_of(&self, states: &[Vec<Expr>]) -> BTreeSet<u32> {
        let columns = states.iter().flatten().flat_map(Expr::column_refs);
        let names: HashSet<&str> = columns.map(|column| column.name.as_str()).collect();
        let read = |measure: &&CompiledMeasure| {
            measure.states.iter().any(|state| names.contains(state.name().as_str()))
        };
        self.cube.measures.iter().filter(read).map(|measure| measure.number).collect()
    }

    /// Expressions over the cube's instances, normalised.
    fn normal_all<'e>(&self, exprs: impl IntoIterator<Item = &'e Expr>) -> Vec<Expr> {
        exprs.into_iter().map(|expr| normalize(expr, &self.cube.equal)).collect()
    }

    /// An expression over the query's instances, over the cube's and normalised.
    fn normal(&self, expr: &Expr) -> Expr {
        normalize(&self.rename(expr), &self.cube.equal)
    }

    /// `expr` with the query's instances renamed to the cube's.
    fn rename(&self, expr: &Expr) -> Expr {
        rename(expr, self.pairing)
    }
}

fn same_set(one: &[Expr], other: &[Expr]) -> bool {
    one.len() == other.len() && other.iter().all(|expr| one.contains(expr))
}
