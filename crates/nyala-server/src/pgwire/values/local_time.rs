//! Times without a zone, from clients that add the zone of their clock.

/// The text without its time zone, as PostgreSQL reads a time without a zone: JDBC adds the offset of the client's clock to each time
/// that it sends, and a client that asks for midnight does not mean another hour.
pub fn without_zone(text: &str) -> &str {
    let text = text.trim();
    let Some(time) = text.find([' ', 'T', 't']).map(|end| end + 1) else { return text };
    let (_, clock) = text.split_at(time);
    let is_clock = |c: char| c.is_ascii_digit() || matches!(c, ':' | '.');
    match clock.find(|c| !is_clock(c)) {
        // Only a zone is left out: dates before Christ end in letters, too.
        Some(end) if is_zone(clock.split_at(end).1.trim()) => text.split_at(time + end).0,
        _ => text,
    }
}

fn is_zone(text: &str) -> bool {
    match text.strip_prefix(['+', '-']) {
        Some(offset) => !offset.is_empty() && offset.chars().all(|c| c.is_ascii_digit() || c == ':'),
        None => matches!(text, "Z" | "z" | "UTC" | "GMT"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offset_says_nothing_and_all_else_stays() {
        for text in ["2024-01-01 00:00:00", "2024-01-01T00:00:00.25", "2024-01-01"] {
            assert_eq!(without_zone(text), text);
            if text.contains(':') {
                for zone in ["+01", "-05:30", "+0530", "Z", " UTC", " +01:00:00"] {
                    assert_eq!(without_zone(&format!(" {text}{zone}")), text);
                }
            }
        }
        for text in
            ["2024-01-01 00:00:00 BC", "2024-01-01 00:00:00 PM", "next week", "2024-01-01 00:00+x", ""]
        {
            assert_eq!(without_zone(text), text);
        }
    }
}
