//! Makes our own functions known to a session.

use std::sync::Arc;

use datafusion::execution::SessionStateBuilder;

use super::aggregate::aggregate;
use super::bitmap::{BitmapAgg, BitmapUnion, BitmapUnionCount, IntersectCount, scalars};
use super::bounded::bounded;
use super::date_trunc::DateTrunc;
use super::decimal_floats::NearestFloat;
use super::distinct::BitmapDistinct;
use super::expressions::{Replace, functions as with_expressions};
use super::intervals::Intervals;
use super::json::JsonCall;
use super::named_cast::named_cast;
use super::overrides::{overrides, shifts, signed_counts};
use super::patterns::with_patterns;
use super::postgres;
use super::rint::Rint;
use super::sketch::{ApproxDistinct, ApproxTopK};
use super::zones::AtTimeZone;

/// Adds every function of ours; each replaces an earlier one of the same name.
pub fn register(mut builder: SessionStateBuilder) -> SessionStateBuilder {
    let known = builder.scalar_functions().get_or_insert_default();
    let bounded = bounded(known);
    known.extend(bounded);
    known.extend(scalars());
    known.push(Arc::new(Rint::udf()));
    known.push(Arc::new(NearestFloat::udf()));
    let of_postgres = postgres::scalars(known);
    known.extend(of_postgres);
    known.extend(postgres::Choice::over(known));
    known.extend(Intervals::named());
    known.push(AtTimeZone::udf());
    known.extend(JsonCall::named());
    known.push(Arc::new(named_cast()));
    known.extend(DateTrunc::over(known));
    known.extend(Replace::over(known));
    known.extend(with_expressions());
    let patterned = with_patterns(known);
    known.extend(patterned);
    builder.aggregate_functions().get_or_insert_default().extend([
        aggregate(BitmapDistinct),
        aggregate(BitmapAgg),
        aggregate(BitmapUnion),
        aggregate(BitmapUnionCount),
        aggregate(IntersectCount),
        aggregate(ApproxDistinct),
        aggregate(ApproxTopK),
    ]);
    builder.aggregate_functions().get_or_insert_default().extend(overrides());
    let windows = builder.window_functions().get_or_insert_default();
    let signed = signed_counts(windows);
    windows.extend(signed);
    let shifts = shifts(windows);
    windows.extend(shifts);
    builder.aggregate_functions().get_or_insert_default().extend(postgres::aggregates());
    builder
}
