//! EXISTS: the rows of each combination of outer values are counted.

use datafusion::common::Result;
use datafusion::functions_aggregate::count::count_udaf;
use datafusion::logical_expr::expr::Exists;
use datafusion::logical_expr::{Expr, LogicalPlanBuilder, lit, not};

use super::lowering::Lowering;
use super::outer_columns::named;
use super::settled;
use super::shapes::{is_of_one_row, without_limit};

impl Lowering<'_, '_> {
    pub fn exists(&mut self, exists: Exists) -> Result<Expr> {
        let Exists { subquery, negated } = exists;
        self.changed = true;
        if is_of_one_row(&subquery.subquery) {
            return Ok(lit(!negated));
        }
        let name = self.shared.prefix();
        let plan = without_limit(&subquery.subquery);
        let outer = self.outer(&plan, &name)?;
        let rows = count_udaf().call(vec![lit(1_i64)]).alias(format!("{name}rows"));
        let found = match outer.is_empty() {
            true => {
                LogicalPlanBuilder::from(plan).limit(0, Some(1))?.aggregate(Vec::<Expr>::new(), vec![rows])?
            }
            false => {
                let depending = settled(outer.depend(&plan)?, self.shared)?;
                let groups = outer.columns_in(depending.schema())?;
                LogicalPlanBuilder::from(depending).aggregate(groups, vec![rows])?
            }
        };
        let found = found.build()?;
        let rows = named(found.schema(), &format!("{name}rows"))?;
        self.join(&outer, found, Vec::new())?;
        let exists = rows.clone().is_not_null().and(rows.gt(lit(0_i64)));
        Ok(if negated { not(exists) } else { exists })
    }
}
