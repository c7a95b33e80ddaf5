//! Statements about work that Nyala does by itself, or about facts that it does not keep: tools send them, and they have no effect.

use std::fmt;

use datafusion::sql::parser::DFParser;
use datafusion::sql::sqlparser::tokenizer::Token;

use super::words::peek_word;

/// A statement with nothing to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unneeded {
    /// The statement's name.
    pub tag: &'static str,
    /// Why there is nothing to do.
    pub notice: &'static str,
}

impl fmt::Display for Unneeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.tag)
    }
}

const STATISTICS: &str = "statistics are kept while rows are written, and nothing is to be analyzed";
const SPACE: &str = "space of replaced and deleted rows is taken back by itself";
const INDEXES: &str = "tables have no indexes";
const COMMENTS: &str = "comments are not kept";
const CHECKPOINTS: &str = "what was answered is on disk, and nothing is to be written";
const LOCKS: &str = "tables are not locked: each statement reads one version, and a change that another one overtook is refused";
const SCHEMAS: &str = "every role may use schemas and databases: privileges are about tables";

/// Privileges that do not concern the rows of tables.
const OF_SCHEMAS: [&str; 6] = ["USAGE", "CONNECT", "TEMPORARY", "TEMP", "EXECUTE", "ALL"];
/// Objects that have no rows.
const WITHOUT_ROWS: [&str; 7] = ["SCHEMA", "DATABASE", "SEQUENCE", "LANGUAGE", "FUNCTION", "TYPE", "DOMAIN"];

/// Whether a GRANT concerns only objects without rows. ALL on a schema concerns the tables in it.
fn is_about_schemas(parser: &DFParser<'_>) -> bool {
    let mut at = 1;
    let mut only_all = true;
    while let Some(word) = peek_word(parser, at).filter(|word| word != "ON") {
        if !OF_SCHEMAS.contains(&word.as_str()) && word != "PRIVILEGES" {
            return false;
        }
        only_all &= word == "ALL" || word == "PRIVILEGES";
        at += 1;
        if parser.parser.peek_nth_token(at).token == Token::Comma {
            at += 1;
        }
    }
    let of = peek_word(parser, at + 1).unwrap_or_default();
    at > 1 && WITHOUT_ROWS.contains(&of.as_str()) && !(only_all && of == "SCHEMA")
}

/// Parses one of these statements; none, with nothing consumed, for other statements.
pub fn parse_unneeded(parser: &mut DFParser<'_>, first: &str, second: &str) -> Option<Unneeded> {
    let (tag, notice) = match (first, second) {
        ("COMMENT", "ON") => ("COMMENT", COMMENTS),
        ("ANALYZE", _) => ("ANALYZE", STATISTICS),
        ("VACUUM", _) => ("VACUUM", SPACE),
        ("REINDEX", _) => ("REINDEX", INDEXES),
        ("DROP", "INDEX") => ("DROP INDEX", INDEXES),
        ("CHECKPOINT", _) => ("CHECKPOINT", CHECKPOINTS),
        ("LOCK", _) => ("LOCK TABLE", LOCKS),
        ("GRANT", _) if is_about_schemas(parser) => ("GRANT", SCHEMAS),
        ("REVOKE", _) if is_about_schemas(parser) => ("REVOKE", SCHEMAS),
        _ => return None,
    };
    while parser.parser.peek_token().token != Token::EOF {
        parser.parser.advance_token();
    }
    Some(Unneeded { tag, notice })
}
