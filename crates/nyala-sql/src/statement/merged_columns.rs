//! Columns that JOIN … USING and NATURAL JOIN merge.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, ExcludeSelectItem, Expr, Ident, JoinConstraint, JoinOperator, ObjectName, Query, Select,
    SelectItem, SelectItemQualifiedWildcardKind, TableFactor, TableWithJoins, VisitMut, VisitorMut,
    WildcardAdditionalOptions,
};

use super::clauses::unsupported;
use super::snippets::parse_expr;
use super::versions::folded;
use crate::error::Result;

/// A column of a JOIN … USING is that of the side that has it, where DataFusion takes that of one table.
pub fn merge_columns(select: &mut Select) -> Result<()> {
    let mut merged: Vec<(Ident, Expr)> = Vec::new();
    // Tables, and their columns that were merged.
    let mut sources: Vec<(Ident, Ident)> = Vec::new();
    let shows_all = select.projection.iter().any(|item| matches!(item, SelectItem::Wildcard(_)));
    for from in &mut select.from {
        merge_joins(from, shows_all, &mut merged, &mut sources)?;
    }
    if merged.is_empty() {
        return Ok(());
    }
    let mut items = Vec::with_capacity(select.projection.len() + merged.len());
    for item in std::mem::take(&mut select.projection) {
        match item {
            SelectItem::Wildcard(options) => {
                if options.opt_exclude.is_some() || options.opt_except.is_some() {
                    return Err(unsupported("EXCLUDE with a RIGHT or FULL JOIN USING", "join by ON"));
                }
                items.extend(merged.iter().map(|(name, value)| SelectItem::ExprWithAlias {
                    expr: value.clone(),
                    alias: name.clone(),
                }));
                items.extend(all_but_merged(&select.from, &sources, &options)?);
            }
            SelectItem::UnnamedExpr(Expr::Identifier(name)) => {
                let value = merged_as(&merged, &name).cloned();
                items.push(match value {
                    Some(expr) => SelectItem::ExprWithAlias { expr, alias: name },
                    None => SelectItem::UnnamedExpr(Expr::Identifier(name)),
                });
            }
            other => items.push(other),
        }
    }
    select.projection = items;
    let mut references = References { merged: &merged, depth: 0 };
    let _ = select.projection.visit(&mut references);
    let _ = select.selection.visit(&mut references);
    let _ = select.group_by.visit(&mut references);
    let _ = select.having.visit(&mut references);
    let _ = select.qualify.visit(&mut references);
    Ok(())
}

/// The columns of each table, without those that were merged.
fn all_but_merged(
    from: &[TableWithJoins],
    sources: &[(Ident, Ident)],
    options: &WildcardAdditionalOptions,
) -> Result<Vec<SelectItem>> {
    let mut items = Vec::new();
    let joined = from
        .iter()
        .flat_map(|from| std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation)));
    for factor in joined {
        let Some(name) = relation(factor) else {
            return Err(unsupported("`*` over a table without a name beside USING", "give it an alias"));
        };
        let own = sources.iter().filter(|(table, _)| is_same(table, &name));
        let own: Vec<ObjectName> = own.map(|(_, column)| ObjectName::from(vec![column.clone()])).collect();
        let mut options = options.clone();
        options.opt_exclude = (!own.is_empty()).then_some(ExcludeSelectItem::Multiple(own));
        let kind = SelectItemQualifiedWildcardKind::ObjectName(ObjectName::from(vec![name]));
        items.push(SelectItem::QualifiedWildcard(kind, options));
    }
    Ok(items)
}

fn merge_joins(
    from: &mut TableWithJoins,
    shows_all: bool,
    merged: &mut Vec<(Ident, Expr)>,
    sources: &mut Vec<(Ident, Ident)>,
) -> Result<()> {
    let mut relations = vec![relation(&from.relation)];
    for join in &mut from.joins {
        let right = relation(&join.relation);
        relations.push(right.clone());
        let is_full = matches!(join.join_operator, JoinOperator::FullOuter(_));
        let is_right = matches!(join.join_operator, JoinOperator::Right(_) | JoinOperator::RightOuter(_));
        let is_left = matches!(join.join_operator, JoinOperator::Left(_) | JoinOperator::LeftOuter(_));
        let (JoinOperator::Join(constraint)
        | JoinOperator::Inner(constraint)
        | JoinOperator::Left(constraint)
        | JoinOperator::LeftOuter(constraint)
        | JoinOperator::Right(constraint)
        | JoinOperator::RightOuter(constraint)
        | JoinOperator::FullOuter(constraint)) = &mut join.join_operator
        else {
            continue;
        };
        let names = match constraint {
            JoinConstraint::Using(names) => {
                names.iter().filter_map(|name| name.0.last()?.as_ident().cloned()).collect::<Vec<_>>()
            }
            JoinConstraint::Natural if is_right || is_full || (is_left && shows_all) => {
                return Err(unsupported("NATURAL in an outer join", "name the columns: JOIN … USING (…)"));
            }
            _ => continue,
        };
        let is_merged_before = names.iter().any(|name| merged_as(merged, name).is_some());
        let mut conditions = Vec::with_capacity(names.len());
        for name in names {
            let left = merged_as(merged, &name).cloned();
            let left = match (left, relations.as_slice()) {
                (Some(left), _) => left,
                (None, [Some(left), _]) => {
                    sources.push((left.clone(), name.clone()));
                    column(left, &name)
                }
                _ if is_right || is_full || is_merged_before || (is_left && shows_all) => {
                    return Err(unsupported(
                        "USING in an outer join of several tables",
                        "join by ON, or put the tables before it in a subquery with a name",
                    ));
                }
                _ => continue,
            };
            let Some(right) = &right else {
                return Err(unsupported("USING with a table without a name", "give it an alias"));
            };
            sources.push((right.clone(), name.clone()));
            let right = column(right, &name);
            conditions.push(equal(left.clone(), right.clone()));
            let value = match (is_full, is_right) {
                (true, _) => parse_expr(&format!("coalesce({left}, {right})"))?,
                (_, true) => right,
                _ => left,
            };
            merged.retain(|(other, _)| !is_same(other, &name));
            merged.push((name, value));
        }
        let both = |left, right| Expr::BinaryOp {
            left: Box::new(left),
            op: BinaryOperator::And,
            right: Box::new(right),
        };
        if let Some(condition) = conditions.into_iter().reduce(both) {
            *constraint = JoinConstraint::On(condition);
        }
    }
    Ok(())
}

/// Replaces names of merged columns, in the query itself and not in its subqueries.
struct References<'a> {
    merged: &'a [(Ident, Expr)],
    depth: usize,
}

impl VisitorMut for References<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if self.depth == 0
            && let Expr::Identifier(name) = expr
            && let Some(value) = merged_as(self.merged, name)
        {
            *expr = value.clone();
        }
        ControlFlow::Continue(())
    }
}

fn merged_as<'a>(merged: &'a [(Ident, Expr)], name: &Ident) -> Option<&'a Expr> {
    merged.iter().find(|(other, _)| is_same(other, name)).map(|(_, value)| value)
}

/// Whether two names mean the same.
fn is_same(one: &Ident, other: &Ident) -> bool {
    folded(one) == folded(other)
}

/// The name by which columns of a table are found.
fn relation(factor: &TableFactor) -> Option<Ident> {
    match factor {
        TableFactor::Table { alias: Some(alias), .. } | TableFactor::Derived { alias: Some(alias), .. } => {
            Some(alias.name.clone())
        }
        TableFactor::Table { name, .. } => name.0.last()?.as_ident().cloned(),
        _ => None,
    }
}

fn column(relation: &Ident, name: &Ident) -> Expr {
    Expr::CompoundIdentifier(vec![relation.clone(), name.clone()])
}

fn equal(left: Expr, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op: BinaryOperator::Eq, right: Box::new(right) }
}
