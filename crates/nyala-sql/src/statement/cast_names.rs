//! Gives casts names. DataFusion leaves casts out of the names of columns, and takes `sum(x)` and `sum(x::bigint)` for one column.

use std::collections::HashMap;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    DataType, ExactNumberInfo, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList,
    FunctionArguments, GroupByExpr, Ident, Query, SelectItem, SetExpr, Statement, Value, VisitMut,
    VisitorMut, visit_expressions_mut,
};

/// The function that stands for a named cast. Its arguments are the cast, and its type as a text.
pub const NAMED_CAST: &str = "nyala_named_cast";

/// Names the casts of each query with two keys or two calls that differ in their casts alone, and casts in
/// rows of VALUES to types that carry more than an Arrow type.
pub fn name_casts(statement: &mut Statement) {
    let _ = statement.visit(&mut Naming);
}

struct Naming;

impl VisitorMut for Naming {
    type Break = ();

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if let SetExpr::Values(values) = query.body.as_mut() {
            for value in values.rows.iter_mut().flat_map(|row| row.iter_mut()) {
                if matches!(value, Expr::Cast { data_type, .. } if is_marked(data_type)) {
                    name(value);
                }
            }
        }
        if differ_in_casts(query) {
            let _ = visit_expressions_mut(query, |expr| {
                name(expr);
                ControlFlow::<()>::Continue(())
            });
        }
        ControlFlow::Continue(())
    }
}

/// Whether a type carries more than an Arrow type, such as a length.
fn is_marked(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Numeric(ExactNumberInfo::None)
            | DataType::Decimal(ExactNumberInfo::None)
            | DataType::Dec(ExactNumberInfo::None)
            | DataType::Varchar(Some(_))
            | DataType::CharacterVarying(Some(_))
            | DataType::Char(_)
            | DataType::Character(_)
            | DataType::JSON
            | DataType::JSONB
    )
}

/// Replaces a cast by a call of [`NAMED_CAST`], whose column name has the type.
fn name(expr: &mut Expr) {
    let Expr::Cast { data_type, .. } = expr else { return };
    let written = Expr::Value(Value::SingleQuotedString(data_type.to_string()).with_empty_span());
    let argument = |expr: Expr| FunctionArg::Unnamed(FunctionArgExpr::Expr(expr));
    let cast = std::mem::replace(expr, Expr::Value(Value::Null.with_empty_span()));
    *expr = Expr::Function(Function {
        name: vec![Ident::new(NAMED_CAST)].into(),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args: vec![argument(cast), argument(written)],
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    });
}

/// Whether two keys or calls of a query differ in their casts alone.
fn differ_in_casts(query: &mut Query) -> bool {
    let mut found = Vec::new();
    let mut has_cast = false;
    if let SetExpr::Select(select) = query.body.as_mut() {
        let is_grouped = match &select.group_by {
            GroupByExpr::All(_) => true,
            GroupByExpr::Expressions(keys, _) => {
                found.extend(keys.iter().cloned());
                !keys.is_empty()
            }
        };
        for item in &select.projection {
            if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item
                && is_grouped
            {
                found.push(expr.clone());
            }
        }
    } else {
        return false;
    }
    let _ = visit_expressions_mut(query, |expr| {
        match expr {
            Expr::Cast { .. } => has_cast = true,
            Expr::Function(_) => found.push(expr.clone()),
            _ => {}
        }
        ControlFlow::<()>::Continue(())
    });
    if !has_cast {
        return false;
    }
    let mut known: HashMap<String, String> = HashMap::new();
    found.iter().any(|expr| {
        let written = expr.to_string();
        let earlier = known.entry(without_casts(expr)).or_insert_with(|| written.clone());
        *earlier != written
    })
}

fn without_casts(expr: &Expr) -> String {
    let mut plain = expr.clone();
    let _ = visit_expressions_mut(&mut plain, |expr| {
        while let Expr::Cast { expr: inner, .. } | Expr::Nested(inner) = expr {
            *expr = inner.as_ref().clone();
        }
        ControlFlow::<()>::Continue(())
    });
    plain.to_string()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    use super::*;

    #[test]
    fn only_casts_that_tell_columns_apart_get_names() {
        let check = |sql: &str, named: bool| {
            let mut statement = Parser::parse_sql(&PostgreSqlDialect {}, sql).unwrap().remove(0);
            name_casts(&mut statement);
            assert_eq!(statement.to_string().contains(NAMED_CAST), named, "{statement}");
        };
        check("SELECT sum(x), sum(x::bigint) FROM t", true);
        check("SELECT sum(x::bigint), sum(x::bigint) FROM t", false);
        check("SELECT t::date, t::time FROM q GROUP BY 1, 2", true);
        check("SELECT count(*) FROM q GROUP BY t, (t::date)", true);
        check("SELECT x, x::text FROM q", false);
        check("SELECT a FROM (SELECT max(x::date) AS a, max(x) AS b FROM q) s", true);
        check("VALUES (1::numeric, 2::int)", true);
        check("SELECT 1::numeric", false);
    }
}
