//! Replaces `current_user`, `session_user`, `current_role` and `user` by the name of the session's user when
//! a statement is prepared, because DataFusion's functions do not know the session.

use std::ops::ControlFlow;

use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{
    Delete, Expr, Function, FunctionArguments, Ident, Insert, ObjectNamePart, Query, SelectItem, SetExpr,
    Statement as SqlStatement, Update, Value, VisitMut, VisitorMut,
};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::ast::{Kind, Nyala, Statement};
use super::clauses::unsupported;
use super::live::LiveStatement;
use super::relations::RelationStatement;
use super::titles::title_of;
use crate::error::{QueryError, Result};

const WORDS: [&str; 4] = ["current_user", "session_user", "current_role", "user"];

/// Whether a text may name the session's user: one of the words is in it, maybe as the name of something else.
pub fn may_name_user(tokens: &[TokenWithSpan]) -> bool {
    tokens.iter().any(|token| matches!(&token.token, Token::Word(word) if is_word(&word.value)))
}

fn is_word(name: &str) -> bool {
    WORDS.iter().any(|word| name.eq_ignore_ascii_case(word))
}

/// Puts `user` in the places where the statement names the session's user. Then the statement's text is
/// forgotten: a plan must not be found by the text, because sessions of other users send it, too.
///
/// # Errors
/// The query of a view or a cube names the user: its meaning must not depend on the session that reads it.
pub fn name_user(statement: &mut Statement, user: &str) -> Result<()> {
    if !statement.may_name_user() {
        return Ok(());
    }
    let mut naming = Naming { user, found: false };
    match &mut statement.kind {
        Kind::DataFusion(statement) => in_statement(statement, &mut naming),
        Kind::Nyala(Nyala::CopyTo(copy)) => naming.walk(copy.query.as_mut()),
        Kind::Nyala(Nyala::Live(live)) => {
            if let LiveStatement::CreateTable { create, .. } = live.as_mut()
                && let Some(query) = &mut create.query
            {
                naming.walk(query.as_mut());
            }
        }
        Kind::Nyala(Nyala::CreateCube(create)) => check_same_for_all(&mut create.query, "a cube")?,
        Kind::Nyala(Nyala::Relation(relation)) => {
            if let RelationStatement::CreateView(view) = relation.as_mut() {
                check_same_for_all(&mut view.query, "a view")?;
            }
        }
        Kind::Nyala(_) => {}
    }
    if naming.found {
        statement.forget_text();
    }
    Ok(())
}

fn in_statement(statement: &mut DfStatement, naming: &mut Naming<'_>) {
    match statement {
        DfStatement::Statement(ast) => {
            if let SqlStatement::Insert(Insert { returning, .. })
            | SqlStatement::Update(Update { returning, .. })
            | SqlStatement::Delete(Delete { returning, .. }) = ast.as_mut()
            {
                returning.iter_mut().flatten().for_each(keep_title);
            }
            naming.walk(ast.as_mut());
        }
        DfStatement::Explain(explain) => in_statement(&mut explain.statement, naming),
        _ => {}
    }
}

fn check_same_for_all(query: &mut Query, of: &str) -> Result<(), QueryError> {
    let mut naming = Naming { user: "", found: false };
    naming.walk(query);
    match naming.found {
        true => Err(unsupported(&format!("`current_user` in {of}"), "name it in the queries that read it")),
        false => Ok(()),
    }
}

struct Naming<'a> {
    user: &'a str,
    /// Whether the statement names the user.
    found: bool,
}

impl Naming<'_> {
    fn walk(&mut self, tree: &mut impl VisitMut) {
        let _ = tree.visit(self);
    }

    /// Keeps the names of columns that the words give them.
    fn keep_titles(&self, body: &mut SetExpr) {
        match body {
            SetExpr::Select(select) => select.projection.iter_mut().for_each(keep_title),
            SetExpr::SetOperation { left, right, .. } => {
                self.keep_titles(left);
                self.keep_titles(right);
            }
            _ => {}
        }
    }
}

impl VisitorMut for Naming<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.keep_titles(&mut query.body);
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if is_user(expr) {
            self.found = true;
            *expr = Expr::Value(Value::SingleQuotedString(self.user.to_owned()).with_empty_span());
        }
        ControlFlow::Continue(())
    }
}

fn keep_title(item: &mut SelectItem) {
    let SelectItem::UnnamedExpr(expr) = item else { return };
    if !is_user(value_of(expr)) {
        return;
    }
    let expr = expr.clone();
    if let Some(title) = title_of(item) {
        *item = SelectItem::ExprWithAlias { expr, alias: Ident::with_quote('"', title) };
    }
}

/// The expression within casts and brackets.
fn value_of(expr: &Expr) -> &Expr {
    match expr {
        Expr::Nested(inner) | Expr::Cast { expr: inner, .. } => value_of(inner),
        other => other,
    }
}

/// Whether an expression names the user. `current_role` is a plain word to the parser, the others are functions without brackets.
fn is_user(expr: &Expr) -> bool {
    match expr {
        Expr::Function(Function { name, args: FunctionArguments::None, .. }) => match name.0.as_slice() {
            [ObjectNamePart::Identifier(name)] => name.quote_style.is_none() && is_word(&name.value),
            _ => false,
        },
        Expr::Identifier(name) => {
            name.quote_style.is_none() && name.value.eq_ignore_ascii_case("current_role")
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use nyala_model::config::QueryConfig;

    use super::*;
    use crate::statement::{StatementLimits, parse};

    fn named(sql: &str) -> Result<Statement> {
        let mut statement = parse(sql, &StatementLimits::from(&QueryConfig::default()))?.remove(0);
        name_user(&mut statement, "o'neil")?;
        Ok(statement)
    }

    #[test]
    fn the_user_takes_the_place_of_the_words() {
        let check = |sql: &str, expected: &str| {
            let named = named(sql).unwrap();
            assert_eq!(named.to_string(), expected);
            assert!(named.text().is_none(), "{sql}: its plan would be found by its text");
        };
        check("select current_user", "SELECT 'o''neil' AS \"current_user\"");
        check(
            "SELECT Session_User::text, user AS me",
            "SELECT 'o''neil'::TEXT AS \"session_user\", 'o''neil' AS me",
        );
        check("SELECT lower(current_role)", "SELECT lower('o''neil')");
        check(
            "SELECT 1 UNION SELECT a FROM t WHERE owner = CURRENT_USER AND EXISTS (SELECT user)",
            "SELECT 1 UNION SELECT a FROM t WHERE owner = 'o''neil' AND EXISTS (SELECT 'o''neil' AS \"user\")",
        );
        check("INSERT INTO t VALUES (1, current_user)", "INSERT INTO t VALUES (1, 'o''neil')");
        check(
            "DELETE FROM t WHERE owner = user RETURNING user",
            "DELETE FROM t WHERE owner = 'o''neil' RETURNING 'o''neil' AS \"user\"",
        );
        check("EXPLAIN SELECT user", "EXPLAIN SELECT 'o''neil' AS \"user\"");
        check("COPY (SELECT user) TO 'x.csv'", "COPY ((SELECT 'o''neil' AS \"user\")) TO 'x.csv'");
    }

    #[test]
    fn names_of_other_things_stay() {
        for sql in ["SELECT t.user FROM t", "SELECT \"user\" FROM \"user\"", "SELECT 'current_user'"] {
            let named = named(sql).unwrap();
            assert_eq!(named.text().map(AsRef::as_ref), Some(sql));
            assert_eq!(named.to_string(), sql);
        }
    }

    #[test]
    fn what_all_sessions_read_names_none_of_their_users() {
        for sql in [
            "CREATE VIEW v AS SELECT * FROM t WHERE owner = current_user",
            "CREATE CUBE c AS SELECT a, count(*) FROM t WHERE owner = user GROUP BY a",
        ] {
            assert!(named(sql).unwrap_err().message.contains("`current_user` in a "), "{sql}");
        }
        assert!(named("CREATE VIEW v AS SELECT t.user FROM t").is_ok());
    }
}
