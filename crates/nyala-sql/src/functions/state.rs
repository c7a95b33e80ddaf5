//! Decides which aggregate functions have an intermediate state that may be kept on disk.
//!
//! A state qualifies if merging it gives the same value in any order, and if its layout is public: a
//! layout that a library keeps to itself may change under stored files. The version is recorded with
//! every segment; raise it when the layout or meaning of a function's state changes, and segments of
//! the older version are refused with the advice to rebuild.

/// Version of a function's state layout, recorded with each measure.
pub type StateVersion = u32;

/// The version of `function`'s stored state, or the reason why it has none.
pub fn state_version(function: &str, distinct: bool) -> Result<StateVersion, &'static str> {
    match (function, distinct) {
        ("count" | "sum", true) => Ok(1),
        (_, true) => Err("only count and sum can be stored over DISTINCT values"),
        (
            "sum" | "count" | "min" | "max" | "bool_and" | "bool_or" | "bit_and" | "bit_or" | "bit_xor",
            false,
        ) => Ok(1),
        // Version 1 kept floating-point sums of whole numbers.
        ("avg", false) => Ok(2),
        ("stddev" | "stddev_pop" | "var" | "var_pop" | "covar_samp" | "covar_pop", false) => Ok(1),
        // Version 1 kept plain sums by group, which lose the last digits.
        ("corr", false) => Ok(2),
        (
            "regr_slope" | "regr_intercept" | "regr_count" | "regr_r2" | "regr_avgx" | "regr_avgy"
            | "regr_sxx" | "regr_syy" | "regr_sxy",
            false,
        ) => Ok(1),
        ("approx_percentile_cont" | "approx_median", false) => Ok(1),
        ("bitmap_distinct" | "bitmap_agg" | "bitmap_union" | "bitmap_union_count", false) => Ok(1),
        ("intersect_count" | "approx_distinct" | "approx_top_k", false) => Ok(1),
        ("first_value" | "last_value" | "any_value" | "nth_value" | "array_agg" | "string_agg", _) => {
            Err("its result depends on the order of rows")
        }
        ("median" | "percentile_cont" | "quantile_cont", _) => {
            Err("its state holds every value; use approx_median or approx_percentile_cont")
        }
        _ => Err("no stored state is known for it"),
    }
}
