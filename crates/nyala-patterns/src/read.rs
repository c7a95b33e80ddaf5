//! What a template reads from a text.

use super::calendar::{POSTGRES_EPOCH_DAY, UNIX_EPOCH_DAY, checked_julian_day, is_date};
use super::moment::{DAY_MICROS, Moment};

/// A date and a time of day read from a text, with the offset from UTC where the text has one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Read {
    /// Astronomical year: 0 is 1 BC, -1 is 2 BC.
    pub year: i32,
    /// Month, 1 to 12.
    pub month: u8,
    /// Day of the month, 1 to 31.
    pub day: u8,
    /// Hour, 0 to 23.
    pub hour: u8,
    /// Minute, 0 to 59.
    pub minute: u8,
    /// Second, 0 to 59.
    pub second: u8,
    /// Microseconds of the second, 0 to 999,999.
    pub micros: u32,
    /// Seconds east of UTC, where the text has `TZH` or `TZM`.
    pub offset_seconds: Option<i32>,
    /// Digits of the last of the fields `FF1` to `FF6`, to which a timestamp is rounded.
    pub fraction_digits: Option<u8>,
}

/// Where timestamps end, in microseconds from 2000-01-01: 1 January 294277.
const TIMESTAMPS_END_MICROS: i128 = 9_223_371_331_200_000_000;
/// Where timestamps start: Julian day 0.
const TIMESTAMPS_START_MICROS: i128 = -211_813_488_000_000_000;

impl Read {
    /// Microseconds from 1970-01-01 00:00 UTC. A text without an offset is local time, `default_offset_seconds` east
    /// of UTC. None outside the range of `timestamp`, and for its last years, from 294247, whose microseconds from
    /// 1970 need more than 64 bits.
    pub fn unix_micros(&self, default_offset_seconds: i32) -> Option<i64> {
        let micros = self.postgres_micros(self.offset_seconds.unwrap_or(default_offset_seconds))?;
        micros.checked_add((POSTGRES_EPOCH_DAY - UNIX_EPOCH_DAY) * DAY_MICROS)
    }

    /// Days from 1970-01-01, or none outside the range of `date`.
    pub fn unix_days(&self) -> Option<i32> {
        let julian = checked_julian_day(self.year, self.month, self.day).filter(|julian| is_date(*julian))?;
        i32::try_from(julian - UNIX_EPOCH_DAY).ok()
    }

    pub(super) fn is_date(&self) -> bool {
        self.unix_days().is_some()
    }

    /// The read rounded to its `fraction_digits`, or none outside the range of `timestamp`.
    pub(super) fn rounded_timestamp(self) -> Option<Self> {
        let offset = self.offset_seconds.unwrap_or(0);
        let micros = self.postgres_micros(offset)?;
        let Some(digits @ 1..=5) = self.fraction_digits else { return Some(self) };
        let rounded = round_micros(micros, digits);
        let unix = rounded.checked_add((POSTGRES_EPOCH_DAY - UNIX_EPOCH_DAY) * DAY_MICROS)?;
        let Moment { year, month, day, hour, minute, second, micros, .. } =
            Moment::from_unix_micros(unix, offset);
        Some(Self { year, month, day, hour, minute, second, micros, ..self })
    }

    fn postgres_micros(&self, offset_seconds: i32) -> Option<i64> {
        let days = checked_julian_day(self.year, self.month, self.day)? - POSTGRES_EPOCH_DAY;
        let minutes = i64::from(self.hour) * 60 + i64::from(self.minute);
        let seconds = minutes * 60 + i64::from(self.second) - i64::from(offset_seconds);
        let time = i128::from(seconds) * 1_000_000 + i128::from(self.micros);
        let micros = i128::from(days) * i128::from(DAY_MICROS) + time;
        let in_range = (TIMESTAMPS_START_MICROS..TIMESTAMPS_END_MICROS).contains(&micros);
        if in_range { i64::try_from(micros).ok() } else { None }
    }
}

/// Rounds a half away from 2000-01-01, as PostgreSQL rounds its count of microseconds.
fn round_micros(micros: i64, digits: u8) -> i64 {
    let unit = 10_i64.saturating_pow(6_u32.saturating_sub(u32::from(digits)));
    let magnitude = micros.saturating_abs().saturating_add(unit / 2) / unit * unit;
    if micros < 0 { -magnitude } else { magnitude }
}
