//! Statements that the door answers itself, because they are about the connection, not about data.

use datafusion::sql::sqlparser::ast::{
    CloseCursor, ContextModifier, DataType, Declare, DiscardObject, Expr, Ident, ObjectName, Set,
    SetSessionAuthorizationParam, SetSessionAuthorizationParamKind, Statement as Ast, TransactionAccessMode,
    TransactionMode,
};
use nyala_engine::{MOVED, Statement};

use super::copy_out::CopyOut;
use super::cursors::Step;
use super::set_values::{schemas_text, values_text, zone_text};
use crate::pgwire::errors::{Failure, sqlstate};

/// What DISCARD forgets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Discarded {
    /// Statements, cursors, settings and temporary tables.
    All,
    /// Temporary tables.
    Temporary,
    /// Cached plans, which the engine drops by itself.
    Plans,
    /// Sequences, of which Nyala has none.
    Sequences,
}

/// A statement about the connection.
#[derive(Debug, Clone)]
pub enum Command {
    /// Opens a transaction block with these settings for its duration.
    Begin {
        modes: Vec<Assignment>,
        tag: &'static str,
    },
    Commit,
    Rollback,
    Savepoint(String),
    Release(String),
    RollbackTo(String),
    Set(Vec<Assignment>),
    Show(String),
    ShowAll,
    /// RESET of one setting, or of all.
    Reset(Option<String>),
    /// `DISCARD`
    Discard(Discarded),
    /// DEALLOCATE of one prepared statement, or of all.
    Deallocate(Option<String>),
    Declare {
        cursor: String,
        hold: bool,
        scroll: bool,
        query: Statement,
    },
    /// FETCH, or MOVE, which sends no rows.
    Fetch {
        cursor: String,
        step: Step,
        moves: bool,
    },
    /// CLOSE of one cursor, or of all.
    Close(Option<String>),
    Prepare {
        name: String,
        types: Vec<DataType>,
        statement: Statement,
    },
    Execute {
        name: String,
        arguments: Vec<Expr>,
    },
    CopyOut(Box<CopyOut>),
    Listen(String),
    /// UNLISTEN of one channel, or of all.
    Unlisten(Option<String>),
    Notify {
        channel: String,
        payload: String,
    },
}

/// One setting and the value that a statement gives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    pub name: String,
    /// None means the default.
    pub value: Option<String>,
    /// Whether the value ends with the transaction.
    pub local: bool,
}

impl Command {
    /// Recognises a command. None means that the engine runs the statement.
    ///
    /// # Errors
    /// A form of a command that the door does not support.
    pub fn recognise(statement: &Statement) -> Result<Option<Self>, Failure> {
        match statement.ast() {
            Some(ast) => from_ast(ast).transpose(),
            // The engine's parser keeps RESET as a statement of its own.
            None => Ok(reset(&statement.to_string())),
        }
    }

    /// Whether the command may run in a failed transaction block.
    pub fn ends_block(&self) -> bool {
        matches!(self, Self::Commit | Self::Rollback | Self::RollbackTo(_))
    }
}

fn reset(text: &str) -> Option<Command> {
    let (word, name) = text.trim().split_once(char::is_whitespace)?;
    if !word.eq_ignore_ascii_case("reset") {
        return None;
    }
    let name = setting_name(name.trim().trim_end_matches(';').trim());
    Some(Command::Reset(match name.as_str() {
        "all" => None,
        // The engine's parser reads the two words as a name of two parts.
        "session authorization" | "session.authorization" => Some("session_authorization".to_owned()),
        _ => Some(name),
    }))
}

fn from_ast(ast: &Ast) -> Option<Result<Command, Failure>> {
    if let Some(copy) = CopyOut::of(ast) {
        return Some(copy.map(|copy| Command::CopyOut(Box::new(copy))));
    }
    let command = match ast {
        Ast::StartTransaction { modes, statements, begin, .. } if statements.is_empty() => Command::Begin {
            modes: modes.iter().map(|mode| transaction_mode(mode, true)).collect(),
            tag: if *begin { "BEGIN" } else { "START TRANSACTION" },
        },
        Ast::Commit { chain: false, .. } => Command::Commit,
        Ast::Rollback { chain: false, savepoint: None } => Command::Rollback,
        Ast::Rollback { chain: false, savepoint: Some(name) } => Command::RollbackTo(identifier(name)),
        Ast::Commit { .. } | Ast::Rollback { .. } => return Some(Err(unsupported("AND CHAIN"))),
        Ast::Savepoint { name } => Command::Savepoint(identifier(name)),
        Ast::ReleaseSavepoint { name } => Command::Release(identifier(name)),
        Ast::Set(set) => return assignments(set).map(|set| Ok(Command::Set(set))),
        Ast::ShowVariable { variable } => show(variable),
        Ast::Discard { object_type } => Command::Discard(match object_type {
            DiscardObject::ALL => Discarded::All,
            DiscardObject::TEMP => Discarded::Temporary,
            DiscardObject::PLANS => Discarded::Plans,
            DiscardObject::SEQUENCES => Discarded::Sequences,
        }),
        Ast::Deallocate { name, .. } => Command::Deallocate(unless_all(name)),
        Ast::Declare { stmts } => return declare(stmts),
        Ast::Fetch { name, direction, into, .. } => {
            let moves = match into {
                None => false,
                Some(into) if statement_name(into) == MOVED => true,
                Some(_) => return Some(Err(unsupported("FETCH … INTO"))),
            };
            let step = Step::of(direction);
            return Some(step.map(|step| Command::Fetch { cursor: identifier(name), step, moves }));
        }
        Ast::LISTEN { channel } => Command::Listen(identifier(channel)),
        Ast::UNLISTEN { channel } => Command::Unlisten((channel.value != "*").then(|| identifier(channel))),
        Ast::NOTIFY { channel, payload } => {
            Command::Notify { channel: identifier(channel), payload: payload.clone().unwrap_or_default() }
        }
        Ast::Close { cursor: CloseCursor::All } => Command::Close(None),
        Ast::Close { cursor: CloseCursor::Specific { name } } => Command::Close(Some(identifier(name))),
        Ast::Prepare { name, data_types, statement } => Command::Prepare {
            name: identifier(name),
            types: data_types.clone(),
            statement: Statement::from_ast((**statement).clone()),
        },
        Ast::Execute { name: Some(name), parameters, immediate: false, .. } => {
            Command::Execute { name: statement_name(name), arguments: parameters.clone() }
        }
        _ => return None,
    };
    Some(Ok(command))
}

fn unsupported(what: &str) -> Failure {
    Failure::error(sqlstate::FEATURE_NOT_SUPPORTED, format!("{what} is not supported"))
}

/// Unquoted identifiers compare in lower case.
fn identifier(name: &Ident) -> String {
    if name.quote_style.is_some() { name.value.clone() } else { name.value.to_ascii_lowercase() }
}

/// The name of a prepared statement, which the parser reads as a name of several parts.
fn statement_name(name: &ObjectName) -> String {
    let parts = name.0.iter().filter_map(|part| part.as_ident()).map(identifier);
    parts.collect::<Vec<_>>().join(".")
}

fn unless_all(name: &Ident) -> Option<String> {
    (name.quote_style.is_some() || !name.value.eq_ignore_ascii_case("all")).then(|| identifier(name))
}

/// Names of settings compare in lower case, quoted or not.
fn setting_name(name: &str) -> String {
    name.replace('"', "").to_ascii_lowercase()
}

fn transaction_mode(mode: &TransactionMode, local: bool) -> Assignment {
    let (name, value) = match mode {
        TransactionMode::AccessMode(mode) => {
            let read_only = matches!(mode, TransactionAccessMode::ReadOnly);
            ("transaction_read_only", if read_only { "on" } else { "off" }.to_owned())
        }
        TransactionMode::IsolationLevel(level) => ("transaction_isolation", level.to_string().to_lowercase()),
    };
    Assignment { name: name.to_owned(), value: Some(value), local }
}

fn assignments(set: &Set) -> Option<Vec<Assignment>> {
    let one = |name: &str, value: Option<String>, local| {
        Some(vec![Assignment { name: name.to_owned(), value, local }])
    };
    match set {
        Set::SingleAssignment { scope, hivevar: false, variable, values } => {
            let local = matches!(scope, Some(ContextModifier::Local));
            let name = setting_name(&variable.to_string());
            let text = if name == "search_path" { schemas_text(values) } else { values_text(values) };
            one(&name, text, local)
        }
        Set::SetTimeZone { local, value } => {
            one("timezone", values_text(std::slice::from_ref(value)).map(zone_text), *local)
        }
        Set::SetNames { charset_name, collation_name: None } => {
            one("client_encoding", Some(charset_name.value.clone()), false)
        }
        Set::SetSessionAuthorization(SetSessionAuthorizationParam {
            kind: SetSessionAuthorizationParamKind::Default,
            ..
        }) => one("session_authorization", None, false),
        Set::SetRole { context_modifier, role_name } => {
            let local = matches!(context_modifier, Some(ContextModifier::Local));
            one("role", Some(role_name.as_ref().map_or_else(|| "none".to_owned(), identifier)), local)
        }
        Set::SetNamesDefault {} => one("client_encoding", None, false),
        Set::SetTransaction { modes, snapshot: None, session } => {
            Some(modes.iter().map(|mode| transaction_mode(mode, !session)).collect())
        }
        _ => None,
    }
}

fn show(variable: &[Ident]) -> Command {
    let words: Vec<String> = variable.iter().map(|word| word.value.to_ascii_lowercase()).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["all"] => Command::ShowAll,
        ["time", "zone"] => Command::Show("timezone".to_owned()),
        ["transaction", "isolation", "level"] => Command::Show("transaction_isolation".to_owned()),
        ["session", "authorization"] => Command::Show("session_authorization".to_owned()),
        words => Command::Show(words.join(".")),
    }
}

fn declare(declarations: &[Declare]) -> Option<Result<Command, Failure>> {
    let [Declare { names, binary, scroll, hold, for_query: Some(query), .. }] = declarations else {
        return None;
    };
    let name = names.first()?;
    if *binary == Some(true) {
        return Some(Err(unsupported("DECLARE … BINARY")));
    }
    Some(Ok(Command::Declare {
        cursor: identifier(name),
        hold: *hold == Some(true),
        scroll: *scroll == Some(true),
        query: Statement::from_ast(Ast::Query(query.clone())),
    }))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    use super::*;

    fn recognise(sql: &str) -> Option<Result<Command, Failure>> {
        let ast = Parser::parse_sql(&PostgreSqlDialect {}, sql).unwrap().remove(0);
        from_ast(&ast)
    }

    fn set(sql: &str) -> Vec<(String, Option<String>, bool)> {
        let Some(Ok(Command::Set(set) | Command::Begin { modes: set, .. })) = recognise(sql) else {
            panic!("{sql}")
        };
        set.into_iter().map(|one| (one.name, one.value, one.local)).collect()
    }

    #[test]
    fn assignments_become_name_and_text() {
        let check = |sql, name: &str, value: Option<&str>, local| {
            assert_eq!(set(sql), [(name.to_owned(), value.map(str::to_owned), local)], "{sql}");
        };
        check("SET extra_float_digits = 3", "extra_float_digits", Some("3"), false);
        check("SET extra_float_digits = -3", "extra_float_digits", Some("-3"), false);
        check("SET application_name TO 'a b'", "application_name", Some("a b"), false);
        check("SET LOCAL statement_timeout = '5s'", "statement_timeout", Some("5s"), true);
        check("SET search_path TO \"$user\", public", "search_path", Some("$user, public"), false);
        check("SET search_path = Sales, \"a,b\"", "search_path", Some("sales, \"a,b\""), false);
        check("SET search_path TO DEFAULT", "search_path", None, false);
        check("SET jit TO DEFAULT", "jit", None, false);
        check("SET nyala.use_cubes = off", "nyala.use_cubes", Some("off"), false);
        check("SET SESSION AUTHORIZATION DEFAULT", "session_authorization", None, false);
        check("SET TIME ZONE 'UTC'", "timezone", Some("UTC"), false);
        check("SET timezone = 'UTC'", "timezone", Some("UTC"), false);
        check("SET NAMES 'utf8'", "client_encoding", Some("utf8"), false);
        check("BEGIN READ ONLY", "transaction_read_only", Some("on"), true);
        let session = "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL SERIALIZABLE";
        check(session, "transaction_isolation", Some("serializable"), false);
    }

    #[test]
    fn shows_are_named_as_settings() {
        let name = |sql| match recognise(sql) {
            Some(Ok(Command::Show(name))) => name,
            other => panic!("{sql}: {other:?}"),
        };
        assert_eq!(name("SHOW server_version"), "server_version");
        assert_eq!(name("SHOW TRANSACTION ISOLATION LEVEL"), "transaction_isolation");
        assert_eq!(name("SHOW TIME ZONE"), "timezone");
        assert!(matches!(recognise("SHOW ALL"), Some(Ok(Command::ShowAll))));
        assert!(recognise("SHOW TABLES").is_none());
    }

    #[test]
    fn cursors_are_read_in_steps() {
        let check = |sql, expected, is_move| {
            let Some(Ok(Command::Fetch { step, moves, .. })) = recognise(sql) else { panic!("{sql}") };
            assert_eq!((step, moves), (expected, is_move), "{sql}");
        };
        check("FETCH FORWARD 100 FROM \"c\"", Step::Forward(Some(100)), false);
        check("FETCH ALL FROM c", Step::Forward(None), false);
        check("FETCH PRIOR FROM c", Step::Backward(Some(1)), false);
        check("FETCH NEXT FROM c INTO \"MOVE\"", Step::Forward(Some(1)), true);
        assert!(matches!(
            recognise("DECLARE \"C\" CURSOR WITH HOLD FOR SELECT 1"),
            Some(Ok(Command::Declare { cursor, hold: true, .. })) if cursor == "C"
        ));
    }

    #[test]
    fn prepared_statements_keep_the_case_of_quoted_names() {
        let name = |sql: &str| match recognise(sql) {
            Some(Ok(Command::Prepare { name, .. } | Command::Execute { name, .. })) => name,
            Some(Ok(Command::Deallocate(Some(name)))) => name,
            other => panic!("{sql}: {other:?}"),
        };
        for (written, known) in [("\"Mixed\"", "Mixed"), ("Mixed", "mixed"), ("\"a \"\"b\"\"\"", "a \"b\"")] {
            assert_eq!(name(&format!("PREPARE {written} AS SELECT 1")), known);
            assert_eq!(name(&format!("EXECUTE {written}(1)")), known);
            assert_eq!(name(&format!("EXECUTE {written}")), known);
            assert_eq!(name(&format!("DEALLOCATE {written}")), known);
        }
        assert!(matches!(recognise("DEALLOCATE \"all\""), Some(Ok(Command::Deallocate(Some(_))))));
    }

    #[test]
    fn queries_are_left_to_the_engine() {
        for sql in ["SELECT 1", "CREATE SCHEMA a", "EXPLAIN SELECT 1"] {
            assert!(recognise(sql).is_none(), "{sql}");
        }
        assert!(matches!(reset("RESET ALL"), Some(Command::Reset(None))));
        assert!(
            matches!(reset("RESET SESSION AUTHORIZATION"), Some(Command::Reset(Some(name))) if name == "session_authorization")
        );
        assert!(matches!(recognise("UNLISTEN *"), Some(Ok(Command::Unlisten(None)))));
        assert!(matches!(reset("reset Jit;"), Some(Command::Reset(Some(name))) if name == "jit"));
        assert!(reset("SHOW CUBES").is_none());
    }
}
