//! The dimension `dates`: one row for each of the 2,557 days.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, RecordBatch, StringArray};
use arrow::datatypes::SchemaRef;

use super::calendar::Day;
use super::text::{number, schema_of, text};

const WEEKDAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const SUNDAY: i32 = 1;
const MONDAY: i32 = 2;
const THURSDAY: i32 = 5;
const SATURDAY: i32 = 7;

/// The 17 columns, in the paper's order.
pub fn schema() -> SchemaRef {
    schema_of(vec![
        number("d_datekey"),
        text("d_date"),
        text("d_dayofweek"),
        text("d_month"),
        number("d_year"),
        number("d_yearmonthnum"),
        text("d_yearmonth"),
        number("d_daynuminweek"),
        number("d_daynuminmonth"),
        number("d_daynuminyear"),
        number("d_monthnuminyear"),
        number("d_weeknuminyear"),
        text("d_sellingseason"),
        number("d_lastdayinweekfl"),
        number("d_lastdayinmonthfl"),
        number("d_holidayfl"),
        number("d_weekdayfl"),
    ])
}

/// The rows of days that lie `offsets` after 1992-01-01.
pub fn batch(offsets: Range<u64>) -> anyhow::Result<RecordBatch> {
    let days: Vec<Day> = offsets.map(|offset| Day::at(offset as u32)).collect();
    let numbers = |value: fn(&Day) -> i32| -> ArrayRef {
        Arc::new(Int32Array::from_iter_values(days.iter().map(value)))
    };
    let flags = |holds: fn(&Day) -> bool| -> ArrayRef {
        Arc::new(Int32Array::from_iter_values(days.iter().map(|day| i32::from(holds(day)))))
    };
    let words = |value: fn(&Day) -> &'static str| -> ArrayRef {
        Arc::new(StringArray::from_iter_values(days.iter().map(value)))
    };
    let texts = |value: fn(&Day) -> String| -> ArrayRef {
        Arc::new(StringArray::from_iter_values(days.iter().map(value)))
    };
    let columns = vec![
        numbers(|day| day.key()),
        texts(|day| format!("{} {}, {}", month_name(day), day.day, day.year)),
        words(|day| word(&WEEKDAYS, day.weekday)),
        words(month_name),
        numbers(|day| day.year),
        numbers(|day| day.year * 100 + day.month),
        texts(|day| format!("{:.3}{}", month_name(day), day.year)),
        numbers(|day| day.weekday),
        numbers(|day| day.day),
        numbers(|day| day.day_of_year),
        numbers(|day| day.month),
        numbers(|day| (day.day_of_year - 1) / 7 + 1),
        words(selling_season),
        flags(|day| day.weekday == SATURDAY),
        flags(|day| day.ends_month),
        flags(is_holiday),
        flags(|day| !matches!(day.weekday, SUNDAY | SATURDAY)),
    ];
    Ok(RecordBatch::try_new(schema(), columns)?)
}

fn month_name(day: &Day) -> &'static str {
    word(&MONTHS, day.month)
}

/// The `number`-th word, counted from 1.
fn word(words: &[&'static str], number: i32) -> &'static str {
    usize::try_from(number - 1).ok().and_then(|place| words.get(place)).copied().unwrap_or_default()
}

/// The seasons of the authors' generator.
fn selling_season(day: &Day) -> &'static str {
    match day.month {
        1..=3 => "Winter",
        4 => "Spring",
        5..=8 => "Summer",
        9 | 10 => "Fall",
        _ => "Christmas",
    }
}

/// The federal holidays of the United States, on the day itself.
fn is_holiday(day: &Day) -> bool {
    let nth = day.occurrence_in_month();
    match (day.month, day.day) {
        (1, 1) | (7, 4) | (11, 11) | (12, 25) => true,
        (1 | 2, _) => day.weekday == MONDAY && nth == 3,
        (5, date) => day.weekday == MONDAY && date > 24,
        (9, _) => day.weekday == MONDAY && nth == 1,
        (10, _) => day.weekday == MONDAY && nth == 2,
        (11, _) => day.weekday == THURSDAY && nth == 4,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::calendar::DAYS;
    use super::*;

    #[test]
    fn every_year_has_ten_holidays() {
        let holidays: Vec<i32> = (0..DAYS).map(Day::at).filter(is_holiday).map(Day::key).collect();
        assert_eq!(holidays.len(), 70);
        let of_1997: Vec<_> = holidays.into_iter().filter(|key| key / 10_000 == 1997).collect();
        let expected = [101, 120, 217, 526, 704, 901, 1013, 1111, 1127, 1225];
        assert_eq!(of_1997, expected.map(|day| 19970000 + day));
    }
}
