//! The types of a table's columns as they were written, because a store has one type for all texts.

use std::collections::BTreeMap;

use datafusion::sql::sqlparser::ast::{AlterTableOperation, ColumnDef, DataType, Statement};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};

use super::versions::folded;

/// The written types by column, from the statements that made and altered a table.
#[must_use]
pub fn written_columns(definition: &str) -> BTreeMap<String, DataType> {
    let mut types = BTreeMap::new();
    // The definition is split by tokens, because names and defaults may contain a `;` or the words of options.
    let tokens = Tokenizer::new(&PostgreSqlDialect {}, definition).tokenize().unwrap_or_default();
    for statement in tokens.split(|token| *token == Token::SemiColon) {
        let parsed = Parser::new(&PostgreSqlDialect {}).with_tokens(plain(statement)).parse_statements();
        parsed.unwrap_or_default().iter().for_each(|statement| follow(&mut types, statement));
    }
    types
}

/// The statement as PostgreSQL has it: without Nyala's own options, which follow the columns, and without `LIVE`.
fn plain(statement: &[Token]) -> Vec<Token> {
    let mut kept: Vec<Token> = Vec::with_capacity(statement.len());
    let mut depth = 0_usize;
    let words: Vec<&Token> =
        statement.iter().filter(|token| !matches!(token, Token::Whitespace(_))).collect();
    for (at, token) in words.iter().enumerate() {
        match token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            with if depth == 0 && is(with, "WITH") && words.get(at + 1) == Some(&&Token::LParen) => break,
            live if at == 1 && is(live, "LIVE") => continue,
            _ => {}
        }
        kept.push((*token).clone());
    }
    kept
}

fn is(token: &Token, wanted: &str) -> bool {
    matches!(token, Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(wanted))
}

fn follow(types: &mut BTreeMap<String, DataType>, statement: &Statement) {
    let add = |types: &mut BTreeMap<String, DataType>, column: &ColumnDef| {
        types.insert(folded(&column.name), column.data_type.clone());
    };
    match statement {
        Statement::CreateTable(create) => create.columns.iter().for_each(|column| add(types, column)),
        Statement::AlterTable(alter) => {
            for operation in &alter.operations {
                match operation {
                    // A column that existed before keeps its type.
                    AlterTableOperation::AddColumn { column_def, .. } => {
                        let name = folded(&column_def.name);
                        types.entry(name).or_insert_with(|| column_def.data_type.clone());
                    }
                    AlterTableOperation::DropColumn { column_names, .. } => {
                        column_names.iter().for_each(|name| _ = types.remove(&folded(name)));
                    }
                    AlterTableOperation::RenameColumn { old_column_name, new_column_name } => {
                        if let Some(own) = types.remove(&folded(old_column_name)) {
                            types.insert(folded(new_column_name), own);
                        }
                    }
                    _ => {}
                }
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_follow_their_columns() {
        let definition = "CREATE LIVE TABLE t (id INT PRIMARY KEY, v VARCHAR(3), \"W\" CHAR(2)) WITH (buckets = 4); \
             ALTER TABLE t RENAME COLUMN v TO name; ALTER TABLE t ADD COLUMN j JSON; ALTER TABLE t DROP COLUMN \"W\"";
        let found: Vec<String> =
            written_columns(definition).iter().map(|(name, written)| format!("{name} {written}")).collect();
        assert_eq!(found, ["id INT", "j JSON", "name VARCHAR(3)"]);
    }

    #[test]
    fn words_in_quotes_neither_end_a_statement_nor_begin_its_options() {
        for (definition, expected) in [
            (
                "CREATE LIVE TABLE t (v VARCHAR(3) DEFAULT 'a; b', \"x; y\" CHAR(2)) WITH (ttl = '9; 9')",
                "v x; y",
            ),
            ("CREATE LIVE TABLE t (v VARCHAR(3) DEFAULT ' WITH (', w CHAR(2))", "v w"),
            (
                "CREATE LIVE TEMPORARY TABLE t (v VARCHAR(3)); ALTER TABLE t RENAME COLUMN v TO \"a; b\"",
                "a; b",
            ),
        ] {
            let found: Vec<String> = written_columns(definition).into_keys().collect();
            assert_eq!(found.join(" "), expected, "{definition}");
        }
    }
}
