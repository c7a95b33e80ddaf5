//! `SIMILAR TO` matches the whole text with a pattern of SQL.

use datafusion::common::tree_node::Transformed;
use datafusion::common::{Result, not_impl_err};
use datafusion::logical_expr::{Expr, Like, Operator, binary_expr, lit};

use super::{Meaning, Scope};
use crate::functions::similar_inner;

/// Writes the pattern as a regular expression: DataFusion takes it for one, and finds it anywhere in the text.
#[derive(Debug)]
pub struct SimilarTo;

impl Meaning for SimilarTo {
    fn name(&self) -> &'static str {
        "similar_to"
    }

    fn concerns(&self, expr: &Expr) -> bool {
        matches!(expr, Expr::SimilarTo(_))
    }

    fn rewrite(&self, expr: Expr, _: &Scope<'_>) -> Result<Transformed<Expr>> {
        let Expr::SimilarTo(Like { negated, expr, pattern, escape_char, .. }) = expr else {
            return Ok(Transformed::no(expr));
        };
        let op = if negated { Operator::RegexNotMatch } else { Operator::RegexMatch };
        let pattern = match pattern.as_literal().map(|pattern| pattern.try_as_str()) {
            Some(Some(Some(text))) => lit(regex(text, escape_char.unwrap_or('\\'))),
            Some(_) => *pattern,
            None => {
                return not_impl_err!(
                    "the pattern of SIMILAR TO must be a constant: use `~` with a regular expression"
                );
            }
        };
        Ok(Transformed::yes(binary_expr(*expr, op, pattern)))
    }
}

/// Writes patterns of LIKE with a backslash as the escape character, the only one that DataFusion knows.
#[derive(Debug)]
pub struct EscapedByBackslash;

impl Meaning for EscapedByBackslash {
    fn name(&self) -> &'static str {
        "escaped_by_backslash"
    }

    fn concerns(&self, expr: &Expr) -> bool {
        matches!(expr, Expr::Like(Like { escape_char: Some(_), .. }))
    }

    fn rewrite(&self, expr: Expr, _: &Scope<'_>) -> Result<Transformed<Expr>> {
        let Expr::Like(like) = expr else { return Ok(Transformed::no(expr)) };
        let text = like.pattern.as_literal().and_then(|pattern| pattern.try_as_str().flatten());
        Ok(match (text, like.escape_char) {
            (Some(text), Some(escape)) => {
                let pattern = Box::new(lit(escaped_by_backslash(text, escape)));
                Transformed::yes(Expr::Like(Like { pattern, escape_char: None, ..like }))
            }
            _ => Transformed::no(Expr::Like(like)),
        })
    }
}

fn escaped_by_backslash(pattern: &str, escape: char) -> String {
    let mut escaped = String::with_capacity(pattern.len());
    let mut signs = pattern.chars();
    while let Some(sign) = signs.next() {
        match sign {
            _ if sign == escape => {
                escaped.push('\\');
                escaped.extend(signs.next());
            }
            '\\' => escaped.push_str("\\\\"),
            _ => escaped.push(sign),
        }
    }
    escaped
}

fn regex(pattern: &str, escape: char) -> String {
    format!("(?s)^(?:{})$", similar_inner(pattern, escape))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_regular_expressions_of_the_whole_text() {
        assert_eq!(regex("a%", '\\'), "(?s)^(?:a.*)$");
        assert_eq!(regex("_(b|c)+", '\\'), "(?s)^(?:.(b|c)+)$");
        assert_eq!(regex("1.5$", '\\'), "(?s)^(?:1\\.5\\$)$");
        assert_eq!(regex(r"100\%", '\\'), r"(?s)^(?:100\%)$");
        assert_eq!(regex("100#%[%_]", '#'), r"(?s)^(?:100\%[%_])$");
    }
}
