//! The ORDER BY of a query with DISTINCT. For DISTINCT ON, its keys are made distinct, and both lists are brought into the same order.
//!
//! PostgreSQL compares the keys of DISTINCT ON and ORDER BY as sets, and takes numbers for positions of the SELECT list.
//! DataFusion's planner compares key by key. A key may have the name of its table in one of the lists and not in the other.

use datafusion::sql::sqlparser::ast::{
    Distinct, Expr, Ident, OrderBy, OrderByExpr, OrderByKind, OrderByOptions, Query, Select, SelectItem,
    SetExpr, TableFactor, TableWithJoins, Value,
};

use super::join_constraint::merges;
use super::join_sides::relation;
use super::outside_subqueries::change_outside_subqueries;
use super::titles::title_of;
use super::versions::folded;

/// Writes the keys of DISTINCT ON in the order of ORDER BY, and adds those that ORDER BY lacks to it. A query
/// whose ORDER BY begins with other keys stays as it is: the planner refuses it.
pub fn keys_in_order(query: &mut Query) {
    let SetExpr::Select(select) = query.body.as_mut() else { return };
    let Select { distinct: Some(Distinct::On(keys)), projection, from, .. } = select.as_mut() else { return };
    let items: &[SelectItem] = projection;
    let columns = Columns::of(from);
    for key in keys.iter_mut() {
        if let Some(item) = item_at(key, items) {
            *key = item;
        }
    }
    let mut known = Vec::new();
    keys.retain(|key| columns.is_new(&mut known, columns.plain(meant(key, items))));
    let Some(OrderBy { kind: OrderByKind::Expressions(orders), .. }) = &mut query.order_by else { return };
    // The planner would look for an item by its position among the rows below.
    for order in orders.iter_mut() {
        if let Some(item) = item_at(&order.expr, items) {
            order.expr = item;
        }
    }
    let mut sorted = Vec::new();
    orders.retain(|order| columns.is_new(&mut sorted, columns.plain(meant(&order.expr, items))));
    let is_known = |key: &Expr| known.iter().any(|other| columns.are_same(key, other));
    if !sorted.iter().take(known.len()).all(is_known) {
        return;
    }
    let place = |key: &Expr| sorted.iter().position(|other| columns.are_same(key, other));
    let mut placed: Vec<(Option<usize>, Expr)> = known.iter().map(place).zip(keys.drain(..)).collect();
    placed.sort_by_key(|(place, _)| place.unwrap_or(usize::MAX));
    for (place, key) in placed {
        if place.is_none() {
            let options = OrderByOptions::default();
            orders.push(OrderByExpr { expr: key.clone(), options, with_fill: None });
        }
        keys.push(key);
    }
}

/// Writes keys in the ORDER BY of a SELECT DISTINCT as the positions of the equal items. The planner looks for
/// the columns of such a key among the items, and finds none in `SELECT DISTINCT a + 1 AS b … ORDER BY a + 1`.
pub fn places_in_order(query: &mut Query) {
    let SetExpr::Select(select) = query.body.as_ref() else { return };
    let Select { distinct: Some(Distinct::Distinct), projection: items, from, .. } = select.as_ref() else {
        return;
    };
    let Some(OrderBy { kind: OrderByKind::Expressions(orders), .. }) = &mut query.order_by else { return };
    let columns = Columns::of(from);
    // Items after a `*` are not counted, because it stands for several columns.
    let listed = items.iter().take_while(|item| title_of(item).is_some()).filter_map(|item| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
        _ => None,
    });
    let listed: Vec<Expr> = listed.map(|expr| columns.plain(expr.clone())).collect();
    // A plain name may be that of an item.
    for order in orders.iter_mut().filter(|order| !stands_alone(&order.expr)) {
        let key = columns.plain(order.expr.clone());
        if let Some(place) = listed.iter().position(|item| columns.are_same(item, &key)) {
            let position = Value::Number((place + 1).to_string(), false);
            order.expr = Expr::Value(position.into());
        }
    }
}

/// Whether a key is a plain name or a constant, brackets aside.
fn stands_alone(key: &Expr) -> bool {
    match key {
        Expr::Nested(inner) => stands_alone(inner),
        other => matches!(other, Expr::Identifier(_) | Expr::Value(_)),
    }
}

/// Compares names of columns, which may have a qualifier or none.
struct Columns {
    /// The tables of FROM, by the names that qualify their columns.
    tables: Vec<Option<String>>,
    /// Whether a join merges columns: then a name with a qualifier means the column of one side.
    are_merged: bool,
}

impl Columns {
    fn of(from: &[TableWithJoins]) -> Self {
        let mut columns = Self { tables: Vec::new(), are_merged: from.iter().any(merges) };
        from.iter().for_each(|from| columns.add(from));
        columns
    }

    fn add(&mut self, from: &TableWithJoins) {
        self.add_table(&from.relation);
        from.joins.iter().for_each(|join| self.add_table(&join.relation));
    }

    fn add_table(&mut self, table: &TableFactor) {
        match table {
            TableFactor::NestedJoin { table_with_joins, alias: None } => self.add(table_with_joins),
            table => self.tables.push(relation(table).map(|name| folded(&name))),
        }
    }

    /// Whether a qualifier is that of a table in FROM.
    fn has(&self, qualifier: &str) -> bool {
        self.tables.iter().flatten().any(|table| table == qualifier)
    }

    /// The expression in the form that is compared: names in one spelling, and no brackets. A subquery stays as it is.
    fn plain(&self, mut key: Expr) -> Expr {
        change_outside_subqueries(&mut key, |part| self.spell(part));
        key
    }

    /// Writes a name in one spelling, or removes a pair of brackets.
    fn spell(&self, expr: &mut Expr) {
        let spelt = |name: &Ident| Ident::with_quote('"', folded(name));
        match expr {
            Expr::Identifier(name) => *name = spelt(name),
            Expr::CompoundIdentifier(names) => {
                let names: Vec<Ident> = names.iter().map(spelt).collect();
                // With one table no name needs a qualifier.
                let column = match (self.tables.as_slice(), names.as_slice()) {
                    ([Some(only)], [.., table, column]) if *only == table.value => Some(column.clone()),
                    _ => None,
                };
                *expr = column.map_or(Expr::CompoundIdentifier(names), Expr::Identifier);
            }
            Expr::Nested(inner) => {
                *expr = std::mem::replace(inner.as_mut(), Expr::Identifier(Ident::new("")));
            }
            _ => {}
        }
    }

    /// Whether two plain keys are the same. A name without a qualifier equals one with the qualifier of a
    /// table in FROM, because it can mean the column of only one of them.
    fn are_same(&self, one: &Expr, other: &Expr) -> bool {
        match (one, other) {
            (Expr::Identifier(name), Expr::CompoundIdentifier(names))
            | (Expr::CompoundIdentifier(names), Expr::Identifier(name)) => match names.as_slice() {
                [.., table, column] => !self.are_merged && column == name && self.has(&table.value),
                _ => false,
            },
            _ => one == other,
        }
    }

    /// Adds a key if no equal one is known; returns whether it did.
    fn is_new(&self, known: &mut Vec<Expr>, key: Expr) -> bool {
        let is_new = !known.iter().any(|other| self.are_same(&key, other));
        if is_new {
            known.push(key);
        }
        is_new
    }
}

/// The expression that a key stands for: a position and a name stand for an item of the SELECT list.
fn meant(key: &Expr, items: &[SelectItem]) -> Expr {
    let key = item_at(key, items).unwrap_or_else(|| key.clone());
    let Expr::Identifier(name) = &key else { return key };
    let name = folded(name);
    let named = items.iter().find(|item| title_of(item).is_some_and(|title| title == name));
    match named {
        Some(SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) => expr.clone(),
        _ => key,
    }
}

/// The item at a position, by its alias if it has one.
fn item_at(key: &Expr, items: &[SelectItem]) -> Option<Expr> {
    let Expr::Value(value) = key else { return None };
    let Value::Number(position, _) = &value.value else { return None };
    let at = position.parse::<usize>().ok()?.checked_sub(1)?;
    // Items after a `*` have no known position, because it stands for several columns.
    if items.iter().take(at).any(|item| title_of(item).is_none()) {
        return None;
    }
    match items.get(at)? {
        SelectItem::ExprWithAlias { alias, .. } => Some(Expr::Identifier(alias.clone())),
        SelectItem::UnnamedExpr(expr) => Some(expr.clone()),
        _ => None,
    }
}
