//! PostgreSQL's SQL, where sqlparser 0.62 reads it differently.

use std::any::TypeId;
use std::cell::Cell;

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, UnaryOperator};
use datafusion::sql::sqlparser::dialect::{Dialect, PostgreSqlDialect, Precedence};
use datafusion::sql::sqlparser::keywords::Keyword::{
    self, AND, ASYMMETRIC, BETWEEN, CREATE, DISTINCT, FILTER, FROM, GRANT, IS, NOT, NOTNULL, ON, OVER,
    OVERLAPS, RETURNING, SYMMETRIC, TO, WITHIN,
};
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;

use super::grouping_sets::{MAX_COPIES, grouping};

/// Operands that the parser may read in addition to two for each token. It reads some texts a second time after
/// a first reading failed: `position(a, b)` as `position(a IN b)` first, `CAST(…` as a cast and then as a
/// function. Nested ones double the work at every level, so that the parser would read a text of 1 KB for years.
const SPARE_OPERANDS: usize = 100_000;

/// Longest operand of BETWEEN SYMMETRIC.
const MAX_OPERAND_BYTES: usize = 100_000;

const PARSER: PostgreSqlDialect = PostgreSqlDialect {};

/// The parser's own PostgreSQL dialect, in which `IS DISTINCT FROM` binds as closely as `IS NULL`: the parser
/// alone would take all that follows, and compare `a` with `1 AND b` in `a IS DISTINCT FROM 1 AND b`.
///
/// It counts the operands that the parser begins to read, and stops the parser when there are too many: each
/// new reading begins with an operand, except for those that `limits` bounds.
#[derive(Debug)]
pub struct Postgres {
    operands_left: Cell<usize>,
    /// Tokens that may still be written for sets within GROUPING SETS.
    copies_left: Cell<usize>,
    is_exhausted: Cell<bool>,
}

impl Postgres {
    /// The dialect for one text of `count` tokens.
    pub fn for_tokens(count: usize) -> Self {
        let operands_left = Cell::new(count.saturating_mul(2).saturating_add(SPARE_OPERANDS));
        Self { operands_left, copies_left: Cell::new(MAX_COPIES), is_exhausted: Cell::new(false) }
    }

    /// Whether the parser was stopped because it had read too many operands.
    pub fn is_exhausted(&self) -> bool {
        self.is_exhausted.get()
    }
}

/// `x BETWEEN SYMMETRIC a AND b`, which is true in either order of the bounds.
fn between_symmetric(parser: &mut Parser, left: &Expr, precedence: u8) -> Option<Result<Expr, ParserError>> {
    let negated = if parser.parse_keywords(&[BETWEEN, SYMMETRIC]) {
        false
    } else if parser.parse_keywords(&[NOT, BETWEEN, SYMMETRIC]) {
        true
    } else if parser.parse_keywords(&[BETWEEN, ASYMMETRIC]) {
        return Some(parser.parse_between(left.clone(), false));
    } else if parser.parse_keywords(&[NOT, BETWEEN, ASYMMETRIC]) {
        return Some(parser.parse_between(left.clone(), true));
    } else {
        return None;
    };
    let bounds = (|| {
        let low = parser.parse_subexpr(precedence)?;
        parser.expect_keyword_is(AND)?;
        Ok((low, parser.parse_subexpr(precedence)?))
    })();
    // The operands are written twice, which doubles the text at each level of nesting.
    let is_long = |operand: &Expr| operand.to_string().len() > MAX_OPERAND_BYTES;
    Some(bounds.and_then(|(low, high)| {
        if [left, &low, &high].into_iter().any(is_long) {
            let message = "an operand of BETWEEN SYMMETRIC is too long".to_owned();
            return Err(ParserError::ParserError(message));
        }
        let between = |low: &Expr, high: &Expr| Expr::Between {
            expr: Box::new(left.clone()),
            negated: false,
            low: Box::new(low.clone()),
            high: Box::new(high.clone()),
        };
        let either = Expr::Nested(Box::new(Expr::BinaryOp {
            left: Box::new(between(&low, &high)),
            op: BinaryOperator::Or,
            right: Box::new(between(&high, &low)),
        }));
        Ok(match negated {
            true => Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(either) },
            false => either,
        })
    }))
}

/// A prefix operator. It takes everything that binds closer than `&` and `||`: `~ 5 + 3` is `~ (5 + 3)`, where the
/// parser reads `(~ 5) + 3`. The operand is put in brackets, because expressions are written as text and parsed again.
fn before_operand(parser: &mut Parser) -> Option<Result<Expr, ParserError>> {
    let op = match parser.peek_token_ref().token {
        Token::Tilde => UnaryOperator::BitwiseNot,
        Token::AtSign => UnaryOperator::PGAbs,
        Token::PGSquareRoot => UnaryOperator::PGSquareRoot,
        Token::PGCubeRoot => UnaryOperator::PGCubeRoot,
        _ => return None,
    };
    parser.next_token();
    let operand = parser.parse_subexpr(PARSER.prec_value(Precedence::PgOther));
    Some(operand.map(|operand| Expr::UnaryOp { op, expr: Box::new(Expr::Nested(Box::new(operand))) }))
}

macro_rules! as_postgresql {
    ($($name:ident)*) => {
        $(fn $name(&self) -> bool {
            PARSER.$name()
        })*
    };
}

impl Dialect for Postgres {
    fn dialect(&self) -> TypeId {
        PARSER.dialect()
    }

    /// The error is of the kind after which the parser makes no other attempt.
    fn parse_prefix(&self, parser: &mut Parser) -> Option<Result<Expr, ParserError>> {
        let Some(left) = self.operands_left.get().checked_sub(1) else {
            self.is_exhausted.set(true);
            return Some(Err(ParserError::RecursionLimitExceeded));
        };
        self.operands_left.set(left);
        before_operand(parser).or_else(|| grouping(parser, &self.copies_left))
    }

    fn parse_infix(
        &self,
        parser: &mut Parser,
        left: &Expr,
        precedence: u8,
    ) -> Option<Result<Expr, ParserError>> {
        if let Some(between) = between_symmetric(parser, left, self.prec_value(Precedence::Between)) {
            return Some(between);
        }
        let compared = if parser.parse_keywords(&[IS, DISTINCT, FROM]) {
            Expr::IsDistinctFrom
        } else if parser.parse_keywords(&[IS, NOT, DISTINCT, FROM]) {
            Expr::IsNotDistinctFrom
        } else {
            return PARSER.parse_infix(parser, left, precedence);
        };
        let right = parser.parse_subexpr(self.prec_value(Precedence::Is));
        Some(right.map(|right| compared(Box::new(left.clone()), Box::new(right))))
    }

    fn identifier_quote_style(&self, identifier: &str) -> Option<char> {
        PARSER.identifier_quote_style(identifier)
    }

    fn is_delimited_identifier_start(&self, ch: char) -> bool {
        PARSER.is_delimited_identifier_start(ch)
    }

    fn is_identifier_start(&self, ch: char) -> bool {
        PARSER.is_identifier_start(ch)
    }

    fn is_identifier_part(&self, ch: char) -> bool {
        PARSER.is_identifier_part(ch)
    }

    fn is_custom_operator_part(&self, ch: char) -> bool {
        PARSER.is_custom_operator_part(ch)
    }

    fn is_column_alias(&self, keyword: &Keyword, parser: &mut Parser) -> bool {
        // These words begin the clause after a column, as in `INSERT INTO t SELECT 1 ON CONFLICT …`.
        let begins = matches!(
            keyword,
            CREATE | FILTER | GRANT | NOTNULL | ON | OVER | OVERLAPS | RETURNING | TO | WITHIN
        );
        !begins && PARSER.is_column_alias(keyword, parser)
    }

    fn is_reserved_for_identifier(&self, keyword: Keyword) -> bool {
        PARSER.is_reserved_for_identifier(keyword)
    }

    fn get_next_precedence(&self, parser: &Parser) -> Option<Result<u8, ParserError>> {
        PARSER.get_next_precedence(parser)
    }

    fn prec_value(&self, precedence: Precedence) -> u8 {
        PARSER.prec_value(precedence)
    }

    // `supports_named_fn_args_with_expr_name` is left out: every argument would be read twice, and nested
    // calls as often as two to the power of their depth. Names of arguments are identifiers.
    as_postgresql! {
        allow_extract_custom
        allow_extract_single_quotes
        supports_alter_column_type_using
        supports_array_typedef_with_brackets
        supports_comma_separated_trim
        supports_comment_on
        supports_comment_optimizer_hint
        supports_create_index_with_clause
        supports_create_table_like_parenthesized
        supports_empty_projections
        supports_explain_with_utility_options
        supports_factorial_operator
        supports_bitwise_shift_operators
        supports_filter_during_aggregation
        supports_geometric_types
        supports_insert_table_alias
        supports_interval_options
        supports_listen_notify
        supports_load_extension
        supports_named_fn_args_with_colon_operator
        supports_nested_comments
        supports_notnull_operator
        supports_numeric_literal_underscores
        supports_select_wildcard_with_alias
        supports_set_names
        supports_string_escape_constant
        supports_unicode_string_literal
        supports_xml_expressions
    }
}
