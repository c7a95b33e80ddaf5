//! Patterns of SIMILAR TO as regular expressions.

/// Signs that mean the same in both languages, and those that only a regular expression knows.
const SHARED: &str = "|*+?{}()";
const OF_REGEX: &str = ".^$\\";

/// A pattern of SQL as a regular expression, wherever in a text.
pub fn similar_inner(pattern: &str, escape: char) -> String {
    let mut regex = String::new();
    let mut signs = pattern.chars();
    let mut in_brackets = false;
    while let Some(sign) = signs.next() {
        match sign {
            _ if sign == escape => {
                if let Some(literal) = signs.next() {
                    if !literal.is_alphanumeric() {
                        regex.push('\\');
                    }
                    regex.push(literal);
                }
            }
            ']' if in_brackets => {
                in_brackets = false;
                regex.push(sign);
            }
            '[' if !in_brackets => {
                in_brackets = true;
                regex.push(sign);
            }
            _ if in_brackets => regex.push(sign),
            '%' => regex.push_str(".*"),
            '_' => regex.push('.'),
            _ if SHARED.contains(sign) => regex.push(sign),
            _ if OF_REGEX.contains(sign) => {
                regex.push('\\');
                regex.push(sign);
            }
            _ => regex.push(sign),
        }
    }
    regex
}
