//! Messages with the wording of PostgreSQL, because some tools look for it, as for `column "x" does not exist`.

/// The engine's message for a statement that was cancelled.
const CANCELLED: &str = "statement was cancelled on request";

/// The message of a failure: names are in double quotes, and a syntax error names what it met.
pub fn message(sqlstate: &str, message: &str) -> String {
    if let Some(found) = unexpected(sqlstate, message) {
        return match found {
            "EOF" => "syntax error at end of input".to_owned(),
            found => format!("syntax error at or near \"{found}\""),
        };
    }
    if sqlstate == "57014" && message.contains("statement_timeout") {
        return "canceling statement due to statement timeout".to_owned();
    }
    if sqlstate == "57014" && message == CANCELLED {
        return "canceling statement due to user request".to_owned();
    }
    if let Some((_, table, column)) = null_value(sqlstate, message) {
        return format!(
            "null value in column \"{column}\" of relation \"{table}\" violates not-null constraint"
        );
    }
    let quoted = message.replace('`', "\"");
    match quoted.strip_prefix("table \"") {
        Some(rest) if sqlstate == "42P01" => format!("relation \"{rest}"),
        _ => quoted,
    }
}

/// Schema, table and column of a value that must not be NULL.
fn null_value<'a>(sqlstate: &str, message: &'a str) -> Option<(&'a str, &'a str, &'a str)> {
    let rest = message.strip_prefix("rows for table `").filter(|_| sqlstate == "23502")?;
    let (table, rest) = rest.split_once("` have a null in column `")?;
    let (column, _) = rest.split_once('`')?;
    let (schema, table) = table.split_once('.')?;
    Some((schema, table, column))
}

/// The fields of an error about a value that must not be NULL: drivers read them.
pub fn places(sqlstate: &str, message: &str) -> Vec<(u8, String)> {
    match null_value(sqlstate, message) {
        Some((schema, table, column)) => {
            vec![(b's', schema.to_owned()), (b't', table.to_owned()), (b'c', column.to_owned())]
        }
        None => Vec::new(),
    }
}

/// The message with the name of a missing table as the statement has it: without a schema, if it has none.
pub fn as_named(sqlstate: &str, message: String, sql: &str) -> String {
    const DEFAULT: &str = "`public.";
    match sqlstate == "42P01" && message.contains(DEFAULT) && !sql.to_ascii_lowercase().contains("public") {
        true => message.replacen(DEFAULT, "`", 1),
        false => message,
    }
}

/// The parser's message with the tokens that it expected, for a syntax error.
pub fn detail(sqlstate: &str, message: &str) -> Option<String> {
    unexpected(sqlstate, message).map(|_| message.to_owned())
}

/// The word at which the parser gave up.
fn unexpected<'a>(sqlstate: &str, message: &'a str) -> Option<&'a str> {
    if sqlstate != "42601" {
        return None;
    }
    let (_, found) = message.rsplit_once("found: ")?;
    let found = found.split(" at Line:").next()?.trim().trim_matches('`');
    (!found.is_empty()).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_have_postgresqls_words() {
        let check = |state, own: &str, expected: &str| assert_eq!(message(state, own), expected);
        check("42703", "column `x` does not exist", "column \"x\" does not exist");
        check("42P01", "table `t` does not exist", "relation \"t\" does not exist");
        check(
            "42601",
            "expected: an expression, found: FROM at Line: 1, Column: 8",
            "syntax error at or near \"FROM\"",
        );
        check("42601", "expected: an expression, found: EOF", "syntax error at end of input");
        check("22012", "division by zero", "division by zero");
        let null = "rows for table `public.t` have a null in column `x`, which allows none";
        check("23502", null, "null value in column \"x\" of relation \"t\" violates not-null constraint");
        assert_eq!(places("23502", null).len(), 3);
        assert!(detail("42601", "expected: an expression, found: EOF").is_some());
        assert_eq!(detail("42703", "column `x` does not exist"), None);
    }
}
