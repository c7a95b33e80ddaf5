//! How a cube is divided into segments: half-open ranges of one column of its fact table.
//!
//! Every value of the column has a *key*, a 64-bit integer in the order of the values: the number
//! itself, days since 1970-01-01 for a DATE, ticks since then for a TIMESTAMP. Ranges are ranges of
//! keys, so that this module does not depend on types.

use std::fmt;

use chrono::{DateTime, Datelike, Days, Months, NaiveDate};
use serde::{Deserialize, Serialize};

/// Days from 1970-01-01, a Thursday, to the next Monday: weeks begin on Mondays.
const FIRST_MONDAY: i64 = 4;
const DAYS_PER_WEEK: i64 = 7;
const SECONDS_PER_DAY: i64 = 86_400;
/// Days from 0001-01-01, which chrono counts from 1, to 1970-01-01.
const EPOCH_DAYS_FROM_CE: i64 = 719_163;

/// The meaning of a column's keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyKind {
    /// A plain number.
    Integer,
    /// A date written as a number: 19940131.
    CalendarInteger,
    /// Days since 1970-01-01.
    Date,
    /// Ticks since 1970-01-01 00:00 UTC.
    Timestamp {
        /// Ticks of one second.
        per_second: i64,
    },
}

/// The width of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// A number of keys, counted from 0.
    Keys(i64),
    /// A number of days, counted from 1970-01-01; whole weeks from a Monday.
    Days(i64),
    /// A number of months, counted from January of year 0.
    Months(i64),
}

/// The division of a cube.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RangePartition {
    /// The column of the fact table.
    pub column: String,
    /// The meaning of its keys.
    pub kind: KeyKind,
    /// The width of a newly built segment. Merged segments span several.
    pub step: Step,
}

/// Keys from `from` up to, but excluding, `to`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct KeyRange {
    /// The first key.
    pub from: i64,
    /// The first key after the range.
    pub to: i64,
}

impl KeyRange {
    /// Whether every key of `other` is in this range.
    pub fn contains(self, other: Self) -> bool {
        self.from <= other.from && other.to <= self.to
    }

    /// Whether some key is in both.
    pub fn overlaps(self, other: Self) -> bool {
        self.from < other.to && other.from < self.to
    }
}

impl Step {
    /// Whether a segment would hold at least one key.
    pub fn is_positive(self) -> bool {
        match self {
            Self::Keys(n) | Self::Days(n) | Self::Months(n) => n > 0,
        }
    }
}

impl RangePartition {
    /// The range of one step with `key`; none if it exceeds the calendar or 64 bits.
    pub fn range_of(&self, key: i64) -> Option<KeyRange> {
        let mut range = self.step_from(key)?;
        // A number such as 19940000 is no date; it belongs to the range before that of the next date.
        if key < range.from {
            range = self.step_from(self.key_of_day(self.day_of(range.from)?.checked_sub(1)?)?)?;
        }
        (range.from <= key && key < range.to).then_some(range)
    }

    /// Whether a range may begin or end at `key`.
    pub fn is_bound(&self, key: i64) -> bool {
        self.range_of(key).is_some_and(|range| range.from == key)
    }

    /// Divides `range` into ranges of one step; none if its bounds are no bounds of steps, or if there
    /// are more than `most`.
    pub fn steps(&self, range: KeyRange, most: usize) -> Option<Vec<KeyRange>> {
        let mut steps = Vec::new();
        let mut from = range.from;
        while from < range.to {
            let step = self.range_of(from).filter(|step| step.from == from && step.to <= range.to)?;
            if steps.len() == most {
                return None;
            }
            from = step.to;
            steps.push(step);
        }
        Some(steps)
    }

    fn step_from(&self, key: i64) -> Option<KeyRange> {
        match self.step {
            Step::Keys(n) => {
                let from = key.div_euclid(n).checked_mul(n)?;
                Some(KeyRange { from, to: from.checked_add(n)? })
            }
            Step::Days(n) => {
                let origin = if n % DAYS_PER_WEEK == 0 { FIRST_MONDAY } else { 0 };
                let first = (self.day_of(key)? - origin).div_euclid(n) * n + origin;
                Some(KeyRange { from: self.key_of_day(first)?, to: self.key_of_day(first.checked_add(n)?)? })
            }
            Step::Months(n) => {
                let date = date_of(self.day_of(key)?)?;
                let month = i64::from(date.year()) * 12 + i64::from(date.month0());
                let first = month.div_euclid(n) * n;
                let from = self.key_of_day(day_of_month(first)?)?;
                Some(KeyRange { from, to: self.key_of_day(day_of_month(first.checked_add(n)?)?)? })
            }
        }
    }

    /// The day of a key, counted from 1970-01-01.
    pub(crate) fn day_of(&self, key: i64) -> Option<i64> {
        match self.kind {
            KeyKind::Integer | KeyKind::Date => Some(key),
            KeyKind::Timestamp { per_second } => {
                Some(key.div_euclid(per_second.checked_mul(SECONDS_PER_DAY)?))
            }
            KeyKind::CalendarInteger => {
                let (year, month, day) =
                    (key.div_euclid(10_000), key.rem_euclid(10_000) / 100, key.rem_euclid(100));
                let first = day_of_month(year.checked_mul(12)?.checked_add(month.clamp(1, 12) - 1)?)?;
                let length = days_in_month(first)?;
                let day = if month > 12 { length } else { day.clamp(1, length) };
                first.checked_add(day - 1)
            }
        }
    }

    pub(crate) fn key_of_day(&self, day: i64) -> Option<i64> {
        match self.kind {
            KeyKind::Integer | KeyKind::Date => Some(day),
            KeyKind::Timestamp { per_second } => day.checked_mul(per_second.checked_mul(SECONDS_PER_DAY)?),
            KeyKind::CalendarInteger => {
                let date = date_of(day)?;
                Some(i64::from(date.year()) * 10_000 + i64::from(date.month()) * 100 + i64::from(date.day()))
            }
        }
    }

    /// The key of a calendar day, for bounds written as dates; none for plain numbers.
    pub fn key_of_date(&self, days_since_epoch: i64) -> Option<i64> {
        match self.kind {
            KeyKind::Integer => None,
            _ => self.key_of_day(days_since_epoch),
        }
    }

    /// Milliseconds from 1970-01-01 00:00 UTC to a key; none for plain numbers, and beyond the calendar or 64 bits.
    pub fn ms_of(&self, key: i64) -> Option<i64> {
        match self.kind {
            KeyKind::Integer => None,
            KeyKind::Date | KeyKind::CalendarInteger => self.day_of(key)?.checked_mul(SECONDS_PER_DAY * 1000),
            KeyKind::Timestamp { per_second } => {
                let (seconds, ticks) = (key.div_euclid(per_second), key.rem_euclid(per_second));
                seconds.checked_mul(1000)?.checked_add(ticks * 1000 / per_second)
            }
        }
    }

    /// A key as text of its value.
    pub fn show(&self, key: i64) -> String {
        let text = match self.kind {
            KeyKind::Integer | KeyKind::CalendarInteger => None,
            KeyKind::Date => date_of(key).map(|date| date.to_string()),
            KeyKind::Timestamp { per_second } => show_timestamp(key, per_second),
        };
        text.unwrap_or_else(|| key.to_string())
    }

    /// A range as text of its bounds.
    pub fn show_range(&self, range: KeyRange) -> String {
        format!("[{}, {})", self.show(range.from), self.show(range.to))
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Keys(n) => n.fmt(f),
            Self::Days(n) => write!(f, "INTERVAL '{n} days'"),
            Self::Months(n) => write!(f, "INTERVAL '{n} months'"),
        }
    }
}

pub(crate) fn date_of(day: i64) -> Option<NaiveDate> {
    NaiveDate::from_num_days_from_ce_opt(i32::try_from(day.checked_add(EPOCH_DAYS_FROM_CE)?).ok()?)
}

/// The first day of a month, which is counted from January of year 0.
fn day_of_month(month: i64) -> Option<i64> {
    let (year, month) =
        (i32::try_from(month.div_euclid(12)).ok()?, u32::try_from(month.rem_euclid(12)).ok()?);
    let date = NaiveDate::from_ymd_opt(year, month + 1, 1)?;
    Some(i64::from(date.num_days_from_ce()) - EPOCH_DAYS_FROM_CE)
}

fn days_in_month(first: i64) -> Option<i64> {
    let last = date_of(first)?.checked_add_months(Months::new(1))?.checked_sub_days(Days::new(1))?;
    Some(i64::from(last.day()))
}

fn show_timestamp(key: i64, per_second: i64) -> Option<String> {
    let (seconds, ticks) = (key.div_euclid(per_second), key.rem_euclid(per_second));
    let nanoseconds = u32::try_from(ticks * (1_000_000_000 / per_second)).ok()?;
    let time = DateTime::from_timestamp(seconds, nanoseconds)?.naive_utc();
    Some(time.format("%Y-%m-%d %H:%M:%S%.f").to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn division(kind: KeyKind, step: Step) -> RangePartition {
        RangePartition { column: "day".to_owned(), kind, step }
    }

    #[test]
    fn months_of_numbers_that_are_dates() {
        let months = division(KeyKind::CalendarInteger, Step::Months(1));
        let december = KeyRange { from: 19_931_201, to: 19_940_101 };
        for key in [19_931_201, 19_931_231, 19_931_299, 19_939_999, 19_940_000] {
            assert_eq!(months.range_of(key), Some(december), "{key}");
        }
        assert_eq!(months.range_of(19_940_101).map(|r| r.to), Some(19_940_201));
        assert!(months.is_bound(19_940_201) && !months.is_bound(19_940_202));
    }

    #[test]
    fn days_of_numbers_that_are_dates_leave_no_gap() {
        let days = division(KeyKind::CalendarInteger, Step::Days(1));
        assert_eq!(days.range_of(19_940_231), Some(KeyRange { from: 19_940_228, to: 19_940_301 }));
        assert_eq!(days.range_of(19_960_229), Some(KeyRange { from: 19_960_229, to: 19_960_301 }));
    }

    #[test]
    fn weeks_begin_on_mondays_and_steps_before_the_epoch_are_whole() {
        let weeks = division(KeyKind::Date, Step::Days(7));
        assert_eq!(weeks.range_of(0), Some(KeyRange { from: -3, to: 4 }));
        assert_eq!(weeks.show_range(KeyRange { from: -3, to: 4 }), "[1969-12-29, 1970-01-05)");
        let hundreds = division(KeyKind::Integer, Step::Keys(100));
        assert_eq!(hundreds.range_of(-1), Some(KeyRange { from: -100, to: 0 }));
        assert_eq!(hundreds.range_of(i64::MAX), None);
    }

    #[test]
    fn quarters_of_timestamps() {
        let quarters = division(KeyKind::Timestamp { per_second: 1_000_000 }, Step::Months(3));
        let range = quarters.range_of(-1).map(|range| quarters.show_range(range));
        assert_eq!(range.as_deref(), Some("[1969-10-01 00:00:00, 1970-01-01 00:00:00)"));
    }

    #[test]
    fn keys_of_times_are_milliseconds_too() {
        let check = |kind: KeyKind, key: i64, expected: Option<i64>| {
            assert_eq!(division(kind, Step::Days(1)).ms_of(key), expected, "{key}");
        };
        check(KeyKind::Date, 1, Some(86_400_000));
        check(KeyKind::CalendarInteger, 19_700_103, Some(172_800_000));
        check(KeyKind::Timestamp { per_second: 1 }, 7, Some(7000));
        check(KeyKind::Timestamp { per_second: 1_000_000_000 }, -1, Some(-1));
        check(KeyKind::Timestamp { per_second: 1_000_000_000 }, i64::MAX, Some(9_223_372_036_854));
        check(KeyKind::Timestamp { per_second: 1 }, i64::MAX, None);
        check(KeyKind::Integer, 7, None);
    }

    #[test]
    fn a_range_is_cut_into_its_steps_or_refused() {
        let months = division(KeyKind::Date, Step::Months(1));
        assert_eq!(months.steps(KeyRange { from: 0, to: 59 }, 10).map(|steps| steps.len()), Some(2));
        assert_eq!(months.steps(KeyRange { from: 1, to: 59 }, 10), None);
        assert_eq!(months.steps(KeyRange { from: 0, to: 60 }, 10), None);
        assert_eq!(months.steps(KeyRange { from: 0, to: 59 }, 1), None);
    }
}
