//! Names in quotes and capitals. Names of Kylin are in capitals, most names of Nyala are not: a statement with unknown names is prepared
//! again with its quoted names in lower case.
//!
//! Only the planner can tell which of the two a statement needs, and it takes longer than a small query does. So the choice is remembered
//! until the catalog changes, for all statements that differ in their values alone.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

use nyala_model::CatalogSnapshot;

use super::tokens::{Token, tokens_of};

/// Slots of statements that need lower case: 32 KiB.
const SLOTS: usize = 4096;

/// Remembers, for one door, which statements need lower case.
#[derive(Debug)]
pub struct LoweredStatements {
    /// Each slot has the key of the last statement that belongs in it, so that no query waits for a lock. 0 is an empty slot.
    slots: Box<[AtomicU64]>,
    /// The hash has a random key, so that no client can choose statements that collide with others.
    hashes: RandomState,
}

impl Default for LoweredStatements {
    fn default() -> Self {
        Self { slots: (0..SLOTS).map(|_| AtomicU64::new(0)).collect(), hashes: RandomState::new() }
    }
}

impl LoweredStatements {
    /// The number by which a statement of a project is remembered.
    pub fn key(&self, lowered: &Lowered, project: &str, catalog: &CatalogSnapshot) -> u64 {
        let (version, change) = (catalog.version, &*catalog.change.0);
        self.hashes.hash_one((lowered.shape, project, version, change)) | 1
    }

    /// Whether a statement with this key was prepared in lower case before.
    pub fn has(&self, key: u64) -> bool {
        self.slot(key).is_some_and(|slot| slot.load(Ordering::Relaxed) == key)
    }

    /// Remembers that a statement with this key is prepared in lower case.
    pub fn add(&self, key: u64) {
        if let Some(slot) = self.slot(key) {
            slot.store(key, Ordering::Relaxed);
        }
    }

    fn slot(&self, key: u64) -> Option<&AtomicU64> {
        // All keys are odd, so that their lowest bit would choose only every second slot.
        self.slots.get(usize::try_from(key / 2 % SLOTS as u64).ok()?)
    }
}

/// A statement with its names in quotes in lower case.
#[derive(Debug)]
pub struct Lowered {
    pub sql: String,
    /// The names as the client wrote them.
    pub names: WrittenNames,
    /// A hash of the statement without its values.
    shape: u64,
}

impl Lowered {
    /// The statement with its quoted names in lower case; none if these have no capitals.
    pub fn of(sql: &str, statements: &LoweredStatements) -> Option<Self> {
        // Most statements have no names in quotes, and need not be cut into tokens.
        if !sql.contains('"') {
            return None;
        }
        let (mut lower, mut names) = (String::with_capacity(sql.len()), WrittenNames::default());
        let mut shape = statements.hashes.build_hasher();
        for token in tokens_of(sql) {
            without_value(token).hash(&mut shape);
            match token {
                Token::Quoted(name) if name.starts_with('"') => {
                    lower.push_str(&name.to_lowercase());
                    names.add(name);
                }
                Token::Word(other) | Token::Quoted(other) | Token::Space(other) => lower.push_str(other),
                Token::Mark(mark) => lower.push(mark),
            }
        }
        (lower != sql).then(|| Self { sql: lower, names, shape: shape.finish() })
    }
}

/// The token, with a constant in place of its value. A text with a point or a slash stays: it may name a file, whose columns differ from those
/// of other files.
fn without_value(token: Token<'_>) -> Token<'_> {
    match token {
        Token::Quoted(text) if text.starts_with('\'') && !text.contains(['.', '/']) => Token::Quoted("''"),
        Token::Word(word) if word.starts_with(|first: char| first.is_ascii_digit()) => Token::Word("0"),
        other => other,
    }
}

/// Names as a client has written them, by their spelling in lower case.
#[derive(Debug, Default)]
pub struct WrittenNames(HashMap<String, String>);

impl WrittenNames {
    /// Adds a name. Of names that differ in capitals alone the last one stays, because all of them mean the same object.
    fn add(&mut self, quoted: &str) {
        let name = quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
        if let Some(name) = name.map(|name| name.replace("\"\"", "\"")) {
            self.0.insert(name.to_lowercase(), name);
        }
    }

    /// The name that a column is shown by.
    pub fn shown<'n>(&'n self, name: &'n str) -> &'n str {
        self.0.get(name).map_or(name, String::as_str)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use nyala_model::SnapshotVersion;

    use super::*;

    #[test]
    fn names_in_quotes_lose_their_capitals_and_texts_do_not() {
        let statements = LoweredStatements::default();
        let lower = |sql: &str| Lowered::of(sql, &statements).map(|lowered| lowered.sql);
        assert_eq!(
            lower("SELECT \"PRICE\", 'Ä\"B\"' FROM \"DEFAULT\".\"KYLIN_SALES\"").as_deref(),
            Some("SELECT \"price\", 'Ä\"B\"' FROM \"default\".\"kylin_sales\"")
        );
        for unchanged in ["SELECT PRICE", "SELECT \"price\" AS Total", "SELECT '\"A\"' -- \"B\"", ""] {
            assert_eq!(lower(unchanged), None, "{unchanged}");
        }
    }

    #[test]
    fn columns_are_shown_by_the_names_that_the_client_wrote() {
        let sql = "SELECT sum(\"PRICE\") AS \"Total \"\"€\"\"\", '\"X\"' FROM \"SALES\"";
        let names = Lowered::of(sql, &LoweredStatements::default()).unwrap().names;
        assert_eq!(names.shown("total \"€\""), "Total \"€\"");
        assert_eq!((names.shown("price"), names.shown("x"), names.shown("n")), ("PRICE", "x", "n"));
    }

    #[test]
    fn a_statement_is_remembered_without_its_values_until_the_catalog_changes() {
        let statements = LoweredStatements::default();
        let key = |sql: &str, project: &str, version: u64| {
            let catalog = CatalogSnapshot { version: SnapshotVersion(version), ..CatalogSnapshot::default() };
            statements.key(&Lowered::of(sql, &statements).unwrap(), project, &catalog)
        };
        let sql = "SELECT \"A\" FROM \"T\" WHERE \"B\" = 'x' AND \"C\" < 1.5 AND d = 7";
        statements.add(key(sql, "shop", 3));
        let check = |sql: &str, project: &str, version: u64, known: bool| {
            assert_eq!(statements.has(key(sql, project, version)), known, "{sql} {project} {version}");
        };
        check(sql, "shop", 3, true);
        check("SELECT \"A\" FROM \"T\" WHERE \"B\" = 'y''z' AND \"C\" < 20.25 AND d = 8", "shop", 3, true);
        check(sql, "shop", 4, false);
        check(sql, "other", 3, false);
        check(&sql.replace("\"B\"", "\"b\""), "shop", 3, false);
        check(&sql.replace("d = 7", "e = 7"), "shop", 3, false);
        check(&sql.replace("'x'", "'x.parquet'"), "shop", 3, false);
    }
}
