//! Lists of schemas, as `search_path` has them.

/// The names in a list. What is in double quotes may hold commas, and `""` for a quote.
pub fn schemas_in_path(path: &str) -> impl Iterator<Item = String> {
    let mut quoted = false;
    let pieces = path.split(move |character: char| {
        quoted ^= character == '"';
        character == ',' && !quoted
    });
    pieces.map(|piece| {
        let piece = piece.trim();
        match piece.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
            Some(name) => name.replace("\"\"", "\""),
            None => piece.trim_matches(['"', '\'']).to_owned(),
        }
    })
}

/// A name as a list has it: in quotes if it would be read as another one without.
pub fn schema_in_path(schema: &str) -> String {
    let is_plain = !schema.contains('"') && schemas_in_path(schema).eq([schema.to_owned()]);
    if is_plain { schema.to_owned() } else { format!("\"{}\"", schema.replace('"', "\"\"")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_were_written() {
        for name in ["sales", "$user", "Mixed Case", "a,b", "a\"b", " a ", "\"", "'a'", "a, \"b\"", ""] {
            let path = format!("{}, public", schema_in_path(name));
            assert_eq!(schemas_in_path(&path).collect::<Vec<_>>(), [name, "public"], "{path}");
        }
        assert_eq!(schema_in_path("Mixed Case"), "Mixed Case");
        assert_eq!(schemas_in_path("'a', b ,\"c\"").collect::<Vec<_>>(), ["a", "b", "c"]);
    }
}
