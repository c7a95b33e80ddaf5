//! Subqueries that stand for one value.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, Projection, Subquery};

use super::super::varying::is_volatile_plan;
use super::lowering::Lowering;
use super::outer_columns::named;
use super::settled;
use super::shapes::{asks_outside, first_column, has_stored_columns, is_of_one_row, is_total_by_equality};
use super::single::{or_null, single_value};

impl Lowering<'_, '_> {
    pub fn scalar(&mut self, subquery: Subquery) -> Result<Expr> {
        let plan = subquery.subquery.as_ref();
        if !asks_outside(plan)? {
            return self.constant(subquery);
        }
        if self.takes_totals && is_total_by_equality(plan)? && !is_volatile_plan(plan)? {
            return Ok(Expr::ScalarSubquery(subquery));
        }
        let name = self.shared.prefix();
        let outer = self.outer(plan, &name)?;
        if outer.is_empty() {
            return self.constant(subquery);
        }
        let depending = settled(outer.depend(plan)?, self.shared)?;
        let value = first_column(plan);
        let groups = outer.columns_in(depending.schema())?;
        let column = format!("{name}value");
        let values = match is_of_one_row(plan) {
            true => {
                let columns = groups.into_iter().chain([value.alias(&column)]);
                LogicalPlanBuilder::from(depending).project(columns)?.build()?
            }
            false => {
                let single = single_value().call(vec![value]).alias(&column);
                LogicalPlanBuilder::from(depending).aggregate(groups, vec![single])?.build()?
            }
        };
        let value = named(values.schema(), &column)?;
        self.join(&outer, values, Vec::new())?;
        Ok(value)
    }

    /// A subquery without outer values. If it has no row its value is NULL, even if its column is declared never to be NULL.
    fn constant(&mut self, mut subquery: Subquery) -> Result<Expr> {
        if subquery.subquery.schema().fields().len() == 1 && is_volatile_plan(&subquery.subquery)? {
            self.changed = true;
            subquery = named_apart(subquery, &format!("{}value", self.shared.prefix()))?;
        }
        let plan = subquery.subquery.as_ref();
        // A call that may be NULL as it is planned can become a constant that is not.
        let may_be_null = plan.schema().fields().iter().any(|field| field.is_nullable());
        let stays_null = may_be_null && has_stored_columns(plan);
        if stays_null || is_of_one_row(plan) || plan.schema().fields().len() != 1 {
            return Ok(Expr::ScalarSubquery(subquery));
        }
        self.changed = true;
        Ok(Expr::ScalarSubquery(perhaps_null(subquery)?))
    }
}

/// The subquery with a unique name for its column. DataFusion computes subqueries that are written alike
/// once, and so would give them the same value.
fn named_apart(subquery: Subquery, name: &str) -> Result<Subquery> {
    let column = first_column(&subquery.subquery).alias(name);
    let plan = Projection::try_new(vec![column], Arc::clone(&subquery.subquery))?;
    Ok(Subquery { subquery: Arc::new(LogicalPlan::Projection(plan)), ..subquery })
}

/// The subquery with columns that DataFusion takes for nullable.
fn perhaps_null(subquery: Subquery) -> Result<Subquery> {
    let columns = subquery.subquery.schema().iter().map(|(qualifier, field)| {
        let column = Expr::from((qualifier, field));
        or_null(column).alias_qualified(qualifier.cloned(), field.name())
    });
    let columns: Vec<Expr> = columns.collect();
    let plan = Projection::try_new(columns, Arc::clone(&subquery.subquery))?;
    Ok(Subquery { subquery: Arc::new(LogicalPlan::Projection(plan)), ..subquery })
}
