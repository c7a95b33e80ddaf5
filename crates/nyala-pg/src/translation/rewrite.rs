//! Makes the queries of PostgreSQL tools run, which ask pg_catalog in PostgreSQL's dialect.
//!
//! Only texts that mention the system catalog or a session function are touched; a user's own query
//! reaches the engine as it was written.

use std::sync::LazyLock;

use datafusion::sql::sqlparser::ast::{CopySource, Insert, Query, Statement as Ast};
use datafusion_pg_catalog::sql::rules::{
    CurrentUserVariableToSessionUserFunctionCall, FixArrayLiteral, FixVersionColumnName,
    ResolveUnqualifiedIdentifier, RewriteArrayAnyAllOperation, RewritePgCatalogOperator,
    SqlStatementRewriteRule, StripCallableQualifier, StripCollate,
};
use nyala_sql::statement::Statement;

use super::session_facts::SessionFacts;
use super::session_functions::SessionFunctions;
use super::{dialect, empty_tables, object_casts, placeholders, session_tables, system_columns, walk};

/// Rules for spellings of PostgreSQL that the engine's planner does not take.
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

/// A text with one of these words is translated. All other words of PostgreSQL's system functions begin with `pg_`.
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    use super::super::session_facts::{CursorFact, PreparedFact};
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
        fn token(&self) -> String {
            "7:token".to_owned()
        }
        fn client(&self) -> String {
            "127.0.0.1:4711".to_owned()
        }
        fn prepared(&self) -> Vec<PreparedFact> {
            Vec::new()
        }
        fn cursors(&self) -> Vec<CursorFact> {
            vec![CursorFact {
                name: "c".to_owned(),
                text: "it's".to_owned(),
                begun_us: 0,
                hold: true,
                scroll: false,
            }]
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
        check("SELECT pg_cancel_backend(9)", "SELECT pg_cancel_backend('7:token', 9)");
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
