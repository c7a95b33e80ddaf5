//! The size of a statement's plan once WITH and grouping sets are expanded, counted before anything is planned.
//!
//! ```text
//! WITH a AS (SELECT 1), b AS (SELECT * FROM a UNION ALL SELECT * FROM a), c AS (… b … b …), …
//! ```
//!
//! A query in WITH is planned into every place that names it, so that thirty lines like these are a thousand million SELECTs. The
//! tree is walked once: each query in WITH has the size of its own nodes and of the queries it names, and counts as often as it is named.

use std::collections::HashMap;
use std::ops::ControlFlow;

use super::plan_budget::{PARTS, PlanBudget, counted, exceeded, parts};
use super::versions::folded;
use crate::error::{QueryError, Result};
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArguments, GroupByExpr, ObjectName, ObjectNamePart, OrderBy, OrderByKind, Query,
    Select, TableFactor, Visit, Visitor,
};

/// Grouping sets of one SELECT, as in PostgreSQL: every row is grouped by each.
const MAX_GROUPING_SETS: usize = 4096;
/// Arguments of one call. Planning compares each with all earlier ones.
const MAX_ARGUMENTS: usize = 1000;
/// Expressions of one SELECT list, GROUP BY or ORDER BY, as many as in PostgreSQL. Planning compares each with all earlier ones.
const MAX_COLUMNS: usize = 1664;
/// Arms of one `CASE x WHEN …`.
const MAX_ARMS: usize = 1000;
/// Arms of one `CASE WHEN …`: compared with a constant, it is planned as a condition in which each arm excludes all earlier ones.
const MAX_CONDITIONS: usize = 300;
/// Window functions of one statement. Each may need an order of its own.
const MAX_WINDOWS: usize = 250;
/// Depth of nested queries in expressions: each is planned as a join with the query around it.
const MAX_SUBQUERIES: usize = 16;

/// Refuses a statement that would be planned into more than the budget.
pub fn check_expansion(statement: &DfStatement, budget: PlanBudget) -> Result<()> {
    let statement = match statement {
        DfStatement::Statement(statement) => statement,
        DfStatement::Explain(explain) => return check_expansion(&explain.statement, budget),
        _ => return Ok(()),
    };
    let mut expansion =
        Expansion { budget, open: vec![Frame::default()], subqueries: 0, windows: 0, refused: None };
    let _ = statement.visit(&mut expansion);
    match expansion.refused.take() {
        Some(error) => Err(error),
        None => expansion.check(),
    }
}

/// The size of the plan of a part of a statement.
#[derive(Debug, Clone, Copy, Default)]
struct Size {
    nodes: usize,
    parts: usize,
}

impl Size {
    fn add(&mut self, other: Self) {
        self.nodes = self.nodes.saturating_add(other.nodes);
        self.parts = self.parts.saturating_add(other.parts);
    }
}

/// A query that the walk has entered.
#[derive(Default)]
struct Frame {
    size: Size,
    /// Names in WITH whose queries were not walked over yet, the next one last.
    coming: Vec<String>,
    /// Sizes of the queries in WITH that were walked over.
    with: HashMap<String, Size>,
}

struct Expansion {
    budget: PlanBudget,
    open: Vec<Frame>,
    /// Number of subqueries that the walk has entered.
    subqueries: usize,
    /// Number of window functions in the whole statement.
    windows: usize,
    /// The error that ended the walk. It is not the break value: each stack frame of the walk would reserve room for it.
    refused: Option<QueryError>,
}

impl Expansion {
    fn add(&mut self, nodes: usize, parts: usize) {
        if let Some(frame) = self.open.last_mut() {
            frame.size.add(Size { nodes, parts });
        }
    }

    fn or_break(&mut self, checked: Result<()>) -> ControlFlow<()> {
        match checked {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                self.refused = Some(error);
                ControlFlow::Break(())
            }
        }
    }

    fn check(&self) -> Result<()> {
        let size = self.open.last().map(|frame| frame.size).unwrap_or_default();
        self.budget.check_nodes(size.nodes)?;
        self.budget.check_expressions(size.parts)
    }

    /// The size of the query in WITH that a table name refers to; zero for other names, and for a query that reads itself.
    fn in_with(&self, name: &ObjectName) -> Size {
        let [ObjectNamePart::Identifier(name)] = name.0.as_slice() else { return Size::default() };
        let name = folded(name);
        self.open.iter().rev().find_map(|frame| frame.with.get(&name)).copied().unwrap_or_default()
    }

    fn select(&mut self, select: &Select) -> Result<()> {
        check_count("SELECT list", select.projection.len(), MAX_COLUMNS)?;
        let listed = match &select.group_by {
            GroupByExpr::Expressions(listed, _) => listed.as_slice(),
            GroupByExpr::All(_) => &[],
        };
        check_count("GROUP BY", listed.len(), MAX_COLUMNS)?;
        let sets = listed.iter().map(grouping_sets).fold(1, usize::saturating_mul);
        if sets > MAX_GROUPING_SETS {
            let message = format!(
                "GROUP BY has {} grouping sets, more than the {MAX_GROUPING_SETS} allowed",
                counted(sets)
            );
            return Err(exceeded(message).hint("name the sets that are needed with GROUPING SETS"));
        }
        let grouped = listed.iter().map(grouped_by).fold(0, usize::saturating_add);
        self.add(1, if sets > 1 { sets.saturating_mul(grouped).saturating_mul(PARTS) } else { 0 });
        self.check()
    }

    fn call(&mut self, function: &Function) -> Result<()> {
        self.windows += usize::from(function.over.is_some());
        if self.windows > MAX_WINDOWS {
            let message = format!("statement has more than {MAX_WINDOWS} window functions");
            return Err(exceeded(message).hint("compute some of them in a query of their own"));
        }
        let FunctionArguments::List(list) = &function.args else { return Ok(()) };
        let count = list.args.len();
        if count <= MAX_ARGUMENTS {
            return Ok(());
        }
        let message = format!(
            "call of `{}` has {count} arguments, more than the {MAX_ARGUMENTS} allowed",
            function.name
        );
        Err(exceeded(message).hint("load the values into a table, or make several calls"))
    }
}

fn check_count(what: &str, count: usize, limit: usize) -> Result<()> {
    if count <= limit {
        return Ok(());
    }
    let message = format!("{what} has {count} expressions, more than the {limit} allowed");
    Err(exceeded(message).hint("ask for fewer at a time"))
}

/// The number of sets that an element of GROUP BY stands for.
fn grouping_sets(element: &Expr) -> usize {
    match element {
        Expr::Rollup(parts) => parts.len().saturating_add(1),
        Expr::Cube(parts) => {
            u32::try_from(parts.len()).ok().and_then(|n| 2_usize.checked_pow(n)).unwrap_or(usize::MAX)
        }
        Expr::GroupingSets(parts) => {
            let sets = parts.iter().map(|part| part.iter().map(grouping_sets).fold(1, usize::saturating_mul));
            sets.fold(0, usize::saturating_add).max(1)
        }
        _ => 1,
    }
}

/// The number of expressions that an element of GROUP BY groups by.
fn grouped_by(element: &Expr) -> usize {
    match element {
        Expr::Rollup(parts) | Expr::Cube(parts) | Expr::GroupingSets(parts) => {
            parts.iter().map(Vec::len).fold(0, usize::saturating_add)
        }
        _ => 1,
    }
}

fn is_subquery(expr: &Expr) -> bool {
    matches!(expr, Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. })
}

impl Visitor for Expansion {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        let names = query.with.iter().flat_map(|with| &with.cte_tables).map(|cte| folded(&cte.alias.name));
        let mut coming: Vec<String> = names.collect();
        coming.reverse();
        self.open.push(Frame { coming, ..Frame::default() });
        self.add(1, 0);
        let ordered = match &query.order_by {
            Some(OrderBy { kind: OrderByKind::Expressions(items), .. }) => items.len(),
            _ => 0,
        };
        self.or_break(check_count("ORDER BY", ordered, MAX_COLUMNS))
    }

    /// The walk visits queries in WITH before the body of the query that has them.
    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        let checked = self.check();
        let Some(inner) = self.open.pop() else { return self.or_break(checked) };
        if let Some(frame) = self.open.last_mut() {
            match frame.coming.pop() {
                Some(name) => {
                    frame.with.insert(name, inner.size);
                    // A query in WITH is planned even if nothing reads it.
                    frame.size.add(Size { nodes: 1, parts: 0 });
                }
                None => frame.size.add(inner.size),
            }
        }
        self.or_break(checked)
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        let checked = self.select(select);
        self.or_break(checked)
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        if let TableFactor::Table { name, args: None, .. } = factor {
            let size = self.in_with(name);
            self.add(size.nodes, size.parts);
        }
        self.add(1, 0);
        let checked = self.check();
        self.or_break(checked)
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        self.add(0, parts(matches!(expr, Expr::Value(_))));
        match expr {
            Expr::Function(function) => {
                let checked = self.call(function);
                return self.or_break(checked);
            }
            Expr::Case { operand, conditions, .. } => {
                let limit = if operand.is_some() { MAX_ARMS } else { MAX_CONDITIONS };
                return self.or_break(check_count("CASE", conditions.len(), limit));
            }
            _ => {}
        }
        if is_subquery(expr) {
            self.subqueries += 1;
            if self.subqueries > MAX_SUBQUERIES {
                let message = format!("queries within expressions are nested deeper than {MAX_SUBQUERIES}");
                return self.or_break(Err(
                    exceeded(message).hint("write them as joins, or with common table expressions")
                ));
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        self.subqueries -= usize::from(is_subquery(expr));
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
#[path = "expansion_tests.rs"]
mod tests;
