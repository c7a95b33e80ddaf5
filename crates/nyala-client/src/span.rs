//! Spans of time as people type them: `500ms`, `10s`, `2m`.

use std::time::Duration;

/// Longer spans are typing errors, and a time so far off may overflow.
const MAX_SPAN: Duration = Duration::from_secs(365 * 24 * 3600);

/// Reads a span. A bare number is refused, because its unit would be unknown.
pub fn parse(text: &str) -> Result<Duration, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let seconds = match unit.trim() {
        "ms" => 0.001,
        "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(format!("`{text}` has no unit: write `500ms`, `10s` or `2m`")),
    };
    let number: f64 = number.parse().map_err(|_| format!("`{text}` does not begin with a number"))?;
    match Duration::try_from_secs_f64(number * seconds) {
        Ok(span) if span <= MAX_SPAN => Ok(span),
        Ok(_) => Err(format!("`{text}` is longer than a year")),
        Err(error) => Err(format!("`{text}`: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn a_span_has_a_number_and_a_unit() {
        let check = |text: &str, millis: Option<u128>| {
            assert_eq!(parse(text).ok().map(|span| span.as_millis()), millis, "{text}");
        };
        check("500ms", Some(500));
        check("1.5 s", Some(1500));
        check("2m", Some(120_000));
        check("0s", Some(0));
        for wrong in ["5", "", "s", "-1s", "1d", "1.2.3s", "1e400s", "5000000000000000h"] {
            check(wrong, None);
        }
    }
}
