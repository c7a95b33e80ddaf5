//! Texts of timestamps as PostgreSQL reads them.

use arrow::array::timezone::Tz;
use chrono::{NaiveDate, NaiveDateTime, NaiveTime, TimeDelta, Timelike};

use super::free_times::free_reading;
use super::zones::{offset_of_clock, zone_named};

/// Microseconds from 1970 of a text. With `zone` they are those of a moment, in the zone that the text names or else in `zone`;
/// without it those of the time on a clock, and a zone in the text is ignored. None for other forms, which other readers may know.
pub fn timestamp_of(text: &str, zone: Option<&Tz>) -> Option<i64> {
    strict_timestamp(text, zone).or_else(|| {
        let read = free_reading(text)?;
        let mut clock = NaiveDateTime::new(read.date?, NaiveTime::MIN);
        if let Some(time) = &read.time {
            let (time, is_next_day) = time_of(time)?;
            clock = NaiveDateTime::new(clock.date(), time);
            clock = if is_next_day { clock.checked_add_signed(TimeDelta::days(1))? } else { clock };
        }
        let other = read.zone.as_deref().map(zone_of);
        let other = if let Some(other) = other { Some(other?) } else { None };
        Some(micros_at(&clock, zone, other))
    })
}

/// Days from 1970 of a text with a date; a time and a zone behind it are ignored. None for other forms.
pub fn date_of_text(text: &str) -> Option<i32> {
    let days =
        |date: NaiveDate| i32::try_from(date.signed_duration_since(NaiveDate::default()).num_days()).ok();
    let read = free_reading(text)?;
    let is_zone = read.zone.as_deref().is_none_or(|zone| zone_of(zone).is_some());
    days(read.date.filter(|_| is_zone)?)
}

/// Nanoseconds of the time of a day; a date before it is ignored. None for other forms.
pub fn time_of_text(text: &str) -> Option<i64> {
    let (time, is_next_day) = time_of(&free_reading(text)?.time?)?;
    (!is_next_day)
        .then(|| i64::from(time.num_seconds_from_midnight()) * 1_000_000_000 + i64::from(time.nanosecond()))
}

fn micros_at(clock: &NaiveDateTime, zone: Option<&Tz>, other: Option<Tz>) -> i64 {
    let offset = match (zone, other) {
        (None, _) => 0,
        (Some(zone), other) => offset_of_clock(other.as_ref().unwrap_or(zone), clock),
    };
    clock.and_utc().timestamp_micros().saturating_sub(i64::from(offset) * 1_000_000)
}

fn strict_timestamp(text: &str, zone: Option<&Tz>) -> Option<i64> {
    let (text, is_before_christ) = match text.trim().strip_suffix("BC") {
        Some(text) => (text.trim_end(), true),
        None => (text.trim(), false),
    };
    let end = text.find(['T', 't', ' ']).unwrap_or(text.len());
    let (date, rest) = text.split_at_checked(end)?;
    let date = date_of(date, is_before_christ)?;
    let rest = rest.get(1..).unwrap_or_default().trim_start();
    let end =
        rest.find(|sign: char| !sign.is_ascii_digit() && !matches!(sign, ':' | '.')).unwrap_or(rest.len());
    let (clock, shown) = rest.split_at_checked(end)?;
    let (time, is_next_day) = if clock.is_empty() { (NaiveTime::MIN, false) } else { time_of(clock)? };
    let mut clock = NaiveDateTime::new(date, time);
    if is_next_day {
        clock = clock.checked_add_signed(TimeDelta::days(1))?;
    }
    let shown = shown.trim();
    let other = if shown.is_empty() { None } else { Some(zone_of(shown)?) };
    Some(micros_at(&clock, zone, other))
}

fn date_of(text: &str, is_before_christ: bool) -> Option<NaiveDate> {
    let mut parts = text.split('-');
    let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if parts.next().is_some() || year.len() < 4 || ![year, month, day].iter().all(|part| is_number(part)) {
        return None;
    }
    let year: i32 = year.parse().ok()?;
    let year = if is_before_christ { 1 - year } else { year };
    NaiveDate::from_ymd_opt(year, month.parse().ok()?, day.parse().ok()?)
}

/// The time of a day, and whether it is the midnight at the end of the day.
fn time_of(text: &str) -> Option<(NaiveTime, bool)> {
    let mut parts = text.split(':');
    let (hour, minute) = (parts.next()?, parts.next()?);
    let (second, fraction) = match parts.next() {
        Some(second) => second.split_once('.').unwrap_or((second, "")),
        None => ("0", ""),
    };
    if parts.next().is_some() || [hour, minute, second].iter().any(|part| part.is_empty() || part.len() > 2) {
        return None;
    }
    let digits: String = fraction.chars().chain("0000000".chars()).take(7).collect();
    let tenths: u64 = digits.parse().ok()?;
    let micros = (tenths + 5) / 10;
    let (hour, minute, second) =
        (hour.parse::<u64>().ok()?, minute.parse::<u64>().ok()?, second.parse::<u64>().ok()?);
    if hour > 24 || minute > 59 || second > 60 {
        return None;
    }
    let total = ((hour * 60 + minute) * 60 + second) * 1_000_000 + micros;
    const DAY: u64 = 86_400_000_000;
    if total > DAY {
        return None;
    }
    let within = total % DAY;
    let seconds = u32::try_from(within / 1_000_000).ok()?;
    let nanos = u32::try_from(within % 1_000_000 * 1000).ok()?;
    Some((NaiveTime::from_num_seconds_from_midnight_opt(seconds, nanos)?, total == DAY))
}

/// The zone that a text ends with.
fn zone_of(text: &str) -> Option<Tz> {
    let Some(digits) = text.strip_prefix(['+', '-']) else {
        let text = if text.eq_ignore_ascii_case("z") { "UTC" } else { text };
        return zone_named(text).ok();
    };
    let sign = text.get(..1)?;
    let digits: String = digits.chars().filter(|sign| *sign != ':').collect();
    let padded = match digits.len() {
        1 => format!("0{digits}00"),
        2 => format!("{digits}00"),
        4 => digits,
        _ => return None,
    };
    let (hours, minutes) = padded.split_at_checked(2)?;
    format!("{sign}{hours}:{minutes}").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_as_postgresql_reads_them() {
        let check = |text: &str, zone: Option<&str>, expected: Option<i64>| {
            let zone = zone.map(|zone| zone.parse::<Tz>().unwrap_or_else(|error| panic!("{zone}: {error}")));
            assert_eq!(
                timestamp_of(text, zone.as_ref()),
                expected.map(|seconds| seconds * 1_000_000),
                "{text}"
            );
        };
        check("2024-01-01", None, Some(1_704_067_200));
        check("2024-01-01 12:30", None, Some(1_704_112_200));
        check("2024-01-01T12:30:05", None, Some(1_704_112_205));
        check("2024-01-01 24:00", None, Some(1_704_153_600));
        check("2024-01-01 12:00+09", None, Some(1_704_110_400));
        check("2024-01-01 12:00+09", Some("UTC"), Some(1_704_078_000));
        check("2024-01-01 12:00", Some("Asia/Kolkata"), Some(1_704_090_600));
        check("2024-03-10 02:30:00", Some("America/New_York"), Some(1_710_055_800));
        check("2024-11-03 01:30:00", Some("America/New_York"), Some(1_730_615_400));
        check("0001-01-01 BC", None, Some(-62_167_219_200));
        check("10000-01-01", None, Some(253_402_300_800));
        check("2024-13-01", None, None);
        check("yesterday", None, None);
        check("2024-01-01 25:00", None, None);
    }
}
