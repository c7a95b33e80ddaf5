//! The words of dates: months, days, eras and halves of the day.

/// How the letters of a word are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Case {
    Upper,
    Title,
    Lower,
}

/// Months, from January.
pub(super) const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// Months in three letters, from January.
pub(super) const MONTHS_SHORT: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Days, from Sunday.
pub(super) const DAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// Days in three letters, from Sunday.
pub(super) const DAYS_SHORT: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];

/// Months in Roman numerals, from December. A reader takes the first that fits, so VIII stands before V.
pub(super) const ROMAN_MONTHS: [&str; 12] =
    ["XII", "XI", "X", "IX", "VIII", "VII", "VI", "V", "IV", "III", "II", "I"];

/// Before noon, after noon.
pub(super) fn meridiems(dotted: bool) -> [&'static str; 2] {
    if dotted { ["A.M.", "P.M."] } else { ["AM", "PM"] }
}

/// Years from 1, years before.
pub(super) fn eras(dotted: bool) -> [&'static str; 2] {
    if dotted { ["A.D.", "B.C."] } else { ["AD", "BC"] }
}

/// Appends a word. The word is kept in `Title` or, where it has no such form, in upper case.
pub(super) fn push_word(out: &mut String, word: &str, case: Case) {
    match case {
        Case::Title => out.push_str(word),
        Case::Upper => out.extend(word.chars().map(|c| c.to_ascii_uppercase())),
        Case::Lower => out.extend(word.chars().map(|c| c.to_ascii_lowercase())),
    }
}

/// Ending of an ordinal number: 1st, 2nd, 3rd, 4th, 11th.
///
/// None where the text does not end with a digit.
pub(super) fn ordinal_ending(number: &str) -> Option<&'static str> {
    let mut ends = number.bytes().rev();
    let last = ends.next().filter(u8::is_ascii_digit)?;
    if ends.next() == Some(b'1') {
        return Some("TH");
    }
    Some(match last {
        b'1' => "ST",
        b'2' => "ND",
        b'3' => "RD",
        _ => "TH",
    })
}
