//! Descriptions of result columns for clients, beyond the types of their values: the table and the number of the column, and
//! the length that it was declared with.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::{Arc, Weak};

use datafusion::sql::sqlparser::ast::{
    DataType as SqlType, ExactNumberInfo, Expr, Select, SelectItem, SetExpr, Statement as Ast,
};
use nyala_engine::Origin;
use nyala_model::TableEntry;
use nyala_sql::statement::Statement;
use pgwire::api::Type;

use crate::catalog::{ColumnType, Relation, user_relation};
use crate::types::type_named;

/// Number of tables whose columns a thread caches.
const MAX_REMEMBERED: usize = 256;

/// What is known of a column besides the type of its values.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Described {
    /// A type of texts that is narrower than `text`.
    pub kind: Option<Type>,
    /// `atttypmod`: precision and scale, or length.
    pub modifier: Option<i32>,
    /// The table, and the number of the column in it, if the result shows the column unchanged.
    pub place: Option<(i32, i16)>,
}

/// The descriptions of the columns of a statement.
pub fn described(statement: &Statement, origins: &[Option<Origin>]) -> Vec<Described> {
    let casts = statement.ast().map(written_casts).unwrap_or_default();
    let of = |(at, origin): (usize, &Option<Origin>)| match (casts.get(at), origin) {
        (Some(Some(written)), _) => of_cast(written),
        (_, Some(Origin::Table { entry, column, through_view })) => {
            of_column(entry, column, *through_view).unwrap_or_default()
        }
        (_, Some(Origin::Call { name, of })) => of_call(name, of.as_deref()),
        (_, None) => Described::default(),
    };
    origins.iter().enumerate().map(of).collect()
}

/// The types that the outermost casts of the columns name, if the text has an item for each column.
fn written_casts(ast: &Ast) -> Vec<Option<SqlType>> {
    let Ast::Query(query) = ast else { return Vec::new() };
    let Some(select) = select_of(&query.body) else { return Vec::new() };
    let is_wildcard =
        |item: &SelectItem| matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..));
    if select.projection.iter().any(is_wildcard) {
        return Vec::new();
    }
    let cast = |item: &SelectItem| match item {
        SelectItem::UnnamedExpr(Expr::Cast { data_type, .. })
        | SelectItem::ExprWithAlias { expr: Expr::Cast { data_type, .. }, .. } => Some(data_type.clone()),
        _ => None,
    };
    select.projection.iter().map(cast).collect()
}

fn select_of(body: &SetExpr) -> Option<&Select> {
    match body {
        SetExpr::Select(select) => Some(select),
        SetExpr::Query(query) => select_of(&query.body),
        _ => None,
    }
}

fn of_cast(written: &SqlType) -> Described {
    let kind = type_named(written).filter(is_narrower);
    let modifier = match (&kind, written) {
        (Some(_), written) => ColumnType { kind: Type::TEXT, modifier: -1 }.written(written).modifier,
        (None, SqlType::Numeric(digits) | SqlType::Decimal(digits) | SqlType::Dec(digits)) => {
            numeric_modifier(digits)
        }
        _ => -1,
    };
    Described { kind, modifier: Some(modifier), place: None }
}

fn numeric_modifier(digits: &ExactNumberInfo) -> i32 {
    let of = |precision: u64, scale: i64| {
        let (precision, scale) = (i32::try_from(precision).ok()?, i32::try_from(scale).ok()?);
        Some((precision.checked_shl(16)? | scale & 0x7ff) + 4)
    };
    match digits {
        ExactNumberInfo::None => None,
        ExactNumberInfo::Precision(precision) => of(*precision, 0),
        ExactNumberInfo::PrecisionAndScale(precision, scale) => of(*precision, *scale),
    }
    .unwrap_or(-1)
}

/// Types that the engine keeps as another, wider type.
fn is_narrower(kind: &Type) -> bool {
    is_text(kind) || matches!(*kind, Type::OID | Type::CHAR)
}

/// Types that the engine keeps as text.
fn is_text(kind: &Type) -> bool {
    matches!(*kind, Type::VARCHAR | Type::BPCHAR | Type::NAME | Type::JSON | Type::JSONB)
}

fn of_call(name: &str, argument: Option<&Origin>) -> Described {
    let kind = match name {
        // A part of a JSON value is of the type of the value.
        "json_step" | "json_extract_path" => Some(kind_of(argument).unwrap_or(Type::JSON)),
        "json" | "json_build_object" | "to_json" | "row_to_json" => Some(Type::JSON),
        "jsonb" | "jsonb_extract_path" | "jsonb_build_object" | "to_jsonb" => Some(Type::JSONB),
        _ => None,
    };
    Described { kind, ..Described::default() }
}

/// The type of a function's argument, if that is a type of texts.
fn kind_of(origin: Option<&Origin>) -> Option<Type> {
    match origin? {
        Origin::Table { entry, column, .. } => of_column(entry, column, false)?.kind,
        Origin::Call { name, of } => of_call(name, of.as_deref()).kind,
    }
}

fn of_column(entry: &Arc<TableEntry>, name: &str, through_view: bool) -> Option<Described> {
    let relation = remembered(entry);
    let column = relation.columns.iter().find(|column| column.name == name)?;
    let ColumnType { kind, modifier } = column.column_type.clone();
    Some(Described {
        kind: Some(kind).filter(is_text),
        modifier: Some(modifier),
        place: (!through_view).then_some((relation.oid, column.number)),
    })
}

/// The columns of a table. Each thread caches them, because the table's statement is parsed for them.
fn remembered(entry: &Arc<TableEntry>) -> Arc<Relation> {
    type Known = HashMap<usize, (Weak<TableEntry>, Arc<Relation>)>;
    thread_local! {
        static KNOWN: RefCell<Known> = RefCell::default();
    }
    let address = Arc::as_ptr(entry).addr();
    KNOWN.with_borrow_mut(|known| {
        if let Some((of, relation)) = known.get(&address)
            && of.upgrade().is_some_and(|of| Arc::ptr_eq(&of, entry))
        {
            return Arc::clone(relation);
        }
        if known.len() >= MAX_REMEMBERED {
            known.clear();
        }
        let relation = Arc::new(user_relation(entry));
        known.insert(address, (Arc::downgrade(entry), Arc::clone(&relation)));
        relation
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::translation::snippets::statement;

    fn of(sql: &str, columns: usize) -> Vec<Described> {
        described(&Statement::from_ast(statement(sql).unwrap()), &vec![None; columns])
    }

    #[test]
    fn casts_tell_their_types() {
        let check = |sql: &str, kind: Option<Type>, modifier: i32| {
            let expected = Described { kind, modifier: Some(modifier), place: None };
            assert_eq!(of(sql, 1), [expected], "{sql}");
        };
        check("SELECT a::varchar(7) FROM t", Some(Type::VARCHAR), 11);
        check("SELECT a::char FROM t", Some(Type::BPCHAR), 5);
        check("SELECT a::jsonb AS b FROM t", Some(Type::JSONB), -1);
        check("SELECT a::numeric(12, 2) FROM t", None, (12 << 16 | 2) + 4);
        check("SELECT a::int FROM t", None, -1);
    }

    #[test]
    fn columns_of_a_wildcard_are_not_counted() {
        assert_eq!(of("SELECT *, a::varchar(7) FROM t", 3), vec![Described::default(); 3]);
    }
}
