//! Commands to the prompt itself, which begin with a backslash.

/// A command to the prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Meta {
    /// `\q`, `exit`, `quit`: leave.
    Quit,
    /// `\timing`: show times, or do not.
    Timing,
    /// `\x`: one line for each value, or one for each row.
    Expanded,
    /// `\i FILE`: run the statements of a file.
    Include(String),
    /// `\?`: list the commands.
    Help,
    /// `\d`, `\d name`, `\l`: stand for a statement.
    Statement(String),
    /// Something else.
    Unknown(String),
}

/// The text of `\?`.
pub const HELP: &str = "\
\\d          tables and views
\\d NAME     columns of a table
\\l          databases
\\x          show a line for each value, or for each row again
\\i FILE     run the statements of a file
\\timing     show how long statements take, or stop showing it
\\?, help    this help
\\q          leave (so do exit, quit and Ctrl-D)
Statements end with `;`. Ctrl-C cancels the running one. `SHOW CUBES`, `SHOW SEGMENTS` and `SHOW JOBS`
tell about cubes; `EXPLAIN` tells which cube answers a query, or why none does.
";

impl Meta {
    /// Reads a line; none if it is no such command.
    pub fn parse(line: &str) -> Option<Meta> {
        let line = line.trim().trim_end_matches(';').trim_end();
        match line.to_ascii_lowercase().as_str() {
            "exit" | "quit" => return Some(Meta::Quit),
            "help" => return Some(Meta::Help),
            _ => {}
        }
        let command = line.strip_prefix('\\')?;
        let (name, argument) = command.split_once(char::is_whitespace).unwrap_or((command, ""));
        Some(match (name, argument.trim()) {
            ("q", "") => Meta::Quit,
            ("timing", "") => Meta::Timing,
            ("x", "") => Meta::Expanded,
            ("i" | "include", file) if !file.is_empty() => Meta::Include(file.trim_matches('\'').to_owned()),
            ("l", "") => Meta::Statement(DATABASES.to_owned()),
            ("?" | "h" | "help", "") => Meta::Help,
            ("d" | "dt", "") => Meta::Statement(TABLES.to_owned()),
            ("d", table) => Meta::Statement(columns(table)),
            _ => Meta::Unknown(line.to_owned()),
        })
    }
}

const DATABASES: &str = "SELECT DISTINCT catalog_name AS name FROM information_schema.schemata ORDER BY 1";

const TABLES: &str = "SELECT table_schema, table_name, table_type FROM information_schema.tables \
WHERE table_schema NOT IN ('information_schema', 'pg_catalog') ORDER BY table_schema, table_name";

fn columns(table: &str) -> String {
    // A point within quotes is a part of a name.
    let mut quoted = false;
    let point = table.find(|character: char| {
        quoted ^= character == '"';
        character == '.' && !quoted
    });
    let (schema, name) = match point {
        Some(at) => (table.get(..at), table.get(at + 1..).unwrap_or_default()),
        None => (None, table),
    };
    let schema = match schema {
        Some(schema) => format!("table_schema = {}", literal(schema)),
        None => "table_schema NOT IN ('information_schema', 'pg_catalog')".to_owned(),
    };
    format!(
        "SELECT column_name, data_type, is_nullable FROM information_schema.columns \
         WHERE {schema} AND table_name = {} ORDER BY ordinal_position",
        literal(name)
    )
}

/// A name as it compares, as an SQL text.
fn literal(name: &str) -> String {
    let name = match name.strip_prefix('"').and_then(|name| name.strip_suffix('"')) {
        Some(quoted) => quoted.replace("\"\"", "\""),
        None => name.to_ascii_lowercase(),
    };
    format!("'{}'", name.replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_told_from_statements() {
        assert_eq!(Meta::parse("SELECT 1;"), None);
        assert_eq!(Meta::parse(" \\q "), Some(Meta::Quit));
        assert_eq!(Meta::parse("\\timing;"), Some(Meta::Timing));
        assert_eq!(Meta::parse("\\x"), Some(Meta::Expanded));
        assert_eq!(Meta::parse("\\i a b.sql"), Some(Meta::Include("a b.sql".to_owned())));
        assert_eq!(Meta::parse("\\nope"), Some(Meta::Unknown("\\nope".to_owned())));
        assert_eq!(Meta::parse("EXIT;"), Some(Meta::Quit));
        assert_eq!(Meta::parse("help"), Some(Meta::Help));
        assert_eq!(Meta::parse("SELECT help"), None);
        assert_eq!(Meta::parse("\\q now"), Some(Meta::Unknown("\\q now".to_owned())));
    }

    #[test]
    fn names_cannot_leave_their_quotes() {
        let Some(Meta::Statement(text)) = Meta::parse("\\d s.O'Brien") else { unreachable!() };
        assert!(text.contains("table_schema = 's' AND table_name = 'o''brien'"), "{text}");
        let Some(Meta::Statement(text)) = Meta::parse("\\d \"Mixed\"") else { unreachable!() };
        assert!(text.contains("table_name = 'Mixed'"), "{text}");
        let Some(Meta::Statement(text)) = Meta::parse("\\d \"a.b\".\"c.\"\"d\"") else { unreachable!() };
        assert!(text.contains("table_schema = 'a.b' AND table_name = 'c.\"d'"), "{text}");
        let Some(Meta::Statement(text)) = Meta::parse("\\d \"a.b\"") else { unreachable!() };
        assert!(text.contains("table_name = 'a.b'"), "{text}");
    }
}
