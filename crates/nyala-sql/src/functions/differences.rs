//! The difference of two times.

use std::sync::Arc;

use arrow::array::{AsArray, IntervalMonthDayNanoArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, DurationMicrosecondType, IntervalMonthDayNano, TimeUnit};
use datafusion::common::plan_err;
use datafusion::logical_expr::ScalarUDF;

use super::intervals::INTERVAL;
use super::plain::Plain;

const DAY: i64 = 86_400_000_000;

/// A difference in microseconds as days and a time. In nanoseconds, 64 bits would hold no more than 292 years.
pub fn days_between() -> Arc<ScalarUDF> {
    Plain::udf(
        "days_between",
        |_| Some(vec![DataType::Duration(TimeUnit::Microsecond)]),
        |_| INTERVAL,
        |call| {
            let Some(differences) = call.arrays.first() else { return plan_err!("there is no difference") };
            let differences = cast(differences, &DataType::Duration(TimeUnit::Microsecond))?;
            let spans = differences.as_primitive::<DurationMicrosecondType>().iter().map(|micros| {
                let micros = micros?;
                let days = i32::try_from(micros / DAY).ok()?;
                Some(IntervalMonthDayNano::new(0, days, micros % DAY * 1000))
            });
            Ok(Arc::new(spans.collect::<IntervalMonthDayNanoArray>()))
        },
    )
}
