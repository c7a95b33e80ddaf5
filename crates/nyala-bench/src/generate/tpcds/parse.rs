//! Values from their text.

use anyhow::{Context as _, ensure};

/// A decimal number in hundredths: `-12.5` is -1250. More than two digits after the point are an error.
pub fn cents(text: &str) -> anyhow::Result<i128> {
    let (negative, digits) = text.strip_prefix('-').map_or((false, text), |digits| (true, digits));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    ensure!(fraction.len() <= 2, "more than two digits after the point");
    let unit = |power: usize| [100, 10, 1].get(power).copied().unwrap_or(1);
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse()? };
    let part: u64 = if fraction.is_empty() { 0 } else { fraction.parse()? };
    ensure!(!digits.trim_matches('.').is_empty(), "no digit");
    let value = i128::from(whole) * 100 + i128::from(part) * unit(fraction.len());
    Ok(if negative { -value } else { value })
}

/// Days from 1970-01-01 to a date of the form `2003-01-08`, by the Gregorian calendar.
pub fn days(text: &str) -> anyhow::Result<i32> {
    let mut fields = text.splitn(3, '-').map(str::parse::<i32>);
    let mut field = || fields.next().context("a date has three fields")?.context("not a number");
    let (year, month, day) = (field()?, field()?, field()?);
    ensure!((1..=12).contains(&month) && (1..=31).contains(&day), "no such day");
    // Years start in March here, so that a leap day is a year's last.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    let day_of_year = (153 * month + 2) / 5 + day - 1;
    /// Days from 0000-03-01 to 1970-01-01.
    const EPOCH: i32 = 719_468;
    Ok(365 * year + leap_days + day_of_year - EPOCH)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn decimals_become_hundredths() {
        let check = |text, value: i128| assert_eq!(cents(text).unwrap(), value, "{text}");
        check("0.00", 0);
        check("12.34", 1_234);
        check("-12.5", -1_250);
        check("-0.07", -7);
        check("-5", -500);
        check(".5", 50);
        check("1000.00", 100_000);
        for text in ["", "-", ".", "1.234", "1,5", "--1", "NULL"] {
            assert!(cents(text).is_err(), "{text}");
        }
    }

    #[test]
    fn dates_become_days() {
        let check = |text, value| assert_eq!(days(text).unwrap(), value, "{text}");
        check("1970-01-01", 0);
        check("1970-03-01", 59);
        check("1969-12-31", -1);
        check("2000-02-29", 11_016);
        check("2003-01-08", 12_060);
        check("1900-01-02", -25_566);
        check("2100-01-01", 47_482);
        for text in ["", "2003-01", "2003-13-01", "2003-01-32", "x-01-01"] {
            assert!(days(text).is_err(), "{text}");
        }
    }
}
