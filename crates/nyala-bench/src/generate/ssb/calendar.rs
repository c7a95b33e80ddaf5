//! The seven years of the benchmark, day by day.

/// Days from 1992-01-01 to 1998-12-31, with the leap days of 1992 and 1996.
pub const DAYS: u32 = 2_557;
/// Days on which orders are placed: the first is 1992-01-01, the last 1998-08-02 (TPC-H 4.2.3: 151
/// days before the end, so that later dates of an order are inside).
pub const ORDER_DAYS: u32 = 2_406;

const FIRST_YEAR: i32 = 1992;
/// 1992-01-01 was a Wednesday.
const FIRST_WEEKDAY: u32 = 4;

/// One day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Day {
    /// Such as 1992.
    pub year: i32,
    /// 1 to 12.
    pub month: i32,
    /// 1 to 31.
    pub day: i32,
    /// 1 to 366.
    pub day_of_year: i32,
    /// 1 is Sunday, 7 is Saturday.
    pub weekday: i32,
    /// Whether the next day is in another month.
    pub ends_month: bool,
}

impl Day {
    /// The day `offset` days after 1992-01-01.
    pub fn at(offset: u32) -> Self {
        let mut year = FIRST_YEAR;
        let mut left = offset as i32;
        while left >= year_days(year) {
            left -= year_days(year);
            year += 1;
        }
        let day_of_year = left + 1;
        let mut month = 1;
        while left >= month_days(year, month) {
            left -= month_days(year, month);
            month += 1;
        }
        let weekday = (FIRST_WEEKDAY + offset - 1) % 7 + 1;
        let ends_month = left + 1 == month_days(year, month);
        Self { year, month, day: left + 1, day_of_year, weekday: weekday as i32, ends_month }
    }

    /// The day as a number of eight digits, such as 19920131.
    pub fn key(self) -> i32 {
        self.year * 10_000 + self.month * 100 + self.day
    }

    /// How many days with this weekday the month has up to this one, 1 to 5.
    pub fn occurrence_in_month(self) -> i32 {
        (self.day - 1) / 7 + 1
    }
}

/// The keys of all days, by offset.
pub fn keys() -> Vec<i32> {
    (0..DAYS).map(|offset| Day::at(offset).key()).collect()
}

fn leap(year: i32) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn year_days(year: i32) -> i32 {
    if leap(year) { 366 } else { 365 }
}

/// Days of a month; 31 for a number that is no month, so that a search over months ends.
fn month_days(year: i32, month: i32) -> i32 {
    match month {
        2 if leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_days_are_right() {
        let check = |offset, key, day_of_year, weekday, ends_month| {
            let day = Day::at(offset);
            let found = (day.key(), day.day_of_year, day.weekday, day.ends_month);
            assert_eq!(found, (key, day_of_year, weekday, ends_month), "offset {offset}");
        };
        check(0, 19920101, 1, 4, false); // Wednesday
        check(59, 19920229, 60, 7, true); // Saturday, leap day
        check(60, 19920301, 61, 1, false); // Sunday
        check(365, 19921231, 366, 5, true); // Thursday
        check(366, 19930101, 1, 6, false); // Friday
        check(1_520, 19960229, 60, 5, true); // Thursday, leap day
        check(ORDER_DAYS - 1, 19980802, 214, 1, false); // Sunday
        check(DAYS - 1, 19981231, 365, 5, true); // Thursday
    }

    #[test]
    fn keys_rise() {
        let keys = keys();
        assert_eq!(keys.len(), 2_557);
        assert!(keys.is_sorted_by(|a, b| a < b));
    }
}
