//! Set-returning functions in SELECT lists and in FROM: `generate_series` and its kin become the `unnest` of a list.
//!
//! ```text
//! SELECT id, generate_series(1, n) FROM t      SELECT id, unnest(generate_series(1, n)) AS generate_series FROM t
//! … FROM a, regexp_matches(a.t, 'x', 'g') m    … FROM a, LATERAL (SELECT unnest(regexp_matches(a.t, 'x', 'g')) AS m) AS m
//! ```

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectNamePart, OrderBy,
    OrderByKind, Query, Select, SelectItem, SetExpr, TableAlias, TableAliasColumnDef, TableFactor,
    UnaryOperator, Value, ValueWithSpan, Visit, VisitMut, Visitor, VisitorMut,
};

use super::query_depth::AtDepths;
use super::snippets::{parse_expr, parse_query};
use super::titles::{marked, title_of};
use super::versions::folded;
use crate::error::Result;

/// The alias of the series that a SELECT without FROM reads.
const SERIES: &str = "\u{1}series";

/// The function that returns the rows of a set-returning function as a list; none for functions that return one value.
fn as_list(name: &str) -> Option<&'static str> {
    Some(match name {
        "generate_series" => "generate_series",
        "generate_subscripts" => "generate_subscripts",
        "regexp_matches" => "regexp_matches",
        "regexp_split_to_table" => "regexp_split_to_array",
        _ => return None,
    })
}

/// Whether a function takes lists: its argument is the list itself, and not its elements as rows.
fn takes_lists(name: &str) -> bool {
    matches!(name, "unnest" | "cardinality") || name.starts_with("array_") || name.starts_with("list_")
}

fn name_of(function: &Function) -> Option<String> {
    match function.name.0.as_slice() {
        [.., name] => name.as_ident().map(folded),
        [] => None,
    }
}

/// Whether an expression has a set-returning function outside of its subqueries.
fn has_rows(expr: &Expr) -> bool {
    let mut rows = AtDepths::outside_queries(Rows::default());
    let _ = Visit::visit(expr, &mut rows);
    rows.visitor.found > 0
}

/// Replaces an ORDER BY key that equals an item of the SELECT list by the item's position, so that its rows are not made twice.
pub fn order_by_items(query: &mut Query) {
    let SetExpr::Select(select) = query.body.as_ref() else { return };
    let Some(OrderBy { kind: OrderByKind::Expressions(orders), .. }) = &mut query.order_by else { return };
    for order in orders.iter_mut().filter(|order| has_rows(&order.expr)) {
        let is_same = |item: &SelectItem| match item {
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => *expr == order.expr,
            _ => false,
        };
        if let Some(position) = select.projection.iter().position(is_same) {
            order.expr = Expr::Value(Value::Number((position + 1).to_string(), false).into());
        }
    }
}

/// Writes the set-returning functions in a SELECT list as `unnest` of lists.
pub fn rows_in_list(select: &mut Select) {
    for item in &mut select.projection {
        let title = title_of(item);
        let expr = match item {
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } if has_rows(expr) => expr,
            _ => continue,
        };
        let mut expr = std::mem::replace(expr, Expr::Identifier(Ident::new("")));
        let alias = Ident::with_quote('"', title.unwrap_or_default());
        let _ = VisitMut::visit(&mut expr, &mut AtDepths::outside_queries(Rows::default()));
        *item = SelectItem::ExprWithAlias { expr, alias };
    }
}

/// Moves the only series of a SELECT without FROM into FROM, where it is not made as one list.
pub fn series_to_from(select: &mut Select) {
    let series: Vec<&SelectItem> = select.projection.iter().filter(|item| is_series(item)).collect();
    let [only] = series.as_slice() else { return };
    let others = select.projection.iter().filter(|item| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => has_rows(expr),
        _ => true,
    });
    if !select.from.is_empty() || others.count() != 1 {
        return;
    }
    let (SelectItem::UnnamedExpr(call) | SelectItem::ExprWithAlias { expr: call, .. }) = *only else {
        return;
    };
    let text = format!("SELECT 1 FROM {call} AS \"{SERIES}\" (\"{SERIES}\")");
    let Ok(query) = parse_query(&text) else { return };
    let SetExpr::Select(read) = *query.body else { return };
    select.from = read.from;
    for item in &mut select.projection {
        if is_series(item) {
            let alias = Ident::with_quote('"', title_of(item).unwrap_or_default());
            *item =
                SelectItem::ExprWithAlias { expr: Expr::Identifier(Ident::with_quote('"', SERIES)), alias };
        }
    }
}

/// Whether an item is a series of constant whole numbers.
fn is_series(item: &SelectItem) -> bool {
    let (SelectItem::UnnamedExpr(Expr::Function(function))
    | SelectItem::ExprWithAlias { expr: Expr::Function(function), .. }) = item
    else {
        return false;
    };
    name_of(function).as_deref() == Some("generate_series")
        && matches!(&function.args, FunctionArguments::List(list) if list.args.iter().all(is_whole_constant))
}

fn is_whole_constant(argument: &FunctionArg) -> bool {
    fn is_whole(expr: &Expr) -> bool {
        match expr {
            Expr::Value(ValueWithSpan { value: Value::Number(digits, _), .. }) => {
                digits.bytes().all(|digit| digit.is_ascii_digit())
            }
            Expr::UnaryOp { op: UnaryOperator::Minus, expr } => is_whole(expr),
            _ => false,
        }
    }
    matches!(argument, FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) if is_whole(expr))
}

/// Counts the set-returning functions of an expression, or writes them as `unnest` of lists.
#[derive(Default)]
struct Rows {
    /// Number of functions of lists that the walk has entered.
    lists: usize,
    found: usize,
}

impl Rows {
    fn enter(&mut self, expr: &Expr) {
        let Expr::Function(function) = expr else { return };
        let Some(name) = name_of(function) else { return };
        self.found += usize::from(self.lists == 0 && as_list(&name).is_some());
        self.lists += usize::from(takes_lists(&name));
    }
}

impl Visitor for Rows {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        self.enter(expr);
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        if let Expr::Function(function) = expr {
            self.lists -= usize::from(name_of(function).is_some_and(|name| takes_lists(&name)));
        }
        ControlFlow::Continue(())
    }
}

impl VisitorMut for Rows {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        self.enter(expr);
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let Expr::Function(function) = expr else { return ControlFlow::Continue(()) };
        let Some(name) = name_of(function) else { return ControlFlow::Continue(()) };
        self.lists -= usize::from(takes_lists(&name));
        if let Some(list) = as_list(&name).filter(|_| self.lists == 0)
            && let Ok(unnest) = parse_expr("unnest(a)")
            && let Expr::Function(mut unnest) = unnest
        {
            function.name.0 = vec![ObjectNamePart::Identifier(Ident::new(list))];
            let call = FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Function(function.clone())));
            if let FunctionArguments::List(arguments) = &mut unnest.args {
                arguments.args = vec![call];
            }
            *expr = Expr::Function(unnest);
        }
        ControlFlow::Continue(())
    }
}

/// Rewrites a set-returning function in FROM: its column is named by the alias of the table.
pub fn rows_of_table(factor: &mut TableFactor) -> Result<()> {
    let (lists, alias, has_ordinality) = match factor {
        TableFactor::Table { name, args: Some(arguments), alias, with_ordinality, .. } => {
            let Some(name) = name.0.last().and_then(|name| name.as_ident()).map(folded) else {
                return Ok(());
            };
            let Some(list) = as_list(&name) else { return Ok(()) };
            if name == "generate_series" && !*with_ordinality && arguments.args.iter().all(is_whole_constant)
            {
                named_alike(alias, &name);
                return Ok(());
            }
            (vec![(name, called(list, &arguments.args))], alias.take(), *with_ordinality)
        }
        TableFactor::Function { name, args, alias, with_ordinality, .. } => {
            let Some(name) = name.0.last().and_then(|name| name.as_ident()).map(folded) else {
                return Ok(());
            };
            let lists = match as_list(&name) {
                Some(list) => vec![(name, called(list, args))],
                None if name == "unnest" => {
                    args.iter().map(|list| (name.clone(), list.to_string())).collect()
                }
                None => return Ok(()),
            };
            (lists, alias.take(), *with_ordinality)
        }
        TableFactor::UNNEST { alias, array_exprs, with_offset: false, with_ordinality, .. } => {
            let lists = array_exprs.iter().map(|list| ("unnest".to_owned(), list.to_string())).collect();
            (lists, alias.take(), *with_ordinality)
        }
        _ => return Ok(()),
    };
    *factor = derived(&lists, alias, has_ordinality)?;
    Ok(())
}

/// Names the only column after the table.
fn named_alike(alias: &mut Option<TableAlias>, function: &str) {
    let alias = alias.get_or_insert_with(|| table_alias(function));
    if alias.columns.is_empty() {
        alias.columns = vec![TableAliasColumnDef { name: alias.name.clone(), data_type: None }];
    }
}

fn table_alias(name: &str) -> TableAlias {
    TableAlias { explicit: true, name: Ident::with_quote('"', name), columns: Vec::new(), at: None }
}

fn called(list: &str, arguments: &[FunctionArg]) -> String {
    let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
    format!("{list}({})", arguments.join(", "))
}

fn derived(
    lists: &[(String, String)],
    alias: Option<TableAlias>,
    has_ordinality: bool,
) -> Result<TableFactor> {
    let of_function = lists.first().map_or("unnest", |(name, _)| name.as_str());
    let mut alias = alias.unwrap_or_else(|| table_alias(of_function));
    let given: Vec<Ident> = alias.columns.drain(..).map(|column| column.name).collect();
    let named = |position: usize, otherwise: String| match given.get(position) {
        Some(name) => name.clone(),
        None => Ident::with_quote('"', otherwise),
    };
    let mut columns: Vec<String> = Vec::new();
    for (position, (name, list)) in lists.iter().enumerate() {
        let own = match lists {
            [_] => folded(&alias.name),
            _ if position == 0 => name.clone(),
            _ => marked(position, name),
        };
        columns.push(format!("unnest({list}) AS {}", named(position, own)));
    }
    if let (true, [(_, list), ..]) = (has_ordinality, lists) {
        let name = named(lists.len(), "ordinality".to_owned());
        columns.push(format!("unnest(generate_series(1::bigint, cardinality({list})::bigint)) AS {name}"));
    }
    let subquery = parse_query(&format!("SELECT {}", columns.join(", ")))?;
    let lateral = names_columns(&subquery);
    Ok(TableFactor::Derived { lateral, subquery, alias: Some(alias), sample: None })
}

/// Whether a query without FROM names columns, which then belong to tables before it.
fn names_columns(query: &Query) -> bool {
    struct Names(bool);
    impl Visitor for Names {
        type Break = ();

        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            self.0 |= matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_));
            ControlFlow::Continue(())
        }
    }
    let mut names = Names(false);
    let _ = Visit::visit(query, &mut names);
    names.0
}
