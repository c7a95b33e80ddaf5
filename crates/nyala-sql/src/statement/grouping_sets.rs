//! `ROLLUP (…)`, `CUBE (…)` and `GROUPING SETS (…)`.
//!
//! The parser of 0.62 takes a member that begins with a bracket for a list, and so refuses `ROLLUP ((a)::int)`. It knows no sets within
//! sets either.

use datafusion::sql::sqlparser::ast::Expr;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;

/// Most members of CUBE within GROUPING SETS, which becomes a set for each choice of them.
const MAX_NESTED_MEMBERS: usize = 12;

/// The grouping that begins here, or the empty list `()`; none if another expression does.
pub fn grouping(parser: &mut Parser) -> Option<Result<Expr, ParserError>> {
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
            Some(members(parser).map(|members| Expr::Rollup(members.into_iter().map(list_of).collect())))
        }
        Keyword::CUBE if *next(1) == Token::LParen => {
            skip(parser, 1);
            Some(members(parser).map(|members| Expr::Cube(members.into_iter().map(list_of).collect())))
        }
        Keyword::GROUPING if keyword(1) == Keyword::SETS && *next(2) == Token::LParen => {
            skip(parser, 2);
            let sets = members(parser).and_then(|members| {
                members.into_iter().map(sets_of).collect::<Result<Vec<_>, ParserError>>()
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

fn members(parser: &mut Parser) -> Result<Vec<Expr>, ParserError> {
    parser.expect_token(&Token::LParen)?;
    let members = parser.parse_comma_separated(Parser::parse_expr)?;
    parser.expect_token(&Token::RParen)?;
    Ok(members)
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
fn sets_of(member: Expr) -> Result<Vec<Vec<Expr>>, ParserError> {
    Ok(match member {
        Expr::GroupingSets(sets) => sets,
        Expr::Rollup(lists) => {
            let first = |count: usize| lists.iter().take(count).flatten().cloned().collect();
            (0..=lists.len()).rev().map(first).collect()
        }
        Expr::Cube(lists) if lists.len() > MAX_NESTED_MEMBERS => {
            let message = format!("CUBE within GROUPING SETS has more than {MAX_NESTED_MEMBERS} members");
            return Err(ParserError::ParserError(message));
        }
        Expr::Cube(lists) => {
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
}
