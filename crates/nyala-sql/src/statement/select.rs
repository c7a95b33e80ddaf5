//! The SELECT of a cube as a list of dimensions and a list of measures, to be changed and written anew.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, GroupByExpr, Ident, Query, Select, SelectItem, SetExpr, Value, visit_expressions,
};

use crate::error::{QueryError, Result};

/// The columns of a cube's SELECT; tables and conditions stay where they are.
#[derive(Debug, Clone)]
pub struct CubeSelect {
    /// The dimensions, in the order of GROUP BY.
    pub dimensions: Vec<SelectDimension>,
    /// Aggregate calls, each once.
    pub measures: Vec<Expr>,
}

/// A dimension as it is written.
#[derive(Debug, Clone)]
pub struct SelectDimension {
    /// The expression in GROUP BY.
    pub group: Expr,
    /// The item in the SELECT list, where the dimension may have a name.
    pub item: Option<SelectItem>,
}

impl CubeSelect {
    /// Splits a SELECT that is grouped plainly by all dimensions.
    pub fn of(flat: &Query, is_aggregate: impl Fn(&str) -> bool) -> Result<Self> {
        let select = select_of(flat)?;
        let GroupByExpr::Expressions(groups, _) = &select.group_by else {
            return Err(QueryError::internal("the SELECT of a cube has no dimensions"));
        };
        let dimensions = groups.iter().map(|group| SelectDimension {
            item: item_of(group, &select.projection).cloned(),
            group: by_position(group, &select.projection),
        });
        let mut measures = Vec::new();
        for item in &select.projection {
            for call in item_expr(item).map(|expr| calls_in(expr, &is_aggregate)).unwrap_or_default() {
                if !measures.contains(&call) {
                    measures.push(call);
                }
            }
        }
        Ok(Self { dimensions: dimensions.collect(), measures })
    }

    /// Writes both lists into the SELECT list of `query`, for people to read.
    pub fn write_list(&self, query: &mut Query) -> Result<()> {
        self.write_measures(query, |_, call| SelectItem::UnnamedExpr(call.clone()))
    }

    /// As [`write_list`](Self::write_list), with a name for each measure, so that the SELECT stays valid if a measure comes twice.
    pub fn write_named_list(&self, query: &mut Query) -> Result<()> {
        self.write_measures(query, |number, call| SelectItem::ExprWithAlias {
            expr: call.clone(),
            alias: Ident::with_quote('"', format!("measure {number}")),
        })
    }

    fn write_measures(&self, query: &mut Query, item: impl Fn(usize, &Expr) -> SelectItem) -> Result<()> {
        let dimensions = self.dimensions.iter().filter_map(|dimension| dimension.item.clone());
        let measures = self.measures.iter().enumerate().map(|(number, call)| item(number, call));
        let mut list: Vec<SelectItem> = dimensions.chain(measures).collect();
        if list.is_empty() {
            list.extend(self.dimensions.first().map(|d| SelectItem::UnnamedExpr(d.group.clone())));
        }
        select_of_mut(query)?.projection = list;
        Ok(())
    }

    /// Groups `query` plainly by all dimensions.
    pub fn group_plainly(&self, query: &mut Query) -> Result<()> {
        let groups = self.dimensions.iter().map(|dimension| dimension.group.clone()).collect();
        group_by(query, groups)
    }

    /// Groups `query` by exactly the sets of these positions.
    pub fn group_by_sets(&self, query: &mut Query, sets: impl Iterator<Item = Vec<usize>>) -> Result<()> {
        let exprs = |set: Vec<usize>| {
            set.into_iter().filter_map(|i| self.dimensions.get(i)).map(|d| d.group.clone()).collect()
        };
        let sets: Vec<Vec<Expr>> = sets.map(exprs).collect();
        let total_only = sets.iter().all(Vec::is_empty);
        group_by(query, if total_only { Vec::new() } else { vec![Expr::GroupingSets(sets)] })
    }
}

/// Replaces numbers in the GROUP BY of `query`, which count items of its SELECT list, by these items.
pub fn resolve_positions(query: &mut Query) -> Result<()> {
    let select = select_of_mut(query)?;
    let list = select.projection.clone();
    let GroupByExpr::Expressions(elements, _) = &mut select.group_by else { return Ok(()) };
    for element in elements {
        match element {
            Expr::Rollup(parts) | Expr::Cube(parts) | Expr::GroupingSets(parts) => {
                parts.iter_mut().flatten().for_each(|leaf| *leaf = by_position(leaf, &list));
            }
            Expr::Tuple(parts) => parts.iter_mut().for_each(|leaf| *leaf = by_position(leaf, &list)),
            leaf => *leaf = by_position(leaf, &list),
        }
    }
    Ok(())
}

/// As [`resolve_positions`], in ROLLUP, CUBE and GROUPING SETS, where the planner takes numbers for
/// constants. Items after a `*` are not counted.
pub fn resolve_positions_in_sets(select: &mut Select) {
    let Select { projection, group_by, .. } = select;
    let GroupByExpr::Expressions(elements, _) = group_by else { return };
    let list = counted(projection);
    elements.iter_mut().for_each(|element| resolve_in_sets(element, list));
}

/// The items to which a number in GROUP BY may refer: those before a `*`.
pub fn counted(list: &[SelectItem]) -> &[SelectItem] {
    let counted = list.iter().take_while(|item| item_expr(item).is_some()).count();
    list.get(..counted).unwrap_or_default()
}

fn resolve_in_sets(element: &mut Expr, list: &[SelectItem]) {
    if let Expr::Rollup(parts) | Expr::Cube(parts) | Expr::GroupingSets(parts) = element {
        for leaf in parts.iter_mut().flatten() {
            *leaf = by_position(leaf, list);
            resolve_in_sets(leaf, list);
        }
    }
}

/// The outermost aggregate calls in `expr`, in their order.
pub fn calls_in(expr: &Expr, is_aggregate: impl Fn(&str) -> bool) -> Vec<Expr> {
    let mut calls = Vec::new();
    let _ = visit_expressions(expr, |expr| {
        if let Expr::Function(function) = expr
            && is_aggregate(&function.name.to_string().to_lowercase())
        {
            calls.push(expr.clone());
        }
        ControlFlow::<()>::Continue(())
    });
    calls
}

fn group_by(query: &mut Query, elements: Vec<Expr>) -> Result<()> {
    select_of_mut(query)?.group_by = GroupByExpr::Expressions(elements, Vec::new());
    Ok(())
}

fn position(expr: &Expr) -> Option<usize> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::Number(number, _) => number.to_string().parse::<usize>().ok()?.checked_sub(1),
            _ => None,
        },
        Expr::Nested(inner) => position(inner),
        _ => None,
    }
}

/// The item to which a number in GROUP BY refers; other expressions are returned as they are.
pub fn by_position(group: &Expr, list: &[SelectItem]) -> Expr {
    let item = position(group).and_then(|i| list.get(i)).and_then(item_expr);
    item.unwrap_or(group).clone()
}

/// The item to which a group expression refers, or that is the same expression.
fn item_of<'a>(group: &Expr, list: &'a [SelectItem]) -> Option<&'a SelectItem> {
    if let Some(i) = position(group) {
        return list.get(i);
    }
    let same = list.iter().find(|item| item_expr(item) == Some(group));
    same.or_else(|| {
        list.iter().find(|item| match (item, group) {
            (SelectItem::ExprWithAlias { alias, .. }, Expr::Identifier(name)) => alias.value == name.value,
            _ => false,
        })
    })
}

fn item_expr(item: &SelectItem) -> Option<&Expr> {
    match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
        _ => None,
    }
}

fn select_of(query: &Query) -> Result<&Select> {
    match query.body.as_ref() {
        SetExpr::Select(select) => Ok(select),
        _ => Err(QueryError::internal("the SELECT of a cube is not a SELECT")),
    }
}

fn select_of_mut(query: &mut Query) -> Result<&mut Select> {
    match query.body.as_mut() {
        SetExpr::Select(select) => Ok(select),
        _ => Err(QueryError::internal("the SELECT of a cube is not a SELECT")),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]

    use datafusion::sql::sqlparser::ast::Statement as SqlStatement;
    use nyala_model::config::QueryConfig;

    use super::*;
    use crate::statement::{StatementLimits, parse};

    fn query(sql: &str) -> Query {
        let statement = parse(sql, &StatementLimits::from(&QueryConfig::default())).unwrap().remove(0);
        match statement.ast() {
            Some(SqlStatement::Query(query)) => query.as_ref().clone(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn lists_are_written_as_they_were_read() {
        for (sql, expected) in [
            (
                "SELECT sum(x) / count(*) AS ratio, a, b + 1 AS c, sum(x) FROM t WHERE d GROUP BY 2, c",
                "SELECT a, b + 1 AS c, sum(x), count(*) FROM t WHERE d GROUP BY a, c",
            ),
            ("SELECT max(y) FROM t GROUP BY a, b % 2", "SELECT max(y) FROM t GROUP BY a, b % 2"),
            ("SELECT a FROM t GROUP BY a", "SELECT a FROM t GROUP BY a"),
        ] {
            let mut query = query(sql);
            let select = CubeSelect::of(&query, |name| ["sum", "count", "max"].contains(&name)).unwrap();
            select.write_list(&mut query).unwrap();
            select.group_plainly(&mut query).unwrap();
            assert_eq!(query.to_string(), expected);
        }
    }

    #[test]
    fn positions_in_grouping_sets_become_expressions() {
        let mut query = query("SELECT a, b + 1 AS c, sum(x) FROM t GROUP BY ROLLUP (1, (2)), (d)");
        resolve_positions(&mut query).unwrap();
        assert_eq!(query.to_string(), "SELECT a, b + 1 AS c, sum(x) FROM t GROUP BY ROLLUP (a, b + 1), (d)");
    }
}
