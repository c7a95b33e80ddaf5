//! DISTINCT ON and its ORDER BY, with each key once and both in the same order.
//!
//! PostgreSQL compares both as sets, and takes numbers for positions of the SELECT list. DataFusion's planner compares key by key.

use datafusion::sql::sqlparser::ast::{
    Distinct, Expr, OrderBy, OrderByExpr, OrderByKind, OrderByOptions, Query, Select, SelectItem, SetExpr,
    Value,
};

use super::titles::title_of;
use super::versions::folded;

/// Writes the keys of DISTINCT ON in the order of ORDER BY, which gets those that it lacks. A query whose ORDER BY begins
/// with other keys stays as it is: the planner refuses it.
pub fn keys_in_order(query: &mut Query) {
    let SetExpr::Select(select) = query.body.as_mut() else { return };
    let Select { distinct: Some(Distinct::On(keys)), projection, .. } = select.as_mut() else { return };
    let items: &[SelectItem] = projection;
    for key in keys.iter_mut() {
        if let Some(item) = item_at(key, items) {
            *key = item;
        }
    }
    let mut known = Vec::new();
    keys.retain(|key| is_new(&mut known, meant(key, items)));
    let Some(OrderBy { kind: OrderByKind::Expressions(orders), .. }) = &mut query.order_by else { return };
    // The planner would look for the item in the rows below it.
    for order in orders.iter_mut() {
        if let Some(item) = item_at(&order.expr, items) {
            order.expr = item;
        }
    }
    let mut sorted = Vec::new();
    orders.retain(|order| is_new(&mut sorted, meant(&order.expr, items)));
    if !sorted.iter().take(known.len()).all(|key| known.contains(key)) {
        return;
    }
    let place = |key: &Expr| sorted.iter().position(|other| other == key);
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

/// Adds a key, if there is no equal one.
fn is_new(known: &mut Vec<Expr>, key: Expr) -> bool {
    let is_new = !known.contains(&key);
    if is_new {
        known.push(key);
    }
    is_new
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
    // Behind a `*` of some columns, positions are not those of items.
    if items.iter().take(at).any(|item| title_of(item).is_none()) {
        return None;
    }
    match items.get(at)? {
        SelectItem::ExprWithAlias { alias, .. } => Some(Expr::Identifier(alias.clone())),
        SelectItem::UnnamedExpr(expr) => Some(expr.clone()),
        _ => None,
    }
}
