//! Finds the values of a dictionary that a condition keeps, without evaluating the condition on each of them.
//!
//! Most conditions compare a column with constants, and the values of its dictionary ascend: a condition keeps one
//! range of them, or a few.

use std::cmp::Ordering;
use std::ops::Range;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::{
    DataType, Date32Type, Date64Type, Decimal128Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type,
};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, InListExpr, Literal};

use super::values::Values;

/// Positions of values in a dictionary: ranges in order and without overlap.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Keys(Vec<Range<usize>>);

impl Keys {
    /// The positions of set bits.
    pub fn of(kept: &BooleanBuffer) -> Self {
        Self(kept.set_slices().map(|(start, end)| start..end).collect())
    }

    pub fn ranges(&self) -> &[Range<usize>] {
        &self.0
    }

    pub fn contains(&self, key: usize) -> bool {
        match &self.0[..] {
            [] => false,
            [only] => only.contains(&key),
            ranges => {
                let at = ranges.partition_point(|range| range.end <= key);
                ranges.get(at).is_some_and(|range| range.start <= key)
            }
        }
    }

    fn only(range: Range<usize>) -> Self {
        Self(Some(range).filter(|range| !range.is_empty()).into_iter().collect())
    }

    fn or(self, other: Self) -> Self {
        let mut all = self.0;
        all.extend(other.0);
        all.sort_unstable_by_key(|range| range.start);
        let mut joined: Vec<Range<usize>> = Vec::with_capacity(all.len());
        for range in all {
            match joined.last_mut() {
                Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
                _ => joined.push(range),
            }
        }
        Self(joined)
    }
}

/// The positions of `values` that a condition on their column keeps. The values ascend, with NULL at the end; `given` has the
/// values of parameters. None if the condition has to be evaluated.
pub fn search(condition: &dyn PhysicalExpr, given: &dyn Values, values: &ArrayRef) -> Option<Keys> {
    if let Some(comparison) = condition.downcast_ref::<BinaryExpr>() {
        let (left, right) = (comparison.left().as_ref(), comparison.right().as_ref());
        return match comparison.op() {
            Operator::Or => Some(search(left, given, values)?.or(search(right, given, values)?)),
            op if is_column(left) => compared(*op, constant(right, given)?, values),
            op if is_column(right) => compared(op.swap()?, constant(left, given)?, values),
            _ => None,
        };
    }
    let list = condition.downcast_ref::<InListExpr>()?;
    if list.negated() || !is_column(list.expr().as_ref()) {
        return None;
    }
    let equal = |one: &dyn PhysicalExpr| compared(Operator::Eq, constant(one, given)?, values);
    list.list().iter().try_fold(Keys::default(), |kept, one| Some(kept.or(equal(one.as_ref())?)))
}

fn is_column(expr: &dyn PhysicalExpr) -> bool {
    expr.downcast_ref::<Column>().is_some()
}

fn constant<'a>(expr: &'a dyn PhysicalExpr, given: &'a dyn Values) -> Option<&'a ScalarValue> {
    match expr.downcast_ref::<Literal>() {
        Some(literal) => Some(literal.value()),
        None => given.value_of(expr),
    }
}

fn compared(op: Operator, constant: &ScalarValue, values: &ArrayRef) -> Option<Keys> {
    let known = values.len() - values.null_count();
    let bounds = if constant.is_null() { None } else { Some(place(constant, values, known)?) };
    let keys = |range: fn(Range<usize>, usize) -> Keys| {
        // No comparison with NULL is true.
        bounds.map_or_else(Keys::default, |equal| range(equal, known))
    };
    Some(match op {
        Operator::Eq => keys(|equal, _| Keys::only(equal)),
        Operator::NotEq => keys(|equal, known| Keys::only(0..equal.start).or(Keys::only(equal.end..known))),
        Operator::Lt => keys(|equal, _| Keys::only(0..equal.start)),
        Operator::LtEq => keys(|equal, _| Keys::only(0..equal.end)),
        Operator::Gt => keys(|equal, known| Keys::only(equal.end..known)),
        Operator::GtEq => keys(|equal, known| Keys::only(equal.start..known)),
        _ => return None,
    })
}

/// The position of a constant among the first `known` values; an empty range where it would be if it is not there. None if
/// values of these types are not compared here.
fn place(constant: &ScalarValue, values: &ArrayRef, known: usize) -> Option<Range<usize>> {
    match (values.data_type(), constant) {
        (DataType::Utf8View, ScalarValue::Utf8View(Some(text))) => {
            let values = values.as_string_view();
            Some(halved(known, |at| values.value(at).cmp(text)))
        }
        (DataType::Utf8, ScalarValue::Utf8(Some(text))) => {
            let values = values.as_string::<i32>();
            Some(halved(known, |at| values.value(at).cmp(text)))
        }
        (DataType::Int8, ScalarValue::Int8(number)) => number_at::<Int8Type>(values, known, *number),
        (DataType::Int16, ScalarValue::Int16(number)) => number_at::<Int16Type>(values, known, *number),
        (DataType::Int32, ScalarValue::Int32(number)) => number_at::<Int32Type>(values, known, *number),
        (DataType::Int64, ScalarValue::Int64(number)) => number_at::<Int64Type>(values, known, *number),
        (DataType::UInt8, ScalarValue::UInt8(number)) => number_at::<UInt8Type>(values, known, *number),
        (DataType::UInt16, ScalarValue::UInt16(number)) => number_at::<UInt16Type>(values, known, *number),
        (DataType::UInt32, ScalarValue::UInt32(number)) => number_at::<UInt32Type>(values, known, *number),
        (DataType::UInt64, ScalarValue::UInt64(number)) => number_at::<UInt64Type>(values, known, *number),
        (DataType::Date32, ScalarValue::Date32(day)) => number_at::<Date32Type>(values, known, *day),
        (DataType::Date64, ScalarValue::Date64(day)) => number_at::<Date64Type>(values, known, *day),
        (DataType::Decimal128(_, scale), ScalarValue::Decimal128(number, _, same)) if scale == same => {
            number_at::<Decimal128Type>(values, known, *number)
        }
        _ => None,
    }
}

fn number_at<T>(values: &ArrayRef, known: usize, number: Option<T::Native>) -> Option<Range<usize>>
where
    T: ArrowPrimitiveType,
    T::Native: Ord,
{
    let values = values.as_primitive_opt::<T>()?.values().get(..known)?;
    let number = number?;
    Some(halved(known, |at| values.get(at).map_or(Ordering::Greater, |value| value.cmp(&number))))
}

/// Binary search among `places` different values in ascending order: the position that `compare` finds equal, or an empty range.
fn halved(places: usize, compare: impl Fn(usize) -> Ordering) -> Range<usize> {
    let (mut from, mut to) = (0, places);
    while from < to {
        let middle = from + (to - from) / 2;
        match compare(middle) {
            Ordering::Less => from = middle + 1,
            Ordering::Equal => return middle..middle + 1,
            Ordering::Greater => to = middle,
        }
    }
    from..from
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::single_range_in_vec_init)]
    use std::sync::Arc;

    use arrow::array::{
        BooleanArray, Date32Array, Decimal128Array, Float64Array, Int32Array, StringArray, StringViewArray,
        UInt64Array,
    };
    use arrow::compute::prep_null_mask_filter;
    use arrow::datatypes::{Field, Schema};
    use arrow::record_batch::RecordBatch;
    use datafusion::common::cast::as_boolean_array;
    use datafusion::physical_expr::expressions::{binary, col, in_list, lit};

    use super::super::values::NoValues;
    use super::*;

    const OPERATORS: [Operator; 6] =
        [Operator::Eq, Operator::NotEq, Operator::Lt, Operator::LtEq, Operator::Gt, Operator::GtEq];

    fn evaluated(condition: &Arc<dyn PhysicalExpr>, values: &ArrayRef, schema: &Arc<Schema>) -> Keys {
        let batch = RecordBatch::try_new(Arc::clone(schema), vec![Arc::clone(values)]).unwrap();
        let kept = condition.evaluate(&batch).unwrap().into_array(values.len()).unwrap();
        let kept: &BooleanArray = as_boolean_array(&kept).unwrap();
        let kept = if kept.null_count() == 0 { kept.clone() } else { prep_null_mask_filter(kept) };
        Keys::of(kept.values())
    }

    /// Checks that a search keeps the values that evaluation keeps, for constants among, between and beyond the values.
    fn check(values: ArrayRef, constants: &[ScalarValue]) {
        let schema = Arc::new(Schema::new(vec![Field::new("c", values.data_type().clone(), true)]));
        let column = || col("c", &schema).unwrap();
        let comparison =
            |op, constant: &ScalarValue| binary(column(), op, lit(constant.clone()), &schema).unwrap();
        let agree = |condition: Arc<dyn PhysicalExpr>| {
            let found = search(condition.as_ref(), &NoValues, &values);
            assert_eq!(found, Some(evaluated(&condition, &values, &schema)), "{condition} of {values:?}");
        };
        for constant in constants {
            for op in OPERATORS {
                agree(comparison(op, constant));
                agree(binary(lit(constant.clone()), op, column(), &schema).unwrap());
                for other in constants {
                    let (left, right) = (comparison(op, constant), comparison(Operator::Eq, other));
                    agree(binary(left, Operator::Or, right, &schema).unwrap());
                }
            }
        }
        for first in 0..constants.len() {
            let list = constants.get(first..).unwrap().iter().map(|constant| lit(constant.clone()));
            agree(in_list(column(), list.collect(), &false, &schema).unwrap());
        }
    }

    #[test]
    fn searching_finds_what_evaluating_finds() {
        let texts = [Some("b"), Some("b "), Some("d"), Some("é"), None];
        let views = |text: &str| ScalarValue::Utf8View(Some(text.to_owned()));
        let of_views =
            [views("a"), views("b"), views("c"), views("é"), views("zz"), ScalarValue::Utf8View(None)];
        check(Arc::new(StringViewArray::from(texts.to_vec())), &of_views);
        check(
            Arc::new(StringArray::from(texts.to_vec())),
            &[ScalarValue::from("b "), ScalarValue::from("x")],
        );
        let numbers = [i32::MIN, -1, 5, 7].map(|number| ScalarValue::Int32(Some(number)));
        check(Arc::new(Int32Array::from(vec![-1, 0, 5, 9])), &numbers);
        check(Arc::new(Int32Array::from(vec![None::<i32>])), &numbers);
        check(Arc::new(UInt64Array::from(vec![3, u64::MAX])), &[3_u64, 4, u64::MAX].map(ScalarValue::from));
        check(
            Arc::new(Date32Array::from(vec![0, 10])),
            &[0, 5, 11].map(|day| ScalarValue::Date32(Some(day))),
        );
        let decimals = Decimal128Array::from(vec![-250, 0, 100]).with_precision_and_scale(10, 2).unwrap();
        let decimal = |number| ScalarValue::Decimal128(Some(number), 10, 2);
        check(Arc::new(decimals), &[decimal(-251), decimal(0), decimal(100)]);
    }

    #[test]
    fn what_is_not_a_comparison_with_constants_is_left_to_be_evaluated() {
        let values: ArrayRef = Arc::new(Float64Array::from(vec![1.0, f64::NAN]));
        let schema = Arc::new(Schema::new(vec![Field::new("c", DataType::Float64, true)]));
        let column = || col("c", &schema).unwrap();
        let left_alone = |condition: Arc<dyn PhysicalExpr>| {
            assert_eq!(search(condition.as_ref(), &NoValues, &values), None, "{condition}");
        };
        left_alone(binary(column(), Operator::Lt, lit(1.0), &schema).unwrap());
        left_alone(binary(column(), Operator::Eq, column(), &schema).unwrap());
        let sum = binary(column(), Operator::Plus, lit(1.0), &schema).unwrap();
        left_alone(binary(sum, Operator::Lt, lit(1.0), &schema).unwrap());
        left_alone(in_list(column(), vec![lit(1.0)], &true, &schema).unwrap());
    }

    #[test]
    fn keys_are_found_in_their_ranges() {
        let keys = Keys(vec![1..3, 5..6, 9..12]);
        let found: Vec<usize> = (0..20).filter(|key| keys.contains(*key)).collect();
        assert_eq!(found, [1, 2, 5, 9, 10, 11]);
        assert!(!Keys::default().contains(0));
    }
}
