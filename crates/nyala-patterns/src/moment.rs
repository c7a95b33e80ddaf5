//! The point in time that a template writes.

use super::calendar::{UNIX_EPOCH_DAY, civil_date};

/// A date and a time of day, as a clock on the wall shows them.
///
/// A template that writes never checks the fields against each other: it writes what it is given.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Moment {
    /// Astronomical year: 0 is 1 BC, -1 is 2 BC.
    pub year: i32,
    /// Month, 1 to 12.
    pub month: u8,
    /// Day of the month, from 1.
    pub day: u8,
    /// Hour, 0 to 23.
    pub hour: u8,
    /// Minute, 0 to 59.
    pub minute: u8,
    /// Second, 0 to 59.
    pub second: u8,
    /// Microseconds of the second, 0 to 999,999.
    pub micros: u32,
    /// Seconds east of UTC, for `TZH`, `TZM` and `OF`. None (a timestamp without a zone) writes as 0.
    pub offset_seconds: Option<i32>,
    /// The zone's abbreviation, for `TZ`. None (a timestamp without a zone) writes nothing.
    pub zone: Option<String>,
}

/// Microseconds of a day.
pub(super) const DAY_MICROS: i64 = 86_400_000_000;

impl Moment {
    /// The moment that a clock `offset_seconds` east of UTC shows, `unix_micros` after 1970-01-01 00:00 UTC.
    ///
    /// A timestamp without a zone has `offset_seconds` 0.
    pub fn from_unix_micros(unix_micros: i64, offset_seconds: i32) -> Self {
        let local = unix_micros.saturating_add(i64::from(offset_seconds) * 1_000_000);
        let (year, month, day) = civil_date(local.div_euclid(DAY_MICROS) + UNIX_EPOCH_DAY);
        let time = local.rem_euclid(DAY_MICROS);
        let seconds = time / 1_000_000;
        Self {
            year,
            month,
            day,
            hour: (seconds / 3600) as u8,
            minute: (seconds / 60 % 60) as u8,
            second: (seconds % 60) as u8,
            micros: (time % 1_000_000) as u32,
            offset_seconds: Some(offset_seconds),
            zone: None,
        }
    }
}
