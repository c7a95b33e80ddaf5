//! The files of a suite as questions in order.

use sqllogictest::{Condition, DefaultColumnType, QueryExpect, Record, SortMode, StatementExpect};
use std::path::{Path, PathBuf};

/// The engine that records for one engine only are asked as.
const LABELS: [&str; 2] = ["postgresql", "postgres"];

/// One record: what is asked, and what its file expects.
pub struct Question {
    pub line: u32,
    pub sql: String,
    pub expects: Expects,
}

/// What a file expects of a statement or query.
pub enum Expects {
    Success,
    Failure,
    /// Lines of an answer: one for each row, or for each value, or one hash of all values.
    Rows {
        types: Vec<DefaultColumnType>,
        sort: SortMode,
        lines: Vec<String>,
    },
}

/// All files below a folder that hold records, in order.
pub fn below(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder)? {
            let path = entry?.path();
            match path.extension().and_then(|it| it.to_str()) {
                _ if path.is_dir() => folders.push(path),
                Some("slt" | "test") => found.push(path),
                _ => {}
            }
        }
    }
    found.sort();
    Ok(found)
}

/// The questions of one file; the error says what of it cannot be read.
pub fn questions(path: &Path) -> Result<Vec<Question>, String> {
    let mut questions = Vec::new();
    let mut sort = SortMode::NoSort;
    read(path, &mut sort, &mut questions)?;
    Ok(questions)
}

fn read(path: &Path, sort: &mut SortMode, questions: &mut Vec<Question>) -> Result<(), String> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    let records =
        sqllogictest::parse::<DefaultColumnType>(&plain(&text)).map_err(|error| error.to_string())?;
    let mut asked_of_others = false;
    for record in records {
        match record {
            Record::Condition(condition) => asked_of_others |= is_for_others(&condition),
            Record::Halt { .. } if !asked_of_others => return Ok(()),
            Record::Halt { .. } => asked_of_others = false,
            Record::Statement { loc, conditions, sql, expected, .. } => {
                asked_of_others = false;
                if conditions.iter().any(is_for_others) {
                    continue;
                }
                let expects = match expected {
                    StatementExpect::Error(_) => Expects::Failure,
                    _ => Expects::Success,
                };
                questions.push(Question { line: loc.line(), sql, expects });
            }
            Record::Query { loc, conditions, sql, expected, .. } => {
                asked_of_others = false;
                if conditions.iter().any(is_for_others) {
                    continue;
                }
                let expects = match expected {
                    QueryExpect::Error(_) => Expects::Failure,
                    QueryExpect::Results { types, sort_mode, results, .. } => {
                        Expects::Rows { types, sort: sort_mode.unwrap_or(*sort), lines: results }
                    }
                };
                questions.push(Question { line: loc.line(), sql, expects });
            }
            Record::Include { filename, .. } => {
                let beside = path.parent().unwrap_or(Path::new(".")).join(filename);
                read(&beside, sort, questions)?;
            }
            Record::Control(sqllogictest::Control::SortMode(mode)) => *sort = mode,
            _ => {}
        }
    }
    Ok(())
}

fn is_for_others(condition: &Condition) -> bool {
    match condition {
        Condition::OnlyIf { label } => !LABELS.contains(&label.as_str()),
        Condition::SkipIf { label } => LABELS.contains(&label.as_str()),
    }
}

/// SQLite's files have remarks behind conditions, which the parser does not know.
fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for line in text.lines() {
        let is_condition = line.starts_with("skipif ") || line.starts_with("onlyif ");
        let kept = if is_condition {
            line.split('#').next().unwrap_or(line).trim_end()
        } else {
            line.trim_end_matches('\r')
        };
        plain.push_str(kept);
        plain.push('\n');
    }
    plain
}
