//! Clocks of time zones.

use std::sync::Arc;

use arrow::array::timezone::Tz;
use arrow::array::{Array, ArrayRef, AsArray, StringViewArray, TimestampMicrosecondArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, TimeUnit, TimestampMicrosecondType};
use chrono::{DateTime, NaiveDateTime, Offset, TimeDelta, TimeZone};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::call_rows::CallRows;
use crate::error::{ErrorKind, QueryError};

/// `timezone(zone, t)`, which is `t AT TIME ZONE zone`: the time on the zone's clock for a moment, and the moment for a time on that clock.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct AtTimeZone {
    signature: Signature,
}

impl AtTimeZone {
    /// The function, to be called.
    pub fn udf() -> Arc<ScalarUDF> {
        Arc::new(ScalarUDF::from(Self { signature: Signature::user_defined(Volatility::Immutable) }))
    }
}

impl ScalarUDFImpl for AtTimeZone {
    fn name(&self) -> &str {
        "timezone"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let [_, time] = types else {
            return plan_err!("`timezone` takes a zone and a time, not {}", types.len());
        };
        let time = match time {
            DataType::Timestamp(_, Some(zone)) => {
                DataType::Timestamp(TimeUnit::Microsecond, Some(Arc::clone(zone)))
            }
            DataType::Timestamp(_, None) | DataType::Date32 | DataType::Date64 => {
                DataType::Timestamp(TimeUnit::Microsecond, None)
            }
            other if other.is_string() => DataType::Timestamp(TimeUnit::Microsecond, None),
            other => return plan_err!("`timezone` takes a timestamp, not a {other}"),
        };
        Ok(vec![DataType::Utf8View, time])
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let zone = match types {
            [_, DataType::Timestamp(_, Some(_))] => None,
            _ => Some("UTC".into()),
        };
        Ok(DataType::Timestamp(TimeUnit::Microsecond, zone))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = CallRows::of(&arguments);
        let [zones, times] = arguments.args.as_slice() else {
            return plan_err!("`timezone` takes two values");
        };
        let (zones, times) = (zones.to_array(rows.count())?, times.to_array(rows.count())?);
        let zones = cast(&zones, &DataType::Utf8View)?;
        rows.value(at_zones(zones.as_string_view(), &times)?)
    }
}

fn at_zones(zones: &StringViewArray, times: &ArrayRef) -> Result<ArrayRef> {
    let of_moments = matches!(times.data_type(), DataType::Timestamp(_, Some(_)));
    let mut last: Option<(String, Tz)> = None;
    let times = times.as_primitive::<TimestampMicrosecondType>();
    let moved = zones.iter().zip(times).map(|pair| {
        let (Some(name), Some(micros)) = pair else { return Ok(None) };
        let zone = match last.take().filter(|(known, _)| known == name) {
            Some(known) => known,
            None => (name.to_owned(), zone_named(&as_iso(name))?),
        };
        let (_, zone) = last.insert(zone);
        let Some(time) = DateTime::from_timestamp_micros(micros) else { return Ok(Some(micros)) };
        let offset = match of_moments {
            true => offset_at(zone, &time.naive_utc()),
            false => -offset_of_clock(zone, &time.naive_utc()),
        };
        Ok(Some(micros.saturating_add(i64::from(offset) * 1_000_000)))
    });
    let moved = moved.collect::<Result<TimestampMicrosecondArray, QueryError>>()?;
    Ok(match of_moments {
        true => Arc::new(moved),
        false => Arc::new(moved.with_timezone("UTC")),
    })
}

/// An offset with the sign of ISO 8601: offsets in SQL count hours to the west.
fn as_iso(name: &str) -> String {
    let name = name.trim();
    let turned = match name.split_at_checked(1) {
        Some(("+", offset)) => format!("-{offset}"),
        Some(("-", offset)) => format!("+{offset}"),
        _ => return name.to_owned(),
    };
    if turned.contains(':') { turned } else { format!("{turned}:00") }
}

pub fn zone_named(name: &str) -> Result<Tz, QueryError> {
    let trimmed = name.trim();
    if let Some(zone) = abbreviated(trimmed) {
        return Ok(zone);
    }
    trimmed.parse().or_else(|_| trimmed.to_ascii_uppercase().parse()).map_err(|_| {
        QueryError::new(ErrorKind::InvalidParameter, format!("time zone \"{name}\" not recognized"))
            .hint("write a name such as 'Europe/Paris', or an offset such as '+05:30'")
    })
}

/// Offsets of abbreviated zones from UTC; those that the time zone database has are left out.
const ABBREVIATIONS: &[(&str, &str)] = &[
    ("ACDT", "+10:30"),
    ("ACST", "+09:30"),
    ("AEDT", "+11:00"),
    ("AEST", "+10:00"),
    ("AKDT", "-08:00"),
    ("AKST", "-09:00"),
    ("ADT", "-03:00"),
    ("AST", "-04:00"),
    ("AWST", "+08:00"),
    ("BST", "+01:00"),
    ("CDT", "-05:00"),
    ("CEST", "+02:00"),
    ("CST", "-06:00"),
    ("EDT", "-04:00"),
    ("EEST", "+03:00"),
    ("IST", "+02:00"),
    ("JST", "+09:00"),
    ("KST", "+09:00"),
    ("MDT", "-06:00"),
    ("MSK", "+03:00"),
    ("NZDT", "+13:00"),
    ("NZST", "+12:00"),
    ("PDT", "-07:00"),
    ("PST", "-08:00"),
    ("SAST", "+02:00"),
    ("WEST", "+01:00"),
];

/// The zone of an abbreviation, or of a name with the hours to the west behind it: `EDT`, `GMT-1`.
fn abbreviated(name: &str) -> Option<Tz> {
    let upper = name.to_ascii_uppercase();
    if let Some((_, offset)) = ABBREVIATIONS.iter().find(|(known, _)| *known == upper) {
        return offset.parse().ok();
    }
    let hours = upper.strip_prefix("GMT").or_else(|| upper.strip_prefix("UTC"))?;
    let (sign, hours) = match hours.split_at_checked(1)? {
        ("+", hours) => ('-', hours),
        ("-", hours) => ('+', hours),
        _ => return None,
    };
    let hours: u32 = hours.parse().ok()?;
    format!("{sign}{hours:02}:00").parse().ok()
}

/// Seconds that the zone's clock is ahead of UTC at a moment.
fn offset_at(zone: &Tz, moment: &NaiveDateTime) -> i32 {
    zone.offset_from_utc_datetime(moment).fix().local_minus_utc()
}

/// Seconds that the zone's clock is ahead of UTC at a time on it. If two moments have that time, the second
/// one counts, as in PostgreSQL; a time that the clock jumps over is read as before the jump.
pub fn offset_of_clock(zone: &Tz, clock: &NaiveDateTime) -> i32 {
    match zone.offset_from_local_datetime(clock).latest() {
        Some(offset) => offset.fix().local_minus_utc(),
        None => clock.checked_sub_signed(TimeDelta::hours(3)).map_or(0, |before| {
            zone.offset_from_local_datetime(&before)
                .latest()
                .map_or(0, |offset| offset.fix().local_minus_utc())
        }),
    }
}
