//! How the states of one aggregate function follow from those of another. Only this module knows particular functions for that.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, LazyLock};

use datafusion::functions_aggregate::count::count_udaf;
use datafusion::logical_expr::AggregateUDF;

use super::aggregate::aggregate;
use super::distinct::BitmapDistinct;

/// How the states of a function follow from those of `count` and `sum`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algebra {
    /// The state is the number of arguments that are not null.
    Counts,
    /// The state is the sum of arguments that are not null, or null if there are none.
    Adds,
    /// Two states: those of `Counts` and `Adds`, both null if nothing was counted.
    Averages,
    /// The states are not known.
    Opaque,
}

/// The algebra of `function`, without DISTINCT.
pub fn algebra(function: &AggregateUDF) -> Algebra {
    match function.name() {
        "count" => Algebra::Counts,
        "sum" => Algebra::Adds,
        "avg" => Algebra::Averages,
        _ => Algebra::Opaque,
    }
}

/// Whether the only state of `function`, without DISTINCT, is its value.
pub fn is_its_state(function: &AggregateUDF) -> bool {
    matches!(function.name(), "sum" | "count" | "min" | "max")
}

/// The function that counts.
pub fn counting() -> Arc<AggregateUDF> {
    count_udaf()
}

/// The function that counts what `count(DISTINCT x)` counts, in a state that cubes often have instead.
pub fn bitmap_counting(function: &AggregateUDF, distinct: bool) -> Option<Arc<AggregateUDF>> {
    static COUNTING: LazyLock<Arc<AggregateUDF>> = LazyLock::new(|| aggregate(BitmapDistinct));
    (distinct && algebra(function) == Algebra::Counts).then(|| Arc::clone(&COUNTING))
}

/// Functions of one line keep the same states of the same arguments and differ only in the final result:
/// DataFusion implements each line by one accumulator with a parameter.
const FAMILIES: &[&[&str]] = &[
    &["stddev", "stddev_pop", "var", "var_pop"],
    &["covar_samp", "covar_pop"],
    &[
        "regr_slope",
        "regr_intercept",
        "regr_count",
        "regr_r2",
        "regr_avgx",
        "regr_avgy",
        "regr_sxx",
        "regr_syy",
        "regr_sxy",
    ],
];

/// Whether both functions keep the same states.
pub fn share_states(one: &AggregateUDF, other: &AggregateUDF) -> bool {
    let both = |family: &&&[&str]| family.contains(&one.name()) && family.contains(&other.name());
    one == other || FAMILIES.iter().any(|family| both(&family))
}

/// A number that functions have in common if a call of one may be answered from the states of another.
pub fn state_family(function: &AggregateUDF, distinct: bool) -> u64 {
    let (name, distinct) = match algebra(function) {
        Algebra::Counts if distinct => ("bitmap_distinct", false),
        _ if distinct => (function.name(), true),
        Algebra::Counts | Algebra::Adds | Algebra::Averages => ("sum", false),
        Algebra::Opaque => {
            let family = FAMILIES.iter().find(|family| family.contains(&function.name()));
            (family.and_then(|family| family.first()).copied().unwrap_or_else(|| function.name()), false)
        }
    };
    let mut state = DefaultHasher::new();
    (name, distinct).hash(&mut state);
    state.finish()
}

/// The state column that holds the number of arguments that are not null, if the function keeps it.
pub fn counted_in(function: &AggregateUDF) -> Option<usize> {
    matches!(function.name(), "avg" | "stddev" | "stddev_pop" | "var" | "var_pop").then_some(0)
}

/// Whether a repeated value changes nothing: then one row for each combination of values tells as much as all rows.
pub fn ignores_duplicates(function: &AggregateUDF, distinct: bool) -> bool {
    let by_itself = matches!(function.name(), "min" | "max" | "bool_and" | "bool_or" | "bit_and" | "bit_or");
    by_itself
        || matches!(function.name(), "approx_distinct" | "bitmap_distinct")
        || (distinct && matches!(function.name(), "count" | "sum"))
}

/// Whether the same rows give the same result, however they are divided into batches, but for the last digits
/// of floating-point numbers.
pub fn is_repeatable(function: &AggregateUDF) -> bool {
    !matches!(function.name(), "approx_percentile_cont" | "approx_median" | "approx_top_k")
}

/// Whether rows with a null argument are ignored.
pub fn ignores_nulls(function: &AggregateUDF, distinct: bool) -> bool {
    super::state::state_version(function.name(), distinct).is_ok() || function.name() == "approx_distinct"
}
