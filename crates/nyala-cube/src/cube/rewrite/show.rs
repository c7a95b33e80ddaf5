//! Expressions as a person would write them, for the reasons of a miss.

use datafusion::common::Column;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::Expr;

use crate::cube::block::{Block, instance_of};
use crate::cube::compile::CompiledCube;

/// An expression over the tables of a cube, with their names instead of instance numbers.
pub fn show(cube: &CompiledCube, expr: &Expr) -> String {
    show_over(&cube.block, expr)
}

/// An expression over the tables of `block`, with their names instead of instance numbers.
pub fn show_over(block: &Block, expr: &Expr) -> String {
    let named = expr.clone().transform_up(|expr| {
        Ok(match expr {
            Expr::Column(column) => {
                let table = instance_of(&column).and_then(|i| block.instances.get(i));
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
