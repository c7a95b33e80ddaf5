//! Writes dates, times and intervals: `to_char`.

use super::calendar::{iso_day_of_year, iso_year_and_week, julian_day, weekday};
use super::keywords::Key;
use super::moment::Moment;
use super::names::{
    Case, DAYS, DAYS_SHORT, MONTHS, MONTHS_SHORT, ROMAN_MONTHS, eras, meridiems, ordinal_ending, push_word,
};
use super::span::Span;
use super::tokens::{Field, Node};
use std::fmt::Write;

/// The columns that names of months and of days fill.
const NAME_WIDTH: usize = 9;
/// The columns that Roman months fill.
const ROMAN_WIDTH: usize = 4;

/// A moment or a span, in the units that fields are made of. A span may have any of them negative.
#[derive(Debug)]
pub(super) struct Parts<'a> {
    year: i32,
    month: i32,
    day: i32,
    /// Day of the year, from 1; for a span the days in all.
    year_day: i32,
    hour: i64,
    minute: i64,
    second: i64,
    micros: i64,
    offset_seconds: i32,
    zone: &'a str,
    is_span: bool,
}

impl<'a> Parts<'a> {
    pub(super) fn of_moment(moment: &'a Moment) -> Self {
        let (month, day) = (i32::from(moment.month), i32::from(moment.day));
        let new_year = julian_day(moment.year, 1, 1);
        Self {
            year: moment.year,
            month,
            day,
            year_day: julian_day(moment.year, month, day).wrapping_sub(new_year).wrapping_add(1),
            hour: i64::from(moment.hour),
            minute: i64::from(moment.minute),
            second: i64::from(moment.second),
            micros: i64::from(moment.micros),
            offset_seconds: moment.offset_seconds.unwrap_or(0),
            zone: moment.zone.as_deref().unwrap_or_default(),
            is_span: false,
        }
    }

    /// Months become years, and microseconds hours; days stay days.
    pub(super) fn of_span(span: &Span) -> Parts<'static> {
        let seconds = span.micros / 1_000_000;
        Parts {
            year: span.months / 12,
            month: span.months % 12,
            day: span.days,
            year_day: span.months.wrapping_mul(30).wrapping_add(span.days),
            hour: seconds / 3600,
            minute: seconds / 60 % 60,
            second: seconds % 60,
            micros: span.micros % 1_000_000,
            offset_seconds: 0,
            zone: "",
            is_span: true,
        }
    }

    /// The year as people count it. There is no year 0: 0 is 1 BC.
    fn shown_year(&self, year: i32) -> i64 {
        let year = i64::from(year);
        if self.is_span || year > 0 { year } else { 1 - year }
    }

    fn iso_year(&self) -> i64 {
        self.shown_year(iso_year_and_week(self.year, self.month, self.day).0)
    }

    fn weekday(&self) -> i32 {
        weekday(julian_day(self.year, self.month, self.day))
    }

    fn century(&self) -> i64 {
        let year = i64::from(self.year);
        match () {
            () if self.is_span => year / 100,
            () if year > 0 => (year - 1) / 100 + 1,
            () => year / 100 - 1,
        }
    }
}

/// Appends every part of a pattern.
pub(super) fn write_nodes(nodes: &[Node], parts: &Parts<'_>, out: &mut String) {
    for node in nodes {
        match node {
            Node::Field(field) => write_field(field, parts, out),
            Node::Text(character) | Node::Separator(character) | Node::Space(character) => {
                out.push(*character)
            }
        }
    }
}

fn write_field(field: &Field, parts: &Parts<'_>, out: &mut String) {
    let start = out.len();
    if let Some((value, width)) = number(field.key, parts) {
        push_padded(out, value, if field.fill { 0 } else { width });
    } else if let Some((value, digits)) = fraction(field.key, parts) {
        push_padded(out, value, digits);
    } else if field.key == Key::YearComma {
        let year = parts.shown_year(parts.year);
        push_padded(out, year / 1000, 0);
        out.push(',');
        push_padded(out, year % 1000, 3);
    } else {
        return write_word(field, parts, out);
    }
    push_ordinal(out, start, field.ordinal);
}

/// The number that a field shows, and the columns it fills without `FM`.
fn number(key: Key, parts: &Parts<'_>) -> Option<(i64, usize)> {
    Some(match key {
        Key::Hour12 => (hour_of_12(parts.hour), signed_width(2, parts.hour)),
        Key::Hour24 => (parts.hour, signed_width(2, parts.hour)),
        Key::Minute => (parts.minute, signed_width(2, parts.minute)),
        Key::Second => (parts.second, signed_width(2, parts.second)),
        Key::DaySecond => (parts.hour * 3600 + parts.minute * 60 + parts.second, 0),
        Key::Year(digits) => year_digits(parts.shown_year(parts.year), digits, parts),
        Key::IsoYear(digits) => year_digits(parts.iso_year(), digits, parts),
        Key::Century => {
            let century = parts.century();
            (century, if century.abs() <= 99 { signed_width(2, century) } else { 0 })
        }
        Key::Quarter if parts.month != 0 => (i64::from((parts.month - 1) / 3 + 1), 0),
        Key::Month => (parts.month.into(), signed_width(2, parts.month.into())),
        Key::Week => (i64::from(parts.year_day.wrapping_sub(1) / 7 + 1), 2),
        Key::IsoWeek => (iso_year_and_week(parts.year, parts.month, parts.day).1.into(), 2),
        Key::MonthWeek => (i64::from(parts.day.wrapping_sub(1) / 7 + 1), 0),
        Key::YearDay => (parts.year_day.into(), 3),
        Key::IsoYearDay => (iso_day_of_year(parts.year, parts.month, parts.day).into(), 3),
        Key::MonthDay => (parts.day.into(), 2),
        Key::Weekday => (i64::from(parts.weekday()) + 1, 0),
        Key::IsoWeekday => (i64::from((parts.weekday() + 6) % 7) + 1, 0),
        Key::Julian => (julian_day(parts.year, parts.month, parts.day).into(), 0),
        _ => return None,
    })
}

/// A part of the second and its digits, which `FM` leaves as they are.
fn fraction(key: Key, parts: &Parts<'_>) -> Option<(i64, usize)> {
    let digits = match key {
        Key::Millisecond => 3,
        Key::Microsecond => 6,
        Key::Fraction(digits) => digits,
        _ => return None,
    };
    let unit = 10_i64.saturating_pow(6_u32.saturating_sub(u32::from(digits)));
    Some((parts.micros / unit, usize::from(digits)))
}

/// The last digits of a year. The sign of the Gregorian year decides the columns, also for an ISO year.
fn year_digits(year: i64, digits: u8, parts: &Parts<'_>) -> (i64, usize) {
    let value = match digits {
        1 => return (year % 10, 0),
        2 => year % 100,
        3 => year % 1000,
        _ => year,
    };
    (value, signed_width(digits.into(), parts.shown_year(parts.year)))
}

fn hour_of_12(hour: i64) -> i64 {
    match hour % 12 {
        0 => 12,
        hour => hour,
    }
}

/// A negative number has one column more, for its sign.
fn signed_width(width: usize, sign: i64) -> usize {
    if sign >= 0 { width } else { width + 1 }
}

fn push_padded(out: &mut String, value: i64, width: usize) {
    // A String takes whatever is written to it, so there is no error to see.
    let _ = write!(out, "{value:0width$}");
}

fn push_ordinal(out: &mut String, start: usize, ordinal: Option<Case>) {
    let Some(case) = ordinal else { return };
    if let Some(ending) = out.get(start..).and_then(ordinal_ending) {
        push_word(out, ending, case);
    }
}

fn write_word(field: &Field, parts: &Parts<'_>, out: &mut String) {
    let name_width = if field.fill || field.translated { 0 } else { NAME_WIDTH };
    match field.key {
        Key::Meridiem { dotted, case } => {
            let [morning, evening] = meridiems(dotted);
            push_word(out, if parts.hour % 24 >= 12 { evening } else { morning }, case);
        }
        Key::Era { dotted, case } => {
            let [after, before] = eras(dotted);
            push_word(out, if parts.year <= 0 { before } else { after }, case);
        }
        Key::MonthName(case) => push_name(out, &MONTHS, parts.month - 1, case, name_width),
        Key::MonthShort(case) => push_name(out, &MONTHS_SHORT, parts.month - 1, case, 0),
        Key::DayName(case) => push_name(out, &DAYS, parts.weekday(), case, name_width),
        Key::DayShort(case) => push_name(out, &DAYS_SHORT, parts.weekday(), case, 0),
        Key::RomanMonth(case) => write_roman_month(field, parts, out, case),
        Key::Zone(Case::Lower) => push_word(out, parts.zone, Case::Lower),
        Key::Zone(_) => out.push_str(parts.zone),
        Key::ZoneHour | Key::ZoneMinute | Key::Offset => write_offset(field, parts, out),
        // The other fields are numbers, which `write_field` writes, or show nothing.
        _ => {}
    }
}

fn push_name(out: &mut String, names: &[&str], index: i32, case: Case, width: usize) {
    let name = usize::try_from(index).ok().and_then(|index| names.get(index));
    let Some(name) = name else { return };
    push_word(out, name, case);
    out.extend(std::iter::repeat_n(' ', width.saturating_sub(name.len())));
}

/// A span's month -1 is XII, -2 is XI; month 0 of a span with years is XII, or I where the years are negative.
fn write_roman_month(field: &Field, parts: &Parts<'_>, out: &mut String, case: Case) {
    let index = match parts.month {
        0 if parts.year == 0 => return,
        0 if parts.year > 0 => 0,
        0 => 11,
        month if month < 0 => -(month + 1),
        month => 12 - month,
    };
    push_name(out, &ROMAN_MONTHS, index, case, if field.fill { 0 } else { ROMAN_WIDTH });
}

fn write_offset(field: &Field, parts: &Parts<'_>, out: &mut String) {
    let seconds = i64::from(parts.offset_seconds).abs();
    let (hours, minutes) = (seconds / 3600, seconds % 3600 / 60);
    if field.key == Key::ZoneMinute {
        return push_padded(out, minutes, 2);
    }
    out.push(if parts.offset_seconds >= 0 { '+' } else { '-' });
    let is_offset = field.key == Key::Offset;
    push_padded(out, hours, if is_offset && field.fill { 0 } else { 2 });
    if is_offset && seconds % 3600 != 0 {
        out.push(':');
        push_padded(out, minutes, 2);
    }
}
