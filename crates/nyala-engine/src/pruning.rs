//! What bounds of columns tell of the values between them.
//!
//! DataFusion 55 takes it that a cast keeps the order, and compares cast bounds. But where a month begins and ends at midnight, its
//! times of day do not all lie between these two.

use std::sync::Arc;

use arrow::datatypes::{DataType, Schema};
use datafusion::physical_expr::expressions::{CastExpr, TryCastExpr};
use datafusion::physical_expr::{PhysicalExpr, conjunction, split_conjunction};

/// Those of the conditions joined by AND that bounds of their columns decide.
pub(crate) fn ordered_part(filter: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Arc<dyn PhysicalExpr> {
    let parts = split_conjunction(filter).into_iter().filter(|part| is_ordered(part, schema)).cloned();
    conjunction(parts.collect::<Vec<_>>())
}

fn is_ordered(condition: &Arc<dyn PhysicalExpr>, schema: &Schema) -> bool {
    !changes_order(condition.as_ref(), schema)
        && condition.children().into_iter().all(|child| is_ordered(child, schema))
}

/// Whether it is a cast that may make the higher one of two values the lower one.
pub(crate) fn changes_order(expr: &dyn PhysicalExpr, schema: &Schema) -> bool {
    let cast = expr.downcast_ref::<CastExpr>().map(|cast| (cast.expr(), cast.cast_type()));
    let tried = expr.downcast_ref::<TryCastExpr>().map(|cast| (cast.expr(), cast.cast_type()));
    cast.or(tried)
        .is_some_and(|(value, to)| !value.data_type(schema).is_ok_and(|from| keeps_order(&from, to)))
}

/// Whether a cast never makes the higher one of two values the lower one, as far as is known.
fn keeps_order(from: &DataType, to: &DataType) -> bool {
    use DataType::{Date32, Date64, Timestamp};
    match (from, to) {
        _ if from == to => true,
        (DataType::Dictionary(_, from), to) => keeps_order(from, to),
        (from, DataType::Dictionary(_, to)) => keeps_order(from, to),
        // Clocks on a wall are put back.
        (Timestamp(_, Some(zone)), Timestamp(_, None) | Date32 | Date64) => is_fixed(zone),
        (Date32 | Date64 | Timestamp(..), Date32 | Date64 | Timestamp(..)) => true,
        _ => (from.is_numeric() && to.is_numeric()) || (from.is_string() && to.is_string()),
    }
}

/// Whether the clock of a time zone is never put back.
fn is_fixed(zone: &str) -> bool {
    matches!(zone, "UTC" | "Z" | "Etc/UTC") || zone.starts_with(['+', '-'])
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::TimeUnit;

    use super::*;

    #[test]
    fn casts_that_keep_the_order_are_known() {
        let timestamp = |zone: Option<&str>| DataType::Timestamp(TimeUnit::Microsecond, zone.map(Into::into));
        let check = |from: &DataType, to: &DataType, expected: bool| {
            assert_eq!(keeps_order(from, to), expected, "{from} to {to}");
        };
        check(&timestamp(None), &DataType::Timestamp(TimeUnit::Nanosecond, None), true);
        check(&timestamp(None), &timestamp(Some("+00:00")), true);
        check(&timestamp(Some("+00:00")), &DataType::Date32, true);
        check(&timestamp(Some("Europe/Paris")), &timestamp(Some("UTC")), true);
        check(&timestamp(Some("Europe/Paris")), &timestamp(None), false);
        check(&timestamp(None), &DataType::Time64(TimeUnit::Nanosecond), false);
        check(&DataType::Date32, &timestamp(None), true);
        check(&DataType::Int64, &DataType::Decimal128(5, 2), true);
        check(&DataType::Int64, &DataType::Boolean, false);
        check(&timestamp(Some("-03:30")), &DataType::Date32, true);
        let dictionary = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
        check(&dictionary, &DataType::Utf8View, true);
        check(&dictionary, &DataType::Int64, false);
        check(&DataType::Utf8, &DataType::Utf8View, true);
        check(&DataType::Utf8, &DataType::Int64, false);
    }
}
