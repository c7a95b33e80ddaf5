//! `ROLLUP (…)`, `CUBE (…)` and `GROUPING SETS (…)`.
//!
//! The parser of sqlparser 0.62 takes a member that begins with a bracket for a list, and so refuses `ROLLUP
//! ((a)::int)`. It does not know sets within sets either.

use std::cell::Cell;

use datafusion::sql::sqlparser::ast::Expr;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;

/// Most members of a CUBE within GROUPING SETS, which is written as a set for each choice of members.
const MAX_NESTED_MEMBERS: usize = 12;

/// Most tokens that are written for ROLLUP and CUBE within the GROUPING SETS of one text. Each of their sets has
/// copies of its members, so that a `CUBE` of a dozen long lists would fill the memory before its sets are counted.
pub const MAX_COPIES: usize = 1_000_000;

/// Parses a grouping, or the empty list `()`; none for other expressions. `copies_left` is the rest of [`MAX_COPIES`].
pub fn grouping(parser: &mut Parser, copies_left: &Cell<usize>) -> Option<Result<Expr, ParserError>> {
    let next = |at: usize| &parser.peek_nth_token_ref(at).token;
    let keyword = |at: usize| match next(at) {
        Token::Word(word) => word.keyword,
        _ => Keyword::NoKeyword,
    };
    if *next(0) == Token::LParen && *next(1) == Token::RParen {
        skip(parser, 2);
        return Some(Ok(Expr::Tuple(Vec::new())));
    }
    match keyword(0) {
        Keyword::ROLLUP if *next(1) == Token::LParen => {
            skip(parser, 1);
            Some(members(parser).map(|members| Expr::Rollup(lists_of(members))))
        }
        Keyword::CUBE if *next(1) == Token::LParen => {
            skip(parser, 1);
            Some(members(parser).map(|members| Expr::Cube(lists_of(members))))
        }
        Keyword::GROUPING if keyword(1) == Keyword::SETS && *next(2) == Token::LParen => {
            skip(parser, 2);
            let sets = members(parser).and_then(|members| {
                let sets = members.into_iter().map(|member| sets_of(member, copies_left));
                sets.collect::<Result<Vec<_>, ParserError>>()
            });
            Some(sets.map(|sets| Expr::GroupingSets(sets.into_iter().flatten().collect())))
        }
        _ => None,
    }
}

fn skip(parser: &mut Parser, tokens: usize) {
    for _ in 0..tokens {
        parser.next_token();
    }
}

/// A member, and how many tokens it has.
struct Member {
    expr: Expr,
    tokens: usize,
}

fn members(parser: &mut Parser) -> Result<Vec<Member>, ParserError> {
    parser.expect_token(&Token::LParen)?;
    let members = parser.parse_comma_separated(|parser| {
        let begin = parser.index();
        let expr = parser.parse_expr()?;
        Ok(Member { expr, tokens: parser.index().saturating_sub(begin) })
    })?;
    parser.expect_token(&Token::RParen)?;
    Ok(members)
}

fn lists_of(members: Vec<Member>) -> Vec<Vec<Expr>> {
    members.into_iter().map(|member| list_of(member.expr)).collect()
}

/// The expressions of one member: those of a list in brackets, or itself.
fn list_of(member: Expr) -> Vec<Expr> {
    match member {
        Expr::Tuple(list) => list,
        Expr::Nested(inner) => vec![*inner],
        other => vec![other],
    }
}

/// The sets that a member of GROUPING SETS stands for.
fn sets_of(member: Member, copies_left: &Cell<usize>) -> Result<Vec<Vec<Expr>>, ParserError> {
    let Member { expr, tokens } = member;
    let check = |sets: usize| check_copies(sets.saturating_mul(tokens), copies_left);
    Ok(match expr {
        Expr::GroupingSets(sets) => sets,
        Expr::Rollup(lists) => {
            check(lists.len().saturating_add(1))?;
            let first = |count: usize| lists.iter().take(count).flatten().cloned().collect();
            (0..=lists.len()).rev().map(first).collect()
        }
        Expr::Cube(lists) if lists.len() > MAX_NESTED_MEMBERS => {
            let message = format!("CUBE within GROUPING SETS has more than {MAX_NESTED_MEMBERS} members");
            return Err(ParserError::ParserError(message));
        }
        Expr::Cube(lists) => {
            check(1 << lists.len())?;
            let chosen = |choice: usize| {
                let is_chosen = |at: usize| choice >> (lists.len() - 1 - at) & 1 == 1;
                let lists = lists.iter().enumerate().filter(|(at, _)| is_chosen(*at));
                lists.flat_map(|(_, list)| list.clone()).collect()
            };
            (0..1_usize << lists.len()).rev().map(chosen).collect()
        }
        other => vec![list_of(other)],
    })
}

/// Counts the tokens that are written for sets, and fails if there are too many.
fn check_copies(tokens: usize, left: &Cell<usize>) -> Result<(), ParserError> {
    match left.get().checked_sub(tokens) {
        Some(fewer) => {
            left.set(fewer);
            Ok(())
        }
        None => {
            let message = "ROLLUP and CUBE within GROUPING SETS stand for too long lists; \
                           name the sets that are needed";
            Err(ParserError::ParserError(message.to_owned()))
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use nyala_model::config::QueryConfig;

    use crate::statement::{StatementLimits, parse};

    fn shown(grouping: &str) -> Result<String, String> {
        let sql = format!("SELECT 1 FROM t GROUP BY {grouping}");
        let parsed = parse(&sql, &StatementLimits::from(&QueryConfig::default()));
        let parsed = parsed.map_err(|error| error.message)?;
        Ok(parsed.first().unwrap().to_string().split_once("GROUP BY ").unwrap().1.to_owned())
    }

    #[test]
    fn members_are_lists_or_any_expressions() {
        for (grouping, expected) in [
            ("ROLLUP((a)::int, (b, c), (d) + 1)", "ROLLUP ((a)::INT, (b, c), (d) + 1)"),
            ("CUBE((a), b)", "CUBE (a, b)"),
            ("GROUPING SETS((a)::text, (), (a, (b) * 2))", "GROUPING SETS ((a)::TEXT, (), (a, (b) * 2))"),
            ("(), a", "GROUPING SETS (()), a"),
            ("rollup, cube", "rollup, cube"),
        ] {
            let found = shown(grouping).unwrap();
            assert_eq!(found.replace("((a)::TEXT)", "(a)::TEXT"), expected, "{grouping}");
            assert_eq!(shown(&found).unwrap(), found);
        }
        shown("ROLLUP(a").unwrap_err();
        shown("GROUPING SETS()").unwrap_err();
    }

    #[test]
    fn sets_within_sets_are_all_of_their_sets() {
        let same =
            |nested: &str, flat: &str| assert_eq!(shown(nested).unwrap(), shown(flat).unwrap(), "{nested}");
        same("GROUPING SETS (a, ROLLUP (b, (c, d)))", "GROUPING SETS (a, (b, c, d), b, ())");
        same("GROUPING SETS (CUBE (a, b), a)", "GROUPING SETS ((a, b), a, b, (), a)");
        same("GROUPING SETS (GROUPING SETS (a, ()), b)", "GROUPING SETS (a, (), b)");
        let many = (0..13).map(|i| format!("c{i}")).collect::<Vec<_>>().join(", ");
        let error = shown(&format!("GROUPING SETS (CUBE ({many}))")).unwrap_err();
        assert!(error.contains("more than 12 members"), "{error}");
    }

    /// Each of 4096 sets would have half of 1200 columns: millions of expressions for a text of four kilobytes.
    #[test]
    fn sets_within_sets_that_would_fill_the_memory_are_refused() {
        let list = format!("({})", ["a"; 100].join(", "));
        let cube = format!("CUBE ({})", [list.as_str(); 12].join(", "));
        let rollup = format!("ROLLUP ({})", ["a"; 1000].join(", "));
        for grouping in [&cube, &rollup, &["CUBE (a, b, c, d, e, f, g, h, i, j)"; 50].join(", ")] {
            let error = shown(&format!("GROUPING SETS ({grouping})")).unwrap_err();
            assert!(error.contains("stand for too long lists"), "{error}");
        }
        shown(&format!("GROUPING SETS (a, {list}, CUBE (a, b, c, d, e, f))")).unwrap();
    }
}
