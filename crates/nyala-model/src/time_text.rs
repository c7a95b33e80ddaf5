//! Text form of times in settings.

use std::time::Duration;

/// Milliseconds, or a number with `ms`, `s`, `min`, `h` or `d`; none if it is neither. Quotes around it do not matter.
///
/// Source: PostgreSQL documentation, "Setting Parameters", numeric parameters with units.
pub fn parse_time(text: &str) -> Option<Duration> {
    let text = text.trim().trim_matches('\'').trim();
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let scale = match text.strip_prefix(digits)?.trim() {
        "" | "ms" => 1,
        "s" => 1000,
        "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(scale).map(Duration::from_millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_with_their_units() {
        let check =
            |text, ms: Option<u64>| assert_eq!(parse_time(text), ms.map(Duration::from_millis), "{text}");
        check("0", Some(0));
        check(" 500 ", Some(500));
        check("250ms", Some(250));
        check("'30s'", Some(30_000));
        check("5 min", Some(300_000));
        check("2h", Some(7_200_000));
        check("1d", Some(86_400_000));
        for nonsense in
            ["", "s", "soon", "-1", "1.5s", "3 weeks", "99999999999999999999", "18446744073709551615h"]
        {
            check(nonsense, None);
        }
    }
}
