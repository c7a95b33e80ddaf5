//! A compiled pattern for numbers.

use super::error::PatternError;
use super::number_digits::{Digits, NumberText};
use super::number_floats::Float;
use super::number_read::read_number;
use super::number_shape::Shape;
use super::number_tokens::{NumberNode, cut_number};
use super::number_write::write_number;
use super::roman::roman;

/// A pattern of `to_char(number, text)` and `to_number(text, text)`.
///
/// PostgreSQL writes each type of number in a way of its own (rounding, `V`, `EEEE`), hence one method for each type.
/// A method that fails appends nothing: 22003 if the pattern needs an integer and the number is beyond `i64`, and
/// 22P02 for `TH` after NaN or infinity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NumberTemplate {
    nodes: Vec<NumberNode>,
    shape: Shape,
    is_empty: bool,
}

impl NumberTemplate {
    pub(super) fn compile(pattern: &str) -> Result<Self, PatternError> {
        let nodes = cut_number(pattern);
        let shape = Shape::of(&nodes)?;
        Ok(Self { nodes, shape, is_empty: pattern.is_empty() })
    }

    /// Whether the pattern is the empty text, for which PostgreSQL's `to_number` gives NULL and its `to_char`
    /// the empty text.
    pub fn is_empty(&self) -> bool {
        self.is_empty
    }

    /// Appends the number `unscaled` times ten to the power of minus `scale`: `to_char(numeric, text)`.
    ///
    /// A `numeric` that is NaN or infinite is written by [`Self::write_float`]; only `RN`, which PostgreSQL
    /// refuses for it (0A000), then differs.
    pub fn write_decimal(&self, unscaled: i128, scale: u32, out: &mut String) -> Result<(), PatternError> {
        let digits = Digits::new(unscaled, scale);
        if self.shape.is_roman {
            return self.write_roman(digits.to_integer()?, out);
        }
        if self.shape.has_exponent {
            out.push_str(&digits.scientific(self.shape.decimals));
            return Ok(());
        }
        let number = digits.shifted(self.shape.shift).rounded(self.shape.decimals);
        self.write_text(number, self.shape.decimals, out)
    }

    /// Appends a float: `to_char(double precision, text)`.
    pub fn write_float(&self, value: f64, out: &mut String) -> Result<(), PatternError> {
        let shifted = if self.shape.has_shift { value * self.shift_factor() } else { value };
        self.write_any_float(value, Float { value: shifted, significant_digits: 15 }, out)
    }

    /// Appends a float: `to_char(real, text)`.
    pub fn write_real(&self, value: f32, out: &mut String) -> Result<(), PatternError> {
        let shifted = if self.shape.has_shift { value * self.shift_factor() as f32 } else { value };
        let shifted = Float { value: f64::from(shifted), significant_digits: 6 };
        self.write_any_float(f64::from(value), shifted, out)
    }

    /// Appends an integer: `to_char(integer, text)`. As in PostgreSQL, `V` wraps at 32 bits.
    pub fn write_integer(&self, value: i32, out: &mut String) -> Result<(), PatternError> {
        if self.shape.is_roman {
            return self.write_roman(i64::from(value), out);
        }
        if self.shape.has_exponent {
            return self.write_float(f64::from(value), out);
        }
        let mut shifted = value;
        if self.shape.has_shift {
            let factor = u32::try_from(self.shape.shift).ok().and_then(|shift| 10_i32.checked_pow(shift));
            shifted = value.wrapping_mul(factor.unwrap_or(i32::MIN));
        }
        self.write_whole(i64::from(shifted), out)
    }

    /// Appends an integer: `to_char(bigint, text)`. 22003 where `V` shifts it over its 64 bits.
    pub fn write_bigint(&self, value: i64, out: &mut String) -> Result<(), PatternError> {
        if self.shape.is_roman || self.shape.has_exponent {
            return self.write_decimal(i128::from(value), 0, out);
        }
        let mut shifted = Some(value);
        if self.shape.has_shift {
            let factor = u32::try_from(self.shape.shift).ok().and_then(|shift| 10_i64.checked_pow(shift));
            shifted = factor.and_then(|factor| value.checked_mul(factor));
        }
        let out_of_range = || PatternError::numeric("bigint out of range");
        self.write_whole(shifted.ok_or_else(out_of_range)?, out)
    }

    /// Reads a number as its digits and its scale: `to_number(text, text)`.
    ///
    /// 22P02 for a text without digits, 22003 for more digits than the pattern has or than the result holds,
    /// 0A000 for a pattern with `EEEE` or `RN`.
    pub fn read_number(&self, text: &str) -> Result<(i128, u32), PatternError> {
        read_number(&self.nodes, &self.shape, text)
    }

    fn shift_factor(&self) -> f64 {
        10_f64.powf(self.shape.shift as f64)
    }

    fn write_any_float(&self, value: f64, shifted: Float, out: &mut String) -> Result<(), PatternError> {
        if self.shape.is_roman {
            return self.write_roman(Float { value, ..shifted }.to_integer(), out);
        }
        if self.shape.has_exponent {
            out.push_str(&shifted.scientific(self.shape.whole_digits, self.shape.decimals));
            return Ok(());
        }
        let (number, decimals) = shifted.rounded(self.shape.decimals);
        self.write_text(number, decimals, out)
    }

    fn write_whole(&self, value: i64, out: &mut String) -> Result<(), PatternError> {
        let number = NumberText::whole(value, self.shape.decimals);
        self.write_text(number, self.shape.decimals, out)
    }

    fn write_roman(&self, value: i64, out: &mut String) -> Result<(), PatternError> {
        let shape = Shape { is_filled: self.shape.is_filled, is_roman: true, ..Shape::default() };
        write_number(&self.nodes, shape, None, &roman(value), out)
    }

    /// Lays a number out. One with more digits before the point than the pattern has becomes number signs.
    fn write_text(&self, number: NumberText, decimals: usize, out: &mut String) -> Result<(), PatternError> {
        let whole_digits = self.shape.whole_digits + self.shape.shift;
        let shape = Shape { whole_digits, decimals, ..self.shape };
        let digits = number.text.find('.').unwrap_or(number.text.len());
        if digits > whole_digits {
            let signs = format!("{}.{}", "#".repeat(whole_digits), "#".repeat(decimals));
            return write_number(&self.nodes, shape, Some(number.is_negative), &signs, out);
        }
        write_number(&self.nodes, shape, Some(number.is_negative), &number.text, out)
    }
}
