//! Texts of intervals as PostgreSQL reads and writes them.

use arrow::datatypes::{IntervalMonthDayNano, IntervalMonthDayNanoType};

const SECOND: i64 = 1_000_000_000;
const MAX_WORDS: usize = 32;

/// The interval of a text such as `1 year 2 mons -3 days 04:05:06.7` or `90 minutes ago`. None for other forms, which other readers may know.
pub fn interval_of(text: &str) -> Option<IntervalMonthDayNano> {
    if text.trim().starts_with('P') {
        return of_iso(text.trim());
    }
    // `@` means nothing, and a sign may stand apart from its number.
    let text = text.trim().trim_start_matches('@').replace("- ", "-").replace("+ ", "+");
    let words: Vec<&str> = text.split_whitespace().collect();
    let (words, ago) = match words.as_slice() {
        [words @ .., last] if last.eq_ignore_ascii_case("ago") => (words, true),
        words => (words, false),
    };
    if words.is_empty() || words.len() > MAX_WORDS {
        return None;
    }
    let (mut months, mut days, mut nanos) = (0_f64, 0_f64, 0_i64);
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        if word.contains(':') {
            nanos = nanos.checked_add(clock(word)?)?;
            continue;
        }
        if let Some(span) = years_and_months(word) {
            months += span;
            continue;
        }
        let end = word.find(|letter: char| letter.is_ascii_alphabetic()).unwrap_or(word.len());
        let (number, unit) = word.split_at_checked(end)?;
        let number: f64 = number.parse().ok()?;
        let unit = match rest.clone().next() {
            _ if !unit.is_empty() => unit,
            // A number without a unit counts days before a time, and seconds at the end.
            Some(time) if time.contains(':') => "day",
            None => "second",
            Some(_) => *rest.next()?,
        };
        match unit_of(unit)? {
            Unit::Months(each) => months += number * each,
            Unit::Days(each) => days += number * each,
            // Rounded to the nearest microsecond.
            Unit::Nanos(each) => nanos = nanos.checked_add(whole(number * each / 1e3)?.checked_mul(1000)?)?,
        }
    }
    // A part of a month is days, and a part of a day is time.
    days += (months.fract() * 30.0 * 1e6).round() / 1e6;
    nanos = nanos.checked_add(whole(days.fract() * 86_400.0 * 1e6)?.checked_mul(1000)?)?;
    let sign = if ago { -1 } else { 1 };
    let months = i32::try_from(whole(months.trunc())?).ok()?.checked_mul(sign)?;
    let days = i32::try_from(whole(days.trunc())?).ok()?.checked_mul(sign)?;
    Some(IntervalMonthDayNanoType::make_value(months, days, nanos.checked_mul(sign.into())?))
}

/// The months of `1-2`, a year and two months.
fn years_and_months(word: &str) -> Option<f64> {
    let unsigned = word.strip_prefix(['-', '+']).unwrap_or(word);
    let (years, months) = unsigned.split_once('-')?;
    let (years, months): (u16, u16) = (years.parse().ok()?, months.parse().ok()?);
    let count = f64::from(years) * 12.0 + f64::from(months);
    (months < 12).then_some(if word.starts_with('-') { -count } else { count })
}

/// The interval of a text such as `P1Y2M3DT4H5M6S`.
fn of_iso(text: &str) -> Option<IntervalMonthDayNano> {
    let (date, time) = match text.strip_prefix('P')?.split_once('T') {
        Some((date, time)) => (date, time),
        None => (text.strip_prefix('P')?, ""),
    };
    let mut words = Vec::new();
    for (part, is_time) in [(date, false), (time, true)] {
        let mut number = String::new();
        for sign in part.chars() {
            let unit = match sign {
                '0'..='9' | '.' | '-' | '+' => {
                    number.push(sign);
                    continue;
                }
                'Y' if !is_time => "years",
                'M' if !is_time => "months",
                'W' if !is_time => "weeks",
                'D' if !is_time => "days",
                'H' if is_time => "hours",
                'M' if is_time => "minutes",
                'S' if is_time => "seconds",
                _ => return None,
            };
            words.push(format!("{} {unit}", std::mem::take(&mut number)));
        }
        if !number.is_empty() {
            return None;
        }
    }
    if words.is_empty() { None } else { interval_of(&words.join(" ")) }
}

enum Unit {
    Months(f64),
    Days(f64),
    Nanos(f64),
}

/// Source: PostgreSQL documentation, "Interval Input".
fn unit_of(word: &str) -> Option<Unit> {
    Some(match word.to_ascii_lowercase().as_str() {
        "millennium" | "millennia" | "mil" | "mils" => Unit::Months(12_000.0),
        "century" | "centuries" | "cent" | "c" => Unit::Months(1200.0),
        "decade" | "decades" | "dec" | "decs" => Unit::Months(120.0),
        "year" | "years" | "yr" | "yrs" | "y" => Unit::Months(12.0),
        "month" | "months" | "mon" | "mons" => Unit::Months(1.0),
        "week" | "weeks" | "w" => Unit::Days(7.0),
        "day" | "days" | "d" => Unit::Days(1.0),
        "hour" | "hours" | "hr" | "hrs" | "h" => Unit::Nanos(3600e9),
        "minute" | "minutes" | "min" | "mins" | "m" => Unit::Nanos(60e9),
        "second" | "seconds" | "sec" | "secs" | "s" => Unit::Nanos(1e9),
        "millisecond" | "milliseconds" | "msec" | "msecs" | "ms" => Unit::Nanos(1e6),
        "microsecond" | "microseconds" | "usec" | "usecs" | "us" => Unit::Nanos(1e3),
        _ => return None,
    })
}

/// A number that counts, rounded to the nearest; none if it is too large.
fn whole(number: f64) -> Option<i64> {
    let rounded = number.round();
    // Both bounds are exact as floating-point numbers; the upper one is the first too large.
    (rounded >= i64::MIN as f64 && rounded < i64::MAX as f64).then_some(rounded as i64)
}

/// The nanoseconds of `[-]hours:minutes[:seconds[.fraction]]`.
fn clock(text: &str) -> Option<i64> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let mut parts = unsigned.split(':');
    let (hours, minutes, seconds) = (parts.next()?, parts.next()?, parts.next().unwrap_or("0"));
    let (seconds, fraction) = seconds.split_once('.').unwrap_or((seconds, ""));
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|digit| digit.is_ascii_digit());
    if parts.next().is_some() || ![hours, minutes, seconds].iter().all(|part| is_number(part)) {
        return None;
    }
    let (minutes, seconds): (i64, i64) = (minutes.parse().ok()?, seconds.parse().ok()?);
    if minutes > 59 || seconds > 59 || !fraction.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let micros: i64 = fraction.chars().chain("000000".chars()).take(6).collect::<String>().parse().ok()?;
    let minutes = hours.parse::<i64>().ok()?.checked_mul(60)?.checked_add(minutes)?;
    let nanos =
        minutes.checked_mul(60)?.checked_add(seconds)?.checked_mul(SECOND)?.checked_add(micros * 1000)?;
    Some(if text.starts_with('-') { -nanos } else { nanos })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_as_postgresql_reads_them() {
        let check = |text: &str, expected: Option<(i32, i32, i64)>| {
            let found = interval_of(text).map(|value| (value.months, value.days, value.nanoseconds / 1000));
            assert_eq!(found, expected, "{text}");
        };
        check("01:30", Some((0, 0, 5_400_000_000)));
        check("1 year 2 mons -3 days 04:05:06.7", Some((14, -3, 14_706_700_000)));
        check("-1 day", Some((0, -1, 0)));
        check("1.5 months", Some((1, 15, 0)));
        check("1.5 days", Some((0, 1, 43_200_000_000)));
        check("2h 30min", Some((0, 0, 9_000_000_000)));
        check("1 week 90 minutes ago", Some((0, -7, -5_400_000_000)));
        check("-00:00:01", Some((0, 0, -1_000_000)));
        check("P1Y2M3DT4H5M6S", Some((14, 3, 14_706_000_000)));
        check("1-2 3 4:05:06", Some((14, 3, 14_706_000_000)));
        check("1 month - 1 day", Some((1, -1, 0)));
        check("@ 1 day", Some((0, 1, 0)));
        check("5", Some((0, 0, 5_000_000)));
        check("59.9999999 seconds", Some((0, 0, 60_000_000)));
        for text in ["", "day", "1 fortnight", "1:99", "P1", "P", "x:y"] {
            check(text, None);
        }
    }
}
