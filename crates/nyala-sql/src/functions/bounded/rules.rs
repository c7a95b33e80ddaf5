//! The table: largest result and cost of each function.
//!
//! Every function that a session knows is in it, so that none is forgotten when DataFusion brings more.

use super::arguments::{Amount, Row};

/// How a function is bounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rule {
    /// The function gives values of a fixed size, or no more bytes than it gets, in time that grows with them.
    NoMore,
    /// The arguments tell the size of the result; a call with too large a one fails before it begins.
    Exactly(Measure),
    /// The arguments tell the largest size of the result, which is mostly smaller: the call is computed in
    /// slices, and fails once it has given too much.
    AtMost(Measure),
    /// The function takes long.
    Work(Work),
    /// The function is not defined for all numbers, or its result may not fit its type.
    Domain,
    /// The arguments tell the size of the result, and the function takes long.
    Both(Measure, Work),
}

/// How the bytes of a row's result follow from the arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Measure {
    /// All arguments, one behind the other.
    Sum,
    /// All arguments, with the first one between any two others.
    SumWithSeparators,
    /// Series: from, to and step.
    Series,
    /// The second argument is how often the first one comes in a list.
    Elements,
    /// The second argument is the length of a list, the third fills it.
    Resized,
    /// The second argument is the length of a text.
    Length,
    /// The second argument is how often the first one comes.
    Repeats,
    /// The second argument is replaced by the third wherever it is found.
    Replaced,
    /// Every match of a pattern is replaced: a match may be empty and come before every character, and the replacement may repeat it.
    ReplacedPattern,
    /// The third argument may come as often as the list has elements.
    ReplacedElements,
    /// Every character may become a longer one.
    Characters,
    /// Elements of a list with the second argument between, and the third for NULL.
    JoinedElements,
    /// A list with an element for each character.
    Split,
    /// Two digits for a byte.
    Digits,
    /// Each letter of a format stands for a longer text.
    Format,
}

/// Why a function takes long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Work {
    /// Every character is compared with every other one.
    Product,
    /// The second argument is a pattern to be found in the first.
    Pattern,
    /// Each element of one list is looked for in the other.
    Elements,
    /// Each element goes into a table of the elements before it.
    Distinct,
}

/// The widest character.
const CHARACTER_BYTES: Amount = 4;
/// A number as text, and an element of a list.
const NUMBER_BYTES: Amount = 24;
/// The longest name that stands for a letter of a format.
const NAME_BYTES: Amount = 32;

impl Rule {
    /// The rule of a function; none if it is not in the table.
    pub fn of(name: &str) -> Option<Self> {
        use Measure as M;
        Some(match name {
            "||" | "concat" | "array_concat" | "array_append" | "array_prepend" | "make_array"
            | "arrays_zip" | "overlay" | "map" => Self::Exactly(M::Sum),
            "concat_ws" => Self::Exactly(M::SumWithSeparators),
            "generate_series" | "range" => Self::Exactly(M::Series),
            "array_repeat" => Self::Exactly(M::Elements),
            "array_resize" => Self::Exactly(M::Resized),
            "lpad" | "rpad" => Self::Exactly(M::Length),
            "repeat" => Self::Exactly(M::Repeats),
            "replace" => Self::AtMost(M::Replaced),
            "regexp_replace" => Self::AtMost(M::ReplacedPattern),
            "array_replace" | "array_replace_n" | "array_replace_all" => Self::AtMost(M::ReplacedElements),
            "translate" | "initcap" | "upper" | "lower" => Self::AtMost(M::Characters),
            "array_to_string" => Self::AtMost(M::JoinedElements),
            "string_to_array" => Self::AtMost(M::Split),
            "encode" => Self::AtMost(M::Digits),
            "to_char" => Self::AtMost(M::Format),
            "array_union" => Self::Both(M::Sum, Work::Distinct),
            "array_distinct" | "array_except" | "array_intersect" => Self::Work(Work::Distinct),
            "array_has_all" | "array_has_any" => Self::Work(Work::Elements),
            "levenshtein" => Self::Work(Work::Product),
            "regexp_count"
            | "regexp_instr"
            | "regexp_like"
            | "regexp_match"
            | "regexp_matches"
            | "regexp_split_to_array"
            | "regexp_substr"
            | "regexp_substring" => Self::Work(Work::Pattern),
            "acos" | "acosh" | "asin" | "atanh" | "exp" | "ln" | "log" | "log10" | "log2" | "power"
            | "sqrt" => Self::Domain,
            name if NO_MORE.contains(&name) => Self::NoMore,
            _ => return None,
        })
    }
}

impl Measure {
    /// Bytes that a row gives at most.
    pub fn bytes(self, row: &Row<'_>) -> Amount {
        let element = |argument| row.bytes(argument).max(NUMBER_BYTES);
        match self {
            Self::Sum => row.all_bytes(),
            Self::SumWithSeparators => row.all_bytes() + row.bytes(0) * row.count() as Amount,
            Self::Series => elements_of_series(row) * 8,
            Self::Elements => row.number(1) * element(0),
            Self::Resized => row.bytes(0) + row.number(1) * element(2),
            Self::Length => row.number(1) * CHARACTER_BYTES,
            Self::Repeats => row.bytes(0) * row.number(1),
            Self::Replaced => {
                // The largest row has the longest text, and may have the shortest text to replace.
                let found = if row.is_exact() { row.bytes(1).max(1) } else { 1 };
                row.bytes(0) + (row.bytes(0) / found + 1) * row.bytes(2)
            }
            Self::ReplacedPattern => {
                let (text, with) = (row.bytes(0), row.bytes(2));
                let times = if row.count() > 3 { text + 1 } else { 1 };
                text + times * with + text * (with / 2)
            }
            Self::ReplacedElements => row.bytes(0) + row.elements(0) * element(2),
            Self::Characters => row.bytes(0) * CHARACTER_BYTES,
            Self::JoinedElements => {
                row.bytes(0) + row.elements(0) * (NUMBER_BYTES + row.bytes(1) + row.bytes(2))
            }
            Self::Split => row.bytes(0) + (row.bytes(0) + 1) * NUMBER_BYTES,
            Self::Digits => row.bytes(0) * 2 + 4,
            Self::Format => row.bytes(1) * NAME_BYTES,
        }
    }
}

/// Elements of a row's series.
fn elements_of_series(row: &Row<'_>) -> Amount {
    let (from, to, step) = match row.count() {
        1 => (Some(0), row.signed(0), Some(1)),
        2 => (row.signed(0), row.signed(1), Some(1)),
        _ => (row.signed(0), row.signed(1), row.signed(2)),
    };
    let (Some(from), Some(to), Some(step)) = (from, to, step) else { return 0 };
    // The ends of the largest row are those of different rows, and say nothing about a series.
    if !row.is_exact() {
        return Amount::MAX >> 32;
    }
    // A step of 0 is refused by the function.
    let count = to.checked_sub(from).and_then(|span| span.checked_div(step)).map_or(0, |steps| steps + 1);
    Amount::try_from(count).unwrap_or(0)
}

/// Functions with results of a fixed size, and functions that give no more than they get.
const NO_MORE: &[&str] = &[
    "abs",
    "array_add",
    "array_any_value",
    "array_avg",
    "array_compact",
    "array_dims",
    "array_distance",
    "array_element",
    "array_first",
    "array_has",
    "array_length",
    "array_max",
    "array_min",
    "array_ndims",
    "array_normalize",
    "array_pop_back",
    "array_pop_front",
    "array_position",
    "array_positions",
    "array_product",
    "array_remove",
    "array_remove_all",
    "array_remove_n",
    "array_reverse",
    "array_scale",
    "array_slice",
    "array_sort",
    "array_subtract",
    "array_sum",
    "arrow_cast",
    "arrow_field",
    "arrow_metadata",
    "arrow_try_cast",
    "arrow_typeof",
    "ascii",
    "asinh",
    "atan",
    "atan2",
    "bit_length",
    "btrim",
    "cardinality",
    "cast_to_type",
    "cbrt",
    "ceil",
    "character_length",
    "chr",
    "coalesce",
    "contains",
    "cos",
    "cosh",
    "cosine_distance",
    "cot",
    "current_date",
    "current_time",
    "date_bin",
    "date_part",
    "date_trunc",
    "decode",
    "degrees",
    "digest",
    "empty",
    "ends_with",
    "factorial",
    "file_row_index",
    "find_in_set",
    "flatten",
    "floor",
    "from_unixtime",
    "gcd",
    "get_field",
    "greatest",
    "inner_product",
    "input_file_name",
    "isnan",
    "iszero",
    "lcm",
    "least",
    "left",
    "ltrim",
    "make_date",
    "make_time",
    "map_entries",
    "map_extract",
    "map_keys",
    "map_values",
    "md5",
    "named_struct",
    "nanvl",
    "now",
    "nullif",
    "nvl",
    "nvl2",
    "octet_length",
    "pi",
    "radians",
    "random",
    "reverse",
    "right",
    "round",
    "rtrim",
    "sha224",
    "sha256",
    "sha384",
    "sha512",
    "signum",
    "sin",
    "sinh",
    "split_part",
    "starts_with",
    "strpos",
    "struct",
    "substr",
    "substr_index",
    "tan",
    "tanh",
    "to_date",
    "to_hex",
    "to_local_time",
    "to_time",
    "to_timestamp",
    "to_timestamp_micros",
    "to_timestamp_millis",
    "to_timestamp_nanos",
    "to_timestamp_seconds",
    "to_unixtime",
    "trunc",
    "try_cast_to_type",
    "union_extract",
    "union_tag",
    "uuid",
    "version",
    "with_metadata",
];

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use datafusion::prelude::SessionContext;

    use super::*;

    /// A new function of DataFusion has to be given a rule before it can be called.
    #[test]
    fn every_function_has_a_rule() {
        let state = SessionContext::new().state();
        let names = state.scalar_functions().values().map(|function| function.name().to_owned());
        let missing: Vec<String> = names.filter(|name| Rule::of(name).is_none()).collect();
        assert!(missing.is_empty(), "no rule for {missing:?}");
    }
}
