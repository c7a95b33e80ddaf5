//! Values of every type keep their order as bytes, and come back.

use arrow::array::{
    BinaryArray, Date32Array, Date64Array, Decimal128Array, DictionaryArray, FixedSizeBinaryArray,
    Float32Array, Int8Array, Int32Array, StringArray, StringViewArray, Time32SecondArray,
    Time64NanosecondArray, TimestampMicrosecondArray, UInt16Array,
};
use arrow::datatypes::{Field, Int32Type};

use super::*;

#[test]
fn values_of_every_type_come_back_in_order() {
    check(Int8Array::from(vec![i8::MIN, -1, 0, 1, i8::MAX]));
    check(Int32Array::from(vec![i32::MIN, -1, 0, 7]));
    check(Int64Array::from(vec![i64::MIN, -1, 0, i64::MAX]));
    check(UInt16Array::from(vec![0, 1, u16::MAX]));
    check(UInt64Array::from(vec![0, 1, 1 << 63, u64::MAX]));
    check(Date32Array::from(vec![-5, 0, 20_000]));
    check(Date64Array::from(vec![-86_400_000, 0, 86_400_000]));
    check(Time32SecondArray::from(vec![0, 5, 86_399]));
    check(Time64NanosecondArray::from(vec![0, 5, 86_399_000_000_000]));
    check(TimestampMicrosecondArray::from(vec![-1, 0, 1 << 50]).with_timezone("UTC"));
    check(Decimal128Array::from(vec![-100, -1, 0, 5, 1 << 70]).with_precision_and_scale(38, 2).unwrap());
    check(Float64Array::from(vec![f64::NEG_INFINITY, -1.5, 0.0, 1e-300, 2.5, f64::INFINITY]));
    check(Float32Array::from(vec![f32::NEG_INFINITY, -1.5, 0.0, 2.5]));
    check(BooleanArray::from(vec![false, true]));
    check(StringArray::from(vec!["", "a", "a longer text than a view holds", "b", "é"]));
    check(StringViewArray::from(vec!["", "a", "a longer text than a view holds", "b"]));
    check(BinaryArray::from_vec(vec![b"", b"\0", b"\xff"]));
    check(FixedSizeBinaryArray::try_from_iter([[0, 1], [1, 0]].into_iter()).unwrap());
    check(DictionaryArray::<Int32Type>::from_iter(["a", "b", "c"]));
}

#[test]
fn equal_floats_are_spelled_alike() {
    let nan = f64::from_bits(f64::NAN.to_bits() | 1);
    let column: ArrayRef = Arc::new(Float64Array::from(vec![0.0, -0.0, f64::NAN, nan]));
    let spelled = spell(Family::Float, &column).unwrap();
    assert_eq!(spelled.value(0), spelled.value(1));
    assert_eq!(spelled.value(2), spelled.value(3));
}

#[test]
fn nulls_stay_null_and_other_types_are_refused() {
    let column: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None]));
    let spelled = spell(Family::Integer, &column).unwrap();
    assert!(spelled.is_valid(0) && spelled.is_null(1));
    let list = DataType::List(Arc::new(Field::new_list_field(DataType::Int64, true)));
    let error = QueryError::from(Family::of("f", &list).unwrap_err());
    assert_eq!(error.kind, ErrorKind::Unsupported);
    let short: &[u8] = b"abc";
    assert!(read(Family::Integer, &DataType::Int64, std::iter::once(short)).is_err());
}

fn check(column: impl Array + 'static) {
    let column: ArrayRef = Arc::new(column);
    let family = Family::of("f", column.data_type()).unwrap();
    let spelled = spell(family, &column).unwrap();
    let values: Vec<&[u8]> = spelled.iter().flatten().collect();
    assert_eq!(values.len(), column.len());
    assert!(values.is_sorted() && values.windows(2).all(|pair| pair[0] != pair[1]), "{column:?}");
    assert_eq!(&read(family, column.data_type(), values.into_iter()).unwrap(), &column);
}
