//! Texts of dates and times in any of the forms that PostgreSQL reads, with the month before the day.

use chrono::NaiveDate;

/// Longest text that is looked at.
const MAX_BYTES: usize = 64;
const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];
const WEEKDAYS: [&str; 7] = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];

/// The parts of a text.
#[derive(Debug, Default)]
pub struct Read {
    /// The date, if the text has one.
    pub date: Option<NaiveDate>,
    /// Hours, minutes and perhaps seconds, with colons.
    pub time: Option<String>,
    /// A zone as it is written.
    pub zone: Option<String>,
}

/// Parts of a date before it is known which is which.
#[derive(Default)]
struct Parts {
    numbers: Vec<String>,
    month: Option<u32>,
    date: Option<NaiveDate>,
    is_before_christ: bool,
    is_afternoon: Option<bool>,
    read: Read,
}

/// The date, time and zone of a text; none if it is written in no form that is known.
pub fn free_reading(text: &str) -> Option<Read> {
    let text = text.trim();
    if text.is_empty() || text.len() > MAX_BYTES || !text.is_ascii() {
        return None;
    }
    if text.eq_ignore_ascii_case("epoch") {
        return Some(Read { date: Some(NaiveDate::default()), ..Read::default() });
    }
    let mut parts = Parts::default();
    for word in text.split([' ', ',', '\t']).filter(|word| !word.is_empty()) {
        match split_t(word) {
            Some((date, time)) => {
                parts.word(date)?;
                parts.clock(time)?;
            }
            None => parts.word(word)?,
        }
    }
    parts.finish()
}

/// Date and time with a `T` between.
fn split_t(word: &str) -> Option<(&str, &str)> {
    let at = word.find(['T', 't'])?;
    let (date, time) = (word.get(..at)?, word.get(at + 1..)?);
    let is_digit = |sign: Option<char>| sign.is_some_and(|sign| sign.is_ascii_digit());
    (is_digit(date.chars().last()) && is_digit(time.chars().next())).then_some((date, time))
}

impl Parts {
    fn word(&mut self, word: &str) -> Option<()> {
        let lower = word.to_ascii_lowercase();
        let begins = |names: &[&str]| {
            let name = lower.trim_end_matches('.');
            names.iter().position(|known| name.len() >= 3 && known.starts_with(name))
        };
        match lower.as_str() {
            "am" | "pm" => self.is_afternoon = Some(lower == "pm"),
            "bc" => self.is_before_christ = true,
            "ad" | "at" => {}
            _ if word.contains(':') => return self.clock(word),
            _ if begins(&MONTHS).is_some() => self.set_month(begins(&MONTHS)?)?,
            _ if begins(&WEEKDAYS).is_some() => {}
            _ if word.bytes().all(|sign| sign.is_ascii_digit()) => return self.digits(word),
            _ if self.has_date()
                && (word.starts_with(['+', '-'])
                    || !word.starts_with(|sign: char| sign.is_ascii_digit())) =>
            {
                return self.set_zone(word);
            }
            _ => return self.dated(word),
        }
        Some(())
    }

    fn has_date(&self) -> bool {
        self.date.is_some() || self.numbers.len() + usize::from(self.month.is_some()) >= 3
    }

    fn set_month(&mut self, index: usize) -> Option<()> {
        self.month.replace(u32::try_from(index).ok()? + 1).is_none().then_some(())
    }

    fn set_zone(&mut self, word: &str) -> Option<()> {
        self.read.zone.replace(word.to_owned()).is_none().then_some(())
    }

    /// A time, perhaps with a zone or half of the day behind it.
    fn clock(&mut self, word: &str) -> Option<()> {
        let end = word
            .find(|sign: char| !sign.is_ascii_digit() && !matches!(sign, ':' | '.'))
            .unwrap_or(word.len());
        let (time, rest) = word.split_at_checked(end)?;
        let time = if time.contains(':') { time.to_owned() } else { with_colons(time)? };
        match rest.to_ascii_lowercase().as_str() {
            "" => {}
            half @ ("am" | "pm") => self.is_afternoon = Some(half == "pm"),
            _ => self.set_zone(rest)?,
        }
        self.read.time.replace(time).is_none().then_some(())
    }

    /// Digits alone: a date without signs between, a time behind a date, or a part of a date.
    fn digits(&mut self, word: &str) -> Option<()> {
        let number =
            |from: usize, to: usize| word.get(from..to).and_then(|digits| digits.parse::<u32>().ok());
        match word.len() {
            8 if !self.has_date() => {
                let year = i32::try_from(number(0, 4)?).ok()?;
                self.date = Some(NaiveDate::from_ymd_opt(year, number(4, 6)?, number(6, 8)?)?);
            }
            6 if !self.has_date() => {
                let year = two_digits(i32::try_from(number(0, 2)?).ok()?);
                self.date = Some(NaiveDate::from_ymd_opt(year, number(2, 4)?, number(4, 6)?)?);
            }
            4 | 6 if self.has_date() => self.read.time = Some(with_colons(word)?),
            _ => self.numbers.push(word.to_owned()),
        }
        Some(())
    }

    /// Parts of a date with signs between.
    fn dated(&mut self, word: &str) -> Option<()> {
        let sign = word.chars().find(|sign| matches!(sign, '-' | '/' | '.'))?;
        let parts: Vec<&str> = word.split(sign).collect();
        if let ([year, day], '-' | '.') = (parts.as_slice(), sign)
            && year.len() == 4
            && day.len() == 3
        {
            self.date = Some(NaiveDate::from_yo_opt(year.parse().ok()?, day.parse().ok()?)?);
            return Some(());
        }
        if parts.len() != 3 {
            return None;
        }
        for part in parts {
            let lower = part.to_ascii_lowercase();
            let month = MONTHS.iter().position(|month| lower.len() >= 3 && month.starts_with(&lower));
            match month {
                Some(month) => self.set_month(month)?,
                None if !part.is_empty() && part.bytes().all(|digit| digit.is_ascii_digit()) => {
                    self.numbers.push(part.to_owned());
                }
                None => return None,
            }
        }
        Some(())
    }

    fn finish(mut self) -> Option<Read> {
        self.read.date = match (self.date, self.month, self.numbers.as_slice()) {
            (date, None, []) => date,
            (None, Some(month), [one, other]) => {
                let (year, day) = if one.len() > 2 { (one, other) } else { (other, one) };
                Some(NaiveDate::from_ymd_opt(self.year(year)?, month, day.parse().ok()?)?)
            }
            (None, None, [year, month, day]) if year.len() > 2 => {
                Some(NaiveDate::from_ymd_opt(self.year(year)?, month.parse().ok()?, day.parse().ok()?)?)
            }
            (None, None, [month, day, year]) => {
                Some(NaiveDate::from_ymd_opt(self.year(year)?, month.parse().ok()?, day.parse().ok()?)?)
            }
            _ => return None,
        };
        if let Some(is_afternoon) = self.is_afternoon {
            self.read.time = Some(of_half(&self.read.time?, is_afternoon)?);
        }
        Some(self.read)
    }

    fn year(&self, digits: &str) -> Option<i32> {
        let year: i32 = digits.parse().ok()?;
        match self.is_before_christ {
            true => Some(1 - year),
            false if digits.len() <= 2 => Some(two_digits(year)),
            // There is no year 0.
            false => (year > 0).then_some(year),
        }
    }
}

/// Years of two digits are those from 1970 to 2069.
fn two_digits(year: i32) -> i32 {
    if year < 70 { year + 2000 } else { year + 1900 }
}

/// `030405` as `03:04:05`.
fn with_colons(digits: &str) -> Option<String> {
    let (whole, fraction) = digits.split_at_checked(digits.find('.').unwrap_or(digits.len()))?;
    let part = |from: usize| whole.get(from..from + 2);
    match whole.len() {
        4 => Some(format!("{}:{}", part(0)?, part(2)?)),
        6 => Some(format!("{}:{}:{}{fraction}", part(0)?, part(2)?, part(4)?)),
        _ => None,
    }
}

/// A time of twelve hours as one of twenty-four.
fn of_half(time: &str, is_afternoon: bool) -> Option<String> {
    let (hour, rest) = time.split_once(':')?;
    let hour: u32 = hour.parse().ok().filter(|hour| (1..=12).contains(hour))?;
    Some(format!("{:02}:{rest}", hour % 12 + if is_afternoon { 12 } else { 0 }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_read_in_many_forms() {
        let check = |text: &str, date: &str, time: Option<&str>| {
            let read = free_reading(text).unwrap_or_else(|| panic!("{text} is not read"));
            assert_eq!(read.date.map(|date| date.to_string()).unwrap_or_default(), date, "{text}");
            assert_eq!(read.time.as_deref(), time, "{text}");
        };
        check("January 2, 2024", "2024-01-02", None);
        check("2-Jan-2024 03:04", "2024-01-02", Some("03:04"));
        check("01/02/2024", "2024-01-02", None);
        check("2024/01/02", "2024-01-02", None);
        check("2024.01.02", "2024-01-02", None);
        check("20240102T030405", "2024-01-02", Some("03:04:05"));
        check("20240102 030405", "2024-01-02", Some("03:04:05"));
        check("240102", "2024-01-02", None);
        check("2024-002", "2024-01-02", None);
        check("2024-01-02 12:30 AM", "2024-01-02", Some("00:30"));
        check("2024-01-02 03:04:05 PM", "2024-01-02", Some("15:04:05"));
        check("0044-03-15 BC", "-0043-03-15", None);
        check("epoch", "1970-01-01", None);
        for text in ["", "abc", "2024-13-01", "soon 2024", "1/2", "0000-01-01"] {
            assert!(free_reading(text).is_none_or(|read| read.date.is_none()), "{text}");
        }
    }
}
