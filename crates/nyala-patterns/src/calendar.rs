//! Day numbers of the proleptic Gregorian calendar, and ISO 8601 weeks.
//!
//! Julian day 0 is 24 November 4714 BC. Years are astronomical: 0 is 1 BC.

/// Julian day of 1970-01-01.
pub(super) const UNIX_EPOCH_DAY: i64 = 2_440_588;
/// Julian day of 2000-01-01, from which PostgreSQL counts.
pub(super) const POSTGRES_EPOCH_DAY: i64 = 2_451_545;
/// First Julian day after the dates PostgreSQL has: 1 January 5874898.
const DATES_END_DAY: i64 = 2_147_483_494;
/// Days from 1 March 4801 BC, where [`civil_date`] starts to count, to Julian day 0.
const JULIAN_SHIFT: i64 = 32_044;

/// Julian day of a date.
///
/// The month may be -11 to 12, since a span has months below one: month 0 is the December before. PostgreSQL
/// keeps 32 bits and wraps, which a span of millions of years reaches; the last step here does the same.
pub(super) fn julian_day(year: i32, month: i32, day: i32) -> i32 {
    // Years start in March here, so that the leap day is the last of its year.
    let (month, year) =
        if month > 2 { (month + 1, i64::from(year) + 4800) } else { (month + 13, i64::from(year) + 4799) };
    let leap_days = year / 4 - year / 100 + year / 400;
    (year * 365 + leap_days + i64::from(month) * 306 / 10 + i64::from(day) - 32_167) as i32
}

/// Year, month and day of a Julian day.
pub(super) fn civil_date(julian: i64) -> (i32, u8, u8) {
    let days = julian + JULIAN_SHIFT;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let (month, next_year) =
        if month_from_march < 10 { (month_from_march + 3, 0) } else { (month_from_march - 9, 1) };
    ((era * 400 + year_of_era + next_year - 4800) as i32, month as u8, day as u8)
}

/// Weekday of a Julian day: 0 is Sunday.
pub(super) fn weekday(julian: i32) -> i32 {
    julian.wrapping_add(1).rem_euclid(7)
}

/// Whether a year has a 29 February.
pub(super) fn is_leap(year: i32) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

/// Days of a month, or none for a month that is not 1 to 12.
pub(super) fn days_in_month(year: i32, month: i32) -> i32 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => 0,
    }
}

/// Julian day of the Monday that starts a week of an ISO year. Week 1 is the one with 4 January.
pub(super) fn iso_week_start(iso_year: i32, week: i32) -> i32 {
    let fourth = julian_day(iso_year, 1, 4);
    let days_from_monday = weekday(fourth.wrapping_sub(1));
    week.wrapping_sub(1).wrapping_mul(7).wrapping_add(fourth.wrapping_sub(days_from_monday))
}

/// ISO year and ISO week of a date.
pub(super) fn iso_year_and_week(year: i32, month: i32, day: i32) -> (i32, i32) {
    let today = julian_day(year, month, day);
    let mut iso_year = year;
    if today < iso_week_start(iso_year, 1) {
        iso_year = iso_year.wrapping_sub(1);
    }
    let week = weeks_since(today, iso_week_start(iso_year, 1));
    let next_start = iso_week_start(iso_year.wrapping_add(1), 1);
    if week >= 52 && today >= next_start {
        return (iso_year.wrapping_add(1), weeks_since(today, next_start));
    }
    (iso_year, week)
}

/// Day of the ISO year, from 1.
pub(super) fn iso_day_of_year(year: i32, month: i32, day: i32) -> i32 {
    let (iso_year, _) = iso_year_and_week(year, month, day);
    julian_day(year, month, day).wrapping_sub(iso_week_start(iso_year, 1)).wrapping_add(1)
}

fn weeks_since(today: i32, start: i32) -> i32 {
    today.wrapping_sub(start) / 7 + 1
}

/// Julian day of a date, where PostgreSQL's day numbers reach it: 24 November 4714 BC to 31 May 5874898.
///
/// As in PostgreSQL the first check looks at the month only, so days of November 4714 BC before the 24th pass
/// it with a negative number.
pub(super) fn checked_julian_day(year: i32, month: u8, day: u8) -> Option<i64> {
    let first = (year, month) >= (-4713, 11);
    let last = (year, month) < (5_874_898, 6);
    (first && last).then(|| i64::from(julian_day(year, i32::from(month), i32::from(day))))
}

/// Whether a Julian day is within the type `date`.
pub(super) fn is_date(julian: i64) -> bool {
    (0..DATES_END_DAY).contains(&julian)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn day_numbers_and_dates_agree() {
        for julian in (0..2_147_483_494_i64).step_by(9_973_051).chain(2_300_000..2_500_000) {
            let (year, month, day) = civil_date(julian);
            assert_eq!(i64::from(julian_day(year, month.into(), day.into())), julian);
        }
    }

    #[test]
    fn month_zero_is_the_december_before() {
        assert_eq!(julian_day(2000, 0, 5), julian_day(1999, 12, 5));
    }
}
