//! Lays the text of a number out as a pattern shows it: `to_char`.

use super::error::PatternError;
use super::names::{Case, ordinal_ending, push_word};
use super::number_shape::{Shape, SignPlace};
use super::number_tokens::{NumberKey, NumberNode};
use super::roman::MAX_LETTERS;

/// The byte that PostgreSQL writes where a pattern has more digits than the number. It ends a C string, and so the text.
const END: char = '\0';

/// Appends a number. `is_negative` is none for a Roman numeral, which has no sign.
pub(super) fn write_number(
    nodes: &[NumberNode],
    shape: Shape,
    is_negative: Option<bool>,
    number: &str,
    out: &mut String,
) -> Result<(), PatternError> {
    let start = out.len();
    let mut picture = Picture::new(shape, is_negative, number, out);
    let written = nodes.iter().try_for_each(|node| picture.write(*node));
    let end = match (&written, out.get(start..).and_then(|text| text.find(END))) {
        (Err(_), _) => start,
        (Ok(()), Some(length)) => start + length,
        (Ok(()), None) => return Ok(()),
    };
    out.truncate(end);
    written
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sign {
    Plus,
    Minus,
    None,
}

impl Sign {
    fn character(self) -> char {
        match self {
            Self::Plus => '+',
            Self::Minus => '-',
            Self::None => END,
        }
    }
}

/// The state of writing, which every field of the pattern changes.
struct Picture<'a> {
    shape: Shape,
    sign: Sign,
    sign_is_written: bool,
    number: &'a str,
    /// Position in the number.
    at: usize,
    /// Places of the pattern before the number's first digit.
    lead: usize,
    /// Places passed, the decimal point included.
    place: usize,
    /// The place that ends the number, unless `FM` ends it before.
    last_place: Option<usize>,
    /// Whether the last field was a digit, so that a group separator may follow.
    is_in_number: bool,
    /// Position of the last digit that `FM` keeps, or of the point if no decimal is left.
    last_relevant: Option<usize>,
    out: &'a mut String,
}

impl<'a> Picture<'a> {
    fn new(mut shape: Shape, is_negative: Option<bool>, number: &'a str, out: &'a mut String) -> Self {
        let sign = match is_negative {
            Some(true) => Sign::Minus,
            Some(false) => Sign::Plus,
            None => Sign::None,
        };
        let lead = shape.whole_digits.saturating_sub(number.find('.').unwrap_or(number.len()));
        let lead = if shape.is_roman { 0 } else { lead };
        let sign_is_written = settle_sign(&mut shape, sign);
        let places = shape.whole_digits + shape.decimals + usize::from(shape.has_point);
        // PostgreSQL counts one place more for a sign or for padding before the number.
        let last_place = (places + usize::from(lead > 0 || !sign_is_written)).checked_sub(2);
        let last_relevant = last_relevant(&shape, number, lead);
        Self {
            shape,
            sign,
            sign_is_written,
            number,
            at: 0,
            lead,
            place: 0,
            last_place,
            is_in_number: false,
            last_relevant,
            out,
        }
    }

    fn write(&mut self, node: NumberNode) -> Result<(), PatternError> {
        let key = match node {
            NumberNode::Field(key) => key,
            NumberNode::Text(character) => {
                self.out.push(character);
                return Ok(());
            }
        };
        match key {
            NumberKey::Nine | NumberKey::Zero | NumberKey::Point => self.write_digit(key),
            NumberKey::Group => self.push_unless_filled(self.is_in_number.then_some(',')),
            NumberKey::Currency => self.out.push(' '),
            NumberKey::Roman(case) => self.write_roman(case),
            NumberKey::Ordinal(case) => self.write_ordinal(case)?,
            NumberKey::Minus => self.push_unless_filled((self.sign == Sign::Minus).then_some('-')),
            NumberKey::Plus => self.push_unless_filled((self.sign == Sign::Plus).then_some('+')),
            NumberKey::PlusMinus => self.out.push(self.sign.character()),
            // Signs and brackets are written with the digits next to them; the other fields show nothing.
            NumberKey::Sign | NumberKey::Brackets | NumberKey::Exponent | NumberKey::Fill => {}
            NumberKey::Shift | NumberKey::Blank | NumberKey::Ignored => {}
        }
        Ok(())
    }

    fn push_unless_filled(&mut self, character: Option<char>) {
        match character {
            Some(character) => self.out.push(character),
            None => self.pad(),
        }
    }

    /// Writes a space that `FM` leaves out.
    fn pad(&mut self) {
        if !self.shape.is_filled {
            self.out.push(' ');
        }
    }

    fn write_roman(&mut self, case: Case) {
        let width = if self.shape.is_filled { 0 } else { MAX_LETTERS };
        self.out.extend(std::iter::repeat_n(' ', width.saturating_sub(self.number.len())));
        push_word(self.out, self.number, case);
    }

    fn write_ordinal(&mut self, case: Case) -> Result<(), PatternError> {
        let is_overflow = self.number.starts_with('#');
        if self.shape.is_roman || is_overflow || self.sign == Sign::Minus || self.shape.has_point {
            return Ok(());
        }
        let Some(ending) = ordinal_ending(self.number) else {
            return Err(PatternError::new("22P02", format!("\"{}\" is not a number", self.number)));
        };
        push_word(self.out, ending, case);
        Ok(())
    }

    /// Writes the character for a `9`, a `0` or a point, with the sign before the first and after the last.
    fn write_digit(&mut self, key: NumberKey) {
        if self.shape.is_roman {
            return;
        }
        self.is_in_number = false;
        if self.sign_is_due() {
            self.write_sign_before();
        }
        if self.place >= self.lead {
            self.write_next(key);
        } else if self.shape.has_zero && self.shape.first_zero <= self.place {
            self.out.push('0');
            self.is_in_number = true;
        } else {
            self.pad();
        }
        let ends_early = self.last_relevant == Some(self.at);
        if !ends_early && self.last_place == Some(self.place) {
            self.write_sign_after();
        }
        self.place += 1;
    }

    fn sign_is_due(&self) -> bool {
        let at_first_zero = self.shape.has_zero && self.shape.first_zero == self.place;
        let reached = self.place >= self.lead || at_first_zero;
        !self.sign_is_written && reached && (!self.hides_zero() || self.has_no_decimal_left())
    }

    /// Whether the next digit is the 0 before the point, for which a `9` shows a space: 0.1 as ` .1`.
    fn hides_zero(&self) -> bool {
        !self.shape.has_zero && self.at == 0 && self.number.starts_with('0') && self.shape.decimals != 0
    }

    /// Whether `FM` leaves nothing after the point.
    fn has_no_decimal_left(&self) -> bool {
        self.last_relevant.and_then(|place| self.number.as_bytes().get(place)) == Some(&b'.')
    }

    fn write_sign_before(&mut self) {
        if self.shape.has_sign() {
            if self.shape.sign_place == SignPlace::Before {
                self.out.push(self.sign.character());
                self.sign_is_written = true;
            }
            return;
        }
        match self.sign {
            Sign::Minus => self.out.push(if self.shape.has_brackets { '<' } else { '-' }),
            _ if self.shape.has_brackets => self.out.push(' '),
            _ => self.pad(),
        }
        self.sign_is_written = true;
    }

    fn write_sign_after(&mut self) {
        if self.sign_is_written && self.shape.has_brackets {
            self.out.push(if self.sign == Sign::Minus { '>' } else { ' ' });
        } else if self.shape.sign_place == SignPlace::After {
            self.out.push(self.sign.character());
        }
    }

    /// Writes the number's next character, a space for a hidden 0, or [`END`] after the last.
    fn write_next(&mut self, key: NumberKey) {
        let next = self.number.as_bytes().get(self.at).map(|byte| char::from(*byte));
        let is_dropped = self.last_relevant.is_some_and(|last| self.at > last) && key != NumberKey::Zero;
        match next {
            // `FM` keeps the point also where no decimal is left.
            Some('.') => self.out.push('.'),
            _ if is_dropped => {}
            Some(_) if self.hides_zero() => self.write_hidden_zero(),
            _ => {
                self.out.push(next.unwrap_or(END));
                self.is_in_number = true;
            }
        }
        self.at += usize::from(next.is_some());
    }

    /// With `FM` the 0 before the point is left out, unless nothing is left after the point either.
    fn write_hidden_zero(&mut self) {
        if !self.shape.is_filled {
            self.out.push(' ');
        } else if self.has_no_decimal_left() {
            self.out.push('0');
        }
    }
}

/// Adapts the fields of the shape to the number's sign. True if the digits get no sign: a field shows it, or it is
/// left out.
fn settle_sign(shape: &mut Shape, sign: Sign) -> bool {
    if shape.has_plus || shape.has_minus {
        // `PL` alone shows no minus.
        return shape.has_minus;
    }
    if sign != Sign::Minus && shape.is_filled {
        shape.has_brackets = false;
    }
    let is_written = sign == Sign::Plus && shape.is_filled && !shape.has_sign();
    if shape.sign_place == SignPlace::Before && shape.whole_digits == shape.digits_before_sign {
        shape.sign_place = SignPlace::After;
    }
    is_written
}

/// With `FM`, the position of the last decimal to show: the last that is not 0, or the last `0` of the pattern.
fn last_relevant(shape: &Shape, number: &str, lead: usize) -> Option<usize> {
    if !shape.is_filled || !shape.has_point {
        return None;
    }
    let point = number.find('.')?;
    let last = number.rfind(|character| character != '0').map_or(point, |last| last.max(point));
    let kept = shape.last_zero.checked_sub(lead).filter(|kept| *kept > 0);
    Some(kept.map_or(last, |kept| last.max(kept.min(number.len() - 1))))
}
