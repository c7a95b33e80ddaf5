//! Pieces of SQL, parsed where trees built by hand would be hard to read.

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, Query, Statement as Ast};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;

use super::walk::{Rewrite, rewrite};

/// Parses one expression. None only if `sql` is not one.
pub fn expression(sql: &str) -> Option<Expr> {
    Parser::new(&PostgreSqlDialect {}).try_with_sql(sql).ok()?.parse_expr().ok()
}

/// Parses one statement.
pub fn statement(sql: &str) -> Option<Ast> {
    Parser::parse_sql(&PostgreSqlDialect {}, sql).ok()?.pop()
}

/// Parses one query.
pub fn query(sql: &str) -> Option<Box<Query>> {
    match statement(sql)? {
        Ast::Query(query) => Some(query),
        _ => None,
    }
}

/// The conjunction of conditions; none if there are none.
pub fn all_of(conditions: impl IntoIterator<Item = Expr>) -> Option<Expr> {
    conditions.into_iter().reduce(|left, right| Expr::BinaryOp {
        left: Box::new(left),
        op: BinaryOperator::And,
        right: Box::new(right),
    })
}

/// A text as SQL writes it.
pub fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// Parses an expression in which the name `p` stands for `value`.
pub fn substituted(sql: &str, value: &Expr) -> Option<Expr> {
    let mut expr = expression(sql)?;
    rewrite(&mut expr, &mut Substitute(value));
    Some(expr)
}

struct Substitute<'a>(&'a Expr);

impl Rewrite for Substitute<'_> {
    /// Runs after the children: otherwise a `p` within the value would be replaced again.
    fn whole_expr(&mut self, expr: &mut Expr) {
        if matches!(expr, Expr::Identifier(name) if name.value == "p") {
            *expr = self.0.clone();
        }
    }
}
