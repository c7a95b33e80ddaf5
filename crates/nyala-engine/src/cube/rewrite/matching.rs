//! Whether a cube can answer an aggregation, and how.

use std::collections::BTreeSet;

use datafusion::common::Column;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::Expr;
use nyala_model::DimensionSet;

use crate::cube::block::{Block, Miss, instance_of, qualifier};
use crate::cube::compile::CompiledCube;
use crate::cube::expression::{Equalities, normalize};

/// More ways to pair repeated tables than this are not tried.
const MAX_PAIRINGS: usize = 64;

/// How a cube answers an aggregation, in terms of cuboid columns.
#[derive(Debug, Clone)]
pub(super) struct Match {
    /// Dimensions a cuboid must have.
    pub(super) needed: DimensionSet,
    /// Conditions left to check on the cuboid's rows.
    pub(super) residual: Vec<Expr>,
    /// Group expressions over dimensions.
    pub(super) group: Vec<Expr>,
    /// For each aggregate of the query, the measure that holds its states.
    pub(super) measures: Vec<usize>,
    /// The query's occurrence of the cube's fact table.
    pub(super) fact: usize,
}

/// Tries every pairing of the query's tables with the cube's. `droppable` tells which of the cube's
/// tables neither add nor remove rows, as verified when the segment was built.
pub(super) fn match_cube(
    cube: &CompiledCube,
    droppable: &BTreeSet<usize>,
    query: &Block,
) -> Result<Match, Miss> {
    let mut miss = None;
    for pairing in pairings(cube, query)?.into_iter().take(MAX_PAIRINGS) {
        let attempt = Attempt { cube, droppable, pairing: &pairing };
        match attempt.run(query) {
            Ok(found) => return Ok(found),
            Err(reason) => miss = miss.or(Some(reason)),
        }
    }
    Err(miss.unwrap_or_else(|| Miss::new("its tables cannot be paired with the query's")))
}

/// Every way to give each table of the query a different table of the cube with the same name.
fn pairings(cube: &CompiledCube, query: &Block) -> Result<Vec<Vec<usize>>, Miss> {
    let mut pairings: Vec<Vec<usize>> = vec![Vec::new()];
    for instance in &query.instances {
        let candidates: Vec<usize> = (0..cube.block.instances.len())
            .filter(|i| cube.block.instances.get(*i).is_some_and(|c| c.table == instance.table))
            .collect();
        if candidates.is_empty() {
            return Err(Miss::new(format!("the query reads `{}`, which the cube does not", instance.table)));
        }
        pairings = pairings
            .iter()
            .flat_map(|pairing| {
                let free = candidates.iter().filter(|c| !pairing.contains(c));
                free.map(|c| [pairing.as_slice(), &[*c]].concat()).collect::<Vec<_>>()
            })
            .take(MAX_PAIRINGS)
            .collect();
        if pairings.is_empty() {
            let message = format!("the query reads `{}` more often than the cube", instance.table);
            return Err(Miss::new(message));
        }
    }
    Ok(pairings)
}

struct Attempt<'a> {
    cube: &'a CompiledCube,
    droppable: &'a BTreeSet<usize>,
    /// For each table of the query, the cube's.
    pairing: &'a [usize],
}

impl Attempt<'_> {
    fn run(&self, query: &Block) -> Result<Match, Miss> {
        let assumed = self.check_extra_tables()?;
        self.check_outer_joins(query)?;
        let predicates: Vec<Expr> = query.predicates.iter().map(|p| self.rename(p)).collect();
        self.check_cube_predicates(&predicates, &assumed)?;
        let mut dimensions = Dimensions { cube: self.cube, used: DimensionSet::EMPTY };
        let residual = self.residual(&predicates, &mut dimensions)?;
        let group =
            query.group.iter().map(|e| dimensions.express(&self.normal(e))).collect::<Result<_, _>>()?;
        let measures = query.aggregates.iter().map(|e| self.measure(e)).collect::<Result<_, _>>()?;
        let fact = self.pairing.iter().position(|paired| *paired == 0).unwrap_or_default();
        Ok(Match { needed: dimensions.used, residual, group, measures, fact })
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

    fn check_outer_joins(&self, query: &Block) -> Result<(), Miss> {
        for (instance, paired) in query.instances.iter().zip(self.pairing) {
            let ours = self.cube.block.instances.get(*paired).and_then(|i| i.outer.as_ref());
            let same = match (&instance.outer, ours) {
                (None, None) => true,
                (Some(theirs), Some(ours)) => {
                    let theirs: Vec<Expr> = theirs.iter().map(|e| self.normal(e)).collect();
                    let ours: Vec<Expr> = ours.iter().map(|e| normalize(e, &self.cube.equal)).collect();
                    theirs.len() == ours.len() && ours.iter().all(|e| theirs.contains(e))
                }
                _ => false,
            };
            if !same {
                return Err(Miss::new(format!("the query joins `{}` in another way", instance.table)));
            }
        }
        Ok(())
    }

    /// Every row of the query's join must be a row of the cube's join.
    fn check_cube_predicates(&self, predicates: &[Expr], assumed: &[Expr]) -> Result<(), Miss> {
        let known = Equalities::of(predicates.iter().chain(assumed));
        let normal: Vec<Expr> = predicates.iter().map(|p| normalize(p, &self.cube.equal)).collect();
        for condition in &self.cube.block.predicates {
            let normalized = normalize(condition, &self.cube.equal);
            let holds =
                known.imply(condition) || normal.contains(&normalized) || assumed.contains(&normalized);
            if !holds {
                let text = self.show(condition);
                return Err(Miss::new(format!("the cube only has rows where {text}")));
            }
        }
        Ok(())
    }

    /// Conditions of the query that the cube's rows do not fulfil by themselves.
    fn residual(&self, predicates: &[Expr], dimensions: &mut Dimensions<'_>) -> Result<Vec<Expr>, Miss> {
        let own: Vec<Expr> =
            self.cube.block.predicates.iter().map(|p| normalize(p, &self.cube.equal)).collect();
        let mut residual = Vec::new();
        for predicate in predicates {
            let normalized = normalize(predicate, &self.cube.equal);
            if !self.cube.equal.imply(predicate) && !own.contains(&normalized) {
                residual.push(dimensions.express(&normalized)?);
            }
        }
        Ok(residual)
    }

    fn measure(&self, aggregate: &Expr) -> Result<usize, Miss> {
        let wanted = self.normal(aggregate);
        self.cube
            .measures
            .iter()
            .position(|measure| measure.expression == wanted)
            .ok_or_else(|| Miss::new(format!("it has no measure {}", self.show(&self.rename(aggregate)))))
    }

    fn normal(&self, expr: &Expr) -> Expr {
        normalize(&self.rename(expr), &self.cube.equal)
    }

    /// `expr` with the query's instances renamed to the cube's.
    fn rename(&self, expr: &Expr) -> Expr {
        let renamed = expr.clone().transform_up(|expr| {
            Ok(match expr {
                Expr::Column(column) => {
                    let paired = instance_of(&column).and_then(|i| self.pairing.get(i));
                    match paired {
                        Some(i) => {
                            let name = Column::new(Some(qualifier(*i)), column.name);
                            Transformed::yes(Expr::Column(name))
                        }
                        None => Transformed::no(Expr::Column(column)),
                    }
                }
                other => Transformed::no(other),
            })
        });
        renamed.map_or_else(|_| expr.clone(), |done| done.data)
    }

    fn show(&self, expr: &Expr) -> String {
        show(self.cube, expr)
    }
}

/// An expression with table names instead of instance numbers.
fn show(cube: &CompiledCube, expr: &Expr) -> String {
    let named = expr.clone().transform_up(|expr| {
        Ok(match expr {
            Expr::Column(column) => {
                let table = instance_of(&column).and_then(|i| cube.block.instances.get(i));
                match table {
                    Some(instance) => {
                        let name = Column::new(Some(instance.table.name.clone()), column.name);
                        Transformed::yes(Expr::Column(name))
                    }
                    None => Transformed::no(Expr::Column(column)),
                }
            }
            other => Transformed::no(other),
        })
    });
    named.map_or_else(|_| expr.to_string(), |done| format!("`{}`", done.data.human_display()))
}

/// Expresses things in dimensions and remembers which were needed.
struct Dimensions<'a> {
    cube: &'a CompiledCube,
    used: DimensionSet,
}

impl Dimensions<'_> {
    /// `expr`, normalised over base columns, as an expression over cuboid columns.
    fn express(&mut self, expr: &Expr) -> Result<Expr, Miss> {
        if expr.is_volatile() {
            return Err(Miss::new(format!("{} gives another value each time", show(self.cube, expr))));
        }
        let mut missing = None;
        let expressed = expr.clone().transform_down(|expr| {
            if let Some(i) = self.cube.dimensions.iter().position(|d| d.expression == expr) {
                self.used = self.used.with(i);
                let name = self.cube.dimensions.get(i).map_or("", |d| d.field.name());
                let column = Expr::Column(Column::new_unqualified(name));
                return Ok(Transformed::new(column, true, TreeNodeRecursion::Jump));
            }
            if let Expr::Column(_) = &expr {
                missing = Some(show(self.cube, &expr));
                return Ok(Transformed::new(expr, false, TreeNodeRecursion::Stop));
            }
            Ok(Transformed::no(expr))
        });
        match (missing, expressed) {
            (Some(column), _) => Err(Miss::new(format!("{column} is not computable from its dimensions"))),
            (None, Ok(expressed)) => Ok(expressed.data),
            (None, Err(error)) => Err(Miss::new(error.to_string())),
        }
    }
}
