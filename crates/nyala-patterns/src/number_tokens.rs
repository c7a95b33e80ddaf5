//! Cuts a number pattern into its parts.

use super::literals::take_literal;
use super::names::Case;

/// One part of a number pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NumberNode {
    Field(NumberKey),
    /// A character that stands for itself.
    Text(char),
}

/// What a field of a number pattern stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NumberKey {
    /// `9`: a digit, or a space before the number's first.
    Nine,
    /// `0`: a digit.
    Zero,
    /// `.` and `D`: the decimal point, which is the same in the locale `C`.
    Point,
    /// `,` and `G`: the group separator, which is the same in the locale `C`.
    Group,
    /// `B`: accepted, and without effect.
    Blank,
    /// `C` and `SP`: accepted, and without effect.
    Ignored,
    /// `EEEE`: scientific notation.
    Exponent,
    /// `FM`: no padding.
    Fill,
    /// `L`: the currency's symbol, a space in the locale `C`.
    Currency,
    Minus,
    Plus,
    /// `SG`: a sign in this place.
    PlusMinus,
    /// `S`: a sign next to the number.
    Sign,
    /// `PR`: a negative number in angle brackets.
    Brackets,
    Roman(Case),
    Ordinal(Case),
    /// `V`: the digits after it shift the number to the left.
    Shift,
}

const FIELDS: &[(&str, NumberKey)] = &[
    (",", NumberKey::Group),
    (".", NumberKey::Point),
    ("0", NumberKey::Zero),
    ("9", NumberKey::Nine),
    ("B", NumberKey::Blank),
    ("C", NumberKey::Ignored),
    ("D", NumberKey::Point),
    ("EEEE", NumberKey::Exponent),
    ("FM", NumberKey::Fill),
    ("G", NumberKey::Group),
    ("L", NumberKey::Currency),
    ("MI", NumberKey::Minus),
    ("PL", NumberKey::Plus),
    ("PR", NumberKey::Brackets),
    ("RN", NumberKey::Roman(Case::Upper)),
    ("SG", NumberKey::PlusMinus),
    ("SP", NumberKey::Ignored),
    ("S", NumberKey::Sign),
    ("TH", NumberKey::Ordinal(Case::Upper)),
    ("V", NumberKey::Shift),
    ("b", NumberKey::Blank),
    ("c", NumberKey::Ignored),
    ("d", NumberKey::Point),
    ("eeee", NumberKey::Exponent),
    ("fm", NumberKey::Fill),
    ("g", NumberKey::Group),
    ("l", NumberKey::Currency),
    ("mi", NumberKey::Minus),
    ("pl", NumberKey::Plus),
    ("pr", NumberKey::Brackets),
    ("rn", NumberKey::Roman(Case::Lower)),
    ("sg", NumberKey::PlusMinus),
    ("sp", NumberKey::Ignored),
    ("s", NumberKey::Sign),
    ("th", NumberKey::Ordinal(Case::Lower)),
    ("v", NumberKey::Shift),
];

/// The parts of a number pattern. Every text is a pattern, though its fields may contradict each other.
pub(super) fn cut_number(pattern: &str) -> Vec<NumberNode> {
    let mut nodes = Vec::new();
    let mut rest = pattern;
    while !rest.is_empty() {
        let found = FIELDS.iter().find_map(|(name, key)| Some((*key, rest.strip_prefix(name)?)));
        rest = match found {
            Some((key, after)) => {
                nodes.push(NumberNode::Field(key));
                after
            }
            None => take_literal(rest, |literal| nodes.push(NumberNode::Text(literal.character))),
        };
    }
    nodes
}
