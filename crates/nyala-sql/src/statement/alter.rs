//! `ALTER CUBE`.

use std::fmt;

use datafusion::sql::parser::DFParser;
use datafusion::sql::sqlparser::ast::{Expr, Ident, ObjectName};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::Token;

use super::nyala_parser::parse_range;
use super::options::{StatementOption, parse_options, show_options};
use super::words::{expected, from_parser, peek_word};
use crate::error::Result;

/// The parts of an `ALTER CUBE` statement.
#[derive(Debug, Clone)]
pub struct AlterCube {
    /// The cube.
    pub name: ObjectName,
    /// The changes, made all at once.
    pub actions: Vec<AlterAction>,
}

/// The parts of an `ALTER CUBE … DROP SEGMENTS` statement.
#[derive(Debug, Clone)]
pub struct DropSegments {
    /// The cube.
    pub name: ObjectName,
    /// The segments to drop.
    pub segments: DroppedSegments,
}

/// The segments that an `ALTER CUBE … DROP SEGMENTS` statement drops.
#[derive(Debug, Clone)]
pub enum DroppedSegments {
    /// All segments of the cube.
    All,
    /// `FROM value TO value`: the first value of the range, and the first after it.
    Range(Box<(Expr, Expr)>),
    /// The segments of these numbers, as `SHOW SEGMENTS` tells them. Not empty.
    Numbers(Vec<u64>),
}

/// One change of a cube.
#[derive(Debug, Clone)]
pub enum AlterAction {
    /// `ADD DIMENSION expr [AS name]`
    AddDimension(Expr, Option<Ident>),
    /// `DROP DIMENSION name`
    DropDimension(Expr),
    /// `ADD MEASURE call`
    AddMeasure(Expr),
    /// `DROP MEASURE call`
    DropMeasure(Expr),
    /// `ADD GROUPING SET (dimension, …)`
    AddGroupingSet(Vec<Expr>),
    /// `DROP GROUPING SET (dimension, …)`
    DropGroupingSet(Vec<Expr>),
    /// `SET (option = value, …)`
    Set(Vec<StatementOption>),
}

#[derive(Clone, Copy)]
enum Verb {
    Add,
    Drop,
}

/// The part after `ALTER CUBE name`: actions with commas between them. ADD and DROP apply to all actions up to the next verb.
pub fn parse_actions(parser: &mut DFParser<'_>) -> Result<Vec<AlterAction>> {
    let mut actions = Vec::new();
    let mut verb = None;
    loop {
        if parser.parser.parse_keyword(Keyword::SET) {
            actions.push(AlterAction::Set(parse_options(parser)?));
            if !parser.parser.consume_token(&Token::Comma) {
                return Ok(actions);
            }
            continue;
        }
        verb = parse_verb(parser).or(verb);
        let Some(verb) = verb else { return Err(expected(parser, "`ADD`, `DROP` or `SET`")) };
        actions.push(parse_action(parser, verb)?);
        if !parser.parser.consume_token(&Token::Comma) {
            return Ok(actions);
        }
    }
}

/// The part after `ALTER CUBE name DROP SEGMENTS`.
pub fn parse_dropped_segments(parser: &mut DFParser<'_>) -> Result<DroppedSegments> {
    if matches!(parser.parser.peek_token().token, Token::Number(..)) {
        let numbers = parser.parser.parse_comma_separated(|parser| parser.parse_literal_uint());
        return numbers.map(DroppedSegments::Numbers).map_err(from_parser);
    }
    let range = parse_range(parser)?;
    Ok(range.map_or(DroppedSegments::All, |range| DroppedSegments::Range(Box::new(range))))
}

fn parse_verb(parser: &mut DFParser<'_>) -> Option<Verb> {
    let verb = parser.parser.parse_one_of_keywords(&[Keyword::ADD, Keyword::DROP])?;
    Some(if verb == Keyword::ADD { Verb::Add } else { Verb::Drop })
}

fn parse_action(parser: &mut DFParser<'_>, verb: Verb) -> Result<AlterAction> {
    let what = peek_word(parser, 0).unwrap_or_default();
    match what.as_str() {
        "DIMENSION" => {
            parser.parser.next_token();
            let expr = parser.parser.parse_expr().map_err(from_parser)?;
            match verb {
                Verb::Drop => Ok(AlterAction::DropDimension(expr)),
                Verb::Add => {
                    let named = parser.parser.parse_keyword(Keyword::AS);
                    let name = named.then(|| parser.parser.parse_identifier().map_err(from_parser));
                    Ok(AlterAction::AddDimension(expr, name.transpose()?))
                }
            }
        }
        "MEASURE" => {
            parser.parser.next_token();
            let call = parser.parser.parse_expr().map_err(from_parser)?;
            Ok(match verb {
                Verb::Add => AlterAction::AddMeasure(call),
                Verb::Drop => AlterAction::DropMeasure(call),
            })
        }
        "GROUPING" if peek_word(parser, 1).as_deref() == Some("SET") => {
            parser.parser.next_token();
            parser.parser.next_token();
            let set = parse_set(parser)?;
            Ok(match verb {
                Verb::Add => AlterAction::AddGroupingSet(set),
                Verb::Drop => AlterAction::DropGroupingSet(set),
            })
        }
        _ => Err(expected(parser, "`DIMENSION`, `MEASURE` or `GROUPING SET`")),
    }
}

fn parse_set(parser: &mut DFParser<'_>) -> Result<Vec<Expr>> {
    parser.parser.expect_token(&Token::LParen).map_err(from_parser)?;
    if parser.parser.consume_token(&Token::RParen) {
        return Ok(Vec::new());
    }
    let set = parser.parser.parse_comma_separated(|parser| parser.parse_expr()).map_err(from_parser)?;
    parser.parser.expect_token(&Token::RParen).map_err(from_parser)?;
    Ok(set)
}

impl fmt::Display for AlterCube {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ALTER CUBE {}", self.name)?;
        for (i, action) in self.actions.iter().enumerate() {
            write!(f, "{} {action}", if i == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

impl fmt::Display for DropSegments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ALTER CUBE {} DROP SEGMENTS", self.name)?;
        match &self.segments {
            DroppedSegments::All => Ok(()),
            DroppedSegments::Range(range) => write!(f, " FROM {} TO {}", range.0, range.1),
            DroppedSegments::Numbers(numbers) => {
                let shown: Vec<String> = numbers.iter().map(ToString::to_string).collect();
                write!(f, " {}", shown.join(", "))
            }
        }
    }
}

impl fmt::Display for AlterAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |set: &[Expr]| set.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        match self {
            Self::AddDimension(expr, None) => write!(f, "ADD DIMENSION {expr}"),
            Self::AddDimension(expr, Some(name)) => write!(f, "ADD DIMENSION {expr} AS {name}"),
            Self::DropDimension(expr) => write!(f, "DROP DIMENSION {expr}"),
            Self::AddMeasure(call) => write!(f, "ADD MEASURE {call}"),
            Self::DropMeasure(call) => write!(f, "DROP MEASURE {call}"),
            Self::AddGroupingSet(set) => write!(f, "ADD GROUPING SET ({})", list(set)),
            Self::DropGroupingSet(set) => write!(f, "DROP GROUPING SET ({})", list(set)),
            Self::Set(options) => write!(f, "SET {}", show_options(options)),
        }
    }
}
