//! The joins between the tables of a cube.

use std::collections::BTreeSet;

use datafusion::common::Column;
use datafusion::logical_expr::{Expr, Operator};

use super::block::{Block, instance_of, instances_of};

/// The join of a table of the cube to the tables before it.
#[derive(Debug, Clone)]
pub struct JoinEdge {
    /// A column of its own, under the casts it is compared under, and the expression over earlier tables that must
    /// equal it. Values that differ may be equal under a cast.
    pub keys: Vec<(Expr, Expr)>,
    /// The conditions of the keys; no other conditions tie the table to the others.
    pub conditions: Vec<Expr>,
}

/// Orders the tables from the root outwards: each joins earlier ones by equalities of its own columns.
pub fn join_edges(block: &Block) -> Vec<Option<JoinEdge>> {
    let mut edges: Vec<Option<JoinEdge>> = vec![None; block.instances.len()];
    let mut reached = BTreeSet::from([0]);
    loop {
        let next = (0..block.instances.len()).filter(|i| !reached.contains(i)).find_map(|instance| {
            let edge = edge_of(block, instance, &reached)?;
            Some((instance, edge))
        });
        let Some((instance, edge)) = next else { return edges };
        reached.insert(instance);
        if let Some(slot) = edges.get_mut(instance) {
            *slot = Some(edge);
        }
    }
}

fn edge_of(block: &Block, instance: usize, reached: &BTreeSet<usize>) -> Option<JoinEdge> {
    let own = block.instances.get(instance)?.outer.as_ref();
    let conditions = own.unwrap_or(&block.predicates);
    let keyed: Vec<_> = conditions
        .iter()
        .filter_map(|condition| Some((key_of(condition, instance, reached)?, condition.clone())))
        .collect();
    let (keys, conditions): (Vec<_>, Vec<_>) = keyed.into_iter().unzip();
    (!keys.is_empty()).then_some(JoinEdge { keys, conditions })
}

/// `own column = expression over reached tables`, in either order and under casts of the column.
fn key_of(condition: &Expr, instance: usize, reached: &BTreeSet<usize>) -> Option<(Expr, Expr)> {
    let Expr::BinaryExpr(equality) = condition else { return None };
    if equality.op != Operator::Eq {
        return None;
    }
    let sides = [(&equality.left, &equality.right), (&equality.right, &equality.left)];
    sides.into_iter().find_map(|(own, other)| {
        bare_column(own).filter(|column| instance_of(column) == Some(instance))?;
        let others = instances_of(other);
        (!others.is_empty() && others.is_subset(reached))
            .then(|| (own.as_ref().clone(), other.as_ref().clone()))
    })
}

fn bare_column(expr: &Expr) -> Option<&Column> {
    match expr {
        Expr::Column(column) => Some(column),
        Expr::Cast(cast) => bare_column(&cast.expr),
        _ => None,
    }
}
