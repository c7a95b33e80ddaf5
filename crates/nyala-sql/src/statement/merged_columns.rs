//! Columns that JOIN … USING and NATURAL JOIN merge.
//!
//! ```text
//! SELECT *, k + 1 FROM a FULL JOIN b USING (k)
//! SELECT coalesce(a.k, b.k) AS k, a.x, b.y, coalesce(a.k, b.k) + 1 FROM a FULL JOIN b ON a.k = b.k
//! ```
//!
//! The planner takes the column of one table for the merged one, even where only the other table has a value.
//! So such joins are written with ON here, and names of merged columns are replaced by their values.

use datafusion::sql::sqlparser::ast::{
    Distinct, Expr, Ident, OrderBy, OrderByKind, Select, SelectItem, SetExpr, TableAlias, TableFactor,
    TableWithJoins,
};

use super::clauses::unsupported;
use super::join_constraint::{Kept, is_merging, merges};
use super::join_sides::Side;
use super::snippets::parse_query;
use super::titles::{marked, title_of};
use super::versions::folded;
use crate::error::Result;

/// Known facts about the relations in a FROM.
#[derive(Clone, Copy)]
pub struct Known<'a> {
    /// The columns of a relation, before its alias renames them; none if they are not known.
    pub columns_of: &'a dyn Fn(&TableFactor) -> Option<Vec<String>>,
    /// A column that no NATURAL JOIN merges.
    pub hidden: &'a str,
}

/// Writes USING and NATURAL of a SELECT's joins as ON. False if too little is known about their tables: then the SELECT stays as it is.
pub fn merge_columns(select: &mut Select, order_by: Option<&mut OrderBy>, known: Known<'_>) -> Result<bool> {
    if !select.from.iter().any(merges) {
        return Ok(true);
    }
    let mut from = select.from.clone();
    let Some(side) = side_of_from(&mut from, known)? else { return Ok(false) };
    let Some(projection) = side.shown(&select.projection)? else { return Ok(false) };
    select.from = from;
    select.projection = projection;
    side.replace_names(&mut select.projection, &[]);
    side.replace_names(&mut select.selection, &[]);
    side.replace_names(&mut select.group_by, &[]);
    side.replace_names(&mut select.having, &[]);
    side.replace_names(&mut select.named_window, &[]);
    side.replace_names(&mut select.qualify, &[]);
    merge_in_keys(select, order_by, &side);
    Ok(true)
}

/// Replaces names of merged columns in DISTINCT ON and ORDER BY. There a name stands for an item of the
/// SELECT list, if there is one, and a `*` may have any.
fn merge_in_keys(select: &mut Select, order_by: Option<&mut OrderBy>, side: &Side) {
    let Select { distinct, projection, .. } = select;
    let on = match distinct {
        Some(Distinct::On(keys)) => keys.as_mut_slice(),
        _ => &mut [],
    };
    let orders = match order_by {
        Some(OrderBy { kind: OrderByKind::Expressions(orders), .. }) => orders.as_mut_slice(),
        _ => &mut [],
    };
    let kept: Vec<String> = projection.iter().filter_map(|item| side.merged_item(item)).collect();
    let is_item = |key: &Expr| {
        matches!(key, Expr::Identifier(name)
            if projection.iter().any(|item| title_of(item).is_none_or(|title| title == folded(name))))
    };
    for key in on.iter_mut().chain(orders.iter_mut().map(|order| &mut order.expr)) {
        if !is_item(key) {
            side.replace_names(key, &kept);
        }
    }
}

/// Refuses joins that could not be merged, where the planner would take a merged column from the wrong table.
pub fn refuse_unmerged(select: &Select) -> Result<()> {
    let shows_all = select.projection.iter().any(|item| matches!(item, SelectItem::Wildcard(_)));
    select.from.iter().try_for_each(|from| refuse_in(from, shows_all))
}

fn refuse_in(from: &TableWithJoins, shows_all: bool) -> Result<()> {
    let refuse_table = |table: &TableFactor| match table {
        TableFactor::NestedJoin { table_with_joins, alias } => {
            refuse_in(table_with_joins, shows_all || alias.is_some())
        }
        _ => Ok(()),
    };
    refuse_table(&from.relation)?;
    for join in &from.joins {
        refuse_table(&join.relation)?;
        let is_wrong = match Kept::by(&join.join_operator) {
            Kept::Both | Kept::Right => true,
            Kept::Left => shows_all,
            Kept::Neither => false,
        };
        if is_wrong && is_merging(&join.join_operator) {
            return Err(unsupported(
                "USING or NATURAL in an outer join of tables whose columns are not known",
                "join by ON, or put the tables before it in a subquery with a name",
            ));
        }
    }
    Ok(())
}

/// Writes the joins of a FROM with ON, and returns its columns; none if too little is known.
pub fn side_of_from(from: &mut [TableWithJoins], known: Known<'_>) -> Result<Option<Side>> {
    let mut all = Side::default();
    for from in from {
        let Some(side) = side_of_joins(from, known)? else { return Ok(None) };
        all = all.beside(side);
    }
    Ok(Some(all))
}

fn side_of_joins(from: &mut TableWithJoins, known: Known<'_>) -> Result<Option<Side>> {
    let Some(mut left) = side_of(&mut from.relation, known)? else { return Ok(None) };
    for join in &mut from.joins {
        let Some(right) = side_of(&mut join.relation, known)? else { return Ok(None) };
        let Some(joined) = left.join(right, &mut join.join_operator, known.hidden)? else { return Ok(None) };
        left = joined;
    }
    Ok(Some(left))
}

fn side_of(table: &mut TableFactor, known: Known<'_>) -> Result<Option<Side>> {
    match table {
        TableFactor::NestedJoin { table_with_joins, alias: None } => {
            return side_of_joins(table_with_joins, known);
        }
        TableFactor::NestedJoin { table_with_joins, alias: Some(alias) } if merges(table_with_joins) => {
            let Some(derived) = as_query(table_with_joins, alias, known)? else { return Ok(None) };
            *table = derived;
        }
        _ => {}
    }
    let table: &TableFactor = table;
    Ok(Some(Side::of(table, (known.columns_of)(table))))
}

/// Writes joins in brackets with an alias, which hides their tables, as a query.
fn as_query(joins: &TableWithJoins, alias: &TableAlias, known: Known<'_>) -> Result<Option<TableFactor>> {
    let mut joins = joins.clone();
    let Some(mut items) = side_of_joins(&mut joins, known)?.and_then(|side| side.items()) else {
        return Ok(None);
    };
    // The planner does not allow two columns with one name.
    let mut titles: Vec<String> = Vec::new();
    for (position, item) in items.iter_mut().enumerate() {
        let Some(title) = title_of(item) else { continue };
        let again = match item {
            SelectItem::UnnamedExpr(expr) if titles.contains(&title) => Some(expr.clone()),
            _ => None,
        };
        if let Some(expr) = again {
            let alias = Ident::with_quote('"', marked(position, &title));
            *item = SelectItem::ExprWithAlias { expr, alias };
        }
        titles.push(title);
    }
    let mut subquery = parse_query("SELECT 1")?;
    if let SetExpr::Select(select) = subquery.body.as_mut() {
        (select.projection, select.from) = (items, vec![joins]);
    }
    Ok(Some(TableFactor::Derived { lateral: false, subquery, alias: Some(alias.clone()), sample: None }))
}
