//! The pairing of a query's tables with the tables of a cube.

use datafusion::common::Column;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::Expr;

use crate::cube::block::{Block, Miss, instance_of, qualifier};
use crate::cube::compile::CompiledCube;

/// More ways to pair repeated tables than this are not tried.
const MAX_PAIRINGS: usize = 64;

/// For each table of a query, the cube's.
pub type Pairing = Vec<usize>;

/// Every way to give each table of the query a different table of the cube with the same name.
pub fn pairings(cube: &CompiledCube, query: &Block) -> Result<Vec<Pairing>, Miss> {
    let mut pairings: Vec<Pairing> = vec![Vec::new()];
    for instance in &query.instances {
        let candidates: Vec<usize> = (0..cube.block.instances.len())
            .filter(|i| cube.block.instances.get(*i).is_some_and(|c| c.table == instance.table))
            .collect();
        if candidates.is_empty() {
            return Err(Miss::new(format!("the query reads {}, which the cube does not", instance.shown())));
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
            let message = format!("the query reads {} more often than the cube", instance.shown());
            return Err(Miss::new(message));
        }
    }
    Ok(pairings)
}

/// `expr` with each instance `i` renamed to `names[i]`.
pub fn rename(expr: &Expr, names: &[usize]) -> Expr {
    let renamed = expr.clone().transform_up(|expr| {
        Ok(match expr {
            Expr::Column(column) => match instance_of(&column).and_then(|i| names.get(i)) {
                Some(i) => {
                    let name = Column::new(Some(qualifier(*i)), column.name);
                    Transformed::yes(Expr::Column(name))
                }
                None => Transformed::no(Expr::Column(column)),
            },
            other => Transformed::no(other),
        })
    });
    // The closure never fails, so the transformation cannot either.
    renamed.map_or_else(|_| expr.clone(), |done| done.data)
}
