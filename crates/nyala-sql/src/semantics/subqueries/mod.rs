//! Subqueries in any place, with any correlation, and with three-valued logic.
//!
//! DataFusion makes joins of some subqueries: EXISTS and IN in conditions, and totals whose rows are found by equality. The others
//! become joins here: the subquery is computed for every combination of the outer values that it asks for (`dependent`),
//! and each row of the outer query finds its value there.

mod dependent;
mod single;

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, ExprSchema, JoinType, Result, ScalarValue, not_impl_err};
use datafusion::config::ConfigOptions;
use datafusion::functions_aggregate::count::count_udaf;
use datafusion::logical_expr::expr::{Exists, InSubquery, SetComparison, SetQuantifier};
use datafusion::logical_expr::utils::{
    conjunction, merge_schema, split_conjunction, split_conjunction_owned,
};
use datafusion::logical_expr::{
    Aggregate, BinaryExpr, Distinct, EmptyRelation, Expr, ExprSchemable, Filter, Join, Limit, LogicalPlan,
    LogicalPlanBuilder, Operator, Projection, Subquery, binary_expr, lit, not, when,
};

use super::driver::lower_operator;
use dependent::{Outer, named, rows_of, same};
use single::or_null;
pub use single::{or_null_function, single_value};

/// What the rewrites of one plan share.
#[derive(Debug)]
pub struct Shared<'c> {
    /// The joins that were made, which are numbered.
    joins: usize,
    config: &'c ConfigOptions,
}

impl<'c> Shared<'c> {
    pub fn new(config: &'c ConfigOptions) -> Self {
        Self { joins: 0, config }
    }
}

/// A node whose subqueries are those that DataFusion makes joins of. Its expressions have the meanings of types already, and
/// comparisons that are made here get them here.
pub fn lower_subqueries(node: LogicalPlan, shared: &mut Shared<'_>) -> Result<Transformed<LogicalPlan>> {
    match node {
        LogicalPlan::Values(values) if values.values.iter().flatten().any(has_subquery) => {
            Ok(Transformed::yes(settled(rows_of(&values)?, shared)?))
        }
        LogicalPlan::Filter(filter) if has_subquery(&filter.predicate) => lower_filter(filter, shared),
        LogicalPlan::Join(join) => lower_join(join, shared),
        LogicalPlan::Projection(_)
        | LogicalPlan::Aggregate(_)
        | LogicalPlan::Window(_)
        | LogicalPlan::Sort(_)
            if node.expressions().iter().any(has_subquery) =>
        {
            lower_values(node, shared)
        }
        other => Ok(Transformed::no(other)),
    }
}

/// A plan that was made here, without subqueries that only became visible in it.
fn settled(plan: LogicalPlan, shared: &mut Shared<'_>) -> Result<LogicalPlan> {
    Ok(plan.transform_up(|node| lower_subqueries(node, shared))?.data)
}

fn has_subquery(expr: &Expr) -> bool {
    let is_one = |expr: &Expr| {
        matches!(
            expr,
            Expr::Exists(_) | Expr::InSubquery(_) | Expr::SetComparison(_) | Expr::ScalarSubquery(_)
        )
    };
    expr.exists(|part| Ok(is_one(part))).unwrap_or(true)
}

/// In a filter unknown means false, so that IN need not tell them apart below AND and OR.
fn lower_filter(filter: Filter, shared: &mut Shared<'_>) -> Result<Transformed<LogicalPlan>> {
    let columns = filter.input.schema().columns();
    let input = Arc::unwrap_or_clone(filter.input);
    let mut lowering =
        Lowering { base: input.clone(), input, shared, joins: 0, changed: false, takes_totals: true };
    let parts = split_conjunction_owned(filter.predicate).into_iter();
    let parts = parts.map(|part| lowering.condition(part, true)).collect::<Result<Vec<_>>>()?;
    let predicate = conjunction(parts).unwrap_or_else(|| lit(true));
    let Lowering { input, joins, changed, .. } = lowering;
    let filtered = LogicalPlan::Filter(Filter::try_new(predicate, Arc::new(input))?);
    let plan = match joins {
        0 => filtered,
        _ => LogicalPlanBuilder::from(filtered).project(columns.into_iter().map(Expr::Column))?.build()?,
    };
    Ok(match changed {
        true => Transformed::yes(plan),
        false => Transformed::no(plan),
    })
}

/// Conditions of a join with subqueries: of an inner join they are a filter above it.
fn lower_join(join: Join, shared: &mut Shared<'_>) -> Result<Transformed<LogicalPlan>> {
    if let LogicalPlan::Subquery(lateral) = join.right.as_ref()
        && !lateral.outer_ref_columns.is_empty()
        && matches!(join.join_type, JoinType::Inner | JoinType::Left)
    {
        return lower_lateral(&join, lateral, shared);
    }
    if let LogicalPlan::SubqueryAlias(alias) = join.right.as_ref()
        && let LogicalPlan::Subquery(lateral) = alias.input.as_ref()
        && !lateral.outer_ref_columns.is_empty()
        && matches!(join.join_type, JoinType::Inner | JoinType::Left)
    {
        return lower_lateral(&join, lateral, shared);
    }
    let has_one = join.filter.as_ref().is_some_and(has_subquery);
    if !has_one {
        return Ok(Transformed::no(LogicalPlan::Join(join)));
    }
    if join.join_type != JoinType::Inner {
        return lower_outer_join(join, shared);
    }
    let filter = join.filter.clone().unwrap_or_else(|| lit(true));
    let (above, within): (Vec<_>, Vec<_>) =
        split_conjunction_owned(filter).into_iter().partition(has_subquery);
    let predicate = conjunction(above).unwrap_or_else(|| lit(true));
    let joined = Arc::new(LogicalPlan::Join(Join { filter: conjunction(within), ..join }));
    let filter = Filter::try_new(predicate, joined)?;
    Ok(Transformed::yes(lower_filter(filter, shared)?.data))
}

/// Subqueries in the condition of an outer join have their values beside the columns that they ask for.
fn lower_outer_join(join: Join, shared: &mut Shared<'_>) -> Result<Transformed<LogicalPlan>> {
    let columns: Vec<Expr> = join.schema.columns().into_iter().map(Expr::Column).collect();
    let Join { left, right, on, filter, join_type, .. } = join;
    let (mut left, mut right, mut conditions) = (left, right, Vec::new());
    for part in split_conjunction_owned(filter.unwrap_or_else(|| lit(true))) {
        if !has_subquery(&part) {
            conditions.push(part);
            continue;
        }
        let needed = needed_by(&part)?;
        let is_of = |plan: &LogicalPlan| needed.iter().all(|column| plan.schema().has_column(column));
        let input = match (is_of(&right), is_of(&left)) {
            (true, _) => &mut right,
            (_, true) => &mut left,
            _ => {
                return not_impl_err!(
                    "a subquery in the condition of an outer join asks for columns of both sides"
                );
            }
        };
        let mut lowering = Lowering {
            base: input.as_ref().clone(),
            input: input.as_ref().clone(),
            shared: &mut *shared,
            joins: 0,
            changed: false,
            takes_totals: false,
        };
        conditions.push(lowering.value(part)?);
        *input = Arc::new(lowering.input);
    }
    conditions.extend(on.into_iter().map(|(one, other)| one.eq(other)));
    let joined = LogicalPlanBuilder::from(Arc::unwrap_or_clone(left)).join_on(
        Arc::unwrap_or_clone(right),
        join_type,
        conditions,
    )?;
    Ok(Transformed::yes(joined.project(columns)?.build()?))
}

/// The columns of a join that an expression and its subqueries ask for.
fn needed_by(expr: &Expr) -> Result<Vec<Column>> {
    let mut needed: Vec<Column> = expr.column_refs().into_iter().cloned().collect();
    expr.apply(|part| {
        let mut part = part.clone();
        if let Some(subquery) = dependent::subquery_of(&mut part) {
            needed.extend(dependent::outer_columns(&subquery.subquery)?);
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(needed)
}

/// A LATERAL query is computed for the combinations of values that it asks for, and joined by them.
fn lower_lateral(
    join: &Join,
    lateral: &Subquery,
    shared: &mut Shared<'_>,
) -> Result<Transformed<LogicalPlan>> {
    let outer = Outer::new(&lateral.subquery, &join.left, &prefix(shared))?;
    if outer.is_empty() {
        return Ok(Transformed::no(LogicalPlan::Join(join.clone())));
    }
    let right = settled(outer.depend(&join.right)?, shared)?;
    let mut conditions = outer.belong(right.schema())?;
    conditions.extend(join.on.iter().map(|(left, right)| left.clone().eq(right.clone())));
    conditions.extend(join.filter.clone());
    let columns: Vec<Expr> = join.schema.columns().into_iter().map(Expr::Column).collect();
    let joined =
        LogicalPlanBuilder::from(join.left.as_ref().clone()).join_on(right, join.join_type, conditions)?;
    Ok(Transformed::yes(joined.project(columns)?.build()?))
}

/// Subqueries whose values are needed.
fn lower_values(node: LogicalPlan, shared: &mut Shared<'_>) -> Result<Transformed<LogicalPlan>> {
    let Some(input) = node.inputs().first().map(|input| (*input).clone()) else {
        return Ok(Transformed::no(node));
    };
    let columns = node.schema().columns();
    let takes_totals = matches!(node, LogicalPlan::Projection(_));
    let mut lowering =
        Lowering { base: input.clone(), input, shared, joins: 0, changed: false, takes_totals };
    let exprs = match &node {
        LogicalPlan::Projection(projection) => {
            let named = projection.expr.iter().zip(projection.schema.iter());
            let exprs = named.map(|(expr, (qualifier, field))| {
                let value = lowering.value(expr.clone())?;
                let (found, name) = value.qualified_name();
                Ok(match (found.as_ref(), &name) == (qualifier, field.name()) {
                    true => value,
                    false => value.alias_qualified(qualifier.cloned(), field.name()),
                })
            });
            exprs.collect::<Result<Vec<_>>>()?
        }
        other => {
            let exprs = other.expressions().into_iter().map(|expr| {
                let (qualifier, name) = expr.qualified_name();
                let value = lowering.value(expr)?;
                let is_named = value.qualified_name() == (qualifier.clone(), name.clone());
                let needs_name = !is_named && !matches!(other, LogicalPlan::Sort(_));
                Ok(if needs_name { value.alias_qualified(qualifier, name) } else { value })
            });
            exprs.collect::<Result<Vec<_>>>()?
        }
    };
    let Lowering { input, joins, changed, .. } = lowering;
    if !changed {
        return Ok(Transformed::no(node));
    }
    let keeps_input = matches!(node, LogicalPlan::Window(_) | LogicalPlan::Sort(_));
    let plan = node.with_new_exprs(exprs, vec![input])?;
    Ok(Transformed::yes(match joins > 0 && keeps_input {
        true => LogicalPlanBuilder::from(plan).project(columns.into_iter().map(Expr::Column))?.build()?,
        false => plan,
    }))
}

fn prefix(shared: &mut Shared<'_>) -> String {
    shared.joins += 1;
    format!("__outer_{}_", shared.joins)
}

/// Replaces subqueries in expressions over `input`, which is joined to their values.
struct Lowering<'a, 'c> {
    input: LogicalPlan,
    /// The input before it was joined to any value: a combination of outer values is found there.
    base: LogicalPlan,
    shared: &'a mut Shared<'c>,
    joins: usize,
    changed: bool,
    /// Whether DataFusion joins totals here.
    takes_totals: bool,
}

impl Lowering<'_, '_> {
    /// A condition of a filter, in which unknown means false. `is_whole` says that the filter drops all rows for which it is not
    /// true.
    fn condition(&mut self, expr: Expr, is_whole: bool) -> Result<Expr> {
        match expr {
            Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::And | Operator::Or), right }) => {
                let is_whole = is_whole && op == Operator::And;
                let (left, right) = (self.condition(*left, is_whole)?, self.condition(*right, is_whole)?);
                Ok(Expr::BinaryExpr(BinaryExpr { left: Box::new(left), op, right: Box::new(right) }))
            }
            Expr::Not(inner) if matches!(*inner, Expr::Exists(_) | Expr::InSubquery(_)) => {
                let negated = match *inner {
                    Expr::Exists(Exists { subquery, negated }) => {
                        Expr::Exists(Exists { subquery, negated: !negated })
                    }
                    Expr::InSubquery(InSubquery { expr, subquery, negated }) => {
                        Expr::InSubquery(InSubquery { expr, subquery, negated: !negated })
                    }
                    other => not(other),
                };
                self.changed = true;
                self.condition(negated, is_whole)
            }
            Expr::Exists(exists) if !is_of_one_row(&exists.subquery.subquery) => {
                let subquery = Subquery {
                    subquery: Arc::new(without_limit(&exists.subquery.subquery)),
                    ..exists.subquery
                };
                let exists = Exists { subquery, negated: exists.negated };
                match joins_by_conditions(&exists.subquery)? {
                    true => Ok(Expr::Exists(exists)),
                    false => self.exists(exists),
                }
            }
            Expr::InSubquery(InSubquery { expr, subquery, negated }) => {
                let within = InSubquery { expr: Box::new(self.operand(*expr)?), subquery, negated };
                let schema = self.input.schema();
                let may_be_null = within.expr.nullable(schema).unwrap_or(true);
                let names_null = within
                    .expr
                    .column_refs()
                    .into_iter()
                    .any(|column| schema.nullable(column).unwrap_or(true));
                let rows_may_be_null =
                    within.subquery.subquery.schema().fields().iter().any(|field| field.is_nullable());
                let asks_outside = !within.subquery.outer_ref_columns.is_empty();
                // An anti-join that knows NULL compares one column of each side.
                let is_anti_join = is_whole && !asks_outside && within.expr.any_column_refs();
                let is_right = !within.negated || !(may_be_null || rows_may_be_null) || is_anti_join;
                match is_right && joins_by_conditions(&within.subquery)? {
                    true if within.negated && may_be_null && !names_null && !rows_may_be_null => {
                        self.known_or_nothing(within)
                    }
                    true => Ok(Expr::InSubquery(within)),
                    false => self.within(within),
                }
            }
            Expr::SetComparison(SetComparison {
                expr,
                subquery,
                op: Operator::Eq,
                quantifier: SetQuantifier::Any,
            }) => {
                self.changed = true;
                self.condition(Expr::InSubquery(InSubquery { expr, subquery, negated: false }), is_whole)
            }
            other => self.value(other),
        }
    }

    /// The value that is looked for in a subquery, where DataFusion joins no totals.
    fn operand(&mut self, expr: Expr) -> Result<Expr> {
        let takes_totals = std::mem::replace(&mut self.takes_totals, false);
        let value = self.value(expr);
        self.takes_totals = takes_totals;
        value
    }

    /// NOT IN as a condition, for an expression that may be NULL over columns that may not. DataFusion 55 asks the columns alone,
    /// and its anti-join keeps the rows whose expression is NULL (<https://github.com/apache/datafusion/issues/25024>; no release has
    /// the fix yet). These are kept only if the subquery has no row.
    fn known_or_nothing(&mut self, within: InSubquery) -> Result<Expr> {
        let nothing = self.exists(Exists { subquery: within.subquery.clone(), negated: true })?;
        let is_known = within.expr.as_ref().clone().is_not_null();
        Ok(is_known.or(nothing).and(Expr::InSubquery(within)))
    }

    /// An expression whose value is needed.
    fn value(&mut self, expr: Expr) -> Result<Expr> {
        let lowered = expr.transform_up(|part| match part {
            Expr::Exists(exists) => Ok(Transformed::yes(self.exists(exists)?)),
            Expr::InSubquery(within) => Ok(Transformed::yes(self.within(within)?)),
            Expr::SetComparison(comparison) => Ok(Transformed::yes(self.comparison(comparison)?)),
            Expr::ScalarSubquery(subquery) => {
                let value = self.scalar(subquery)?;
                Ok(Transformed::yes(value))
            }
            other => Ok(Transformed::no(other)),
        })?;
        Ok(lowered.data)
    }

    /// The plan that has the outer columns of a subquery. The value of one subquery may be compared with the rows of another.
    fn asked(&self, subquery: &LogicalPlan) -> Result<&LogicalPlan> {
        let is_of = |column: &Column| {
            self.base.schema().has_column(column) || !self.input.schema().has_column(column)
        };
        let columns = dependent::outer_columns(subquery)?;
        Ok(if columns.iter().all(is_of) { &self.base } else { &self.input })
    }

    /// Joins the input to a plan with at most one row for each combination of outer values.
    fn join(&mut self, outer: &Outer, values: LogicalPlan, more: Vec<Expr>) -> Result<()> {
        let mut belong = outer.belong(values.schema())?;
        belong.extend(more);
        let input = std::mem::replace(&mut self.input, LogicalPlanBuilder::empty(false).build()?);
        let builder = LogicalPlanBuilder::from(input);
        self.input = match belong.is_empty() {
            true => builder.cross_join(values)?.build()?,
            false => builder.join_on(values, JoinType::Left, belong)?.build()?,
        };
        (self.joins, self.changed) = (self.joins + 1, true);
        Ok(())
    }

    fn exists(&mut self, exists: Exists) -> Result<Expr> {
        let Exists { subquery, negated } = exists;
        self.changed = true;
        if is_of_one_row(&subquery.subquery) {
            return Ok(lit(!negated));
        }
        let name = prefix(self.shared);
        let plan = without_limit(&subquery.subquery);
        let outer = Outer::new(&plan, self.asked(&plan)?, &name)?;
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

    /// Three-valued IN: unknown if no row has the value, but it or a row is NULL.
    fn within(&mut self, within: InSubquery) -> Result<Expr> {
        let InSubquery { expr, subquery, negated } = within;
        self.changed = true;
        let name = prefix(self.shared);
        let outer = Outer::new(&subquery.subquery, self.asked(&subquery.subquery)?, &name)?;
        let depending = settled(outer.depend(&subquery.subquery)?, self.shared)?;
        let wanted = subquery.subquery.schema().columns().into_iter().next();
        let wanted = wanted.map(Expr::Column).unwrap_or_else(|| lit(ScalarValue::Null));
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
        let is_value = same(expr.as_ref().clone(), value.clone());
        let is_value = lower_operator(is_value, &merge_schema(&[&self.input, &values]), self.shared.config)?;
        self.join(&outer, values, vec![is_value])?;
        let unknown = Expr::Literal(ScalarValue::Boolean(None), None);
        let is_in = when(value.is_not_null(), lit(true))
            .when(rows.clone().is_null().or(rows.clone().eq(lit(0_i64))), lit(false))
            .when(expr.is_null().or(known.lt(rows)), unknown)
            .otherwise(lit(false))?;
        Ok(if negated { not(is_in) } else { is_in })
    }

    /// ANY and ALL: true if the comparison with some row is, unknown if one is unknown.
    fn comparison(&mut self, comparison: SetComparison) -> Result<Expr> {
        let SetComparison { expr, subquery, op, quantifier } = comparison;
        match (op, &quantifier) {
            (Operator::Eq, SetQuantifier::Any) => self.within(InSubquery { expr, subquery, negated: false }),
            (Operator::NotEq, SetQuantifier::All) => {
                self.within(InSubquery { expr, subquery, negated: true })
            }
            _ => {
                let all = quantifier == SetQuantifier::All;
                let Some(op) = (if all { op.negate() } else { Some(op) }) else {
                    return Ok(Expr::SetComparison(SetComparison { expr, subquery, op, quantifier }));
                };
                let any = self.some_row(*expr, op, &subquery)?;
                Ok(if all { not(any) } else { any })
            }
        }
    }

    fn some_row(&mut self, expr: Expr, op: Operator, subquery: &Subquery) -> Result<Expr> {
        let schema = self.input.schema();
        let outer = expr.transform_up(|part| match part {
            Expr::Column(column) => {
                let field = Arc::clone(schema.field_from_column(&column)?);
                Ok(Transformed::yes(Expr::OuterReferenceColumn(field, column)))
            }
            other => Ok(Transformed::no(other)),
        })?;
        let column = subquery.subquery.schema().columns().into_iter().next();
        let column = column.map(Expr::Column).unwrap_or_else(|| lit(ScalarValue::Null));
        let compared = binary_expr(outer.data, op, column);
        let compared = lower_operator(compared, subquery.subquery.schema(), self.shared.config)?;
        let rows_where = |condition: Expr| {
            let filter = Filter::try_new(condition, Arc::clone(&subquery.subquery))?;
            let subquery = Subquery { subquery: Arc::new(LogicalPlan::Filter(filter)), ..subquery.clone() };
            Ok::<_, datafusion::common::DataFusionError>(Exists { subquery, negated: false })
        };
        let is_true = self.exists(rows_where(compared.clone())?)?;
        let is_unknown = self.exists(rows_where(compared.is_null())?)?;
        let unknown = Expr::Literal(ScalarValue::Boolean(None), None);
        when(is_true, lit(true)).when(is_unknown, unknown).otherwise(lit(false))
    }

    fn scalar(&mut self, subquery: Subquery) -> Result<Expr> {
        let plan = subquery.subquery.as_ref();
        if !asks_outside(plan)? {
            return self.constant(subquery);
        }
        if self.takes_totals && is_total_by_equality(plan)? {
            return Ok(Expr::ScalarSubquery(subquery));
        }
        let name = prefix(self.shared);
        let outer = Outer::new(plan, self.asked(plan)?, &name)?;
        if outer.is_empty() {
            return self.constant(subquery);
        }
        let depending = settled(outer.depend(plan)?, self.shared)?;
        let value = plan.schema().columns().into_iter().next();
        let value = value.map(Expr::Column).unwrap_or_else(|| lit(ScalarValue::Null));
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

    /// A subquery without outer values. It may have no row, and then is NULL, whatever its column says.
    fn constant(&mut self, subquery: Subquery) -> Result<Expr> {
        let plan = subquery.subquery.as_ref();
        // A call may be NULL as it is planned, and be a constant once it is computed.
        let may_be_null = plan.schema().fields().iter().any(|field| field.is_nullable());
        let stays_null = may_be_null && has_stored_columns(plan);
        if stays_null || is_of_one_row(plan) || plan.schema().fields().len() != 1 {
            return Ok(Expr::ScalarSubquery(subquery));
        }
        let columns = plan.schema().iter().map(|(qualifier, field)| {
            let column = Expr::from((qualifier, field));
            or_null(column).alias_qualified(qualifier.cloned(), field.name())
        });
        let columns: Vec<Expr> = columns.collect();
        let plan = Projection::try_new(columns, Arc::clone(&subquery.subquery))?;
        self.changed = true;
        Ok(Expr::ScalarSubquery(Subquery { subquery: Arc::new(LogicalPlan::Projection(plan)), ..subquery }))
    }
}

/// Whether a plan has exactly one row, whatever rows it reads.
fn is_of_one_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(projection) => is_of_one_row(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => is_of_one_row(&alias.input),
        LogicalPlan::Subquery(subquery) => is_of_one_row(&subquery.subquery),
        LogicalPlan::Sort(sort) => is_of_one_row(&sort.input),
        LogicalPlan::Distinct(Distinct::All(input)) => is_of_one_row(input),
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        LogicalPlan::EmptyRelation(EmptyRelation { produce_one_row, .. }) => *produce_one_row,
        _ => false,
    }
}

/// Whether the columns of a plan are those of tables, of which no rule makes constants.
fn has_stored_columns(plan: &LogicalPlan) -> bool {
    fn is_column(expr: &Expr) -> bool {
        match expr {
            Expr::Alias(alias) => is_column(&alias.expr),
            other => matches!(other, Expr::Column(_)),
        }
    }
    match plan {
        LogicalPlan::TableScan(scan) => scan.source.get_logical_plan().is_none(),
        LogicalPlan::Projection(projection) => {
            projection.expr.iter().all(is_column) && has_stored_columns(&projection.input)
        }
        LogicalPlan::SubqueryAlias(_)
        | LogicalPlan::Subquery(_)
        | LogicalPlan::Filter(_)
        | LogicalPlan::Sort(_)
        | LogicalPlan::Limit(_)
        | LogicalPlan::Join(_)
        | LogicalPlan::Distinct(_) => plan.inputs().into_iter().all(has_stored_columns),
        _ => false,
    }
}

/// The plan without a LIMIT that leaves at least one row, of which EXISTS does not ask how many there are.
fn without_limit(plan: &LogicalPlan) -> LogicalPlan {
    if let LogicalPlan::Limit(Limit { skip: None, fetch: Some(fetch), input }) = plan
        && let Expr::Literal(ScalarValue::Int64(Some(1..)), _) = fetch.as_ref()
    {
        return input.as_ref().clone();
    }
    plan.clone()
}

/// Whether DataFusion makes a join of EXISTS or IN: outer columns are in conditions only, and no operator above these depends on
/// which rows they let through.
fn joins_by_conditions(subquery: &Subquery) -> Result<bool> {
    if subquery.outer_ref_columns.is_empty() {
        return Ok(true);
    }
    asks_in_conditions(&subquery.subquery, &|_| true)
}

/// Whether outer columns are only in conditions that are `is_fine`, with nothing but joins and columns around them.
fn asks_in_conditions(plan: &LogicalPlan, is_fine: &impl Fn(&Expr) -> bool) -> Result<bool> {
    if !asks_outside(plan)? {
        return Ok(true);
    }
    let exprs_ask = plan.expressions().iter().any(|expr| expr.contains_outer() || has_subquery(expr));
    match plan {
        LogicalPlan::Filter(filter) => {
            let conditions = split_conjunction(&filter.predicate);
            let are_fine = conditions.iter().all(|condition| {
                !has_subquery(condition) && (!condition.contains_outer() || is_fine(condition))
            });
            Ok(are_fine && asks_in_conditions(&filter.input, is_fine)?)
        }
        LogicalPlan::Projection(projection) if !exprs_ask => asks_in_conditions(&projection.input, is_fine),
        LogicalPlan::SubqueryAlias(alias) => asks_in_conditions(&alias.input, is_fine),
        LogicalPlan::Join(join) if join.join_type == JoinType::Inner && !exprs_ask => {
            Ok(asks_in_conditions(&join.left, is_fine)? && asks_in_conditions(&join.right, is_fine)?)
        }
        _ => Ok(false),
    }
}

/// Whether a plan asks for outer columns, itself or in its subqueries.
fn asks_outside(plan: &LogicalPlan) -> Result<bool> {
    let mut asks = false;
    plan.apply_with_subqueries(|node| {
        asks |= node.expressions().iter().any(Expr::contains_outer);
        Ok(if asks { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(asks)
}

/// Whether a subquery is a total of rows that are found by equality with outer values, which DataFusion joins by groups.
fn is_total_by_equality(plan: &LogicalPlan) -> Result<bool> {
    match plan {
        LogicalPlan::Projection(projection)
            if !projection.expr.iter().any(|expr| expr.contains_outer() || has_subquery(expr)) =>
        {
            is_total_by_equality(&projection.input)
        }
        LogicalPlan::SubqueryAlias(alias) => is_total_by_equality(&alias.input),
        LogicalPlan::Aggregate(Aggregate { input, group_expr, aggr_expr, .. }) => {
            let asks = |expr: &Expr| expr.contains_outer() || has_subquery(expr);
            if !group_expr.is_empty() || aggr_expr.iter().any(asks) {
                return Ok(false);
            }
            asks_in_conditions(input, &|condition| match condition {
                Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) => {
                    let is_outer = |expr: &Expr| expr.contains_outer() && !expr.any_column_refs();
                    let is_inner = |expr: &Expr| !expr.contains_outer() && expr.any_column_refs();
                    (is_outer(left) && is_inner(right)) || (is_inner(left) && is_outer(right))
                }
                _ => false,
            })
        }
        _ => Ok(false),
    }
}
