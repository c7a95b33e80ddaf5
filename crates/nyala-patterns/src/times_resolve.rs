//! Combines the fields of a text into one date and one time of day.

use super::calendar::{civil_date, days_in_month, iso_week_start};
use super::error::PatternError;
use super::keywords::Convention;
use super::read::Read;
use super::times_read::Fields;

/// Offsets go from -15:59 to +15:59.
const MAX_ZONE_HOURS: i32 = 15;

/// Combines the fields read from `text`, which the messages quote. The order of the checks is PostgreSQL's.
pub(super) fn resolve(fields: Fields, text: &str) -> Result<Read, PatternError> {
    let [hour, minute, second] = time_of_day(&fields)?;
    let date = Date::of(&fields)?;
    let micros = fields.millis.wrapping_mul(1000).wrapping_add(fields.micros);
    let in_day = (0..24).contains(&hour) && (0..60).contains(&minute) && (0..60).contains(&second);
    if !date.is_valid() || !in_day || !(0..1_000_000).contains(&micros) {
        return Err(PatternError::field_overflow(text));
    }
    let offset_seconds = offset(&fields, text)?;
    let (month, day) = date.month_and_day();
    Ok(Read {
        year: date.year,
        month: month as u8,
        day: day as u8,
        hour: hour as u8,
        minute: minute as u8,
        second: second as u8,
        micros: micros as u32,
        offset_seconds,
        fraction_digits: Some(fields.fraction_digits).filter(|digits| *digits > 0),
    })
}

fn time_of_day(fields: &Fields) -> Result<[i32; 3], PatternError> {
    let past_midnight = fields.day_second;
    let mut hour = given(fields.hour).unwrap_or(past_midnight / 3600);
    let minute = given(fields.minute).unwrap_or(past_midnight % 3600 / 60);
    let second = given(fields.second).unwrap_or(past_midnight % 60);
    if fields.is_12_hour {
        if !(1..=12).contains(&hour) {
            let message = format!("hour \"{hour}\" is invalid for the 12-hour clock");
            let hint = "Use the 24-hour clock, or give an hour between 1 and 12.";
            return Err(PatternError::format(message).hint(hint));
        }
        hour = hour % 12 + if fields.afternoon != 0 { 12 } else { 0 };
    }
    Ok([hour, minute, second])
}

/// A field's number, where it was given: 0 and none are the same.
fn given(value: i32) -> Option<i32> {
    Some(value).filter(|value| *value != 0)
}

fn offset(fields: &Fields, text: &str) -> Result<Option<i32>, PatternError> {
    if fields.zone_sign == 0 {
        return Ok(None);
    }
    let (hours, minutes) = (fields.zone_hours, fields.zone_minutes);
    if !(0..=MAX_ZONE_HOURS).contains(&hours) || !(0..60).contains(&minutes) {
        return Err(PatternError::new("22009", format!("time zone displacement out of range: \"{text}\"")));
    }
    Ok(Some(fields.zone_sign * (hours * 3600 + minutes * 60)))
}

/// A date under construction, and which parts of it are checked.
#[derive(Debug)]
struct Date {
    year: i32,
    month: i32,
    day: i32,
    has_year: bool,
    has_month: bool,
    has_day: bool,
}

impl Date {
    fn of(fields: &Fields) -> Result<Self, PatternError> {
        let mut date = Self { year: 0, month: 1, day: 1, has_year: false, has_month: false, has_day: false };
        if let Some(year) = year(fields) {
            (date.year, date.has_year) = (year, true);
        }
        if fields.julian != 0 {
            date.set_julian_day(fields.julian);
        }
        let year_day = date.apply_week(fields);
        date.apply_month_and_day(fields);
        if year_day != 0 && (date.month <= 1 || date.day <= 1) {
            date.apply_year_day(year_day, fields)?;
        }
        Ok(date)
    }

    fn set_julian_day(&mut self, julian: i32) {
        let (year, month, day) = civil_date(i64::from(julian));
        let (month, day) = (i32::from(month), i32::from(day));
        *self = Self { year, month, day, has_year: true, has_month: true, has_day: true };
    }

    /// An ISO week gives a date. Another week gives a day of the year, which is returned.
    fn apply_week(&mut self, fields: &Fields) -> i32 {
        if fields.week == 0 {
            return fields.year_day;
        }
        if fields.convention != Some(Convention::IsoWeek) {
            return week_start(fields.week);
        }
        // Without a weekday, Monday is meant. Sunday is 1 and ends the week.
        let days = match fields.weekday {
            0 => 0,
            weekday if weekday > 1 => weekday - 2,
            _ => 6,
        };
        self.set_julian_day(iso_week_start(self.year, fields.week).wrapping_add(days));
        fields.year_day
    }

    fn apply_month_and_day(&mut self, fields: &Fields) {
        let day = if fields.month_week != 0 { week_start(fields.month_week) } else { fields.month_day };
        if let Some(day) = given(day) {
            (self.day, self.has_day) = (day, true);
        }
        if let Some(month) = given(fields.month) {
            (self.month, self.has_month) = (month, true);
        }
    }

    /// Takes month and day from the day of the year, where they are not given or are 1.
    fn apply_year_day(&mut self, year_day: i32, fields: &Fields) -> Result<(), PatternError> {
        if self.year == 0 && fields.before_era == 0 {
            return Err(PatternError::format("cannot calculate day of year without year information"));
        }
        if fields.convention == Some(Convention::IsoWeek) {
            let before = iso_week_start(self.year, 1).wrapping_sub(1);
            self.set_julian_day(before.wrapping_add(year_day));
            return Ok(());
        }
        let (mut month, mut days_before) = (1, 0);
        while month <= 12 && year_day > days_before + days_in_month(self.year, month) {
            days_before += days_in_month(self.year, month);
            month += 1;
        }
        // A day past the year's end leaves month 13, which the check of the date refuses.
        if self.month <= 1 {
            self.month = month;
        }
        if self.day <= 1 {
            self.day = year_day.wrapping_sub(days_before);
        }
        (self.has_month, self.has_day) = (true, true);
        Ok(())
    }

    /// The day is checked against its month only where the text gives year, month and day.
    fn is_valid(&self) -> bool {
        let month = !self.has_month || (1..=12).contains(&self.month);
        let day = !self.has_day || (1..=31).contains(&self.day);
        let all = self.has_year && self.has_month && self.has_day;
        month && day && (!all || self.day <= days_in_month(self.year, self.month))
    }

    /// Month and day of a valid date. A day past the end of its month belongs to the next month.
    fn month_and_day(&self) -> (i32, i32) {
        let days = days_in_month(self.year, self.month);
        if self.day > days { (self.month + 1, self.day - days) } else { (self.month, self.day) }
    }
}

/// First day of a week that is counted from the first of the month or of the year.
fn week_start(week: i32) -> i32 {
    week.wrapping_sub(1).wrapping_mul(7).wrapping_add(1)
}

/// Astronomical year of the year, the century and the era.
fn year(fields: &Fields) -> Option<i32> {
    let is_before = fields.before_era != 0;
    let century = if is_before { fields.century.wrapping_neg() } else { fields.century };
    if fields.year == 0 {
        return given(fields.century).map(|_| first_year(century));
    }
    // A year of more than two digits makes the century redundant.
    if fields.century != 0 && fields.year_digits <= 2 {
        return Some(year_of_century(century, fields.year % 100));
    }
    let year = if is_before { fields.year.wrapping_neg() } else { fields.year };
    // The year before 1 is 1 BC, which is 0 here.
    Some(if year < 0 { year.wrapping_add(1) } else { year })
}

/// The 21st century starts with 2001, the 6th before our era with 600 BC.
fn first_year(century: i32) -> i32 {
    let last_before = if century >= 0 { century.wrapping_sub(1) } else { century };
    last_before.wrapping_mul(100).wrapping_add(1)
}

/// The year with these two last digits. The 21st century goes from 2001 to 2100.
fn year_of_century(century: i32, digits: i32) -> i32 {
    match (century >= 0, digits) {
        (true, 0) => century.wrapping_mul(100),
        (false, 0) => century.wrapping_mul(100).wrapping_add(1),
        (true, digits) => century.wrapping_sub(1).wrapping_mul(100).wrapping_add(digits),
        (false, digits) => century.wrapping_add(1).wrapping_mul(100).wrapping_sub(digits).wrapping_add(1),
    }
}
