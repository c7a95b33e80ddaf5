//! Floats as text, as C's `printf` writes them.

use super::number_digits::{NumberText, exponent_text};

/// PostgreSQL's `printf` computes this many decimals and writes zeros for the rest.
const MAX_PRINTED_DECIMALS: usize = 350;

/// A float, and the number of its significant digits.
#[derive(Debug, Clone, Copy)]
pub(super) struct Float {
    pub(super) value: f64,
    /// 15 for `double precision`, 6 for `real`.
    pub(super) significant_digits: usize,
}

impl Float {
    /// The number with at most this many decimals, and how many it has: digits before the decimal point leave fewer
    /// significant digits for decimals.
    pub(super) fn rounded(self, decimals: usize) -> (NumberText, usize) {
        let whole_digits = self.fixed(0).text.len();
        let decimals = decimals.min(self.significant_digits.saturating_sub(whole_digits));
        (self.fixed(decimals), decimals)
    }

    fn fixed(self, decimals: usize) -> NumberText {
        let is_negative = self.value.is_sign_negative() && !self.value.is_nan();
        let magnitude = self.value.abs();
        let text = match magnitude {
            _ if magnitude.is_nan() => "NaN".to_owned(),
            _ if magnitude.is_infinite() => "Infinity".to_owned(),
            _ => format!("{magnitude:.decimals$}"),
        };
        NumberText { is_negative, text }
    }

    /// The number as `d.dde+xx`, or number signs for NaN and infinity.
    pub(super) fn scientific(self, whole_digits: usize, decimals: usize) -> String {
        if !self.value.is_finite() {
            // The exponent takes four of these places.
            return format!(" {}.{}", "#".repeat(whole_digits), "#".repeat(decimals + 4));
        }
        let printed = decimals.min(MAX_PRINTED_DECIMALS);
        let sign = if self.value.is_sign_negative() { '-' } else { ' ' };
        let text = format!("{:.printed$e}", self.value.abs());
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let zeros = "0".repeat(decimals - printed);
        format!("{sign}{mantissa}{zeros}{}", exponent_text(exponent.parse().unwrap_or(0)))
    }

    /// The nearest integer, of two the even one. NaN gives 0, and a float beyond 64 bits the nearest `i64`: none of
    /// these has a Roman numeral.
    pub(super) fn to_integer(self) -> i64 {
        self.value.round_ties_even() as i64
    }
}
