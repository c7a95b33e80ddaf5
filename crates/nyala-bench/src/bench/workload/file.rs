//! Reads query files.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use nyala_client::report::Hinted;
use nyala_client::split::split;

use super::definition::Definition;
use super::query::Query;
use super::{builtin, declaration};

/// The queries of a run.
#[derive(Debug)]
pub struct Workload {
    /// The workload's name in reports.
    pub name: String,
    /// The queries, at least one.
    pub queries: Vec<Query>,
}

/// Reads the named workloads: those that come with the program, files, and folders of `.sql` files.
pub fn read(names: &[String]) -> Result<Workload> {
    let mut queries = Vec::new();
    for name in names {
        match builtin::text(name) {
            Some(text) => queries.extend(parse(name, text)?),
            None => {
                for path in files(Path::new(name))? {
                    queries.extend(read_file(&path)?);
                }
            }
        }
    }
    if queries.is_empty() {
        bail!("no queries in `{}`", names.join(", "));
    }
    Ok(Workload { name: names.join(", "), queries })
}

/// The workload that measures the cost of the path to a server.
pub fn select_one() -> Result<Workload> {
    let query = Query::new("SELECT 1", Some(1), "SELECT 1", &[])?;
    Ok(Workload { name: "SELECT 1".to_owned(), queries: vec![query] })
}

fn files(path: &Path) -> Result<Vec<PathBuf>> {
    if !path.exists() {
        let built_in = builtin::NAMES.join("`, `");
        return Err(Hinted::error(
            format!("`{}` is neither a file nor a workload", path.display()),
            format!("name query files, folders of them, or one of `{built_in}`"),
        ));
    }
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let entries = fs::read_dir(path).with_context(|| format!("cannot list `{}`", path.display()))?;
    let mut files: Vec<PathBuf> =
        entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>()?;
    files.retain(|file| file.extension().is_some_and(|extension| extension == "sql"));
    files.sort();
    Ok(files)
}

fn read_file(path: &Path) -> Result<Vec<Query>> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read `{}`", path.display()))?;
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    parse(&stem, &text).with_context(|| format!("in `{}`", path.display()))
}

/// The queries of a text. One without a name is called after `stem`.
fn parse(stem: &str, text: &str) -> Result<Vec<Query>> {
    let statements = split(text);
    let mut shared = Vec::new();
    let mut queries = Vec::new();
    for (place, statement) in statements.iter().enumerate() {
        let header = Header::read(statement)?;
        if place == 0 {
            shared = header.shared;
        }
        let default = if statements.len() == 1 { stem.to_owned() } else { format!("{stem}-{}", place + 1) };
        let name = header.name.unwrap_or(default);
        let declared = [shared.clone(), header.own].concat();
        let query = Query::new(&name, header.columns, header.statement, &declared)
            .with_context(|| format!("query `{name}`"))?;
        queries.push(query);
    }
    Ok(queries)
}

/// The comments before a statement.
#[derive(Default)]
struct Header<'a> {
    name: Option<String>,
    columns: Option<usize>,
    /// Definitions before the name: those of the first statement are for the whole file.
    shared: Vec<Definition>,
    own: Vec<Definition>,
    statement: &'a str,
}

impl<'a> Header<'a> {
    fn read(text: &'a str) -> Result<Self> {
        let (comments, statement) = leading_comments(text);
        let mut header = Self { statement, ..Self::default() };
        for comment in comments {
            header.line(&comment)?;
        }
        if header.name.is_none() {
            header.own = std::mem::take(&mut header.shared);
        }
        Ok(header)
    }

    fn line(&mut self, line: &str) -> Result<()> {
        if let Some(name) = line.strip_prefix("name:") {
            self.name = Some(name.trim().to_owned());
        } else if let Some(count) = line.strip_prefix("columns:") {
            let count = count.trim().parse().with_context(|| format!("`{line}`: not a number of columns"))?;
            self.columns = Some(count);
        } else if let Some(parameter) = line.strip_prefix("param ") {
            let definition = declaration::parse(parameter.trim())?;
            if self.name.is_some() { self.own.push(definition) } else { self.shared.push(definition) }
        }
        Ok(())
    }
}

/// The lines of comment before a statement, and the statement. A line indented below another goes on with it.
fn leading_comments(text: &str) -> (Vec<String>, &str) {
    let (mut lines, mut rest) = (Vec::<String>::new(), text);
    while let Some(comment) = rest.strip_prefix("--") {
        let (line, after) = comment.split_once('\n').unwrap_or((comment, ""));
        match lines.last_mut() {
            Some(last) if line.starts_with("   ") => *last = format!("{last} {}", line.trim()),
            _ => lines.push(line.trim().to_owned()),
        }
        rest = after.trim_start();
    }
    (lines, rest)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;
    use crate::bench::workload::Random;

    #[test]
    fn a_file_declares_for_all_and_a_statement_for_itself() {
        let text = "-- Two queries.\n-- param y:\n--   1\n--   ..1\n\n-- name: a\n-- columns: 2\n-- param z: y + 1\n\
                    SELECT {{y}}, {{z}}; -- name: b\nSELECT {{y}} -- kept\n;";
        let queries = parse("file", text).unwrap();
        let literal = |query: &Query| query.literal(&query.draw(&mut Random::of_client(1, 1)).unwrap());
        assert_eq!((queries[0].name.as_str(), queries[0].columns), ("a", Some(2)));
        assert_eq!(literal(&queries[0]), "SELECT 1, 2");
        assert_eq!((queries[1].name.as_str(), queries[1].columns), ("b", None));
        assert_eq!(literal(&queries[1]), "SELECT 1 -- kept");
    }

    #[test]
    fn statements_without_names_are_called_after_their_file() {
        let names = |text| parse("q", text).unwrap().into_iter().map(|query| query.name).collect::<Vec<_>>();
        assert_eq!(names("-- param a: 1..2\nSELECT {{a}}"), ["q"]);
        assert_eq!(names("SELECT 1; SELECT 2;"), ["q-1", "q-2"]);
        assert!(parse("q", "-- columns: many\nSELECT 1").is_err());
        assert!(read(&["no such file".to_owned()]).is_err());
    }
}
