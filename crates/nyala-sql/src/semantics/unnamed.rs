//! Functions that only plans use: a statement cannot call them by name.

use std::sync::{Arc, LazyLock};

use datafusion::logical_expr::{AggregateUDF, ScalarUDF};

use super::casts::as_it_is;
use super::kept_operators::KeptOperator;
use super::overflow::Checked;
use super::subqueries::{or_null_function, single_value};
use crate::functions::{Joined, MovedDate, Quotient, TimeText, ValueText, days_between};

static SCALARS: LazyLock<Vec<Arc<ScalarUDF>>> = LazyLock::new(|| {
    let checked = Checked::all().map(|checked| Arc::new(ScalarUDF::from(checked)));
    let kept = KeptOperator::all().map(|kept| Arc::new(ScalarUDF::from(kept)));
    let joined = Arc::new(ScalarUDF::from(Joined::new(String::new())));
    let others = [
        Arc::new(as_it_is()),
        days_between(),
        joined,
        or_null_function(),
        Quotient::udf(),
        TimeText::udf(),
        ValueText::udf(),
    ];
    checked.chain(kept).chain(others).chain(MovedDate::all()).collect()
});

/// The functions, for a session that runs operators which another one planned.
pub fn unnamed_functions() -> (&'static [Arc<ScalarUDF>], Arc<AggregateUDF>) {
    (&SCALARS, single_value())
}

/// Whether a function is one of these: then its name means the same function in another session.
pub fn is_unnamed(function: &ScalarUDF) -> bool {
    let inner = function.inner();
    // Copies of these two differ in the names of their columns, which operators do not use.
    inner.is::<Checked>() || inner.is::<Joined>() || SCALARS.iter().any(|known| **known == *function)
}

/// As [`is_unnamed`], for aggregates.
pub fn is_unnamed_aggregate(function: &AggregateUDF) -> bool {
    *single_value() == *function
}
