//! Parameters inside a statement: their numbers, the types that the text gives them, and the types that only
//! the client knows.

use std::collections::BTreeSet;

use datafusion::sql::sqlparser::ast::{
    ArrayElemTypeDef, BinaryOperator, CastKind, DataType as SqlType, ExactNumberInfo, Expr, FunctionArg,
    FunctionArgExpr, FunctionArguments, Select, SetExpr, Statement as Ast, TimezoneInfo, Value,
    ValueWithSpan,
};
use nyala_sql::statement::Statement;
use pgwire::api::Type;

use super::snippets::{all_of, expression};
use super::walk::{Rewrite, any_expr, rewrite};
use crate::catalog::array_element;
use crate::types::type_named;

/// The number of a placeholder: 1 for `$1`.
fn number_of(expr: &Expr) -> Option<usize> {
    match expr {
        Expr::Value(ValueWithSpan { value: Value::Placeholder(name), .. }) => {
            name.strip_prefix('$')?.parse().ok().filter(|number| *number > 0)
        }
        _ => None,
    }
}

/// The numbers of all placeholders.
pub fn numbers(statement: &Ast) -> BTreeSet<usize> {
    let mut numbers = BTreeSet::new();
    any_expr(statement, &mut |expr| {
        numbers.extend(number_of(expr));
        false
    });
    numbers
}

/// The types that casts such as `$1::date` give the parameters, as OIDs; 0 without a cast.
pub fn written_types(statement: &Statement) -> Vec<u32> {
    let mut types = Vec::new();
    let Some(ast) = statement.ast() else {
        return types;
    };
    any_expr(ast, &mut |expr| {
        if let Expr::Cast { expr, data_type, .. } = expr
            && let (Some(number), Some(kind)) = (number_of(expr), type_named(data_type))
        {
            if types.len() < number {
                types.resize(number, 0);
            }
            if let Some(slot) = types.get_mut(number - 1) {
                *slot = kind.oid();
            }
        }
        false
    });
    types
}

/// Adds the parameters that rewriting has dropped to `rewritten`, in a condition that always holds: the
/// client goes on sending values for them.
pub fn restore(wanted: &BTreeSet<usize>, rewritten: &mut Ast) {
    let found = numbers(rewritten);
    let lost = wanted.difference(&found);
    let conditions = lost.filter_map(|n| expression(&format!("(CAST(${n} AS TEXT) IS NULL) IS NOT NULL")));
    let conditions: Vec<Expr> = conditions.collect();
    if let Some(select) = first_select(rewritten)
        && !conditions.is_empty()
    {
        select.selection = all_of(select.selection.take().into_iter().chain(conditions));
    }
}

fn first_select(ast: &mut Ast) -> Option<&mut Select> {
    let Ast::Query(query) = ast else {
        return None;
    };
    let mut body = query.body.as_mut();
    loop {
        body = match body {
            SetExpr::Select(select) => return Some(select),
            SetExpr::Query(query) => query.body.as_mut(),
            SetExpr::SetOperation { left, .. } => left.as_mut(),
            _ => return None,
        };
    }
}

/// The types that functions want of parameters among their arguments; none for parameters elsewhere. PostgreSQL knows them from
/// its catalog of functions.
pub fn types_of_calls(statement: &Statement) -> Vec<Option<Type>> {
    let mut types: Vec<Option<Type>> = Vec::new();
    let Some(ast) = statement.ast() else { return types };
    any_expr(ast, &mut |expr| {
        for (number, kind) in wanted_by(expr) {
            if types.len() < number {
                types.resize(number, None);
            }
            if let Some(slot) = types.get_mut(number - 1) {
                slot.get_or_insert(kind);
            }
        }
        false
    });
    types
}

/// Functions with the places of their arguments that are whole numbers.
const WHOLE_NUMBERS: &[(&str, &[usize])] = &[
    ("array_length", &[1]),
    ("chr", &[0]),
    ("generate_series", &[0, 1, 2]),
    ("lag", &[1]),
    ("lead", &[1]),
    ("left", &[1]),
    ("lpad", &[1]),
    ("make_date", &[0, 1, 2]),
    ("nth_value", &[1]),
    ("ntile", &[0]),
    ("repeat", &[1]),
    ("right", &[1]),
    ("round", &[1]),
    ("rpad", &[1]),
    ("split_part", &[2]),
    ("substr", &[1, 2]),
    ("to_hex", &[0]),
    ("trunc", &[1]),
];

/// The parameters among the arguments of a call, with the types that the call needs.
fn wanted_by(expr: &Expr) -> Vec<(usize, Type)> {
    let whole = |expr: &Expr| Some((number_of(expr)?, Type::INT4));
    match expr {
        Expr::Substring { substring_from, substring_for, .. } => {
            [substring_from, substring_for].into_iter().flatten().filter_map(|part| whole(part)).collect()
        }
        Expr::Function(call) => {
            let name =
                call.name.0.last().and_then(|part| part.as_ident()).map(|name| name.value.to_lowercase());
            let places = WHOLE_NUMBERS.iter().find(|(known, _)| Some(*known) == name.as_deref());
            let (Some((_, places)), FunctionArguments::List(list)) = (places, &call.args) else {
                return Vec::new();
            };
            let argument = |place: &usize| match list.args.get(*place)? {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => whole(expr),
                _ => None,
            };
            places.iter().filter_map(argument).collect()
        }
        _ => Vec::new(),
    }
}

/// Whether a statement uses a parameter only in comparisons.
pub fn is_only_compared(statement: &Statement, number: usize) -> bool {
    let Some(ast) = statement.ast() else { return false };
    let is_it = |expr: &Expr| number_of(expr) == Some(number);
    let (mut named, mut compared) = (0, 0);
    any_expr(ast, &mut |expr| {
        named += usize::from(is_it(expr));
        compared += match expr {
            Expr::BinaryOp { left, op, right } if is_comparison(op) => {
                usize::from(is_it(left)) + usize::from(is_it(right))
            }
            Expr::Between { expr, low, high, .. } => [expr, low, high].iter().filter(|e| is_it(e)).count(),
            Expr::InList { expr, list, .. } => {
                usize::from(is_it(expr)) + list.iter().filter(|e| is_it(e)).count()
            }
            _ => 0,
        };
        false
    });
    named == compared
}

fn is_comparison(op: &BinaryOperator) -> bool {
    use BinaryOperator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq)
}

/// A statement with casts of its parameters to types that only the client knows; none if there is nothing
/// to cast. `types[i]` is for `$i+1`.
pub fn declare_parameters(statement: &Statement, types: &[Option<Type>]) -> Option<Statement> {
    let types: Vec<Option<SqlType>> = types.iter().map(|kind| kind.as_ref().and_then(sql_type)).collect();
    types.iter().find_map(Option::as_ref)?;
    let mut ast = statement.ast()?.clone();
    let mut casts = Casts { types: &types, changed: false };
    rewrite(&mut ast, &mut casts);
    casts.changed.then(|| Statement::from_ast(ast))
}

struct Casts<'a> {
    types: &'a [Option<SqlType>],
    changed: bool,
}

impl Rewrite for Casts<'_> {
    /// Runs after the children: otherwise the placeholder inside the new cast would be cast again, for ever.
    fn whole_expr(&mut self, expr: &mut Expr) {
        if let Expr::Value(ValueWithSpan { value: Value::Placeholder(name), .. }) = expr
            && let Some(number) = name.strip_prefix('$').and_then(|number| number.parse::<usize>().ok())
            && let Some(Some(data_type)) = number.checked_sub(1).and_then(|i| self.types.get(i))
        {
            self.changed = true;
            let inner = Box::new(expr.clone());
            let data_type = data_type.clone();
            *expr = Expr::Cast { kind: CastKind::Cast, expr: inner, data_type, array: false, format: None };
        }
    }
}

fn sql_type(kind: &Type) -> Option<SqlType> {
    Some(match *kind {
        Type::BOOL => SqlType::Boolean,
        Type::INT2 => SqlType::SmallInt(None),
        Type::INT4 | Type::OID => SqlType::Integer(None),
        Type::INT8 => SqlType::BigInt(None),
        Type::FLOAT4 => SqlType::Real,
        Type::FLOAT8 => SqlType::DoublePrecision,
        Type::DATE => SqlType::Date,
        Type::TIMESTAMP => SqlType::Timestamp(None, TimezoneInfo::None),
        Type::TIMESTAMPTZ => SqlType::Timestamp(None, TimezoneInfo::WithTimeZone),
        Type::BYTEA => SqlType::Bytea,
        Type::UUID => SqlType::Uuid,
        Type::NUMERIC => SqlType::Numeric(ExactNumberInfo::None),
        Type::TIME => SqlType::Time(None, TimezoneInfo::None),
        Type::INTERVAL => SqlType::Interval { fields: None, precision: None },
        Type::JSON => SqlType::JSON,
        Type::JSONB => SqlType::JSONB,
        _ => return array_element(kind).and_then(|item| item_type(&item)).map(array_of),
    })
}

/// The type of the elements of an array that a parameter is cast to. Only a single text needs no cast.
fn item_type(item: &Type) -> Option<SqlType> {
    match *item {
        Type::TEXT | Type::VARCHAR | Type::BPCHAR | Type::NAME => Some(SqlType::Text),
        _ => sql_type(item),
    }
}

fn array_of(item: SqlType) -> SqlType {
    SqlType::Array(ArrayElemTypeDef::SquareBracket(Box::new(item), None))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]
    use super::super::snippets::statement as parse_one;
    use super::*;

    fn parse(sql: &str) -> Vec<Statement> {
        vec![Statement::from_ast(parse_one(sql).unwrap())]
    }

    #[test]
    fn parameters_are_cast_to_what_the_client_knows() {
        let statement = parse("SELECT $1, $2, $1").remove(0);
        let declared = declare_parameters(&statement, &[Some(Type::INT4), None]).unwrap();
        assert_eq!(declared.to_string(), "SELECT CAST($1 AS INTEGER), $2, CAST($1 AS INTEGER)");
        assert!(declare_parameters(&statement, &[None, Some(Type::TEXT)]).is_none());
    }

    #[test]
    fn parameters_that_are_only_compared() {
        let check = |sql, expected| assert_eq!(is_only_compared(&parse(sql).remove(0), 1), expected, "{sql}");
        check("SELECT a FROM t WHERE b >= $1 AND $2 / 2 > c", true);
        check("SELECT a FROM t WHERE b BETWEEN $1 AND $2 OR c IN (1, $1)", true);
        check("SELECT a FROM (SELECT a FROM t WHERE $1 <> b) GROUP BY a HAVING sum(b) < $1", true);
        check("SELECT a FROM t WHERE b > $1 AND b / $1 > 2", false);
        check("SELECT $1 FROM t WHERE b > $1", false);
        check("SELECT a FROM t WHERE b > -$1", false);
        check("SELECT a FROM t WHERE b = 1 LIMIT $1", false);
    }

    #[test]
    fn functions_want_whole_numbers() {
        let statement = parse("SELECT repeat($2, $1), substring(a FROM $4), upper($3) FROM t").remove(0);
        assert_eq!(types_of_calls(&statement), [Some(Type::INT4), None, None, Some(Type::INT4)]);
    }

    #[test]
    fn casts_in_the_text_give_types() {
        let statement = parse("SELECT $2::date, CAST($1 AS int), $4").remove(0);
        assert_eq!(written_types(&statement), [Type::INT4.oid(), Type::DATE.oid()]);
        assert!(written_types(&parse("SELECT 1").remove(0)).is_empty());
    }

    #[test]
    fn lost_parameters_are_restored() {
        let mut rewritten = parse_one("SELECT a FROM t WHERE b = $2").unwrap();
        restore(&BTreeSet::from([1, 2]), &mut rewritten);
        assert_eq!(
            rewritten.to_string(),
            "SELECT a FROM t WHERE b = $2 AND (CAST($1 AS TEXT) IS NULL) IS NOT NULL"
        );
    }
}
