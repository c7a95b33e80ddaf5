//! Roman numerals of `RN`.

const STEPS: [(i64, &str); 13] = [
    (1000, "M"),
    (900, "CM"),
    (500, "D"),
    (400, "CD"),
    (100, "C"),
    (90, "XC"),
    (50, "L"),
    (40, "XL"),
    (10, "X"),
    (9, "IX"),
    (5, "V"),
    (4, "IV"),
    (1, "I"),
];

/// Letters of the longest numeral, MMMDCCCLXXXVIII. An overflow is shown by as many number signs.
pub(super) const MAX_LETTERS: usize = 15;

/// The numeral of 1 to 3999. Any other number is fifteen number signs.
pub(super) fn roman(number: i64) -> String {
    if !(1..=3999).contains(&number) {
        return "#".repeat(MAX_LETTERS);
    }
    let mut rest = number;
    let mut out = String::new();
    for (value, letters) in STEPS {
        while rest >= value {
            out.push_str(letters);
            rest -= value;
        }
    }
    out
}
