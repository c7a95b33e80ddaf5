//! The page of rewrite rules as data: each of its lines is backed by records that show it.

use std::path::Path;

use super::record::{Content, Expected, File};

/// A section with a table of rules.
pub struct Section {
    pub title: String,
    /// Name of the file that, by the section's text, shows its rules.
    pub file: Option<String>,
    pub rules: Vec<Rule>,
}

/// A line of a table.
pub struct Rule {
    /// Text of the first cell; that of the line above if the cell is empty.
    pub name: String,
    /// The texts in backticks in the second cell.
    pub examples: Vec<String>,
    pub hit: bool,
    /// The reason that the last cell quotes.
    pub reason: Option<String>,
}

/// The sections of the page, from `## ` to `## `.
pub fn sections(page: &str) -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    for line in page.lines() {
        if let Some(title) = line.strip_prefix("## ") {
            sections.push(Section { title: title.to_owned(), file: None, rules: Vec::new() });
        }
        let Some(section) = sections.last_mut() else { continue };
        if let Some((_, link)) = line.split_once("tests/slt/cubes/") {
            section.file = link.split(')').next().map(str::to_owned);
        }
        if let Some(row) = line.strip_prefix('|').and_then(|row| row.trim_end().strip_suffix('|')) {
            let previous = section.rules.last().map(|rule| rule.name.clone());
            section.rules.extend(rule(row, previous));
        }
    }
    sections
}

fn rule(row: &str, previous: Option<String>) -> Option<Rule> {
    let cells: Vec<&str> = row.split('|').map(str::trim).collect();
    let (first, example, verdict) = (*cells.first()?, *cells.get(1)?, *cells.last()?);
    let hit = verdict.starts_with("hit");
    if !hit && !verdict.starts_with("miss") {
        let is_head = first == "rule" || first.starts_with("--");
        assert!(is_head, "neither hit nor miss: {row}");
        return None;
    }
    let name = if first.is_empty() { previous.unwrap_or_default() } else { first.to_owned() };
    let reason = (!hit).then(|| quoted(verdict).into_iter().next()).flatten();
    Some(Rule { name, examples: quoted(example), hit, reason })
}

/// The texts between backticks, single or double.
fn quoted(cell: &str) -> Vec<String> {
    let single = cell.replace("`` ", "\u{1}").replace(" ``", "\u{1}");
    let mark = if single.contains('\u{1}') { '\u{1}' } else { '`' };
    single.split(mark).skip(1).step_by(2).map(str::to_owned).collect()
}

/// The section's rules that the file does not show.
pub fn missing(section: &Section, folder: &Path) -> Vec<String> {
    let Some(name) = &section.file else {
        return vec![format!("section `{}` names no file of tests/slt/cubes", section.title)];
    };
    let file = File::read(&folder.join(name));
    if !file.items.iter().any(|item| matches!(item.content, Content::Cube { .. })) {
        return vec![format!("{name} shows nothing")];
    }
    let mut missing = Vec::new();
    for rule in &section.rules {
        let records = records_of(&file, &rule.name);
        let verdict = if rule.hit { "cube hit" } else { "cube miss" };
        if !records.iter().any(|record| record.shows(rule)) {
            missing.push(format!("{name} has no `{verdict}` below `# {}`", rule.name));
        }
        let lacking = |example: &&String| !records.iter().any(|r| r.shows(rule) && r.contains(example));
        for example in rule.examples.iter().filter(lacking) {
            missing.push(format!("{name} has no `{verdict}` with `{example}` below `# {}`", rule.name));
        }
    }
    missing
}

/// A `cube` record, with the statements before it, which often make the cube.
struct Record<'a> {
    sql: String,
    expected: &'a [Expected],
}

impl Record<'_> {
    fn shows(&self, rule: &Rule) -> bool {
        self.expected.iter().any(|expected| match expected {
            Expected::Hit { .. } => rule.hit,
            Expected::Miss { reason } => {
                let promised = rule.reason.as_deref().unwrap_or_default();
                !rule.hit && in_order(reason, promised)
            }
            Expected::None => !rule.hit,
        })
    }

    fn contains(&self, example: &str) -> bool {
        in_order(&self.sql, example)
    }
}

/// Whether the parts of `example`, between `…`, stand in `text` one after another.
fn in_order(text: &str, example: &str) -> bool {
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (text, example) = (words(text), words(example));
    let mut rest = text.as_str();
    example.split('…').map(str::trim).all(|part| match rest.split_once(part) {
        Some((_, after)) => {
            rest = after;
            true
        }
        None => false,
    })
}

/// The records below a comment `name`, up to the next comment.
fn records_of<'a>(file: &'a File, name: &str) -> Vec<Record<'a>> {
    let mut records = Vec::new();
    let (mut below, mut before) = (false, String::new());
    for item in &file.items {
        match &item.content {
            Content::Comment(comment) => {
                below = comment == name;
                before.clear();
            }
            Content::Statement { sql, .. } => before = format!("{before}\n{sql}"),
            Content::Cube { sql, expected } if below => {
                records.push(Record { sql: format!("{before}\n{sql}"), expected });
            }
            Content::Cube { .. } | Content::Query { .. } => {}
        }
    }
    records
}

#[test]
fn a_line_that_nothing_shows_is_found() {
    let page = "## Groups\nShown by [groups](../../tests/slt/cubes/groups.slt).\n\n| rule | example | |\n\
                |---|---|---|\n| no such rule | `GROUP BY nothing` | hit |\n| | | miss: `` no `x` `` |\n";
    let sections = sections(page);
    let section = sections.first().unwrap();
    assert_eq!((sections.len(), section.rules.len()), (1, 2));
    assert_eq!(section.rules[1].reason.as_deref(), Some("no `x`"));
    assert_eq!(section.rules[1].name, "no such rule");
    let folder = crate::star::repository("tests/slt/cubes");
    assert_eq!(missing(section, &folder).len(), 3);
    assert!(in_order("WHERE a AND  b\nAND c", "a … b AND c") && !in_order("b a", "a … b"));
}
