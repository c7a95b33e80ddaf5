//! IN and NOT IN of rows: unknown if no row has the value, but it or a row is NULL.

use datafusion::common::{Result, ScalarValue};
use datafusion::functions_aggregate::count::count_udaf;
use datafusion::logical_expr::expr::InSubquery;
use datafusion::logical_expr::{Expr, LogicalPlanBuilder, lit, not, when};

use super::dependent::{Outer, named, same};
use super::lowering::Lowering;
use super::settled;
use super::shapes::first_column;

impl Lowering<'_, '_> {
    /// Three-valued IN: unknown if no row has the value, but it or a row is NULL.
    pub fn within(&mut self, within: InSubquery) -> Result<Expr> {
        let InSubquery { expr, subquery, negated } = within;
        self.changed = true;
        let name = self.shared.prefix();
        let outer = Outer::new(&subquery.subquery, self.asked(&subquery.subquery)?, &name)?;
        let depending = settled(outer.depend(&subquery.subquery)?, self.shared)?;
        let wanted = first_column(&subquery.subquery);
        let mut groups = outer.columns_in(depending.schema())?;
        let counts = vec![
            count_udaf().call(vec![lit(1_i64)]).alias(format!("{name}rows")),
            count_udaf().call(vec![wanted.clone()]).alias(format!("{name}values")),
        ];
        let counted =
            LogicalPlanBuilder::from(depending.clone()).aggregate(groups.clone(), counts)?.build()?;
        groups.push(wanted.clone().alias(format!("{name}value")));
        let values = LogicalPlanBuilder::from(depending)
            .filter(wanted.is_not_null())?
            .project(groups)?
            .distinct()?
            .build()?;
        let (rows, known) = (
            named(counted.schema(), &format!("{name}rows"))?,
            named(counted.schema(), &format!("{name}values"))?,
        );
        self.join(&outer, counted, Vec::new())?;
        let values = outer.renamed(values, "v")?;
        let value = named(values.schema(), &format!("{name}value"))?;
        let outer = outer.with_suffix("v");
        let is_value = self.settle_comparison(same(expr.as_ref().clone(), value.clone()), &values)?;
        self.join(&outer, values, vec![is_value])?;
        let unknown = Expr::Literal(ScalarValue::Boolean(None), None);
        let is_in = when(value.is_not_null(), lit(true))
            .when(rows.clone().is_null().or(rows.clone().eq(lit(0_i64))), lit(false))
            .when(expr.is_null().or(known.lt(rows)), unknown)
            .otherwise(lit(false))?;
        Ok(if negated { not(is_in) } else { is_in })
    }
}
