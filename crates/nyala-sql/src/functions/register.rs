//! Makes our own functions known to a session.

use std::sync::Arc;

use datafusion::execution::SessionStateBuilder;

use super::aggregate::aggregate;
use super::bitmap::{BitmapAgg, BitmapUnion, BitmapUnionCount, IntersectCount, scalars};
use super::bounded::bounded;
use super::distinct::BitmapDistinct;
use super::overrides::overrides;
use super::rint::Rint;
use super::sketch::{ApproxDistinct, ApproxTopK};

/// Adds every function of ours; each replaces an earlier one of the same name.
pub fn register(mut builder: SessionStateBuilder) -> SessionStateBuilder {
    let known = builder.scalar_functions().get_or_insert_default();
    let bounded = bounded(known);
    known.extend(bounded);
    known.extend(scalars());
    known.push(Arc::new(Rint::udf()));
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
    builder
}
