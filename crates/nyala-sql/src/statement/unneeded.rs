//! Statements about what Nyala does by itself, or does not keep: tools send them, and nothing is to be done.

use std::fmt;

use datafusion::sql::parser::DFParser;
use datafusion::sql::sqlparser::tokenizer::Token;

/// A statement with nothing to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unneeded {
    /// Its name.
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

/// One of these statements, or nothing (and nothing consumed) when the words are others.
pub fn parse_unneeded(parser: &mut DFParser<'_>, first: &str, second: &str) -> Option<Unneeded> {
    let (tag, notice) = match (first, second) {
        ("COMMENT", "ON") => ("COMMENT", COMMENTS),
        ("ANALYZE", _) => ("ANALYZE", STATISTICS),
        ("VACUUM", _) => ("VACUUM", SPACE),
        ("REINDEX", _) => ("REINDEX", INDEXES),
        _ => return None,
    };
    while parser.parser.peek_token().token != Token::EOF {
        parser.parser.advance_token();
    }
    Some(Unneeded { tag, notice })
}
