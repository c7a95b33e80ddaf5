//! Casts to types that name objects, such as `'orders'::regclass`, as calls of the functions that look the objects up.
//!
//! A value of such a type is a number that is shown as a name. The engine has numbers and texts only: where a value is an
//! output column, or is cast to text, it becomes the name, and the number everywhere else.

use datafusion::sql::sqlparser::ast::{
    CastKind, DataType as SqlType, Expr, Ident, Select, SelectItem, SetExpr, Value, ValueWithSpan,
};
use nyala_sql::statement::title_of;

use super::snippets::substituted;
use super::walk::{Rewrite, any_expr};

/// The types, with the function that finds the OID of a name.
const TYPES: &[(&str, &str)] = &[
    ("regclass", "nyala_regclass"),
    ("regcollation", "nyala_regcollation"),
    ("regnamespace", "nyala_regnamespace"),
    ("regproc", "nyala_regproc"),
    ("regprocedure", "nyala_regproc"),
    ("regrole", "nyala_regrole"),
    ("regtype", "nyala_regtype"),
];

/// Columns of type `regproc` that hold names of functions in the system tables.
const FUNCTION_COLUMNS: &[&str] = &[
    "amhandler",
    "oprcode",
    "oprjoin",
    "oprrest",
    "prsend",
    "prsheadline",
    "prslextype",
    "prsstart",
    "prstoken",
    "tmplinit",
    "tmpllexize",
    "prosupport",
    "typanalyze",
    "typinput",
    "typmodin",
    "typmodout",
    "typoutput",
    "typreceive",
    "typsend",
    "typsubscript",
];

/// Rewrites casts to these types, and comparisons of columns that hold names of functions.
pub struct ObjectCasts;

impl Rewrite for ObjectCasts {
    fn expr(&mut self, expr: &mut Expr) {
        let replacement = match expr {
            Expr::Cast { expr: inner, data_type, .. } => of_cast(inner, data_type),
            Expr::BinaryOp { left, right, .. } => {
                compare_by_name(left, right);
                compare_by_name(right, left);
                None
            }
            Expr::InList { expr: column, list, .. } if is_function_column(column) => {
                list.iter_mut().for_each(as_function_name);
                None
            }
            _ => None,
        };
        if let Some(replacement) = replacement {
            *expr = replacement;
        }
    }
}

/// Makes output columns of these types show names, under the titles that they had. A column of a UNION shows names only if it
/// does in every query of the UNION.
pub fn show_names(body: &mut SetExpr) {
    let mut shown: Option<Vec<bool>> = None;
    each_select(body, &mut |select| {
        let of =
            select.projection.iter().map(|item| expr_of(item).is_some_and(|expr| shown_name(expr).is_some()));
        let of: Vec<bool> = of.collect();
        shown = Some(match shown.take() {
            Some(before) => before.iter().zip(&of).map(|(one, other)| *one && *other).collect(),
            None => of,
        });
    });
    let shown = shown.unwrap_or_default();
    each_select(body, &mut |select| {
        for (at, item) in select.projection.iter_mut().enumerate() {
            keep_title(item);
            if shown.get(at) == Some(&true)
                && let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item
                && let Some(name) = shown_name(expr)
            {
                *expr = name;
            }
        }
    });
}

fn each_select(body: &mut SetExpr, visit: &mut dyn FnMut(&mut Select)) {
    match body {
        SetExpr::Select(select) => visit(select),
        SetExpr::SetOperation { left, right, .. } => {
            each_select(left, visit);
            each_select(right, visit);
        }
        _ => {}
    }
}

fn expr_of(item: &SelectItem) -> Option<&Expr> {
    match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
        _ => None,
    }
}

/// Keeps PostgreSQL's title of an output column with a cast to such a type.
fn keep_title(item: &mut SelectItem) {
    let is_object = |expr: &Expr| match expr {
        Expr::Cast { expr, data_type, .. } => function_of(data_type).is_some() || is_function_column(expr),
        _ => false,
    };
    if let (Some(title), SelectItem::UnnamedExpr(expr)) = (title_of(item), &mut *item)
        && any_expr(&*expr, &mut |expr| is_object(expr))
    {
        let alias = Ident::with_quote('"', title);
        *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
    }
}

/// The name that a cast to one of the types shows.
fn shown_name(expr: &Expr) -> Option<Expr> {
    let Expr::Cast { expr: inner, data_type, .. } = expr else { return None };
    let function = function_of(data_type)?;
    if is_function_column(inner) {
        return None;
    }
    substituted(&format!("{function}_name({function}(p))"), inner)
}

fn of_cast(inner: &Expr, data_type: &SqlType) -> Option<Expr> {
    if is_list_of_types(data_type) {
        return substituted("nyala_regtype_names(p)", inner);
    }
    if let Some(function) = function_of(data_type) {
        return match is_function_column(inner) {
            true => Some(inner.clone()),
            false => substituted(&format!("{function}(p)"), inner),
        };
    }
    if is_function_column(inner) && is_number(data_type) {
        return substituted("coalesce(to_regproc(p), 0)", inner);
    }
    if is_text(data_type) { shown_name(inner) } else { None }
}

/// The function that finds objects of a type.
fn function_of(data_type: &SqlType) -> Option<&'static str> {
    let written = data_type.to_string().to_ascii_lowercase();
    let name = written.strip_prefix("pg_catalog.").unwrap_or(&written);
    TYPES.iter().find(|(known, _)| *known == name).map(|(_, function)| *function)
}

fn is_list_of_types(data_type: &SqlType) -> bool {
    let written = data_type.to_string().to_ascii_lowercase();
    written.strip_prefix("pg_catalog.").unwrap_or(&written) == "regtype[]"
}

fn is_text(data_type: &SqlType) -> bool {
    let name = data_type.to_string().to_ascii_lowercase();
    matches!(
        name.strip_prefix("pg_catalog.").unwrap_or(&name),
        "text" | "varchar" | "character varying" | "name"
    )
}

fn is_number(data_type: &SqlType) -> bool {
    let name = data_type.to_string().to_ascii_lowercase();
    matches!(
        name.strip_prefix("pg_catalog.").unwrap_or(&name),
        "oid" | "int" | "integer" | "int4" | "bigint" | "int8"
    )
}

fn is_function_column(expr: &Expr) -> bool {
    let name = match expr {
        Expr::Identifier(name) => Some(name),
        Expr::CompoundIdentifier(names) => names.last(),
        Expr::Nested(inner) => return is_function_column(inner),
        _ => None,
    };
    name.is_some_and(|name| FUNCTION_COLUMNS.iter().any(|known| name.value.eq_ignore_ascii_case(known)))
}

/// Compares a column of functions with the name of a function: the OID 0 is `-`, no function.
fn compare_by_name(column: &Expr, other: &mut Expr) {
    if is_function_column(column) {
        as_function_name(other);
    }
}

fn as_function_name(value: &mut Expr) {
    let name = match value {
        Expr::Value(ValueWithSpan { value: Value::Number(number, _), .. }) if number == "0" => "-".to_owned(),
        Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(name), .. }) => bare(name),
        Expr::Cast { kind: CastKind::DoubleColon | CastKind::Cast, expr, data_type, .. }
            if function_of(data_type) == Some("nyala_regproc") =>
        {
            match expr.as_ref() {
                Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(name), .. }) => bare(name),
                _ => return,
            }
        }
        _ => return,
    };
    *value = Expr::Value(Value::SingleQuotedString(name).with_empty_span());
}

fn bare(name: &str) -> String {
    let name = name.strip_prefix("pg_catalog.").unwrap_or(name);
    if name == "0" { "-".to_owned() } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use datafusion::sql::sqlparser::ast::Statement;

    use super::super::snippets::statement;
    use super::super::walk::rewrite;
    use super::*;

    #[test]
    fn casts_become_calls() {
        let check = |sql, expected| {
            let mut ast = statement(sql).unwrap();
            if let Statement::Query(query) = &mut ast {
                show_names(&mut query.body);
            }
            rewrite(&mut ast, &mut ObjectCasts);
            assert_eq!(ast.to_string(), expected);
        };
        check("SELECT 1 FROM t WHERE a = 'o'::regclass", "SELECT 1 FROM t WHERE a = nyala_regclass('o')");
        check("SELECT a::regclass FROM t", "SELECT nyala_regclass_name(nyala_regclass(a)) AS \"a\" FROM t");
        check(
            "SELECT 1 WHERE a::pg_catalog.regtype::text = 'x'",
            "SELECT 1 WHERE nyala_regtype_name(nyala_regtype(a)) = 'x'",
        );
        check("SELECT 'o'::regclass::oid", "SELECT nyala_regclass('o')::oid AS \"oid\"");
        check(
            "SELECT 1 WHERE a = (b::regtype[])::text[]",
            "SELECT 1 WHERE a = (nyala_regtype_names(b))::TEXT[]",
        );
        check("SELECT 1 FROM t WHERE typreceive != 0", "SELECT 1 FROM t WHERE typreceive <> '-'");
        check("SELECT typsend::regproc FROM t", "SELECT typsend AS \"typsend\" FROM t");
    }
}
