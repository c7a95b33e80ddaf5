//! Decimal numbers as digits, so that a pattern's length and not an integer's bounds what it can show.

use super::error::PatternError;

/// PostgreSQL keeps at most this many digits after the decimal point.
const MAX_DECIMALS: usize = 16_383;

/// The text of a number that a pattern lays out, and its sign.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NumberText {
    pub(super) is_negative: bool,
    /// Digits, and a decimal point where there are decimals: `0.50`. Or `NaN`, `Infinity`.
    pub(super) text: String,
}

impl NumberText {
    /// A whole number with decimals that are 0.
    pub(super) fn whole(value: i64, decimals: usize) -> Self {
        let mut text = value.unsigned_abs().to_string();
        push_decimals(&mut text, std::iter::repeat_n('0', decimals));
        Self { is_negative: value < 0, text }
    }
}

fn push_decimals(text: &mut String, decimals: impl Iterator<Item = char>) {
    let start = text.len();
    text.extend(decimals);
    if text.len() > start {
        text.insert(start, '.');
    }
}

/// A decimal number without a limit on its digits.
#[derive(Debug, Clone)]
pub(super) struct Digits {
    is_negative: bool,
    /// ASCII digits without leading zeros; empty for 0.
    digits: Vec<u8>,
    /// Number of digits before the decimal point. It may be negative, and larger than the number of digits.
    point: i64,
}

impl Digits {
    /// The number `unscaled` times ten to the power of minus `scale`.
    pub(super) fn new(unscaled: i128, scale: u32) -> Self {
        let digits =
            if unscaled == 0 { Vec::new() } else { unscaled.unsigned_abs().to_string().into_bytes() };
        let point = digits.len() as i64 - i64::from(scale);
        Self { is_negative: unscaled < 0, digits, point }
    }

    /// Multiplies with a power of ten.
    pub(super) fn shifted(mut self, places: usize) -> Self {
        // 0 has no digits to shift.
        if !self.digits.is_empty() {
            self.point += places as i64;
        }
        self
    }

    /// The number with this many decimals. Halves are rounded away from 0, and a result of 0 has no sign.
    pub(super) fn rounded(mut self, decimals: usize) -> NumberText {
        let decimals = decimals.min(MAX_DECIMALS);
        self.round_at(self.point + decimals as i64);
        let mut text: String = (0..self.point.max(0)).map(|place| self.digit(place)).collect();
        if text.is_empty() {
            text.push('0');
        }
        push_decimals(&mut text, (self.point..self.point + decimals as i64).map(|place| self.digit(place)));
        NumberText { is_negative: self.is_negative && !self.digits.is_empty(), text }
    }

    /// The number as `d.dde+xx`. As in PostgreSQL a number that is rounded up to ten stays `10.0e+00`.
    pub(super) fn scientific(mut self, decimals: usize) -> String {
        let exponent = if self.digits.is_empty() { 0 } else { self.point - 1 };
        self.point = 1;
        let number = self.rounded(decimals);
        let sign = if number.is_negative { '-' } else { ' ' };
        format!("{sign}{}{}", number.text, exponent_text(exponent))
    }

    /// The number rounded to an integer, or 22003.
    pub(super) fn to_integer(&self) -> Result<i64, PatternError> {
        let NumberText { is_negative, text } = self.clone().rounded_integer();
        let value = text.parse::<i64>().ok().map(|value| if is_negative { -value } else { value });
        let in_range = value.filter(|value| i32::try_from(*value).is_ok());
        in_range.ok_or_else(|| PatternError::numeric("integer out of range"))
    }

    fn rounded_integer(self) -> NumberText {
        // More digits than an integer has are out of its range; they need not be written out.
        if self.point > 20 {
            return NumberText { is_negative: self.is_negative, text: "9".repeat(20) };
        }
        self.rounded(0)
    }

    fn digit(&self, place: i64) -> char {
        let digit = usize::try_from(place).ok().and_then(|place| self.digits.get(place));
        digit.map_or('0', |digit| char::from(*digit))
    }

    /// Keeps the digits before `place`, and rounds by the digit there.
    fn round_at(&mut self, place: i64) {
        let Ok(kept) = usize::try_from(place) else {
            self.digits.clear();
            return;
        };
        let rounds_up = self.digits.get(kept).is_some_and(|digit| *digit >= b'5');
        self.digits.truncate(kept);
        if rounds_up {
            self.increment();
        }
    }

    fn increment(&mut self) {
        for digit in self.digits.iter_mut().rev() {
            if *digit < b'9' {
                *digit += 1;
                return;
            }
            *digit = b'0';
        }
        self.digits.insert(0, b'1');
        self.point += 1;
    }
}

/// An exponent with its sign and at least two digits.
pub(super) fn exponent_text(exponent: i64) -> String {
    format!("e{exponent:+03}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rounded(unscaled: i128, scale: u32, decimals: usize) -> String {
        let number = Digits::new(unscaled, scale).rounded(decimals);
        format!("{}{}", if number.is_negative { "-" } else { "" }, number.text)
    }

    #[test]
    fn halves_go_away_from_zero() {
        assert_eq!(rounded(-125, 2, 1), "-1.3");
        assert_eq!(rounded(-4, 1, 0), "0");
        assert_eq!(rounded(5, 1, 0), "1");
        assert_eq!(rounded(9995, 3, 2), "10.00");
        assert_eq!(rounded(995, 4, 1), "0.1");
        assert_eq!(rounded(96, 2, 1), "1.0");
    }

    #[test]
    fn extreme_scales_cost_nothing() {
        assert_eq!(rounded(i128::MIN, u32::MAX, 3), "0.000");
        assert_eq!(Digits::new(12, u32::MAX).scientific(1), " 1.2e-4294967294");
        assert!(Digits::new(1, 0).shifted(1_000_000_000).to_integer().is_err());
    }
}
