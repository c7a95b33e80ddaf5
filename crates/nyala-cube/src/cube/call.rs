//! Aggregate calls taken apart.

use std::sync::Arc;

use arrow::datatypes::{Field, FieldRef};
use datafusion::common::ExprSchema;
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{AggregateUDF, Case, Cast, Expr, ExprSchemable};

use super::block::Miss;
use super::measure::{Argument, MeasureCall};

/// An aggregate call: its function, its arguments and its conditions on rows.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    pub function: Arc<AggregateUDF>,
    /// Whether equal arguments count once.
    pub distinct: bool,
    pub arguments: Vec<Expr>,
    /// The FILTER, split at AND.
    pub conditions: Vec<Expr>,
}

impl Call {
    /// Takes an aggregate call apart.
    pub fn of(expr: &Expr) -> Result<Self, Miss> {
        let Expr::AggregateFunction(AggregateFunction { func, params }) = expr else {
            return Err(Miss::new(format!("`{}` is not an aggregate call", expr.human_display())));
        };
        if !params.order_by.is_empty() || params.null_treatment.is_some() {
            return Err(Miss::new(format!("its `{}` depends on the order of rows", func.name())));
        }
        let conditions = params.filter.as_deref().cloned().map(split_conjunction_owned);
        Ok(Self {
            function: Arc::clone(func),
            distinct: params.distinct,
            arguments: params.args.clone(),
            conditions: conditions.unwrap_or_default(),
        })
    }

    /// The call as an expression.
    pub fn expr(&self) -> Expr {
        let filter = conjunction(self.conditions.iter().cloned()).map(Box::new);
        let (function, arguments) = (Arc::clone(&self.function), self.arguments.clone());
        Expr::AggregateFunction(AggregateFunction::new_udf(
            function,
            arguments,
            self.distinct,
            filter,
            Vec::new(),
            None,
        ))
    }

    /// The call of another argument, over the same rows.
    pub fn with_argument(&self, argument: Expr) -> Self {
        Self { arguments: vec![argument], ..self.clone() }
    }

    /// One spelling for `f(CASE WHEN c THEN x END)` and `f(x) FILTER (WHERE c)`, which are the same for
    /// functions that ignore nulls, with casts inside of CASE.
    pub fn canonical(mut self) -> Self {
        let [argument] = self.arguments.as_mut_slice() else { return self };
        *argument = cast_inside(argument.clone());
        if !nyala_sql::functions::ignores_nulls(&self.function, self.distinct) {
            return self;
        }
        while let Some((condition, value)) = only_when(argument) {
            self.conditions.extend(split_conjunction_owned(condition));
            *argument = value;
        }
        self
    }

    /// The call over rows with its arguments as their only columns, and these columns. Their names begin with
    /// `prefix`.
    pub fn typed(&self, schema: &dyn ExprSchema, prefix: &str) -> Result<(MeasureCall, Vec<FieldRef>), Miss> {
        let (mut arguments, mut fields) = (Vec::new(), Vec::new());
        for (i, argument) in self.arguments.iter().enumerate() {
            if let Expr::Literal(value, _) = argument {
                arguments.push(Argument::Constant(value.clone()));
                continue;
            }
            let (_, typed) = argument.to_field(schema).map_err(|error| Miss::new(error.to_string()))?;
            let field =
                Arc::new(Field::new(format!("{prefix}{i}"), typed.data_type().clone(), typed.is_nullable()));
            fields.push(Arc::clone(&field));
            arguments.push(Argument::Column(field));
        }
        let function = Arc::clone(&self.function);
        Ok((MeasureCall { function, arguments, distinct: self.distinct, filter: None }, fields))
    }
}

/// `CAST(CASE … THEN x … END)` as `CASE … THEN CAST(x) … END`.
fn cast_inside(expr: Expr) -> Expr {
    let Expr::Cast(Cast { expr: inner, field }) = expr else { return expr };
    match cast_inside(*inner) {
        Expr::Case(case) => {
            let cast = |expr: Box<Expr>| {
                let field = Arc::clone(&field);
                Box::new(cast_inside(Expr::Cast(Cast { expr, field })))
            };
            Expr::Case(Case {
                expr: case.expr,
                when_then_expr: case
                    .when_then_expr
                    .into_iter()
                    .map(|(when, then)| (when, cast(then)))
                    .collect(),
                else_expr: case.else_expr.map(cast),
            })
        }
        other => Expr::Cast(Cast { expr: Box::new(other), field }),
    }
}

/// Condition and value of `CASE WHEN condition THEN value END`.
fn only_when(expr: &Expr) -> Option<(Expr, Expr)> {
    let Expr::Case(case) = expr else { return None };
    let [(when, then)] = case.when_then_expr.as_slice() else { return None };
    let no_else = case.else_expr.as_deref().is_none_or(is_null_literal);
    if !no_else {
        return None;
    }
    let condition = match &case.expr {
        Some(base) => base.as_ref().clone().eq(when.as_ref().clone()),
        None => when.as_ref().clone(),
    };
    Some((condition, then.as_ref().clone()))
}

/// Whether `expr` is the literal NULL, also under casts.
pub fn is_null_literal(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(value, _) => value.is_null(),
        Expr::Cast(cast) => is_null_literal(&cast.expr),
        _ => false,
    }
}
