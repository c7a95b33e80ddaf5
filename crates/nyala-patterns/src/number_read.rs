//! Reads a number by a pattern: `to_number`.

use super::error::PatternError;
use super::number_shape::Shape;
use super::number_tokens::{NumberKey, NumberNode};

/// PostgreSQL computes the power of ten that undoes `V` with this many decimals.
const SHIFT_DECIMALS: usize = 16;

/// Reads a text until the pattern or the text ends. Gives the digits as an integer, and their scale.
pub(super) fn read_number(
    nodes: &[NumberNode],
    shape: &Shape,
    text: &str,
) -> Result<(i128, u32), PatternError> {
    if shape.has_exponent {
        return Err(PatternError::unsupported("\"EEEE\" not supported for input"));
    }
    if shape.is_roman {
        return Err(PatternError::unsupported("\"RN\" not supported for input"));
    }
    let mut reader =
        Reader { shape, text: text.as_bytes(), at: 0, sign: None, digits: Vec::new(), point: None };
    for node in nodes {
        if reader.is_done() {
            break;
        }
        match node {
            NumberNode::Field(key) => reader.read(*key),
            NumberNode::Text(_) => reader.skip_character(),
        }
    }
    reader.finish()
}

struct Reader<'a> {
    shape: &'a Shape,
    /// The text as bytes, since PostgreSQL skips one byte, and not one character, where it meets an unexpected one.
    text: &'a [u8],
    at: usize,
    sign: Option<u8>,
    /// ASCII digits.
    digits: Vec<u8>,
    /// How many digits stand before the decimal point, once that was read.
    point: Option<usize>,
}

impl Reader<'_> {
    fn is_done(&self) -> bool {
        self.at >= self.text.len()
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn decimals(&self) -> usize {
        self.point.map_or(0, |point| self.digits.len() - point)
    }

    fn read(&mut self, key: NumberKey) {
        match key {
            NumberKey::Nine | NumberKey::Zero | NumberKey::Point => {
                self.read_digit(key);
                self.at += 1;
            }
            NumberKey::Group => {
                let expects = !self.shape.is_filled;
                self.at += usize::from(expects && self.peek() == Some(b','));
            }
            NumberKey::Currency => self.skip_others(1),
            // An ordinal's ending is two characters. After decimals there is none.
            NumberKey::Ordinal(_) if !self.shape.has_point => self.skip_others(2),
            NumberKey::Minus => self.read_sign_field(b"-"),
            NumberKey::Plus => self.read_sign_field(b"+"),
            NumberKey::PlusMinus => self.read_sign_field(b"-+"),
            _ => {}
        }
    }

    fn read_sign_field(&mut self, signs: &[u8]) {
        match self.peek().filter(|byte| signs.contains(byte)) {
            Some(sign) => {
                self.sign = Some(sign);
                self.at += 1;
            }
            None => self.skip_others(1),
        }
    }

    /// Passes characters that can have no part in a number.
    fn skip_others(&mut self, most: usize) {
        for _ in 0..most {
            let is_other = |byte: u8| !byte.is_ascii_digit() && !matches!(byte, b'.' | b',' | b'+' | b'-');
            if !self.peek().is_some_and(is_other) {
                return;
            }
            self.skip_character();
        }
    }

    fn skip_character(&mut self) {
        let length = match self.peek() {
            Some(0xf0..) => 4,
            Some(0xe0..) => 3,
            Some(0xc0..) => 2,
            _ => 1,
        };
        self.at += length;
    }

    /// Reads a digit or the point, with a sign before or after. The position stays on the byte that was read or was
    /// not expected; the caller moves past it.
    fn read_digit(&mut self, key: NumberKey) {
        self.at += usize::from(self.peek() == Some(b' '));
        let is_first = self.sign.is_none() && self.digits.is_empty();
        if is_first && key != NumberKey::Point {
            self.read_sign_before();
        }
        let Some(next) = self.peek() else { return };
        let is_read = match next {
            // The pattern has no place for more decimals.
            b'0'..=b'9' if self.point.is_some() && self.decimals() == self.shape.decimals => return,
            b'0'..=b'9' => {
                self.digits.push(next);
                true
            }
            b'.' if self.shape.has_point && self.point.is_none() => {
                self.point = Some(self.digits.len());
                true
            }
            _ => false,
        };
        if self.sign.is_none() && !self.digits.is_empty() {
            self.read_sign_after(is_read);
        }
    }

    fn read_sign_before(&mut self) {
        let sign = match self.peek() {
            Some(b'<') if self.shape.has_brackets => b'-',
            Some(sign @ (b'-' | b'+')) => sign,
            _ => return,
        };
        self.sign = Some(sign);
        self.at += 1;
    }

    fn read_sign_after(&mut self, is_read: bool) {
        if self.shape.has_sign() {
            let next = self.text.get(self.at + 1).copied();
            if is_read && let Some(sign @ (b'-' | b'+')) = next {
                self.sign = Some(sign);
                self.at += 1;
            }
        } else if !is_read && (self.shape.has_plus || self.shape.has_minus) {
            self.sign = self.peek().filter(|byte| matches!(byte, b'-' | b'+'));
        }
    }

    fn finish(self) -> Result<(i128, u32), PatternError> {
        let decimals = self.decimals();
        if self.digits.is_empty() {
            let sign = char::from(self.sign.unwrap_or(b' '));
            let message = format!("invalid input syntax for type numeric: \"{sign}\"");
            return Err(PatternError::new("22P02", message));
        }
        self.check_whole_digits(decimals)?;
        let magnitude = std::str::from_utf8(&self.digits).ok().and_then(|digits| digits.parse::<i128>().ok());
        let unscaled = magnitude.map(|value| if self.sign == Some(b'-') { -value } else { value });
        let number = unscaled.zip(u32::try_from(decimals).ok());
        let number =
            if self.shape.has_shift { number.and_then(|(value, _)| self.unshift(value)) } else { number };
        number.ok_or_else(|| PatternError::numeric("value overflows numeric format"))
    }

    /// Refuses more digits before the point than the pattern has.
    fn check_whole_digits(&self, decimals: usize) -> Result<(), PatternError> {
        let whole = self.digits.get(..self.digits.len() - decimals).unwrap_or_default();
        let zeros = whole.iter().take_while(|digit| **digit == b'0').count();
        let most = self.shape.whole_digits + self.shape.shift;
        if whole.len() - zeros <= most {
            return Ok(());
        }
        let precision = most + decimals;
        let power = if most > 0 { format!("10^{most}") } else { "1".to_owned() };
        let detail = format!(
            "A field with precision {precision}, scale {decimals} must round to an absolute value less than {power}."
        );
        Err(PatternError::numeric("numeric field overflow").detail(detail))
    }

    /// Undoes `V`. More than sixteen places give 0, as in PostgreSQL.
    fn unshift(&self, value: i128) -> Option<(i128, u32)> {
        let Some(missing) = SHIFT_DECIMALS.checked_sub(self.shape.shift) else {
            return Some((0, SHIFT_DECIMALS as u32));
        };
        let factor = 10_i128.checked_pow(missing as u32)?;
        match value.checked_mul(factor) {
            Some(unscaled) => Some((unscaled, SHIFT_DECIMALS as u32)),
            // The same number with fewer zeros after it.
            None => Some((value, self.shape.shift as u32)),
        }
    }
}
