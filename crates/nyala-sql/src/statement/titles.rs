//! Names of columns that a query gives none, as PostgreSQL names them: `sum(x)` is `sum`, `a + 1` is `?column?`.

use std::collections::HashMap;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    ArrayElemTypeDef, DataType, Expr, Ident, Query, Select, SelectItem, SetExpr, Statement, TrimWhereField,
    VisitMut, VisitorMut,
};

use super::query_depth::AtDepths;
use super::versions::folded;

/// The name of a column without a name of its own.
pub const NAMELESS: &str = "?column?";

/// The first character of generated names, which distinguish columns of one name: no client writes it by accident.
const MARK: char = '\u{1}';

/// The column name of an item of a SELECT list; none if the item stands for any number of columns.
pub fn title_of(item: &SelectItem) -> Option<String> {
    match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(folded(alias)),
        SelectItem::UnnamedExpr(expr) => Some(title(expr)),
        _ => None,
    }
}

/// A column name that differs from all others.
pub fn marked(position: usize, title: &str) -> String {
    format!("{MARK}{position}{MARK}{title}")
}

/// The name that a column had before it was [`marked`].
pub fn unmarked(name: &str) -> &str {
    name.strip_prefix(MARK).and_then(|rest| rest.split_once(MARK)).map_or(name, |(_, title)| title)
}

/// The items of the SELECT that names the columns of a query: for a set operation that of the first query.
pub fn items_of(query: &Query) -> Option<&[SelectItem]> {
    fn items(body: &SetExpr) -> Option<&[SelectItem]> {
        match body {
            SetExpr::Select(select) => Some(&select.projection),
            SetExpr::Query(query) => items(&query.body),
            SetExpr::SetOperation { left, .. } => items(left),
            _ => None,
        }
    }
    items(&query.body)
}

fn title(expr: &Expr) -> String {
    figure(expr).map_or_else(|| NAMELESS.to_owned(), |(name, _)| name)
}

/// How well a name fits: a cast is named after its operand, or else after its type.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fit {
    Type,
    Own,
}

fn figure(expr: &Expr) -> Option<(String, Fit)> {
    let own = |name: &str| Some((name.to_owned(), Fit::Own));
    match expr {
        Expr::Identifier(name) => Some((folded(name), Fit::Own)),
        Expr::CompoundIdentifier(names) => Some((folded(names.last()?), Fit::Own)),
        Expr::CompoundFieldAccess { root, .. } => figure(root),
        Expr::Nested(inner) | Expr::Collate { expr: inner, .. } => figure(inner),
        Expr::Function(function) => {
            let name = folded(function.name.0.last()?.as_ident()?);
            Some((name, Fit::Own))
        }
        Expr::Cast { expr, data_type, .. } => match figure(expr) {
            Some((name, Fit::Own)) => Some((name, Fit::Own)),
            _ => Some((type_name(data_type), Fit::Type)),
        },
        Expr::TypedString(typed) => Some((type_name(&typed.data_type), Fit::Type)),
        Expr::Interval(_) => Some(("interval".to_owned(), Fit::Type)),
        Expr::Case { else_result, .. } => match else_result.as_deref().and_then(figure) {
            Some((name, Fit::Own)) => Some((name, Fit::Own)),
            _ => Some(("case".to_owned(), Fit::Type)),
        },
        Expr::Exists { .. } => own("exists"),
        Expr::Subquery(query) => {
            let name = title_of(items_of(query)?.first()?)?;
            (name != NAMELESS).then_some((name, Fit::Own))
        }
        Expr::Array(_) => own("array"),
        Expr::Tuple(_) => own("row"),
        Expr::Extract { .. } => own("extract"),
        Expr::Ceil { .. } => own("ceil"),
        Expr::Floor { .. } => own("floor"),
        Expr::Position { .. } => own("position"),
        Expr::Substring { .. } => own("substring"),
        Expr::Overlay { .. } => own("overlay"),
        Expr::AtTimeZone { .. } => own("timezone"),
        Expr::Trim { trim_where, .. } => own(match trim_where {
            Some(TrimWhereField::Leading) => "ltrim",
            Some(TrimWhereField::Trailing) => "rtrim",
            _ => "btrim",
        }),
        _ => None,
    }
}

/// The name of a type in PostgreSQL's catalog.
fn type_name(data_type: &DataType) -> String {
    match data_type {
        DataType::SmallInt(_) | DataType::Int2(_) => "int2".to_owned(),
        DataType::Int(_) | DataType::Integer(_) | DataType::Int4(_) => "int4".to_owned(),
        DataType::BigInt(_) | DataType::Int8(_) => "int8".to_owned(),
        DataType::Real | DataType::Float4 => "float4".to_owned(),
        DataType::Double(_) | DataType::DoublePrecision | DataType::Float8 | DataType::Float(_) => {
            "float8".to_owned()
        }
        DataType::Numeric(_) | DataType::Decimal(_) | DataType::Dec(_) => "numeric".to_owned(),
        DataType::Boolean | DataType::Bool => "bool".to_owned(),
        DataType::Varchar(_) | DataType::CharacterVarying(_) | DataType::CharVarying(_) => {
            "varchar".to_owned()
        }
        DataType::Char(_) | DataType::Character(_) => "bpchar".to_owned(),
        DataType::Timestamp(_, zone) => {
            let with_zone = zone.to_string().to_uppercase().contains("WITH TIME ZONE")
                || zone.to_string().to_uppercase() == "TZ";
            if with_zone { "timestamptz".to_owned() } else { "timestamp".to_owned() }
        }
        DataType::Time(..) => "time".to_owned(),
        DataType::Array(
            ArrayElemTypeDef::SquareBracket(item, _)
            | ArrayElemTypeDef::AngleBracket(item)
            | ArrayElemTypeDef::Parenthesis(item),
        ) => type_name(item),
        other => {
            let name = other.to_string().to_lowercase();
            name.split(['(', ' ']).next().unwrap_or_default().trim_matches('"').to_owned()
        }
    }
}

/// Names the columns of subqueries in a statement: others may refer to these names, and the planner allows no two columns with one name.
pub fn name_columns_within(statement: &mut Statement) {
    let _ = statement.visit(&mut AtDepths::within_query(Naming));
}

struct Naming;

impl VisitorMut for Naming {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        name_columns(select);
        ControlFlow::Continue(())
    }
}

fn name_columns(select: &mut Select) {
    let has_any = select.projection.iter().any(|item| title_of(item).is_none());
    // It is not known here whether a table has a column of the name.
    let may_be_taken = select.having.is_some() || select.qualify.is_some();
    let mut known: HashMap<String, usize> = HashMap::new();
    for (position, item) in select.projection.iter_mut().enumerate() {
        let Some(title) = title_of(item) else { continue };
        let count = known.entry(title.clone()).or_default();
        *count += 1;
        let is_again = *count > 1;
        let is_column = matches!(
            item,
            SelectItem::UnnamedExpr(Expr::Identifier(_) | Expr::CompoundIdentifier(_))
                | SelectItem::ExprWithAlias { .. }
        );
        let name = match is_again || (!is_column && (has_any || may_be_taken)) {
            true => marked(position, &title),
            false if is_column => continue,
            false => title,
        };
        let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = item else { continue };
        *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias: Ident::with_quote('"', name) };
    }
}
