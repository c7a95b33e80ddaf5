//! Refuses aggregates and window functions in clauses that allow none, in PostgreSQL's words: the planner would not name the clause.
//!
//! An aggregate belongs to the innermost query whose columns it names. The owners of columns are not known here, so
//! that in a subquery only calls without columns count as its own; the planner refuses others, and nested calls.

use std::ops::ControlFlow;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Expr as Planned, LogicalPlan};
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{
    Expr, Function, GroupByExpr, JoinConstraint, JoinOperator, NamedWindowDefinition, NamedWindowExpr, Query,
    Select, SelectItem, SetExpr, Statement, TableFactor, TableWithJoins, Visit, Visitor, WindowSpec,
    WindowType, visit_expressions,
};

use super::join_constraint::constraint_of;
use super::outside_subqueries::visit_outside_subqueries;
use super::row_comparisons::compares_rows;
use super::select::{by_position, counted};
use super::versions::folded;
use crate::error::{ErrorKind, QueryError, Result};

/// A kind of functions whose calls are not allowed everywhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallKind {
    /// An aggregate, which is a window function with OVER.
    Aggregate,
    /// A function that is called with OVER only.
    Window,
}

type KindOf<'a> = &'a dyn Fn(&str) -> Option<CallKind>;

/// The misplaced calls of a statement.
#[derive(Debug, Default)]
pub struct MisplacedCalls {
    error: Option<QueryError>,
    /// Names in GROUP BY that refer to items with such calls, unless a table has a column of the name.
    by_alias: Vec<(String, QueryError)>,
}

impl MisplacedCalls {
    /// Searches a statement. `kind_of` gives the kind of a function by its name.
    pub fn find(statement: &DfStatement, kind_of: KindOf<'_>) -> Self {
        let statement = match statement {
            DfStatement::Statement(statement) => statement,
            DfStatement::Explain(explain) => return Self::find(&explain.statement, kind_of),
            _ => return Self::default(),
        };
        let mut search = Search { kind_of, within: 0, by_alias: Vec::new() };
        let error = match statement.visit(&mut search) {
            ControlFlow::Break(error) => Some(*error),
            ControlFlow::Continue(()) => None,
        };
        Self { error, by_alias: search.by_alias }
    }

    /// The error of the first call that is misplaced, whatever columns the tables have.
    pub fn check(&mut self) -> Result<()> {
        self.error.take().map_or(Ok(()), Err)
    }

    /// Fails if GROUP BY in a plan computes such an item, because no table has a column of its name.
    pub fn check_groups(self, plan: &LogicalPlan) -> Result<()> {
        let Some((_, misplaced)) = self.by_alias.into_iter().next() else { return Ok(()) };
        let is_call =
            |expr: &Planned| matches!(expr, Planned::AggregateFunction(_) | Planned::WindowFunction(_));
        let mut is_grouped = false;
        plan.apply_with_subqueries(|node| {
            if let LogicalPlan::Aggregate(aggregate) = node {
                for expr in &aggregate.group_expr {
                    is_grouped |= expr.exists(|expr| Ok(is_call(expr)))?;
                }
            }
            Ok(if is_grouped { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })?;
        if is_grouped { Err(misplaced) } else { Ok(()) }
    }

    /// The error of a statement that could not be planned. If no table has a column that GROUP BY names, and
    /// the item of that name has a misplaced call, it is the error of that call.
    pub fn explain(self, error: QueryError) -> QueryError {
        let is_it = |name: &str| error.message == format!("column `{name}` does not exist");
        let found = self.by_alias.into_iter().find(|(name, _)| is_it(name));
        found.map_or(error, |(_, misplaced)| misplaced)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Call {
    Aggregate,
    Grouping,
    Window,
}

impl Call {
    fn misplaced(self, clause: &str) -> QueryError {
        let (calls, code) = match self {
            Self::Aggregate => ("aggregate functions", "42803"),
            Self::Grouping => ("grouping operations", "42803"),
            Self::Window => ("window functions", "42P20"),
        };
        let hint = match (self, clause) {
            (Self::Aggregate | Self::Grouping, "WHERE") => "a condition on groups stands in HAVING",
            _ => "compute it in a subquery in FROM, and name its column here",
        };
        QueryError::new(ErrorKind::InvalidText, format!("{calls} are not allowed in {clause}"))
            .sqlstate(code)
            .hint(hint)
    }
}

type Found = ControlFlow<Box<QueryError>>;

/// Searches the clauses of all queries of a statement.
struct Search<'a> {
    kind_of: KindOf<'a>,
    /// Number of subqueries that the walk has entered whose columns may belong to an outer query.
    within: usize,
    by_alias: Vec<(String, QueryError)>,
}

impl Search<'_> {
    /// Refuses calls in an expression of a clause; calls in its subqueries are left out.
    fn refuse(&self, expr: &Expr, clause: &str) -> Found {
        match self.call_in(expr, self.within > 0) {
            Some(call) => ControlFlow::Break(Box::new(call.misplaced(clause))),
            None => ControlFlow::Continue(()),
        }
    }

    fn call_in(&self, expr: &Expr, is_inner: bool) -> Option<Call> {
        let calls = Calls { kind_of: self.kind_of, is_inner };
        let look = |part: &Expr| calls.call(part).map_or(ControlFlow::Continue(()), ControlFlow::Break);
        visit_outside_subqueries(expr, look).break_value()
    }

    fn of_call(&self, function: &Function) -> Found {
        if let Some(condition) = &function.filter {
            self.refuse(condition, "FILTER")?;
        }
        if let Some(WindowType::WindowSpec(window)) = &function.over {
            of_window(window)?;
        }
        match name_of(function).filter(|name| (self.kind_of)(name) == Some(CallKind::Window)) {
            Some(name) if function.over.is_none() => ControlFlow::Break(Box::new(without_over(&name))),
            _ => ControlFlow::Continue(()),
        }
    }

    fn of_joins(&self, from: &TableWithJoins) -> Found {
        self.of_table(&from.relation)?;
        for join in &from.joins {
            self.of_table(&join.relation)?;
            if let Some(condition) = condition_of(&join.join_operator) {
                self.refuse(condition, "JOIN conditions")?;
            }
        }
        ControlFlow::Continue(())
    }

    fn of_table(&self, table: &TableFactor) -> Found {
        match table {
            TableFactor::NestedJoin { table_with_joins, .. } => self.of_joins(table_with_joins),
            _ => ControlFlow::Continue(()),
        }
    }

    /// Refuses calls in GROUP BY. Unlike elsewhere, an aggregate there cannot belong to an outer query.
    fn of_groups(&mut self, select: &Select) -> Found {
        let GroupByExpr::Expressions(elements, _) = &select.group_by else {
            return ControlFlow::Continue(());
        };
        for element in elements {
            let meant = by_position(element, counted(&select.projection));
            if let Some(call) = self.call_in(&meant, false) {
                return ControlFlow::Break(Box::new(call.misplaced("GROUP BY")));
            }
            self.keep_alias(element, &select.projection);
        }
        ControlFlow::Continue(())
    }

    fn keep_alias(&mut self, element: &Expr, items: &[SelectItem]) {
        let Expr::Identifier(name) = element else { return };
        let name = folded(name);
        for item in items {
            if let SelectItem::ExprWithAlias { expr, alias } = item
                && folded(alias) == name
                && let Some(call) = self.call_in(expr, false)
            {
                self.by_alias.push((name.clone(), call.misplaced("GROUP BY")));
            }
        }
    }
}

/// The name of a function, if it is written without a schema.
fn name_of(function: &Function) -> Option<String> {
    let [name] = function.name.0.as_slice() else { return None };
    name.as_ident().map(folded)
}

fn without_over(name: &str) -> QueryError {
    QueryError::new(ErrorKind::WrongObject, format!("window function {name} requires an OVER clause"))
        .hint("write OVER () behind the call, or OVER (PARTITION BY … ORDER BY …)")
}

fn of_window(window: &WindowSpec) -> Found {
    let mut keys = window.partition_by.iter().chain(window.order_by.iter().map(|key| &key.expr));
    keys.try_for_each(|key| refuse_windows(key, "window definitions"))
}

fn refuse_windows(expr: &Expr, clause: &str) -> Found {
    visit_outside_subqueries(expr, |part| match part {
        Expr::Function(Function { over: Some(_), .. }) => {
            ControlFlow::Break(Box::new(Call::Window.misplaced(clause)))
        }
        _ => ControlFlow::Continue(()),
    })
}

fn condition_of(join: &JoinOperator) -> Option<&Expr> {
    match constraint_of(join) {
        Some(JoinConstraint::On(condition)) => Some(condition),
        _ => None,
    }
}

fn is_subquery(expr: &Expr) -> bool {
    matches!(expr, Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. })
}

fn is_lateral(table: &TableFactor) -> bool {
    matches!(table, TableFactor::Derived { lateral: true, .. })
}

impl Visitor for Search<'_> {
    type Break = Box<QueryError>;

    fn pre_visit_statement(&mut self, statement: &Statement) -> Found {
        match statement {
            Statement::Update(update) => {
                for assignment in &update.assignments {
                    self.refuse(&assignment.value, "UPDATE")?;
                }
                update.selection.iter().try_for_each(|condition| self.refuse(condition, "WHERE"))
            }
            Statement::Delete(delete) => {
                delete.selection.iter().try_for_each(|condition| self.refuse(condition, "WHERE"))
            }
            _ => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_query(&mut self, query: &Query) -> Found {
        let SetExpr::Values(values) = query.body.as_ref() else { return ControlFlow::Continue(()) };
        values.rows.iter().flat_map(|row| &row.content).try_for_each(|cell| self.refuse(cell, "VALUES"))
    }

    fn pre_visit_select(&mut self, select: &Select) -> Found {
        select.from.iter().try_for_each(|from| self.of_joins(from))?;
        // A SELECT made for a comparison of rows compares with a value of the outer query, to which a call in it belongs.
        if let Some(condition) = &select.selection
            && !compares_rows(select)
        {
            self.refuse(condition, "WHERE")?;
        }
        if let Some(condition) = &select.having {
            refuse_windows(condition, "HAVING")?;
        }
        for NamedWindowDefinition(_, window) in &select.named_window {
            if let NamedWindowExpr::WindowSpec(window) = window {
                of_window(window)?;
            }
        }
        self.of_groups(select)
    }

    fn pre_visit_table_factor(&mut self, table: &TableFactor) -> Found {
        self.within += usize::from(is_lateral(table));
        ControlFlow::Continue(())
    }

    fn post_visit_table_factor(&mut self, table: &TableFactor) -> Found {
        self.within -= usize::from(is_lateral(table));
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> Found {
        self.within += usize::from(is_subquery(expr));
        let Expr::Function(function) = expr else { return ControlFlow::Continue(()) };
        self.of_call(function)
    }

    fn post_visit_expr(&mut self, expr: &Expr) -> Found {
        self.within -= usize::from(is_subquery(expr));
        ControlFlow::Continue(())
    }
}

/// Finds the first call in an expression outside of its subqueries; the arguments of a call come before the call.
struct Calls<'a> {
    kind_of: KindOf<'a>,
    /// Whether aggregates with columns may belong to an outer query.
    is_inner: bool,
}

impl Calls<'_> {
    fn call(&self, expr: &Expr) -> Option<Call> {
        let Expr::Function(function) = expr else { return None };
        if function.over.is_some() {
            return Some(Call::Window);
        }
        let name = name_of(function)?;
        let is_aggregate = (self.kind_of)(&name) == Some(CallKind::Aggregate);
        if !is_aggregate || self.is_inner && names_columns(expr) {
            return None;
        }
        Some(if name == "grouping" { Call::Grouping } else { Call::Aggregate })
    }
}

fn names_columns(expr: &Expr) -> bool {
    let found = visit_expressions(expr, |part| match part {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    found.is_break()
}

#[cfg(test)]
#[path = "misplaced_calls_tests.rs"]
mod tests;
