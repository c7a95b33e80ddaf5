//! Makes the queries of PostgreSQL tools run, which ask pg_catalog in PostgreSQL's dialect.
//!
//! Only texts that mention the system catalog or a session function are touched; a user's own query
//! reaches the engine as it was written.

use std::sync::LazyLock;

use datafusion::sql::sqlparser::ast::{
    CastKind, DataType as SqlType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident,
    Query, SelectItem, SetExpr, Statement as Ast, Value, ValueWithSpan,
};
use datafusion_pg_catalog::sql::PostgresCompatibilityParser;
use nyala_sql::statement::Statement;

use super::snippets::{quoted, substituted};
use super::walk::{self, Rewrite};
use super::{dialect, empty_tables, placeholders};

/// Values of the session, for session functions.
pub trait SessionFacts {
    /// Value of a setting.
    fn setting(&self, name: &str) -> Option<String>;
    /// All settings that clients look for, with their values.
    fn settings(&self) -> Vec<(String, String)>;
    /// Name the client gave at start-up.
    fn user(&self) -> String;
    /// The number a cancel request names.
    fn process_id(&self) -> i32;
}

/// Knows the queries that common tools send, and rules for the rest. Building it tokenises them all.
static RULES: LazyLock<PostgresCompatibilityParser> = LazyLock::new(PostgresCompatibilityParser::new);

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
    "regclass",
    "regnamespace",
    "regproc",
    "regtype",
    "session_user",
    "to_regclass",
    "to_regtype",
];

/// Bytes that the parser of the rules may read, repeats counted. Queries of tools stay far below.
const MAX_READINGS: usize = 20_000_000;

/// A statement of a client's text. The session's values are filled in when it is run.
pub enum ClientStatement {
    /// A statement with the same meaning for the engine as for PostgreSQL.
    Plain(Statement),
    /// A query of a text that mentions the system catalog or the session: as written, and as translated by the rules.
    Translated(Statement, Box<Ast>),
}

impl ClientStatement {
    /// The statement as the engine is to plan it, with the session's values filled in.
    pub fn for_client(self, facts: &impl SessionFacts) -> Statement {
        let (statement, mut translated) = match self {
            Self::Plain(statement) => return statement,
            Self::Translated(statement, translated) => (statement, translated),
        };
        let Some(original) = statement.ast() else { return statement };
        let parameters = placeholders::numbers(original);
        empty_tables::resolve(&mut translated);
        dialect::translate(&mut translated, &facts.settings());
        walk::rewrite(&mut *translated, &mut SessionFunctions { facts });
        placeholders::restore(&parameters, &mut translated);
        Statement::from_ast(*translated)
    }
}

/// The statements of `sql`, translated where the engine spells a PostgreSQL tool's query otherwise.
///
/// `statements` are the engine's parse of the text, which has passed the limits on size and depth.
pub fn for_clients(sql: &str, statements: Vec<Statement>) -> Vec<ClientStatement> {
    let plain = |statements: Vec<Statement>| statements.into_iter().map(ClientStatement::Plain).collect();
    if !mentions_system(sql) || readings(sql) > MAX_READINGS {
        return plain(statements);
    }
    let Ok(rewritten) = RULES.parse(sql) else {
        return plain(statements);
    };
    if rewritten.len() != statements.len() {
        return plain(statements);
    }
    let pairs = statements.into_iter().zip(rewritten);
    pairs
        .map(|(statement, rewritten)| {
            match matches!((statement.ast(), &rewritten), (Some(Ast::Query(_)), Ast::Query(_))) {
                true => ClientStatement::Translated(statement, Box::new(rewritten)),
                false => ClientStatement::Plain(statement),
            }
        })
        .collect()
}

/// Bytes that the parser of the rules reads at most, repeats counted: it reads the arguments of a call two or three
/// times, and those of calls within it as many times again. Brackets in texts and comments count too.
fn readings(sql: &str) -> usize {
    let (mut around, mut before, mut readings) = (vec![1_usize], b' ', 0_usize);
    for byte in sql.bytes() {
        let times = around.last().copied().unwrap_or(1);
        readings = readings.saturating_add(times);
        match byte {
            b'(' => {
                let is_call = before.is_ascii_alphanumeric() || matches!(before, b'_' | b'"' | b'(');
                around.push(times.saturating_mul(if is_call { 3 } else { 1 }));
            }
            b')' if around.len() > 1 => {
                around.pop();
            }
            _ => {}
        }
        if !byte.is_ascii_whitespace() {
            before = byte;
        }
    }
    readings
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
                if let SelectItem::UnnamedExpr(Expr::Function(function)) = item
                    && let Some(value) = self.value(function)
                {
                    let alias = Ident::new(name_of(function));
                    *item = SelectItem::ExprWithAlias { expr: value, alias };
                }
            }
        }
    }

    fn expr(&mut self, expr: &mut Expr) {
        if let Expr::Function(function) = expr {
            if let Some(value) = self.value(function) {
                *expr = value;
            } else if let Some(subscripts) = subscripts(function) {
                *expr = subscripts;
            }
        }
    }
}

impl<F: SessionFacts> SessionFunctions<'_, F> {
    fn value(&self, function: &Function) -> Option<Expr> {
        let arguments = arguments(function);
        match (name_of(function).as_str(), arguments.as_slice()) {
            ("current_user" | "session_user" | "current_role" | "user", []) => Some(text(self.facts.user())),
            ("pg_backend_pid", []) => Some(number(self.facts.process_id())),
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

/// `generate_subscripts(array, 1)` as the list it stands for, unnested beside the array itself.
fn subscripts(function: &Function) -> Option<Expr> {
    let name = name_of(function);
    let arguments = arguments(function);
    let ("generate_subscripts", [array, _dimension]) = (name.as_str(), arguments.as_slice()) else {
        return None;
    };
    let length = Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(call(function, "array_length", vec![(*array).clone()])),
        data_type: SqlType::BigInt(None),
        array: false,
        format: None,
    };
    let series = call(function, "generate_series", vec![number(1), length]);
    Some(call(function, "unnest", vec![series]))
}

/// Another function in the place of `like`.
fn call(like: &Function, name: &str, arguments: Vec<Expr>) -> Expr {
    let mut function = like.clone();
    function.name = vec![Ident::new(name)].into();
    if let FunctionArguments::List(list) = &mut function.args {
        list.args = arguments.into_iter().map(|a| FunctionArg::Unnamed(FunctionArgExpr::Expr(a))).collect();
    }
    Expr::Function(function)
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
        fn process_id(&self) -> i32 {
            7
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
    fn texts_that_the_rules_would_read_too_often_are_left_alone() {
        let nested = |times: usize| format!("SELECT pg_f({}1{})", "abs(".repeat(times), ")".repeat(times));
        assert!(readings(&nested(40)) > MAX_READINGS);
        assert!(readings(&nested(8)) < MAX_READINGS);
        assert!(readings(&vec!["pg_f(a, g(b))"; 10_000].join(", ")) < MAX_READINGS);
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
        check("SELECT pg_backend_pid()", "SELECT 7 AS pg_backend_pid");
        check("SELECT pg_catalog.current_schema() || ''", "SELECT 'sales' || ''");
        check("SELECT current_setting('search_path')", "SELECT '\"$user\", sales' AS current_setting");
        check("SELECT current_setting('x', true) AS x", "SELECT NULL AS x");
        let by_name = "SELECT CASE lower($1) WHEN 'a' THEN 'b' END AS current_setting";
        check("SELECT current_setting($1)", by_name);
    }

    #[test]
    fn unqualified_catalog_tables_are_found() {
        assert_eq!(rewritten("SELECT 1 FROM pg_class"), "SELECT 1 FROM pg_catalog.pg_class");
    }
}
