//! Expressions over the dimensions of a cube.

use datafusion::common::Column;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::Expr;
use nyala_model::DimensionSet;

use super::dates;
use super::show::show;
use crate::cube::block::Miss;
use crate::cube::compile::{CompiledCube, CompiledDimension};

/// An expression over the columns of a cuboid.
#[derive(Debug, Clone, PartialEq)]
pub struct Expressed {
    pub expr: Expr,
    /// Dimensions the cuboid must have.
    pub needed: DimensionSet,
}

/// The dimensions of a cube.
#[derive(Debug, Clone, Copy)]
pub struct Dimensions<'a> {
    pub cube: &'a CompiledCube,
}

impl Dimensions<'_> {
    /// `expr`, normalised over base columns, as an expression over cuboid columns.
    pub fn express(self, expr: &Expr) -> Result<Expressed, Miss> {
        if expr.is_volatile() {
            return Err(Miss::new(format!("{} gives another value each time", show(self.cube, expr))));
        }
        let mut missing = None;
        let mut needed = DimensionSet::EMPTY;
        let expressed = expr.clone().transform_down(|expr| {
            if let Some(found) = self.whole(&expr) {
                needed = needed.union(found.needed);
                return Ok(Transformed::new(found.expr, true, TreeNodeRecursion::Jump));
            }
            if let Expr::Column(_) = &expr {
                missing = Some(show(self.cube, &expr));
                return Ok(Transformed::new(expr, false, TreeNodeRecursion::Stop));
            }
            Ok(Transformed::no(expr))
        });
        match (missing, expressed) {
            (Some(column), _) => Err(Miss::new(format!("{column} is not computable from its dimensions"))),
            (None, Ok(expressed)) => Ok(Expressed { expr: expressed.data, needed }),
            (None, Err(error)) => Err(Miss::new(error.to_string())),
        }
    }

    /// `expr` as a whole: a dimension, or an expression that follows from a dimension as a whole.
    fn whole(self, expr: &Expr) -> Option<Expressed> {
        let dimensions = self.cube.dimensions.iter();
        if let Some(i) = dimensions.clone().position(|d| d.expression == *expr) {
            return Some(Expressed { expr: column(self.cube.dimensions.get(i)?), needed: only(i) });
        }
        dimensions.enumerate().find_map(|(i, dimension)| {
            let expr = dates::follow(expr, dimension, &self.cube.columns)?;
            Some(Expressed { expr, needed: only(i) })
        })
    }
}

/// The column of every cuboid that has the dimension.
pub fn column(dimension: &CompiledDimension) -> Expr {
    Expr::Column(Column::new_unqualified(dimension.field.name()))
}

fn only(dimension: usize) -> DimensionSet {
    DimensionSet::EMPTY.with(dimension)
}
