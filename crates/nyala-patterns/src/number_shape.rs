//! What a number pattern asks for as a whole, and which fields exclude each other.

use super::error::PatternError;
use super::number_tokens::{NumberKey, NumberNode};

/// Where the sign of `S` goes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum SignPlace {
    #[default]
    None,
    Before,
    After,
}

/// The sum of a number pattern's fields.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Shape {
    /// Digits before the decimal point.
    pub(super) whole_digits: usize,
    /// Digits after the decimal point.
    pub(super) decimals: usize,
    /// Digits after `V`.
    pub(super) shift: usize,
    pub(super) sign_place: SignPlace,
    /// Digits before the decimal point that stand before `S`.
    pub(super) digits_before_sign: usize,
    /// Digits before the first `0`.
    pub(super) first_zero: usize,
    /// Digits up to the last `0`, itself included.
    pub(super) last_zero: usize,
    pub(super) has_point: bool,
    pub(super) has_zero: bool,
    pub(super) has_blank: bool,
    pub(super) is_filled: bool,
    pub(super) has_brackets: bool,
    pub(super) has_minus: bool,
    pub(super) has_plus: bool,
    pub(super) is_roman: bool,
    pub(super) has_shift: bool,
    pub(super) has_exponent: bool,
}

impl Shape {
    /// Sums a pattern up, or tells (42601) which two fields contradict each other.
    pub(super) fn of(nodes: &[NumberNode]) -> Result<Self, PatternError> {
        let mut shape = Self::default();
        for node in nodes {
            if let NumberNode::Field(key) = node {
                shape.add(*key)?;
            }
        }
        Ok(shape)
    }

    pub(super) fn has_sign(&self) -> bool {
        self.sign_place != SignPlace::None
    }

    fn add(&mut self, key: NumberKey) -> Result<(), PatternError> {
        refuse(self.has_exponent && key != NumberKey::Exponent, "\"EEEE\" must be the last pattern used")?;
        match key {
            NumberKey::Nine => self.add_nine()?,
            NumberKey::Zero => self.add_zero()?,
            NumberKey::Point => self.add_point()?,
            NumberKey::Blank => {
                self.has_blank |= self.whole_digits == 0 && self.decimals == 0 && !self.has_zero;
            }
            NumberKey::Fill => self.is_filled = true,
            NumberKey::Sign => self.add_sign()?,
            NumberKey::Minus => {
                refuse(self.has_sign(), "cannot use \"S\" and \"MI\" together")?;
                self.has_minus = true;
            }
            NumberKey::Plus => {
                refuse(self.has_sign(), "cannot use \"S\" and \"PL\" together")?;
                self.has_plus = true;
            }
            NumberKey::PlusMinus => {
                refuse(self.has_sign(), "cannot use \"S\" and \"SG\" together")?;
                (self.has_minus, self.has_plus) = (true, true);
            }
            NumberKey::Brackets => {
                let message = "cannot use \"PR\" and \"S\"/\"PL\"/\"MI\"/\"SG\" together";
                refuse(self.has_sign() || self.has_plus || self.has_minus, message)?;
                self.has_brackets = true;
            }
            NumberKey::Roman(_) => self.is_roman = true,
            NumberKey::Shift => {
                refuse(self.has_point, "cannot use \"V\" and decimal point together")?;
                self.has_shift = true;
            }
            NumberKey::Exponent => self.add_exponent()?,
            NumberKey::Group | NumberKey::Currency | NumberKey::Ordinal(_) | NumberKey::Ignored => {}
        }
        Ok(())
    }

    fn add_nine(&mut self) -> Result<(), PatternError> {
        refuse(self.has_brackets, "\"9\" must be ahead of \"PR\"")?;
        match () {
            () if self.has_shift => self.shift += 1,
            () if self.has_point => self.decimals += 1,
            () => self.whole_digits += 1,
        }
        Ok(())
    }

    /// A `0` after `V` counts as a digit before the point, as in PostgreSQL.
    fn add_zero(&mut self) -> Result<(), PatternError> {
        refuse(self.has_brackets, "\"0\" must be ahead of \"PR\"")?;
        if !self.has_zero && !self.has_point {
            self.has_zero = true;
            self.first_zero = self.whole_digits;
        }
        if self.has_point {
            self.decimals += 1;
        } else {
            self.whole_digits += 1;
        }
        self.last_zero = self.whole_digits + self.decimals;
        Ok(())
    }

    fn add_point(&mut self) -> Result<(), PatternError> {
        refuse(self.has_point, "multiple decimal points")?;
        refuse(self.has_shift, "cannot use \"V\" and decimal point together")?;
        self.has_point = true;
        Ok(())
    }

    fn add_sign(&mut self) -> Result<(), PatternError> {
        refuse(self.has_sign(), "cannot use \"S\" twice")?;
        let message = "cannot use \"S\" and \"PL\"/\"MI\"/\"SG\"/\"PR\" together";
        refuse(self.has_plus || self.has_minus || self.has_brackets, message)?;
        if self.has_point {
            self.sign_place = SignPlace::After;
        } else {
            self.sign_place = SignPlace::Before;
            self.digits_before_sign = self.whole_digits;
        }
        Ok(())
    }

    fn add_exponent(&mut self) -> Result<(), PatternError> {
        refuse(self.has_exponent, "cannot use \"EEEE\" twice")?;
        let signs = self.has_sign() || self.has_brackets || self.has_minus || self.has_plus;
        if signs || self.has_blank || self.is_filled || self.is_roman || self.has_shift {
            return Err(PatternError::syntax("\"EEEE\" is incompatible with other formats")
                .detail("\"EEEE\" may only be used together with digit and decimal point patterns."));
        }
        self.has_exponent = true;
        Ok(())
    }
}

fn refuse(is_wrong: bool, message: &str) -> Result<(), PatternError> {
    if is_wrong { Err(PatternError::syntax(message)) } else { Ok(()) }
}
