//! Makes numbers with an exponent, and whole numbers that fit no integer, exact.

use std::iter;

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// Most digits of an exact number.
const MOST_DIGITS: usize = 76;

/// Writes out exponents. The parser makes an integer of digits without a point, and an exact number of all
/// others; a number with more digits than an exact number can have becomes a cast to a floating-point number.
pub fn write_out(tokens: &mut Vec<TokenWithSpan>) {
    let is_long = |token: &TokenWithSpan| matches!(&token.token, Token::Number(digits, _) if written(digits, false) != Written::AsItIs);
    if !tokens.iter().any(is_long) {
        return;
    }
    let mut before = Token::Comma;
    let written_out = std::mem::take(tokens).into_iter().flat_map(|token| {
        let is_negative = std::mem::replace(&mut before, token.token.clone()) == Token::Minus;
        let Token::Number(digits, long) = &token.token else { return vec![token] };
        match written(digits, is_negative) {
            Written::AsItIs => vec![token],
            Written::Exact(digits) => {
                vec![TokenWithSpan::new(Token::Number(digits, *long), token.span)]
            }
            Written::Floating => {
                let text = Token::SingleQuotedString(digits.clone());
                let cast = [text, Token::DoubleColon, Token::make_keyword("DOUBLE")];
                cast.into_iter().map(|part| TokenWithSpan::new(part, token.span)).collect()
            }
        }
    });
    *tokens = written_out.collect();
}

#[derive(Debug, PartialEq, Eq)]
enum Written {
    AsItIs,
    Exact(String),
    Floating,
}

fn written(number: &str, is_negative: bool) -> Written {
    let digits: String = number.chars().filter(|sign| *sign != '_').collect();
    let (digits, exponent) = match digits.split_once(['e', 'E']) {
        Some((digits, exponent)) => match exponent.parse::<i64>() {
            Ok(exponent) => (digits.to_owned(), Some(exponent)),
            // PostgreSQL does not know such numbers: the parser reports the fault.
            Err(_) => return Written::AsItIs,
        },
        None => (digits, None),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((&digits, ""));
    let is_number = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(whole) || !is_number(fraction) {
        return Written::AsItIs;
    }
    let is_whole = !digits.contains('.') && exponent.is_none();
    if is_whole {
        let is_least = is_negative && whole.parse() == Ok(1_u64 << 63);
        return match whole.parse::<i64>().is_ok() || is_least {
            true => Written::AsItIs,
            false => exact(whole, ""),
        };
    }
    let Some(exponent) = exponent else {
        return match exact(whole, fraction) {
            Written::Floating => Written::Floating,
            _ => Written::AsItIs,
        };
    };
    let Ok(shift) = usize::try_from(exponent.unsigned_abs()) else { return Written::Floating };
    if shift > 2 * MOST_DIGITS {
        return Written::Floating;
    }
    let zeros = |count: usize| iter::repeat_n('0', count).collect::<String>();
    match exponent >= 0 {
        true => {
            let digits = format!("{fraction}{}", zeros(shift.saturating_sub(fraction.len())));
            let (moved, rest) = digits.split_at(shift);
            exact(&format!("{whole}{moved}"), rest)
        }
        false => {
            let digits = format!("{}{whole}", zeros(shift.saturating_sub(whole.len())));
            let (rest, moved) = digits.split_at(digits.len() - shift);
            exact(rest, &format!("{moved}{fraction}"))
        }
    }
}

fn exact(whole: &str, fraction: &str) -> Written {
    let whole = whole.trim_start_matches('0');
    match whole.len() + fraction.len() <= MOST_DIGITS {
        true if whole.is_empty() => Written::Exact(format!("0.{fraction}")),
        true => Written::Exact(format!("{whole}.{fraction}")),
        false => Written::Floating,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_out() {
        let check = |number: &str, expected: &str| {
            let found = match written(number, false) {
                Written::AsItIs => "=".to_owned(),
                Written::Exact(digits) => digits,
                Written::Floating => "float".to_owned(),
            };
            assert_eq!(found, expected, "{number}");
        };
        check("12", "=");
        check("1.50", "=");
        check("1e18", "1000000000000000000.");
        check("1.5e3", "1500.");
        check("1.2345E2", "123.45");
        check("15e-3", "0.015");
        check("1.5e-1", "0.15");
        check("12.5e-1", "1.25");
        check(".5e1", "5.");
        check("0e0", "0.");
        check("1e75", &format!("1{}.", "0".repeat(75)));
        check("1e76", "float");
        check("1e-77", "float");
        check("1e400000000000000000000", "=");
        check("1e4000000", "float");
        check("9223372036854775807", "=");
        check("9223372036854775808", "9223372036854775808.");
        check(&"9".repeat(77), "float");
        check(&format!("0.{}", "1".repeat(80)), "float");
        check("1_000e2", "100000.");
        assert_eq!(written("9223372036854775808", true), Written::AsItIs);
    }
}
