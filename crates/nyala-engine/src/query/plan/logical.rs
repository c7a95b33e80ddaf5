//! From a statement to a plan with resolved names and types.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::execution::SessionState;
use datafusion::logical_expr::{DmlStatement, LogicalPlan, WriteOp};
use datafusion::sql::parser::Statement as DfStatement;
use nyala_model::QualifiedName;
use nyala_sql::error::Result;
use nyala_sql::statement::{CallKind, MisplacedCalls};

use super::budget::{budget_of, check_plan};
use super::placeholders::one_type_each;
use super::reads::tables_of;
use crate::session::titles;

/// A statement as planned by DataFusion, before anything is optimised.
pub struct Planned {
    pub plan: Unoptimized,
    /// Columns of the result, if it gives rows.
    pub schema: Option<SchemaRef>,
    /// The tables and views that it names, for access checks.
    pub reads: Vec<QualifiedName>,
}

/// How far a plan is from being optimised.
#[derive(Debug, Clone)]
pub enum Unoptimized {
    /// Names are resolved; types may depend on parameters.
    Resolved(LogicalPlan),
    /// Types are settled too.
    Analyzed(LogicalPlan),
}

impl Unoptimized {
    pub fn logical(&self) -> &LogicalPlan {
        match self {
            Self::Resolved(plan) | Self::Analyzed(plan) => plan,
        }
    }

    /// Turns the plan of a DELETE, planned as an UPDATE, into that of a DELETE.
    pub fn deleting(self) -> Self {
        match self {
            Self::Resolved(LogicalPlan::Dml(dml)) => {
                Self::Resolved(LogicalPlan::Dml(DmlStatement { op: WriteOp::Delete, ..dml }))
            }
            other => other,
        }
    }

    pub fn analyze(self, state: &SessionState) -> Result<LogicalPlan> {
        match self {
            Self::Resolved(plan) => {
                Ok(state.analyzer().execute_and_check(plan, state.config_options(), |_, _| {})?)
            }
            Self::Analyzed(plan) => Ok(plan),
        }
    }
}

/// Resolves names and types.
pub async fn logical_plan(statement: DfStatement, state: SessionState) -> Result<Planned> {
    let budget = budget_of(&state);
    let mut misplaced = MisplacedCalls::find(&statement, &|name| kind_of(&state, name));
    misplaced.check()?;
    let raw = match titles::plan(statement, &state).await {
        Ok(raw) => raw,
        Err(error) => return Err(misplaced.explain(error)),
    };
    misplaced.check_groups(&raw)?;
    check_plan(&raw, budget)?;
    let reads = tables_of(&raw, &state)?;
    let gives_rows = !matches!(
        raw,
        LogicalPlan::Ddl(_) | LogicalPlan::Statement(_) | LogicalPlan::Dml(_) | LogicalPlan::Copy(_)
    );
    if !gives_rows {
        let plan = Unoptimized::Resolved(one_type_each(raw)?);
        return Ok(Planned { plan, schema: None, reads });
    }
    if has_parameters(&raw)? {
        let raw = one_type_each(raw)?;
        // Types may still be unknown; then the columns are described as far as they are known.
        let analyzed = Unoptimized::Resolved(raw.clone()).analyze(&state);
        let schema = Arc::clone(analyzed.as_ref().unwrap_or(&raw).schema().inner());
        return Ok(Planned { plan: Unoptimized::Resolved(raw), schema: Some(schema), reads });
    }
    let analyzed = Unoptimized::Resolved(raw).analyze(&state)?;
    let schema = Arc::clone(analyzed.schema().inner());
    Ok(Planned { plan: Unoptimized::Analyzed(analyzed), schema: Some(schema), reads })
}

/// What the planner takes calls of this name for, if they are no scalar functions.
fn kind_of(state: &SessionState, name: &str) -> Option<CallKind> {
    if state.scalar_functions().contains_key(name) {
        return None;
    }
    let is_aggregate = state.aggregate_functions().contains_key(name);
    let is_window = state.window_functions().contains_key(name);
    is_aggregate.then_some(CallKind::Aggregate).or(is_window.then_some(CallKind::Window))
}

fn has_parameters(plan: &LogicalPlan) -> Result<bool> {
    Ok(!plan.get_parameter_names()?.is_empty())
}
