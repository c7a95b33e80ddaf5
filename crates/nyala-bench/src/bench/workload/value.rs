//! Values of parameters.

use std::fmt;

/// A value of a parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// Sent as `bigint`.
    Integer(i64),
    /// Sent as `text`.
    Text(String),
}

impl Value {
    /// A word of a declaration: quoted it is a text, else a number if it looks like one.
    pub fn of_word(word: &str) -> Self {
        let word = word.trim();
        if let Some(text) = unquoted(word) {
            return Self::Text(text);
        }
        word.parse().map_or_else(|_| Self::Text(word.to_owned()), Self::Integer)
    }

    /// Writes the value as a literal of SQL.
    pub fn write_literal(&self, out: &mut String) {
        match self {
            Self::Integer(number) => *out += &number.to_string(),
            Self::Text(text) => {
                out.push('\'');
                *out += &text.replace('\'', "''");
                out.push('\'');
            }
        }
    }
}

/// The bare text, as it is put into other texts.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(number) => number.fmt(f),
            Self::Text(text) => f.write_str(text),
        }
    }
}

/// The text between single quotes; none if the word is not quoted as a whole.
pub fn unquoted(word: &str) -> Option<String> {
    let inner = word.strip_prefix('\'')?.strip_suffix('\'')?;
    (!inner.replace("''", "").contains('\'')).then(|| inner.replace("''", "'"))
}

#[cfg(test)]
mod tests {
    use super::Value;

    #[test]
    fn literals_are_quoted_so_that_nothing_escapes() {
        let check = |word: &str, literal: &str| {
            let mut out = String::new();
            Value::of_word(word).write_literal(&mut out);
            assert_eq!(out, literal, "{word}");
        };
        check("12", "12");
        check("-3", "-3");
        check("MIDDLE EAST", "'MIDDLE EAST'");
        check("'12'", "'12'");
        check("'PERU     '", "'PERU     '");
        check("O'Neil", "'O''Neil'");
        check("'O''Neil'", "'O''Neil'");
    }
}
