//! Intervals in the styles of the setting `intervalstyle` other than `postgres`.
//!
//! Source: PostgreSQL documentation, "Interval Output".

use std::fmt::Write;

use arrow::datatypes::IntervalMonthDayNano;

/// A style of intervals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    Postgres,
    Verbose,
    Standard,
    Iso,
}

impl Style {
    /// The style that a value of the setting names.
    pub fn named(name: &str) -> Self {
        match name.to_ascii_lowercase().as_str() {
            "postgres_verbose" => Self::Verbose,
            "sql_standard" => Self::Standard,
            "iso_8601" => Self::Iso,
            _ => Self::Postgres,
        }
    }
}

/// The fields of an interval. All parts of the time have one sign, and so have years and months.
struct Parts {
    years: i64,
    months: i64,
    days: i64,
    hours: i64,
    minutes: i64,
    seconds: i64,
    micros: i64,
}

impl Parts {
    fn of(interval: IntervalMonthDayNano) -> Self {
        let micros = interval.nanoseconds / 1000;
        let seconds = micros / 1_000_000;
        Self {
            years: i64::from(interval.months / 12),
            months: i64::from(interval.months % 12),
            days: i64::from(interval.days),
            hours: seconds / 3600,
            minutes: seconds / 60 % 60,
            seconds: seconds % 60,
            micros: micros % 1_000_000,
        }
    }

    fn has_time(&self) -> bool {
        self.hours != 0 || self.minutes != 0 || self.has_seconds()
    }

    fn has_seconds(&self) -> bool {
        self.seconds != 0 || self.micros != 0
    }

    /// Seconds without a sign, and the fraction that they have.
    fn plain_seconds(&self, width: usize) -> String {
        let mut text = format!("{:0width$}", self.seconds.abs());
        if self.micros != 0 {
            let digits = format!("{:06}", self.micros.abs());
            text.push('.');
            text.push_str(digits.trim_end_matches('0'));
        }
        text
    }

    fn time_is_negative(&self) -> bool {
        self.hours < 0 || self.minutes < 0 || self.seconds < 0 || self.micros < 0
    }

    /// `h:mm:ss` without a sign.
    fn clock(&self) -> String {
        format!("{}:{:02}:{}", self.hours.abs(), self.minutes.abs(), self.plain_seconds(2))
    }
}

/// Appends an interval in one of the styles that have parts with names.
pub fn write(text: &mut String, interval: IntervalMonthDayNano, style: Style) {
    let parts = Parts::of(interval);
    match style {
        Style::Iso => write_iso(text, &parts),
        Style::Standard => write_standard(text, &parts),
        Style::Verbose | Style::Postgres => write_verbose(text, &parts),
    }
}

fn write_iso(text: &mut String, parts: &Parts) {
    let start = text.len();
    text.push('P');
    for (count, letter) in [(parts.years, 'Y'), (parts.months, 'M'), (parts.days, 'D')] {
        if count != 0 {
            let _ = write!(text, "{count}{letter}");
        }
    }
    if parts.has_time() {
        text.push('T');
        for (count, letter) in [(parts.hours, 'H'), (parts.minutes, 'M')] {
            if count != 0 {
                let _ = write!(text, "{count}{letter}");
            }
        }
        if parts.has_seconds() {
            let sign = if parts.seconds < 0 || parts.micros < 0 { "-" } else { "" };
            let _ = write!(text, "{sign}{}S", parts.plain_seconds(1));
        }
    }
    if text.len() == start + 1 {
        text.push_str("T0S");
    }
}

fn write_standard(text: &mut String, parts: &Parts) {
    let time_sign = if parts.time_is_negative() { -1 } else { i64::from(parts.has_time()) };
    let signs = [(parts.years + parts.months).signum(), parts.days.signum(), time_sign];
    let (negative, positive) = (signs.contains(&-1), signs.contains(&1));
    let has_months = parts.years != 0 || parts.months != 0;
    let has_days_or_time = parts.days != 0 || parts.has_time();
    if !negative && !positive {
        text.push('0');
        return;
    }
    let (years, months, days) = (parts.years.abs(), parts.months.abs(), parts.days.abs());
    if negative && positive || has_months && has_days_or_time {
        let [of_months, of_days, of_time] = signs.map(|sign| if sign < 0 { '-' } else { '+' });
        let _ = write!(text, "{of_months}{years}-{months} {of_days}{days} {of_time}{}", parts.clock());
        return;
    }
    if negative {
        text.push('-');
    }
    let _ = match (has_months, parts.days) {
        (true, _) => write!(text, "{years}-{months}"),
        (false, 0) => write!(text, "{}", parts.clock()),
        (false, _) => write!(text, "{days} {}", parts.clock()),
    };
}

fn write_verbose(text: &mut String, parts: &Parts) {
    text.push('@');
    // The first part has no sign: `ago` says that it is negative.
    let mut ago = None;
    let counts = [parts.years, parts.months, parts.days, parts.hours, parts.minutes];
    for (count, unit) in counts.into_iter().zip(["year", "mon", "day", "hour", "min"]) {
        if count != 0 {
            let shown = if *ago.get_or_insert(count < 0) { -count } else { count };
            let _ = write!(text, " {shown} {unit}{}", if shown == 1 { "" } else { "s" });
        }
    }
    if parts.has_seconds() {
        let negative = parts.seconds < 0 || parts.micros < 0;
        let sign = if *ago.get_or_insert(negative) == negative { "" } else { "-" };
        let plural = if parts.seconds.abs() == 1 && parts.micros == 0 { "" } else { "s" };
        let _ = write!(text, " {sign}{} sec{plural}", parts.plain_seconds(1));
    }
    match ago {
        None => text.push_str(" 0"),
        Some(true) => text.push_str(" ago"),
        Some(false) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(interval: (i32, i32, i64), verbose: &str, standard: &str, iso: &str) {
        let (months, days, micros) = interval;
        let interval = IntervalMonthDayNano::new(months, days, micros * 1000);
        let written = |style| {
            let mut text = String::new();
            write(&mut text, interval, style);
            text
        };
        assert_eq!(written(Style::Verbose), verbose);
        assert_eq!(written(Style::Standard), standard);
        assert_eq!(written(Style::Iso), iso);
    }

    #[test]
    fn styles_are_postgresqls() {
        check((0, 0, 0), "@ 0", "0", "PT0S");
        check(
            (14, 3, 14_706_700_000),
            "@ 1 year 2 mons 3 days 4 hours 5 mins 6.7 secs",
            "+1-2 +3 +4:05:06.7",
            "P1Y2M3DT4H5M6.7S",
        );
        check((-14, 0, 0), "@ 1 year 2 mons ago", "-1-2", "P-1Y-2M");
        check((0, -1, 3_600_000_000), "@ 1 day -1 hours ago", "+0-0 -1 +1:00:00", "P-1DT1H");
        check((0, 0, -1_500_000), "@ 1.5 secs ago", "-0:00:01.5", "PT-1.5S");
        check((0, 2, 1_000_000), "@ 2 days 1 sec", "2 0:00:01", "P2DT1S");
    }
}
