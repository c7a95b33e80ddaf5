//! Computes a subquery for all combinations of the outer values that it uses, at once.
//!
//! The distinct combinations form a relation, which is joined to the subquery where this reads no outer
//! value; above that join every operator works within one combination.
//!
//! The relation comes from a copy of the outer query. If two computations of the outer query may differ, as
//! by `random()` or LIMIT, it is computed once for all copies (`varying`).

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{
    Column, DFSchema, JoinType, NullEquality, Result, ScalarValue, not_impl_err, plan_err,
};
use datafusion::functions_window::row_number::row_number_udwf;
use datafusion::logical_expr::expr::WindowFunction;
use datafusion::logical_expr::select_expr::SelectExpr;
use datafusion::logical_expr::{
    Aggregate, Distinct, EmptyRelation, Expr, ExprFunctionExt, Filter, Join, LogicalPlan, LogicalPlanBuilder,
    Projection, Sort, SubqueryAlias, Union, Values, Window, WindowFunctionDefinition, lit, when,
};

use super::super::shared_rows::SharedRows;
use super::outer_columns::{asking_for, named, outer_columns, same, subquery_of};
use crate::error::{ErrorKind, QueryError};

/// Most operators of the outer query and of a subquery together.
const MAX_NODES: usize = 2_000;

/// The outer columns that a subquery uses, and the relation of their combinations.
#[derive(Debug, Clone)]
pub struct Outer {
    columns: Vec<(Column, String)>,
    /// One row for each combination.
    combinations: LogicalPlan,
}

impl Outer {
    /// For a subquery below a plan `input`, with `prefix` before the names of the relation's columns. Outer columns that `input` does
    /// not have belong to a query further out, and stay as they are. The relation has a copy of `input`, which must give the same rows.
    pub fn new(subquery: &LogicalPlan, input: &LogicalPlan, prefix: &str) -> Result<Self> {
        Self::with(Vec::new(), subquery, input, prefix)
    }

    /// As [`new`](Self::new), for an `input` whose column `row` differs in each row, so that each row is a combination of its own.
    pub fn of_rows(row: Column, subquery: &LogicalPlan, input: &LogicalPlan, prefix: &str) -> Result<Self> {
        Self::with(vec![(row, format!("{prefix}0"))], subquery, input, prefix)
    }

    fn with(
        mut columns: Vec<(Column, String)>,
        subquery: &LogicalPlan,
        input: &LogicalPlan,
        prefix: &str,
    ) -> Result<Self> {
        for column in outer_columns(subquery)? {
            let is_known = columns.iter().any(|(known, _)| *known == column);
            if !is_known && input.schema().has_column(&column) {
                let name = format!("{prefix}{}", columns.len());
                columns.push((column, name));
            }
        }
        if columns.is_empty() {
            return Ok(Self { columns, combinations: LogicalPlanBuilder::empty(true).build()? });
        }
        check_size(input, subquery)?;
        let values = columns.iter().map(|(column, name)| Expr::Column(column.clone()).alias(name));
        let combinations = LogicalPlanBuilder::from(input.clone())
            .project(values.collect::<Vec<_>>())?
            .distinct()?
            .build()?;
        Ok(Self { columns, combinations })
    }

    /// The same outer columns, where the columns of the relation were [renamed](Self::renamed).
    pub fn with_suffix(&self, suffix: &str) -> Self {
        let columns = self.columns.iter().map(|(column, name)| (column.clone(), format!("{name}{suffix}")));
        Self { columns: columns.collect(), combinations: self.combinations.clone() }
    }

    pub fn is_empty(&self) -> bool {
        self.columns.is_empty()
    }

    /// The columns of the relation, in a plan that the relation was joined to.
    pub fn columns_in(&self, schema: &DFSchema) -> Result<Vec<Expr>> {
        self.columns.iter().map(|(_, name)| named(schema, name)).collect()
    }

    /// Conditions that a row of the outer query and a row of the subquery have the same combination.
    pub fn belong(&self, schema: &DFSchema) -> Result<Vec<Expr>> {
        let pairs = self
            .columns
            .iter()
            .map(|(column, name)| Ok(same(Expr::Column(column.clone()), named(schema, name)?)));
        pairs.collect()
    }

    /// The combination of each row of a full join between the outer query and a plan with the columns of the relation.
    pub fn of_either(&self, schema: &DFSchema, is_outer: &Expr) -> Result<Vec<Expr>> {
        let columns = self.columns.iter().map(|(column, name)| {
            when(is_outer.clone(), Expr::Column(column.clone())).otherwise(named(schema, name)?)
        });
        columns.collect()
    }

    /// The subquery for all combinations: its columns, and those of the relation.
    pub fn depend(&self, plan: &LogicalPlan) -> Result<LogicalPlan> {
        if self.is_empty() {
            return Ok(plan.clone());
        }
        if !self.is_asked_by(plan)? {
            return self.combine(plan.clone());
        }
        if let Some(shared) = SharedRows::of(plan) {
            return Ok(shared.rewritten(self.depend(shared.input())?, self.name()));
        }
        match plan {
            LogicalPlan::Projection(projection) => self.projection(projection),
            LogicalPlan::Filter(filter) => {
                let input = self.depend(&filter.input)?;
                Ok(LogicalPlan::Filter(Filter::try_new(self.inside(&filter.predicate)?, Arc::new(input))?))
            }
            LogicalPlan::SubqueryAlias(alias) => {
                let input = self.depend(&alias.input)?;
                Ok(LogicalPlan::SubqueryAlias(SubqueryAlias::try_new(Arc::new(input), alias.alias.clone())?))
            }
            LogicalPlan::Subquery(subquery) => self.depend(&subquery.subquery),
            LogicalPlan::Sort(sort) => {
                let input = Arc::new(self.depend(&sort.input)?);
                let expr = sort.expr.iter().map(|by| Ok(by.with_expr(self.inside(&by.expr)?)));
                let expr = expr.collect::<Result<_>>()?;
                Ok(LogicalPlan::Sort(Sort { expr, input, fetch: None }))
            }
            LogicalPlan::Limit(limit) => {
                let (skip, fetch) = (number(limit.skip.as_deref())?, number(limit.fetch.as_deref())?);
                self.limited(&limit.input, skip.unwrap_or(0), fetch)
            }
            LogicalPlan::Aggregate(aggregate) => self.aggregate(aggregate),
            LogicalPlan::Distinct(Distinct::All(input)) => {
                LogicalPlanBuilder::from(self.depend(input)?).distinct()?.build()
            }
            LogicalPlan::Window(window) => {
                let input = self.depend(&window.input)?;
                let exprs =
                    window.window_expr.iter().map(|expr| self.within_combination(expr, input.schema()));
                Ok(LogicalPlan::Window(Window::try_new(exprs.collect::<Result<_>>()?, Arc::new(input))?))
            }
            LogicalPlan::Join(join) => self.join(join),
            LogicalPlan::Union(union) => {
                let inputs = union.inputs.iter().map(|input| self.arranged(input).map(Arc::new));
                let inputs = inputs.collect::<Result<_>>()?;
                Ok(LogicalPlan::Union(Union::try_new_with_loose_types(inputs)?))
            }
            LogicalPlan::Values(values) => self.depend(&rows_of(values)?),
            LogicalPlan::Unnest(unnest) => {
                let input = self.depend(&unnest.input)?;
                LogicalPlanBuilder::from(input)
                    .unnest_columns_with_options(unnest.exec_columns.clone(), unnest.options.clone())?
                    .build()
            }
            other => not_impl_err!(
                "a subquery cannot ask for columns of the outer query below `{}`",
                other.display().to_string().split(':').next().unwrap_or_default()
            ),
        }
    }

    /// A prefix of column names and labels that no other relation in the plan has.
    fn name(&self) -> &str {
        self.columns.first().map_or("", |(_, name)| name)
    }

    /// Whether the plan uses a column of the relation as an outer column.
    pub fn is_asked_by(&self, plan: &LogicalPlan) -> Result<bool> {
        let asked = outer_columns(plan)?;
        Ok(asked.iter().any(|column| self.columns.iter().any(|(known, _)| known == column)))
    }

    /// Every row of the plan with every combination.
    fn combine(&self, plan: LogicalPlan) -> Result<LogicalPlan> {
        match &plan {
            LogicalPlan::EmptyRelation(EmptyRelation { produce_one_row: true, schema })
                if schema.fields().is_empty() =>
            {
                Ok(self.combinations.clone())
            }
            _ => LogicalPlanBuilder::from(plan).cross_join(self.combinations.clone())?.build(),
        }
    }

    /// An expression of the subquery, with the columns of the relation in place of outer columns.
    fn inside(&self, expr: &Expr) -> Result<Expr> {
        let name_of = |column: &Column| {
            let known = self.columns.iter().find(|(known, _)| known == column);
            known.map(|(_, name)| Column::new_unqualified(name))
        };
        let column_of = |column: &Column| {
            let name = name_of(column)?;
            let field =
                self.combinations.schema().fields().iter().find(|field| *field.name() == name.name)?;
            Some((Arc::clone(field), name))
        };
        let inside = expr.clone().transform_up(|expr| match expr {
            Expr::OuterReferenceColumn(field, column) => Ok(match name_of(&column) {
                Some(name) => Transformed::yes(Expr::Column(name)),
                None => Transformed::no(Expr::OuterReferenceColumn(field, column)),
            }),
            mut other => Ok(match subquery_of(&mut other) {
                // A subquery within goes on to use outer columns: those of the relation now.
                Some(subquery) => {
                    *subquery = asking_for(subquery, &column_of)?;
                    Transformed::yes(other)
                }
                None => Transformed::no(other),
            }),
        })?;
        Ok(inside.data)
    }

    fn projection(&self, projection: &Projection) -> Result<LogicalPlan> {
        let input = self.depend(&projection.input)?;
        let mut exprs = Vec::with_capacity(projection.expr.len() + self.columns.len());
        for (expr, (qualifier, field)) in projection.expr.iter().zip(projection.schema.iter()) {
            let inside = self.inside(expr)?;
            let (found, name) = inside.qualified_name();
            exprs.push(match (found.as_ref(), &name) == (qualifier, field.name()) {
                true => inside,
                false => inside.alias_qualified(qualifier.cloned(), field.name()),
            });
        }
        exprs.extend(self.columns_in(input.schema())?);
        Ok(LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(input))?))
    }

    /// LIMIT and OFFSET for each combination. Columns are computed above it, so that rows are cut off in the order of a sort.
    fn limited(&self, input: &LogicalPlan, skip: i64, fetch: Option<i64>) -> Result<LogicalPlan> {
        match input {
            LogicalPlan::Projection(projection) => {
                let limited = LogicalPlanBuilder::from(projection.input.as_ref().clone())
                    .limit_by_expr(Some(lit(skip)), fetch.map(lit))?
                    .build()?;
                self.projection(&Projection::try_new_with_schema(
                    projection.expr.clone(),
                    Arc::new(limited),
                    Arc::clone(&projection.schema),
                )?)
            }
            LogicalPlan::SubqueryAlias(alias) => {
                let limited = self.limited(&alias.input, skip, fetch)?;
                Ok(LogicalPlan::SubqueryAlias(SubqueryAlias::try_new(
                    Arc::new(limited),
                    alias.alias.clone(),
                )?))
            }
            LogicalPlan::Sort(sort) => {
                let order = sort.expr.iter().map(|by| Ok(by.with_expr(self.inside(&by.expr)?)));
                self.numbered(&sort.input, order.collect::<Result<Vec<_>>>()?, skip, fetch)
            }
            other => self.numbered(other, Vec::new(), skip, fetch),
        }
    }

    fn numbered(
        &self,
        input: &LogicalPlan,
        order: Vec<datafusion::logical_expr::SortExpr>,
        skip: i64,
        fetch: Option<i64>,
    ) -> Result<LogicalPlan> {
        let input = self.depend(input)?;
        let kept: Vec<Expr> = input.schema().columns().into_iter().map(Expr::Column).collect();
        let name = format!("{}row", self.name());
        let row_number = WindowFunction::new(WindowFunctionDefinition::WindowUDF(row_number_udwf()), vec![]);
        let number = Expr::from(row_number).partition_by(self.columns_in(input.schema())?);
        let number = if order.is_empty() { number.build()? } else { number.order_by(order).build()? };
        let number = number.alias(&name);
        let window = LogicalPlan::Window(Window::try_new(vec![number], Arc::new(input))?);
        let number = named(window.schema(), &name)?;
        let mut is_kept = number.clone().gt(lit(skip));
        if let Some(fetch) = fetch {
            is_kept = is_kept.and(number.lt_eq(lit(skip.saturating_add(fetch))));
        }
        LogicalPlanBuilder::from(window).filter(is_kept)?.project(kept)?.build()
    }

    /// An aggregation within each combination. Without GROUP BY, combinations without rows have a row, too.
    fn aggregate(&self, aggregate: &Aggregate) -> Result<LogicalPlan> {
        if aggregate.group_expr.iter().any(|expr| matches!(expr, Expr::GroupingSet(_))) {
            return not_impl_err!(
                "a subquery with GROUPING SETS, ROLLUP or CUBE cannot ask for columns of the outer query"
            );
        }
        let input = self.depend(&aggregate.input)?;
        let of_aggregate = |expr: &Expr| {
            let inside = self.inside(expr)?;
            let (qualifier, name) = expr.qualified_name();
            Ok(match inside.qualified_name() == (qualifier.clone(), name.clone()) {
                true => inside,
                false => inside.alias_qualified(qualifier, name),
            })
        };
        let mut groups = aggregate.group_expr.iter().map(of_aggregate).collect::<Result<Vec<_>>>()?;
        let values = aggregate.aggr_expr.iter().map(of_aggregate).collect::<Result<Vec<_>>>()?;
        let is_total = groups.is_empty();
        groups.extend(self.columns_in(input.schema())?);
        let grouped = LogicalPlan::Aggregate(Aggregate::try_new(Arc::new(input), groups, values)?);
        if !is_total {
            return Ok(grouped);
        }
        let renamed = self.renamed(grouped, "t")?;
        let belong = self.equal(self.combinations.schema(), renamed.schema(), "t")?;
        let joined = LogicalPlanBuilder::from(self.combinations.clone())
            .join_on(renamed, JoinType::Left, belong)?
            .build()?;
        let mut columns = Vec::with_capacity(aggregate.aggr_expr.len() + self.columns.len());
        for (expr, (qualifier, field)) in aggregate.aggr_expr.iter().zip(aggregate.schema.iter()) {
            let value = Expr::Column(Column::new(qualifier.cloned(), field.name()));
            let of_nothing = match expr.clone().unalias() {
                Expr::AggregateFunction(call) => call.func.default_value(field.data_type())?,
                _ => ScalarValue::Null,
            };
            columns.push(match of_nothing.is_null() {
                true => value,
                false => when(value.clone().is_null(), Expr::Literal(of_nothing, None))
                    .otherwise(value)?
                    .alias_qualified(qualifier.cloned(), field.name()),
            });
        }
        columns.extend(self.columns_in(joined.schema())?);
        Ok(LogicalPlan::Projection(Projection::try_new(columns, Arc::new(joined))?))
    }

    /// A window function within one combination.
    fn within_combination(&self, expr: &Expr, schema: &DFSchema) -> Result<Expr> {
        let (qualifier, name) = expr.qualified_name();
        let inside = self.inside(expr)?.transform_up(|expr| match expr {
            Expr::WindowFunction(mut function) => {
                function.params.partition_by.extend(self.columns_in(schema)?);
                Ok(Transformed::yes(Expr::WindowFunction(function)))
            }
            other => Ok(Transformed::no(other)),
        })?;
        Ok(inside.data.unalias().alias_qualified(qualifier, name))
    }

    fn join(&self, join: &Join) -> Result<LogicalPlan> {
        let (asked_left, asked_right) = (self.is_asked_by(&join.left)?, self.is_asked_by(&join.right)?);
        // The relation is joined to a side whose rows are all in the result.
        let (left, right) = match join.join_type {
            JoinType::Inner => (asked_left || !asked_right, asked_right),
            JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => {
                (true, asked_right)
            }
            JoinType::Right | JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => {
                (asked_left, true)
            }
            JoinType::Full => (true, true),
        };
        let side = |plan: &Arc<LogicalPlan>, depends: bool| match depends {
            true => self.depend(plan),
            false => Ok(plan.as_ref().clone()),
        };
        let (mut left_plan, mut right_plan) = (side(&join.left, left)?, side(&join.right, right)?);
        let mut conditions: Vec<Expr> = Vec::new();
        for (one, other) in &join.on {
            let (one, other) = (self.inside(one)?, self.inside(other)?);
            conditions.push(match join.null_equality {
                NullEquality::NullEqualsNull => same(one, other),
                NullEquality::NullEqualsNothing => one.eq(other),
            });
        }
        if let Some(filter) = &join.filter {
            conditions.push(self.inside(filter)?);
        }
        let is_right = matches!(
            join.join_type,
            JoinType::Right | JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark
        );
        if left && right {
            match is_right {
                true => {
                    left_plan = self.renamed(left_plan, "l")?;
                    conditions.extend(self.equal(right_plan.schema(), left_plan.schema(), "l")?);
                }
                false => {
                    right_plan = self.renamed(right_plan, "l")?;
                    conditions.extend(self.equal(left_plan.schema(), right_plan.schema(), "l")?);
                }
            }
        }
        let joined =
            LogicalPlanBuilder::from(left_plan).join_on(right_plan, join.join_type, conditions)?.build()?;
        let has_both =
            matches!(join.join_type, JoinType::Inner | JoinType::Left | JoinType::Right | JoinType::Full);
        if !(left && right && has_both) {
            return Ok(joined);
        }
        let mut columns: Vec<Expr> = join.schema.columns().into_iter().map(Expr::Column).collect();
        for (_, name) in &self.columns {
            let column = named(joined.schema(), name)?;
            columns.push(match join.join_type {
                JoinType::Full => {
                    let other = named(joined.schema(), &format!("{name}l"))?;
                    when(column.clone().is_null(), other).otherwise(column)?.alias(name)
                }
                _ => column,
            });
        }
        Ok(LogicalPlan::Projection(Projection::try_new(columns, Arc::new(joined))?))
    }

    /// The plan for all combinations, with the columns of the plan first, in their order.
    fn arranged(&self, plan: &LogicalPlan) -> Result<LogicalPlan> {
        let depending = self.depend(plan)?;
        let mut columns: Vec<Expr> = plan.schema().columns().into_iter().map(Expr::Column).collect();
        columns.extend(self.columns_in(depending.schema())?);
        Ok(LogicalPlan::Projection(Projection::try_new(columns, Arc::new(depending))?))
    }

    /// The plan with a suffix at the names of the relation's columns.
    pub fn renamed(&self, plan: LogicalPlan, suffix: &str) -> Result<LogicalPlan> {
        let columns = plan.schema().columns().into_iter().map(|column| {
            match self.columns.iter().find(|(_, name)| *name == column.name) {
                Some((_, name)) => Expr::Column(column).alias(format!("{name}{suffix}")),
                None => Expr::Column(column),
            }
        });
        Ok(LogicalPlan::Projection(Projection::try_new(columns.collect(), Arc::new(plan))?))
    }

    /// Conditions that rows of two plans have the same combination, if the relation's columns have a suffix in the other plan.
    fn equal(&self, one: &DFSchema, other: &DFSchema, suffix: &str) -> Result<Vec<Expr>> {
        let pairs = self
            .columns
            .iter()
            .map(|(_, name)| Ok(same(named(one, name)?, named(other, &format!("{name}{suffix}"))?)));
        pairs.collect()
    }
}

/// Refuses plans that grow too large: the relation has a copy of the outer query, so that nested subqueries
/// would double the plan at each level.
fn check_size(input: &LogicalPlan, subquery: &LogicalPlan) -> Result<()> {
    let mut nodes = 0_usize;
    for plan in [input, subquery] {
        plan.apply_with_subqueries(|_| {
            nodes += 1;
            Ok(if nodes > MAX_NODES { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })?;
    }
    if nodes <= MAX_NODES {
        return Ok(());
    }
    let error =
        QueryError::new(ErrorKind::LimitExceeded, "too many subqueries ask for columns of an outer query");
    Err(error.hint("compute them by joins, or by common table expressions that are grouped").into())
}

/// The plan with a column `name` that numbers its rows.
pub fn with_row_numbers(plan: LogicalPlan, name: &str) -> Result<LogicalPlan> {
    let number = WindowFunction::new(WindowFunctionDefinition::WindowUDF(row_number_udwf()), vec![]);
    Ok(LogicalPlan::Window(Window::try_new(vec![Expr::from(number).alias(name)], Arc::new(plan))?))
}

/// VALUES as a union of queries, one for each row.
pub fn rows_of(values: &Values) -> Result<LogicalPlan> {
    let mut rows = values.values.iter().map(|row| {
        let columns = row.iter().zip(values.schema.iter()).map(|(value, (qualifier, field))| {
            SelectExpr::Expression(value.clone().alias_qualified(qualifier.cloned(), field.name()))
        });
        LogicalPlanBuilder::empty(true).project(columns)?.build()
    });
    let Some(first) = rows.next() else { return plan_err!("VALUES has no rows") };
    let first = first?;
    let mut inputs = vec![Arc::new(first)];
    for row in rows {
        inputs.push(Arc::new(row?));
    }
    match <[Arc<LogicalPlan>; 1]>::try_from(inputs) {
        Ok([single]) => Ok(Arc::unwrap_or_clone(single)),
        Err(inputs) => Ok(LogicalPlan::Union(Union::try_new_with_loose_types(inputs)?)),
    }
}

fn number(expr: Option<&Expr>) -> Result<Option<i64>> {
    match expr {
        None => Ok(None),
        Some(Expr::Literal(value, _)) => match value.cast_to(&arrow::datatypes::DataType::Int64)? {
            ScalarValue::Int64(number) => Ok(number),
            _ => Ok(None),
        },
        Some(other) => not_impl_err!("LIMIT and OFFSET of a subquery must be constants, not `{other}`"),
    }
}
