//! An overridden function gives the same as a list of all values, however its states are cut and merged.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Float32Array, Float64Array, Int64Array};
use arrow::datatypes::{DataType, Float32Type, Float64Type, Int64Type};
use datafusion::common::ScalarValue;
use datafusion::functions_aggregate::correlation::CorrelationAccumulator;
use datafusion::functions_aggregate::min_max::MinAccumulator;
use datafusion::logical_expr::{Accumulator, EmitTo, GroupsAccumulator};

use super::correlation::Correlations;
use super::extremes::{Extreme, FloatExtremes, OneNan};
use super::totals::{Total, Totals};

const INFINITY: f64 = f64::INFINITY;
const NAN: f64 = f64::NAN;

#[test]
fn nan_is_the_greatest_float_in_any_order() {
    check(&[Some(2.0), Some(NAN), Some(1.0)], Some(1.0), Some(NAN));
    check(&[Some(NAN), Some(1.0), Some(2.0)], Some(1.0), Some(NAN));
    check(&[Some(1.0), Some(2.0), Some(NAN)], Some(1.0), Some(NAN));
    check(&[Some(-NAN), Some(5.0), None], Some(5.0), Some(NAN));
    check(&[Some(NAN), Some(-NAN)], Some(NAN), Some(NAN));
    check(&[Some(INFINITY), Some(NAN)], Some(INFINITY), Some(NAN));
    check(&[Some(-INFINITY), None], Some(-INFINITY), Some(-INFINITY));
    check(&[Some(INFINITY)], Some(INFINITY), Some(INFINITY));
    check(&[None], None, None);
    check(&[], None, None);

    fn check(values: &[Option<f64>], least: Option<f64>, greatest: Option<f64>) {
        for (extreme, expected) in [(Extreme::Least, least), (Extreme::Greatest, greatest)] {
            let column: ArrayRef = Arc::new(Float64Array::from(values.to_vec()));
            let narrow = values.iter().map(|value| value.map(|value| value as f32));
            let narrow: ArrayRef = Arc::new(narrow.collect::<Float32Array>());
            let rows = vec![1; values.len()];
            let mut groups = FloatExtremes::<Float64Type>::new(extreme);
            groups.update_batch(&[Arc::clone(&column)], &rows, None, 2).unwrap();
            assert!(
                same(&groups.evaluate(EmitTo::All).unwrap(), &[None, expected]),
                "{extreme:?} {values:?}"
            );
            let states = groups.convert_to_state(&[column], None).unwrap();
            groups.merge_batch(&states, &rows, 2).unwrap();
            assert!(same(&groups.state(EmitTo::All).unwrap()[0], &[None, expected]), "{values:?}, merged");
            let mut groups = FloatExtremes::<Float32Type>::new(extreme);
            groups.update_batch(&[narrow], &rows, None, 2).unwrap();
            let wide = arrow::compute::cast(&groups.evaluate(EmitTo::All).unwrap(), &DataType::Float64);
            assert!(same(&wide.unwrap(), &[None, expected]), "{values:?}, narrow");
        }
    }
}

#[test]
fn filtered_rows_have_no_extreme() {
    let column: ArrayRef = Arc::new(Float64Array::from(vec![1.0, 2.0, 3.0, NAN]));
    let filter = BooleanArray::from(vec![Some(true), None, Some(false), Some(true)]);
    let mut groups = FloatExtremes::<Float64Type>::new(Extreme::Greatest);
    groups.update_batch(&[Arc::clone(&column)], &[0, 0, 1, 2], Some(&filter), 3).unwrap();
    assert!(same(&groups.evaluate(EmitTo::First(2)).unwrap(), &[Some(1.0), None]));
    assert!(same(&groups.evaluate(EmitTo::All).unwrap(), &[Some(NAN)]));
    let states = groups.convert_to_state(&[column], Some(&filter)).unwrap();
    assert!(same(&states[0], &[Some(1.0), None, None, Some(NAN)]));
}

#[test]
fn accumulators_see_nan_without_a_sign() {
    let mut least = OneNan(Box::new(MinAccumulator::try_new(&DataType::Float64).unwrap()));
    let column = |values: Vec<Option<f64>>| -> ArrayRef { Arc::new(Float64Array::from(values)) };
    least.update_batch(&[column(vec![Some(-NAN), Some(1.0), None])]).unwrap();
    assert_eq!(least.evaluate().unwrap(), ScalarValue::Float64(Some(1.0)));
    least.merge_batch(&[column(vec![Some(-NAN), Some(0.5)])]).unwrap();
    assert_eq!(least.evaluate().unwrap(), ScalarValue::Float64(Some(0.5)));
}

/// The same from all rows at once, from parts, from single rows and without groups.
#[test]
fn correlations_far_from_zero_are_exact() {
    let far = 1e8;
    let xs: Vec<Option<f64>> = (0..100).map(|n| (n % 7 != 0).then(|| far + f64::from(n))).collect();
    let ys: Vec<Option<f64>> = (0..100).map(|n| (n % 5 != 0).then(|| far - 2.0 * f64::from(n))).collect();
    let columns: [ArrayRef; 2] = [Arc::new(Float64Array::from(xs)), Arc::new(Float64Array::from(ys))];
    let rows = vec![0; 100];
    let one = |groups: &mut Correlations| groups.evaluate(EmitTo::All).unwrap();
    let is_inverse = |value: f64| assert!((value + 1.0).abs() < 1e-6, "{value}");

    let mut whole = Correlations::default();
    whole.update_batch(&columns, &rows, None, 2).unwrap();
    let values = one(&mut whole);
    is_inverse(values.as_primitive::<Float64Type>().value(0));
    assert!(values.is_null(1), "the correlation of no rows");

    let mut merged = Correlations::default();
    for part in [0..30, 30..31, 31..100] {
        let part = columns.each_ref().map(|column| column.slice(part.start, part.len()));
        let mut own = Correlations::default();
        own.update_batch(&part, &rows[..part[0].len()], None, 1).unwrap();
        merged.merge_batch(&own.state(EmitTo::All).unwrap(), &[0], 1).unwrap();
    }
    is_inverse(one(&mut merged).as_primitive::<Float64Type>().value(0));

    let states = whole.convert_to_state(&columns, None).unwrap();
    whole.merge_batch(&states, &rows, 1).unwrap();
    is_inverse(one(&mut whole).as_primitive::<Float64Type>().value(0));

    let mut plain = CorrelationAccumulator::try_new().unwrap();
    plain.merge_batch(&states).unwrap();
    match plain.evaluate().unwrap() {
        ScalarValue::Float64(Some(value)) => is_inverse(value),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_does_not_vary_has_no_correlation() {
    let constant: ArrayRef = Arc::new(Float64Array::from(vec![0.1; 30]));
    let varying: ArrayRef = Arc::new((0..30).map(|n| Some(f64::from(n))).collect::<Float64Array>());
    for columns in [[&constant, &varying], [&varying, &constant]] {
        let columns = columns.map(Arc::clone);
        let mut groups = Correlations::default();
        groups.update_batch(&columns, &[0; 30], None, 1).unwrap();
        let states = groups.convert_to_state(&columns, None).unwrap();
        groups.merge_batch(&states, &[1; 30], 2).unwrap();
        assert_eq!(groups.evaluate(EmitTo::All).unwrap().null_count(), 2);
    }
}

#[test]
fn totals_that_leave_their_range_are_errors_from_then_on() {
    let column = |values: &[Option<i64>]| -> ArrayRef { Arc::new(Int64Array::from(values.to_vec())) };
    let (large, one) = (column(&[Some(i64::MAX), None]), column(&[Some(1)]));
    let mut total = Total::<Int64Type>::new(&DataType::Int64);
    assert_eq!(total.evaluate().unwrap(), ScalarValue::Int64(None));
    total.update_batch(&[column(&[None])]).unwrap();
    assert_eq!(total.evaluate().unwrap(), ScalarValue::Int64(None));
    total.update_batch(&[Arc::clone(&large)]).unwrap();
    assert_eq!(total.state().unwrap(), [ScalarValue::Int64(Some(i64::MAX))]);
    assert!(total.merge_batch(&[Arc::clone(&one)]).unwrap_err().to_string().contains("out of the range"));
    let least = column(&[Some(i64::MIN), Some(-1)]);
    total.update_batch(&[least]).unwrap_err();

    let mut totals = Totals::new::<Int64Type>(&DataType::Int64);
    totals.update_batch(&[Arc::clone(&large)], &[0, 1], None, 3).unwrap();
    totals.merge_batch(&[Arc::clone(&one)], &[2], 3).unwrap();
    totals.merge_batch(&[Arc::clone(&one)], &[0], 3).unwrap_err();
    let mut totals = Totals::new::<Int64Type>(&DataType::Int64);
    let states = totals.convert_to_state(&[large], None).unwrap();
    totals.merge_batch(&states, &[0, 1], 2).unwrap();
    let sums = totals.evaluate(EmitTo::All).unwrap();
    assert_eq!(sums.as_primitive::<Int64Type>(), &Int64Array::from(vec![Some(i64::MAX), None]));
}

fn same(column: &ArrayRef, expected: &[Option<f64>]) -> bool {
    let found = column.as_primitive::<Float64Type>();
    let equal = |(found, expected): (Option<f64>, &Option<f64>)| match (found, expected) {
        (Some(found), Some(expected)) => found == *expected || (found.is_nan() && expected.is_nan()),
        (found, expected) => found.is_none() && expected.is_none(),
    };
    found.len() == expected.len() && found.iter().zip(expected).all(equal)
}
