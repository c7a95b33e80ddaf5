//! Calls that are refused before they are computed, and calls that are not.
#![allow(clippy::unwrap_used)]

use arrow::array::{Int64Array, StringArray};
use arrow::datatypes::Field;
use datafusion::common::ScalarValue;
use datafusion::prelude::SessionContext;

use super::*;

const ROWS: usize = 100;

fn call(name: &str, args: Vec<ColumnarValue>) -> Result<ColumnarValue> {
    let state = SessionContext::new().state();
    let function = with_bound(state.scalar_functions().get(name).unwrap()).unwrap();
    let fields = args.iter().map(|value| Arc::new(Field::new("a", value.data_type(), true)) as FieldRef);
    let arg_fields: Vec<FieldRef> = fields.collect();
    let scalars: Vec<Option<&ScalarValue>> = args
        .iter()
        .map(|value| match value {
            ColumnarValue::Scalar(value) => Some(value),
            ColumnarValue::Array(_) => None,
        })
        .collect();
    let arguments = ReturnFieldArgs { arg_fields: &arg_fields, scalar_arguments: &scalars };
    let return_field = function.return_field_from_args(arguments)?;
    let config_options = Arc::new(ConfigOptions::default());
    function.invoke_with_args(ScalarFunctionArgs {
        args,
        arg_fields,
        number_rows: ROWS,
        return_field,
        config_options,
    })
}

fn texts(bytes: usize) -> ColumnarValue {
    let text = "x".repeat(bytes);
    ColumnarValue::Array(Arc::new(StringArray::from_iter_values(vec![text; ROWS])))
}

fn text(bytes: usize) -> ColumnarValue {
    ColumnarValue::Scalar(ScalarValue::from("x".repeat(bytes)))
}

fn numbers(number: i64) -> ColumnarValue {
    ColumnarValue::Array(Arc::new(Int64Array::from(vec![number; ROWS])))
}

fn check_refused(name: &str, args: Vec<ColumnarValue>, words: &str) {
    let error = QueryError::from(call(name, args).unwrap_err());
    assert_eq!(error.kind, ErrorKind::LimitExceeded, "{error}");
    assert!(error.message.contains(words) && error.message.contains(name), "{error}");
}

#[test]
fn what_would_be_too_large_is_refused_first() {
    check_refused("repeat", vec![texts(1000), numbers(1_000_000)], "bytes for 100 rows");
    check_refused("repeat", vec![text(1000), numbers(1_000_000)], "bytes for 100 rows");
    check_refused("lpad", vec![texts(1), numbers(1_000_000_000), text(1)], "bytes");
    check_refused("concat", vec![texts(1000), text(10_000_000)], "bytes");
    check_refused("concat_ws", vec![text(10_000_000), texts(1), texts(1)], "bytes");
    check_refused("replace", vec![texts(100_000), text(1), text(10_000)], "bytes for 1 rows");
    check_refused("array_repeat", vec![texts(1), numbers(10_000_000)], "bytes");
    check_refused("levenshtein", vec![texts(100_000), texts(100_000)], "steps");
    let pattern = ColumnarValue::Scalar(ScalarValue::from("((a{100}){100}){100}"));
    check_refused("regexp_like", vec![texts(1), pattern], "states");
    let patterns = (0..ROWS).map(|row| format!(r"\w{{40}}{row}"));
    let patterns = ColumnarValue::Array(Arc::new(StringArray::from_iter_values(patterns)));
    check_refused("regexp_like", vec![texts(1), patterns], "different patterns");
}

/// Each row of these might give 100 MB.
#[test]
fn what_may_be_large_is_computed_in_slices() {
    let args = || vec![texts(10_000), ColumnarValue::Scalar(ScalarValue::from("y")), text(10_000)];
    let given = call("replace", args()).unwrap().into_array(ROWS).unwrap();
    assert_eq!(given.len(), ROWS);
    assert_eq!(given.null_count(), 0);
    let grows = vec![texts(1000), text(1), text(5000)];
    check_refused("replace", grows, "bytes");
}

/// The planner computes a constant, and it cannot be cancelled while it does.
#[test]
fn constants_may_be_less_large_than_columns() {
    let times = |times: i64| ColumnarValue::Scalar(ScalarValue::from(times));
    assert!(call("repeat", vec![text(10), times(3 << 20)]).is_ok());
    check_refused("repeat", vec![text(10), times(4 << 20)], "at most 33554432");
    check_refused(
        "replace",
        vec![text(1 << 20), ColumnarValue::Scalar(ScalarValue::from("x")), text(40)],
        "for 1 rows",
    );
}

#[test]
fn what_is_small_is_computed() {
    for (name, args) in [
        ("repeat", vec![texts(10), numbers(10)]),
        ("repeat", vec![texts(10), numbers(-10)]),
        ("lpad", vec![texts(10), numbers(100), text(1)]),
        ("concat", vec![texts(10), text(10)]),
        ("levenshtein", vec![texts(100), texts(100)]),
        ("regexp_replace", vec![texts(100), text(1), text(2)]),
        ("upper", vec![texts(1000)]),
        ("generate_series", vec![numbers(1), numbers(100)]),
    ] {
        assert!(call(name, args).is_ok(), "{name}");
    }
}
