//! Makes the queries of PostgreSQL tools run, which ask pg_catalog in PostgreSQL's dialect.
//!
//! Only texts that mention the system catalog or a session function are touched; a user's own query
//! reaches the engine as it was written.

use std::net::SocketAddr;
use std::sync::LazyLock;

use datafusion::sql::sqlparser::ast::{
    AccessExpr, CopySource, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, Insert,
    Query, SelectItem, SetExpr, Statement as Ast, Value, ValueWithSpan,
};
use datafusion_pg_catalog::sql::rules::{
    CurrentUserVariableToSessionUserFunctionCall, FixArrayLiteral, FixVersionColumnName,
    ResolveUnqualifiedIdentifier, RewriteArrayAnyAllOperation, RewritePgCatalogOperator,
    SqlStatementRewriteRule, StripCallableQualifier, StripCollate,
};
use nyala_sql::statement::Statement;

use super::snippets::{quoted, substituted};
use super::walk::{self, Rewrite};
use super::{dialect, empty_tables, object_casts, placeholders, session_tables, system_columns};
use crate::backends::WITH_SESSION;
use crate::catalog::{DATABASE, WITH_ROLE};

/// Values of the session, for session functions.
pub trait SessionFacts {
    /// Value of a setting.
    fn setting(&self, name: &str) -> Option<String>;
    /// All settings that clients look for, with their values.
    fn settings(&self) -> Vec<(String, String)>;
    /// Name the client gave at start-up.
    fn user(&self) -> String;
    /// The role whose privileges count: the owner of the data for a client that may do everything without being one.
    fn role(&self) -> String;
    /// The number a cancel request names.
    fn process_id(&self) -> i32;
    /// Address of the client.
    fn client(&self) -> String;
    /// The prepared statements.
    fn prepared(&self) -> Vec<PreparedFact>;
    /// The open cursors.
    fn cursors(&self) -> Vec<CursorFact>;
}

/// A row of `pg_prepared_statements`.
#[derive(Debug, Clone)]
pub struct PreparedFact {
    /// Its name.
    pub name: String,
    /// Its text.
    pub text: String,
    /// Microseconds since 1970.
    pub begun_us: i64,
    /// Names of the types of its parameters.
    pub types: Vec<String>,
}

/// A row of `pg_cursors`.
#[derive(Debug, Clone)]
pub struct CursorFact {
    /// Its name.
    pub name: String,
    /// Its query.
    pub text: String,
    /// Microseconds since 1970.
    pub begun_us: i64,
    /// Whether it outlives its transaction.
    pub hold: bool,
    /// Whether it goes to any row.
    pub scroll: bool,
}

/// Spellings of PostgreSQL that the engine's planner does not take.
static RULES: LazyLock<Vec<Box<dyn SqlStatementRewriteRule>>> = LazyLock::new(|| {
    vec![
        Box::new(ResolveUnqualifiedIdentifier),
        Box::new(RewriteArrayAnyAllOperation),
        Box::new(StripCallableQualifier),
        Box::new(FixArrayLiteral),
        Box::new(CurrentUserVariableToSessionUserFunctionCall),
        Box::new(StripCollate),
        Box::new(RewritePgCatalogOperator),
        Box::new(FixVersionColumnName),
    ]
});

/// Words that lead to the rules. All other words of PostgreSQL's system functions begin with `pg_`.
const WORDS: &[&str] = &[
    "current_catalog",
    "current_database",
    "current_role",
    "current_schema",
    "current_schemas",
    "current_setting",
    "current_user",
    "format_type",
    "inet_client_addr",
    "inet_client_port",
    "information_schema",
    "regclass",
    "regnamespace",
    "regproc",
    "regtype",
    "session_user",
    "set_config",
    "to_regclass",
    "to_regtype",
];

/// A statement of a client's text. The session's values are filled in when it is run.
pub enum ClientStatement {
    /// A statement with the same meaning for the engine as for PostgreSQL.
    Plain(Statement),
    /// A statement of a text that mentions the system catalog or the session.
    Translated(Statement),
}

impl ClientStatement {
    /// The statement as the engine is to plan it, with the session's values filled in.
    pub fn for_client(self, facts: &impl SessionFacts) -> Statement {
        let mut statement = match self {
            Self::Plain(statement) => return statement,
            Self::Translated(statement) => statement,
        };
        if let Some(ast) = statement.ast_mut() {
            translate(ast, facts);
        }
        statement
    }
}

/// Translates a query, or the queries of another statement.
fn translate(ast: &mut Ast, facts: &impl SessionFacts) {
    match ast {
        Ast::Query(_) => translate_query(ast, facts),
        Ast::Explain { statement, .. } | Ast::Prepare { statement, .. } => translate(statement, facts),
        Ast::Insert(Insert { source: Some(query), .. })
        | Ast::Copy { source: CopySource::Query(query), .. } => {
            translate_part(query, facts);
        }
        Ast::Declare { stmts } => {
            let queries = stmts.iter_mut().filter_map(|declaration| declaration.for_query.as_mut());
            queries.for_each(|query| translate_part(query, facts));
        }
        _ => {}
    }
}

fn translate_part(query: &mut Box<Query>, facts: &impl SessionFacts) {
    let mut ast = Ast::Query(query.clone());
    translate_query(&mut ast, facts);
    if let Ast::Query(translated) = ast {
        *query = translated;
    }
}

fn translate_query(ast: &mut Ast, facts: &impl SessionFacts) {
    let parameters = placeholders::numbers(ast);
    walk::rewrite(ast, &mut dialect::Qualify);
    if let Ast::Query(query) = ast {
        object_casts::show_names(&mut query.body);
    }
    walk::rewrite(ast, &mut object_casts::ObjectCasts);
    system_columns::replace(ast);
    for rule in RULES.iter() {
        *ast = rule.rewrite(ast.clone());
    }
    empty_tables::resolve(ast);
    session_tables::replace(ast, facts);
    dialect::translate(ast, &facts.settings());
    walk::rewrite(ast, &mut SessionFunctions { facts });
    placeholders::restore(&parameters, ast);
}

/// The statements of `sql`, to be translated where the engine spells a PostgreSQL tool's query otherwise.
///
/// `statements` are the engine's parse of the text, which has passed the limits on size and depth.
pub fn for_clients(sql: &str, statements: Vec<Statement>) -> Vec<ClientStatement> {
    let is_system = mentions_system(sql);
    let of_client = |statement| match is_system {
        true => ClientStatement::Translated(statement),
        false => ClientStatement::Plain(statement),
    };
    statements.into_iter().map(of_client).collect()
}

/// Whether a text contains a word of the system catalog, or calls `version()`.
fn mentions_system(sql: &str) -> bool {
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let mut rest = sql.as_bytes();
    while let Some(start) = rest.iter().position(is_word) {
        let (_, from_word) = rest.split_at(start);
        let length = from_word.iter().position(|byte| !is_word(byte)).unwrap_or(from_word.len());
        let (word, after) = from_word.split_at(length);
        let is = |other: &str| word.eq_ignore_ascii_case(other.as_bytes());
        if word.get(..3).is_some_and(|start| start.eq_ignore_ascii_case(b"pg_"))
            || WORDS.iter().any(|other| is(other))
            || (is("version") && after.starts_with(b"("))
        {
            return true;
        }
        rest = after;
    }
    false
}

/// Replaces calls of session functions by their values.
struct SessionFunctions<'a, F> {
    facts: &'a F,
}

impl<F: SessionFacts> Rewrite for SessionFunctions<'_, F> {
    /// An output column keeps the name of the function it was.
    fn query(&mut self, query: &mut Query) {
        if let SetExpr::Select(select) = query.body.as_mut() {
            for item in &mut select.projection {
                let SelectItem::UnnamedExpr(expr) = item else { continue };
                let named = match &*expr {
                    Expr::Function(function) => {
                        self.value(function).map(|value| (value, Ident::new(name_of(function))))
                    }
                    Expr::Identifier(word) => self.word(word).map(|value| (value, word.clone())),
                    _ => None,
                };
                if let Some((expr, alias)) = named {
                    *item = SelectItem::ExprWithAlias { expr, alias };
                }
            }
        }
    }

    fn expr(&mut self, expr: &mut Expr) {
        if let Some(expanded) = expanded(expr) {
            *expr = expanded;
        } else if let Expr::Identifier(word) = expr {
            if let Some(value) = self.word(word) {
                *expr = value;
            }
        } else if let Expr::Function(function) = expr {
            self.name_role(function);
            self.name_session(function);
            if let Some(value) = self.value(function) {
                *expr = value;
            }
        }
    }
}

impl<F: SessionFacts> SessionFunctions<'_, F> {
    /// The value of a word that is a function without brackets.
    fn word(&self, word: &Ident) -> Option<Expr> {
        match word.value.to_lowercase().as_str() {
            _ if word.quote_style.is_some() => None,
            "current_role" => Some(text(self.facts.user())),
            "current_catalog" => Some(text(DATABASE.to_owned())),
            _ => None,
        }
    }

    fn value(&self, function: &Function) -> Option<Expr> {
        let arguments = arguments(function);
        match (name_of(function).as_str(), arguments.as_slice()) {
            ("current_user" | "session_user" | "current_role" | "user", []) => Some(text(self.facts.user())),
            ("pg_client_encoding", []) => self.facts.setting("client_encoding").map(text),
            ("pg_backend_pid", []) => Some(number(self.facts.process_id())),
            ("inet_client_addr", []) => Some(match self.facts.client().parse::<SocketAddr>() {
                Ok(address) => text(address.ip().to_string()),
                Err(_) => Expr::Value(Value::Null.with_empty_span()),
            }),
            ("inet_client_port", []) => Some(match self.facts.client().parse::<SocketAddr>() {
                Ok(address) => number(i32::from(address.port())),
                Err(_) => Expr::Value(Value::Null.with_empty_span()),
            }),
            ("current_schema", []) => self.facts.setting("search_path").map(|path| text(first_schema(&path))),
            ("current_setting", [name] | [name, _]) => match literal(name) {
                Some(known) if arguments.len() == 1 => self.facts.setting(&known).map(text),
                Some(maybe) => {
                    let value = self.facts.setting(&maybe).map_or(Value::Null, Value::SingleQuotedString);
                    Some(Expr::Value(value.with_empty_span()))
                }
                None => self.setting_by_name(name),
            },
            _ => None,
        }
    }
}

impl<F: SessionFacts> SessionFunctions<'_, F> {
    /// Puts the session's role first in a question for privileges that leaves it out.
    fn name_role(&self, function: &mut Function) {
        let name = name_of(function);
        let wanted = WITH_ROLE.iter().find(|(known, _)| *known == name).map(|(_, count)| *count);
        if let (Some(wanted), FunctionArguments::List(list)) = (wanted, &mut function.args)
            && list.args.len() + 1 == wanted
        {
            let role = FunctionArg::Unnamed(FunctionArgExpr::Expr(text(self.facts.role())));
            list.args.insert(0, role);
        }
    }

    /// Puts the session's number first in a call that acts on sessions.
    fn name_session(&self, function: &mut Function) {
        let name = name_of(function);
        let counts = WITH_SESSION.iter().find(|(known, _)| *known == name).map(|(_, counts)| *counts);
        let Some(counts) = counts else { return };
        if matches!(function.args, FunctionArguments::None) {
            return;
        }
        if let FunctionArguments::List(list) = &mut function.args
            && counts.contains(&list.args.len())
        {
            let session = FunctionArg::Unnamed(FunctionArgExpr::Expr(number(self.facts.process_id())));
            list.args.insert(0, session);
        }
    }

    /// The value of a setting with a name that is known only when the query runs.
    fn setting_by_name(&self, name: &Expr) -> Option<Expr> {
        let settings = self.facts.settings();
        let cases: Vec<String> = settings
            .iter()
            .map(|(name, value)| format!("WHEN {} THEN {}", quoted(&name.to_lowercase()), quoted(value)))
            .collect();
        substituted(&format!("CASE lower(p) {} END", cases.join(" ")), name)
    }
}

/// The first schema of a search path, without empty names and `$user`.
fn first_schema(path: &str) -> String {
    let mut schemas = path.split(',').map(|schema| schema.trim().trim_matches('"'));
    schemas.find(|schema| !schema.is_empty() && *schema != "$user").unwrap_or("public").to_owned()
}

/// `information_schema._pg_expandarray(array)` stands for its items, `.x`, beside which `.n` are their numbers.
fn expanded(expr: &Expr) -> Option<Expr> {
    let (function, field) = match expr {
        Expr::Function(function) => (function, "x".to_owned()),
        Expr::CompoundFieldAccess { root, access_chain } => {
            let [AccessExpr::Dot(Expr::Identifier(field))] = access_chain.as_slice() else { return None };
            match root.as_ref() {
                Expr::Nested(inner) => match inner.as_ref() {
                    Expr::Function(function) => (function, field.value.to_lowercase()),
                    // The pair of a subquery is its item.
                    named @ Expr::CompoundIdentifier(_) if field.value == "x" => return Some(named.clone()),
                    _ => return None,
                },
                _ => return None,
            }
        }
        _ => return None,
    };
    let arguments = arguments(function);
    let (true, [array]) = (name_of(function) == "_pg_expandarray", arguments.as_slice()) else {
        return None;
    };
    // Functions that give rows were written as `unnest` of lists when the text was read.
    let text = if field == "n" { "unnest(generate_subscripts(CAST(p AS BIGINT[]), 1))" } else { "unnest(p)" };
    substituted(text, array)
}

fn name_of(function: &Function) -> String {
    let last = function.name.0.last().and_then(|part| part.as_ident());
    last.map(|name| name.value.to_lowercase()).unwrap_or_default()
}

/// The plain arguments of a call; others are left out, so that no pattern above fits.
fn arguments(function: &Function) -> Vec<&Expr> {
    let FunctionArguments::List(list) = &function.args else {
        return Vec::new();
    };
    let plain = list.args.iter().filter_map(|argument| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
        _ => None,
    });
    plain.collect()
}

fn literal(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Value(ValueWithSpan { value, .. }) => value.clone().into_string(),
        Expr::Cast { expr, .. } => literal(expr),
        _ => None,
    }
}

fn text(value: String) -> Expr {
    Expr::Value(Value::SingleQuotedString(value).with_empty_span())
}

fn number(value: i32) -> Expr {
    Expr::Value(Value::Number(value.to_string(), false).with_empty_span())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    use super::*;

    struct Ann;

    impl SessionFacts for Ann {
        fn setting(&self, name: &str) -> Option<String> {
            (name == "search_path").then(|| "\"$user\", sales".to_owned())
        }
        fn settings(&self) -> Vec<(String, String)> {
            vec![("a".to_owned(), "b".to_owned())]
        }
        fn user(&self) -> String {
            "ann".to_owned()
        }
        fn role(&self) -> String {
            "ann".to_owned()
        }
        fn process_id(&self) -> i32 {
            7
        }
        fn client(&self) -> String {
            "127.0.0.1:4711".to_owned()
        }
        fn prepared(&self) -> Vec<PreparedFact> {
            Vec::new()
        }
        fn cursors(&self) -> Vec<CursorFact> {
            vec![CursorFact { name: "c".to_owned(), text: "it's".to_owned(), begun_us: 0, hold: true, scroll: false }]
        }
    }

    fn parse(sql: &str) -> Vec<Statement> {
        let asts = Parser::parse_sql(&PostgreSqlDialect {}, sql).unwrap();
        asts.into_iter().map(Statement::from_ast).collect()
    }

    fn rewritten(sql: &str) -> String {
        for_clients(sql, parse(sql)).remove(0).for_client(&Ann).to_string()
    }

    #[test]
    fn only_system_words_lead_to_the_rules() {
        for sql in ["SELECT version, * FROM t", "SELECT opg_x, \"a.pgb\" FROM t", "", "SELECT 'page'"] {
            assert!(!mentions_system(sql), "{sql}");
        }
        for sql in
            ["SELECT * FROM PG_Class", "select version()", "SELECT 'a'::regclass", "select Current_User"]
        {
            assert!(mentions_system(sql), "{sql}");
        }
    }

    #[test]
    fn own_queries_stay_as_they_are() {
        let sql = "SELECT a.b, * FROM a WHERE version = 3";
        assert_eq!(rewritten(sql), sql);
    }

    #[test]
    fn session_functions_become_their_values() {
        let check = |sql, expected| assert_eq!(rewritten(sql), expected);
        check("SELECT current_user", "SELECT 'ann' AS session_user");
        check("SELECT current_role", "SELECT 'ann' AS current_role");
        check("SELECT inet_client_port()", "SELECT 4711 AS inet_client_port");
        check("SELECT pg_cancel_backend(9)", "SELECT pg_cancel_backend(7, 9)");
        check("SELECT pg_backend_pid()", "SELECT 7 AS pg_backend_pid");
        check("SELECT pg_catalog.current_schema() || ''", "SELECT 'sales' || ''");
        check("SELECT current_setting('search_path')", "SELECT '\"$user\", sales' AS current_setting");
        check("SELECT current_setting('x', true) AS x", "SELECT NULL AS x");
        let by_name = "SELECT CASE lower($1) WHEN 'a' THEN 'b' END AS current_setting";
        check("SELECT current_setting($1)", by_name);
    }

    #[test]
    fn tables_of_the_session_have_its_rows() {
        let sql = rewritten("SELECT name FROM pg_cursors AS x");
        assert!(sql.contains("'c', 'it''s', true") && sql.ends_with("AS x"), "{sql}");
        assert!(rewritten("SELECT * FROM pg_prepared_statements").contains("WHERE false"));
    }

    #[test]
    fn unqualified_catalog_tables_are_found() {
        assert_eq!(rewritten("SELECT 1 FROM pg_class"), "SELECT 1 FROM pg_catalog.pg_class");
    }
}
