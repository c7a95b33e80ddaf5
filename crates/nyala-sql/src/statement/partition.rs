//! The clause `PARTITION BY RANGE (column) EVERY step`.

use datafusion::sql::parser::DFParser;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::Token;
use nyala_model::Step;

use super::cube_statements::PartitionClause;
use super::versions::folded;
use super::words::{expected, from_parser, peek_word};
use crate::error::{ErrorKind, QueryError, Result};

/// Parses the clause, if it comes next.
pub fn parse_partition(parser: &mut DFParser<'_>) -> Result<Option<PartitionClause>> {
    if !parser.parser.parse_keywords(&[Keyword::PARTITION, Keyword::BY]) {
        return Ok(None);
    }
    if !parser.parser.parse_keyword(Keyword::RANGE) {
        return Err(expected(parser, "`RANGE (column)`"));
    }
    parser.parser.expect_token(&Token::LParen).map_err(from_parser)?;
    let column = parser.parser.parse_identifier().map_err(from_parser)?;
    parser.parser.expect_token(&Token::RParen).map_err(from_parser)?;
    let column = folded(&column);
    let mut clause = PartitionClause { column, step: None, seconds: None, text: String::new() };
    if peek_word(parser, 0).as_deref() != Some("EVERY") {
        return Ok(Some(clause));
    }
    parser.parser.next_token();
    if parser.parser.parse_keyword(Keyword::INTERVAL) {
        let text = parser.parser.parse_literal_string().map_err(from_parser)?;
        match parse_width(&text) {
            Some(Width::Step(step)) => clause.step = Some(step),
            Some(Width::Seconds(seconds)) => {
                clause.step = Some(Step::Days(1));
                clause.seconds = Some(seconds);
            }
            None => {
                let message = format!("`{text}` is no width of a segment");
                return Err(QueryError::new(ErrorKind::InvalidDefinition, message)
                    .hint("write one number and one unit, such as `1 month`, `7 days` or `6 hours`"));
            }
        }
        clause.text = format!("INTERVAL '{text}'");
    } else {
        let count = parser.parser.parse_literal_uint().map_err(from_parser)?;
        clause.step = Some(Step::Keys(i64::try_from(count).unwrap_or(0)));
        clause.text = count.to_string();
    }
    Ok(Some(clause))
}

/// The width of a segment.
#[derive(Debug, PartialEq, Eq)]
pub enum Width {
    /// Days or months.
    Step(Step),
    /// Less than a day.
    Seconds(i64),
}

/// `1 month`, `7 days` or `6 hours`; none if it is something else.
pub fn parse_width(text: &str) -> Option<Width> {
    let mut words = text.split_whitespace();
    let (count, unit) = (words.next()?.parse::<i64>().ok()?, words.next()?.to_ascii_lowercase());
    if words.next().is_some() || count <= 0 {
        return None;
    }
    let times = |n: i64| count.checked_mul(n);
    Some(match unit.strip_suffix('s').unwrap_or(&unit) {
        "year" => Width::Step(Step::Months(times(12)?)),
        "quarter" => Width::Step(Step::Months(times(3)?)),
        "month" | "mon" => Width::Step(Step::Months(count)),
        "week" => Width::Step(Step::Days(times(7)?)),
        "day" => Width::Step(Step::Days(count)),
        "hour" => Width::Seconds(times(3_600)?),
        "minute" | "min" => Width::Seconds(times(60)?),
        "second" | "sec" => Width::Seconds(count),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_are_read_as_people_write_them() {
        assert_eq!(parse_width("1 month"), Some(Width::Step(Step::Months(1))));
        assert_eq!(parse_width("2 Weeks"), Some(Width::Step(Step::Days(14))));
        assert_eq!(parse_width("1 year"), Some(Width::Step(Step::Months(12))));
        assert_eq!(parse_width("6 hours"), Some(Width::Seconds(21_600)));
        for wrong in ["", "month", "0 days", "-1 day", "1 month 2 days", "9223372036854775807 years"] {
            assert_eq!(parse_width(wrong), None, "{wrong}");
        }
    }
}
