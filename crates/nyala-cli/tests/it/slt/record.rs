//! Files of the sqllogictest form, with a directive of our own for the cube that answers a query.
//!
//! ```text
//! # a comment
//!
//! statement ok
//! CREATE CUBE c AS …
//!
//! statement error words of the message
//! BUILD CUBE d
//!
//! query TI rowsort
//! SELECT country, count(*) FROM sales GROUP BY country
//! ----
//! NO 3
//! SE 1
//!
//! cube hit c (country)
//! SELECT count(*) FROM sales
//!
//! cube miss words of the reason
//! SELECT max(buyer) FROM sales
//! ```
//!
//! A `cube` record begins with a line for each aggregation of its query, in the order of EXPLAIN. A hit names
//! the cube and then the parts of EXPLAIN's output to compare: the cuboids, and perhaps the tables that are
//! joined with them. `cube none` stands for a query of which EXPLAIN says that it has no aggregation that
//! reads the fact table of a cube.

use std::path::{Path, PathBuf};

/// A file, taken apart.
pub struct File {
    pub path: PathBuf,
    pub items: Vec<Item>,
}

/// A part of a file, with the number of its first line.
pub struct Item {
    pub line: usize,
    pub content: Content,
}

pub enum Content {
    Comment(String),
    Statement { sql: String, error: Option<String> },
    Query { sql: String, types: String, sort: bool, rows: Vec<String> },
    Cube { sql: String, expected: Vec<Expected> },
}

/// The expected hit or miss of one aggregation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expected {
    Hit {
        cube: String,
        cuboids: String,
    },
    Miss {
        reason: String,
    },
    /// The query has no aggregation that reads a cube's fact table.
    None,
}

impl File {
    pub fn read(path: &Path) -> Self {
        let text = std::fs::read_to_string(path).unwrap();
        let mut items = Vec::new();
        let mut lines = text.lines().enumerate().peekable();
        while let Some((number, line)) = lines.next() {
            let comment = line.strip_prefix('#');
            if let Some(comment) = comment {
                items.push(Item { line: number + 1, content: Content::Comment(comment.trim().to_owned()) });
            } else if !line.trim().is_empty() {
                let mut record = vec![line];
                while let Some((_, line)) = lines.next_if(|(_, line)| !line.trim().is_empty()) {
                    record.push(line);
                }
                let content =
                    parse(&record).unwrap_or_else(|what| panic!("{}:{}: {what}", path.display(), number + 1));
                items.push(Item { line: number + 1, content });
            }
        }
        Self { path: path.to_owned(), items }
    }
}

fn parse(record: &[&str]) -> Result<Content, String> {
    let first = record.first().copied().unwrap_or_default();
    let sql = |lines: &[&str]| match lines.join("\n") {
        empty if empty.trim().is_empty() => Err("the record has no statement".to_owned()),
        sql => Ok(sql),
    };
    match first.split_whitespace().collect::<Vec<_>>().as_slice() {
        ["statement", "ok"] => Ok(Content::Statement { sql: sql(&record[1..])?, error: None }),
        ["statement", "error", _, ..] => {
            let words = first["statement error".len()..].trim().to_owned();
            Ok(Content::Statement { sql: sql(&record[1..])?, error: Some(words) })
        }
        ["query", types, sort @ ..] => {
            if !types.chars().all(|c| "TIR".contains(c)) || ![&[][..], &["rowsort"]].contains(&sort) {
                return Err(format!("`{first}` is not `query` with types T, I, R and perhaps `rowsort`"));
            }
            let end = record.iter().position(|line| *line == "----").ok_or("there is no `----`")?;
            let rows = record[end + 1..].iter().map(|row| (*row).to_owned()).collect();
            let sort = !sort.is_empty();
            Ok(Content::Query { sql: sql(&record[1..end])?, types: (*types).to_owned(), sort, rows })
        }
        ["cube", ..] => {
            let expected = record.iter().take_while(|line| line.starts_with("cube "));
            let expected: Vec<Expected> = expected.map(|line| expectation(line)).collect::<Result<_, _>>()?;
            Ok(Content::Cube { sql: sql(&record[expected.len()..])?, expected })
        }
        _ => Err(format!("`{first}` begins no record")),
    }
}

fn expectation(line: &str) -> Result<Expected, String> {
    if let Some(hit) = line.strip_prefix("cube hit ") {
        let (cube, cuboids) = hit.split_once(' ').ok_or("`cube hit` needs a cube and a cuboid")?;
        Ok(Expected::Hit { cube: cube.to_owned(), cuboids: cuboids.trim().to_owned() })
    } else if let Some(reason) = line.strip_prefix("cube miss ") {
        Ok(Expected::Miss { reason: reason.trim().to_owned() })
    } else if line == "cube none" {
        Ok(Expected::None)
    } else {
        Err(format!("`{line}` is none of `cube hit`, `cube miss` with words, and `cube none`"))
    }
}

#[test]
fn nonsense_is_not_passed_over() {
    for record in [
        &["statement maybe", "SELECT 1"][..],
        &["statement ok"],
        &["statement error", "SELECT 1"],
        &["query XX", "SELECT 1", "----", "1"],
        &["query I", "SELECT 1"],
        &["cube hit c", "SELECT 1"],
        &["cube miss", "SELECT 1"],
        &["cube hit c ()"],
        &["SELECT 1"],
    ] {
        assert!(parse(record).is_err(), "{record:?}");
    }
}
