//! The one form in which a table holds values of a type, and the one form of each key.
//!
//! Dictionaries, runs and list views are encodings: a table holds the plain values. Names and metadata inside of
//! nested types come from the table, not from the batch.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Float16Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type,
    RunEndIndexType,
};
use arrow_array::{
    Array, ArrayRef, FixedSizeListArray, GenericListArray, GenericListViewArray, MapArray, OffsetSizeTrait,
    StructArray, UInt64Array,
};
use arrow_buffer::OffsetBuffer;
use arrow_schema::{DataType, Field, FieldRef};
use arrow_select::take::take;

/// The type that a table's column has if it is made as `data_type`.
pub fn plain_type(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Dictionary(_, values) => plain_type(values),
        DataType::RunEndEncoded(_, values) => plain_type(values.data_type()),
        DataType::List(item) | DataType::ListView(item) => DataType::List(plain_field(item)),
        DataType::LargeList(item) | DataType::LargeListView(item) => DataType::LargeList(plain_field(item)),
        DataType::FixedSizeList(item, length) => DataType::FixedSizeList(plain_field(item), *length),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(plain_field).collect()),
        DataType::Map(entries, sorted) => DataType::Map(plain_field(entries), *sorted),
        other => other.clone(),
    }
}

/// The field with its plain type and without metadata.
pub fn plain_field(field: &FieldRef) -> FieldRef {
    Arc::new(Field::new(field.name(), plain_type(field.data_type()), field.is_nullable()))
}

/// The values of `array` as an array of type `wanted`, which is plain. None if they are of another kind.
pub fn fit(array: &ArrayRef, wanted: &DataType) -> Option<ArrayRef> {
    if array.data_type() == wanted {
        return Some(array.clone());
    }
    match (array.data_type(), wanted) {
        (DataType::Dictionary(..), _) => {
            let dictionary = array.as_any_dictionary_opt()?;
            fit(&take(dictionary.values(), dictionary.keys(), None).ok()?, wanted)
        }
        (DataType::RunEndEncoded(ends, _), _) => match ends.data_type() {
            DataType::Int16 => fit(&runs::<Int16Type>(array)?, wanted),
            DataType::Int32 => fit(&runs::<Int32Type>(array)?, wanted),
            _ => fit(&runs::<Int64Type>(array)?, wanted),
        },
        (DataType::List(_), DataType::List(item)) => list(array.as_list::<i32>(), item),
        (DataType::LargeList(_), DataType::LargeList(item)) => list(array.as_list::<i64>(), item),
        (DataType::ListView(_), DataType::List(item)) => list(&views(array.as_list_view::<i32>())?, item),
        (DataType::LargeListView(_), DataType::LargeList(item)) => {
            list(&views(array.as_list_view::<i64>())?, item)
        }
        (DataType::FixedSizeList(_, own), DataType::FixedSizeList(item, length)) if own == length => {
            let array = array.as_fixed_size_list();
            let (values, nulls) = (fit(array.values(), item.data_type())?, array.nulls().cloned());
            let rows = array.len();
            let made = FixedSizeListArray::try_new_with_length(item.clone(), *length, values, nulls, rows);
            Some(Arc::new(made.ok()?))
        }
        (DataType::Struct(own), DataType::Struct(fields)) => {
            let named_alike =
                own.iter().map(|field| field.name()).eq(fields.iter().map(|field| field.name()));
            structure(array.as_struct(), fields)
                .filter(|_| named_alike)
                .map(|made| Arc::new(made) as ArrayRef)
        }
        (DataType::Map(..), DataType::Map(entries, sorted)) => {
            let DataType::Struct(fields) = entries.data_type() else { return None };
            let array = array.as_map();
            let (offsets, nulls) = (array.offsets().clone(), array.nulls().cloned());
            let values = structure(array.entries(), fields)?;
            let made = MapArray::try_new(entries.clone(), offsets, values, nulls, *sorted);
            Some(Arc::new(made.ok()?))
        }
        _ => None,
    }
}

fn runs<R: RunEndIndexType>(array: &ArrayRef) -> Option<ArrayRef> {
    let runs = array.as_run_opt::<R>()?;
    let rows: Vec<u64> = (0..runs.len()).map(|row| runs.get_physical_index(row) as u64).collect();
    take(runs.values(), &UInt64Array::from(rows), None).ok()
}

fn list<O: OffsetSizeTrait>(array: &GenericListArray<O>, item: &FieldRef) -> Option<ArrayRef> {
    let values = fit(array.values(), item.data_type())?;
    let (offsets, nulls) = (array.offsets().clone(), array.nulls().cloned());
    Some(Arc::new(GenericListArray::try_new(item.clone(), offsets, values, nulls).ok()?))
}

/// Views in any order, as a list with the items of each behind those of the one before.
fn views<O: OffsetSizeTrait>(array: &GenericListViewArray<O>) -> Option<GenericListArray<O>> {
    let (DataType::ListView(item) | DataType::LargeListView(item)) = array.data_type() else { return None };
    let (mut offsets, mut items) = (vec![O::zero()], Vec::new());
    for (row, (from, size)) in array.offsets().iter().zip(array.sizes().iter()).enumerate() {
        let (from, size) = (from.as_usize() as u64, size.as_usize() as u64);
        items.extend((from..from + size).filter(|_| array.is_valid(row)));
        offsets.push(O::from_usize(items.len())?);
    }
    let values = take(array.values(), &UInt64Array::from(items), None).ok()?;
    let (offsets, nulls) = (OffsetBuffer::new(offsets.into()), array.nulls().cloned());
    GenericListArray::try_new(item.clone(), offsets, values, nulls).ok()
}

fn structure(array: &StructArray, fields: &arrow_schema::Fields) -> Option<StructArray> {
    if array.num_columns() != fields.len() {
        return None;
    }
    let children = array.columns().iter().zip(fields).map(|(child, field)| fit(child, field.data_type()));
    let children: Vec<ArrayRef> = children.collect::<Option<_>>()?;
    StructArray::try_new_with_length(fields.clone(), children, array.nulls().cloned(), array.len()).ok()
}

/// A key column in which equal values have equal bytes: zero has no sign, and there is one NaN.
pub fn canonical_key(array: &ArrayRef) -> ArrayRef {
    type F16 = <Float16Type as ArrowPrimitiveType>::Native;
    let zero = F16::default();
    match array.data_type() {
        DataType::Float16 => canonical::<Float16Type>(array, |value| match value {
            value if value.is_nan() => F16::NAN,
            value if value == zero => zero,
            value => value,
        }),
        DataType::Float32 => canonical::<Float32Type>(array, |value| match value {
            value if value.is_nan() => f32::NAN,
            0.0 => 0.0,
            value => value,
        }),
        DataType::Float64 => canonical::<Float64Type>(array, |value| match value {
            value if value.is_nan() => f64::NAN,
            0.0 => 0.0,
            value => value,
        }),
        _ => array.clone(),
    }
}

fn canonical<T: ArrowPrimitiveType>(array: &ArrayRef, form: impl Fn(T::Native) -> T::Native) -> ArrayRef {
    match array.as_primitive_opt::<T>() {
        Some(numbers) => Arc::new(numbers.unary::<_, T>(form)),
        None => array.clone(),
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::builder::{Int32Builder, ListBuilder, ListViewBuilder, StringRunBuilder};
    use arrow_array::{DictionaryArray, Float64Array, Int8Array, ListArray, StringArray};

    use super::*;

    fn check(written: ArrayRef, held: ArrayRef) {
        assert_eq!(&plain_type(written.data_type()), held.data_type());
        for (offset, rows) in [(0, written.len()), (1, written.len() - 1), (1, 1), (2, 0)] {
            let found = fit(&written.slice(offset, rows), held.data_type());
            assert_eq!(found, Some(held.slice(offset, rows)), "{}", written.data_type());
        }
    }

    fn words() -> (ArrayRef, ArrayRef) {
        let values: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), None, Some("b")]));
        let keys = Int8Array::from(vec![Some(2), Some(0), None, Some(1), Some(2)]);
        let plain = StringArray::from(vec![Some("b"), Some("a"), None, None, Some("b")]);
        (Arc::new(DictionaryArray::new(keys, values)), Arc::new(plain))
    }

    #[test]
    fn what_is_written_in_another_form_is_held_plainly() {
        let (dictionary, plain) = words();
        check(dictionary.clone(), plain.clone());
        let mut runs = StringRunBuilder::<Int16Type>::new();
        runs.extend([Some("x"), Some("x"), None, None, Some("y")]);
        check(
            Arc::new(runs.finish()),
            Arc::new(StringArray::from(vec![Some("x"), Some("x"), None, None, Some("y")])),
        );
        let (mut views, mut list) =
            (ListViewBuilder::new(Int32Builder::new()), ListBuilder::new(Int32Builder::new()));
        for row in [Some(vec![Some(1), None]), None, Some(vec![]), Some(vec![Some(3)])] {
            match row {
                Some(row) => (views.append_value(row.clone()), list.append_value(row)).0,
                None => (views.append_null(), list.append_null()).0,
            }
        }
        check(Arc::new(views.finish()), Arc::new(list.finish()));
    }

    #[test]
    fn what_lies_inside_is_held_plainly_too() {
        let (dictionary, plain) = words();
        let list = |item: &str, values: &ArrayRef| -> ArrayRef {
            let item = Arc::new(
                Field::new(item, values.data_type().clone(), true)
                    .with_metadata([("PARQUET:field_id".to_owned(), "7".to_owned())].into()),
            );
            Arc::new(ListArray::new(item, OffsetBuffer::new(vec![0, 2, 2, 5].into()), values.clone(), None))
        };
        let (written, held) = (list("element", &dictionary), list("element", &plain));
        let wanted = plain_type(written.data_type());
        let found = fit(&written, &wanted).unwrap();
        assert_eq!(found.as_list::<i32>().values(), held.as_list::<i32>().values());
        assert_eq!(found.data_type(), &wanted);
        let DataType::List(item) = &wanted else { panic!("{wanted}") };
        assert!(item.metadata().is_empty());
        assert_eq!(fit(&list("item", &plain), &wanted).as_ref(), Some(&found), "the name is the table's");
    }

    #[test]
    fn other_kinds_of_values_do_not_fit() {
        let (dictionary, plain) = words();
        assert_eq!(fit(&dictionary, &DataType::Int32), None);
        assert_eq!(fit(&plain, &DataType::Binary), None);
        let fields = |name| vec![(Arc::new(Field::new(name, DataType::Utf8, true)), plain.clone())];
        let pair: ArrayRef = Arc::new(StructArray::from(fields("a")));
        assert_eq!(fit(&pair, StructArray::from(fields("b")).data_type()), None);
    }

    #[test]
    fn equal_keys_have_equal_bytes() {
        let odd = f64::from_bits(f64::NAN.to_bits() | 5);
        let keys: ArrayRef = Arc::new(Float64Array::from(vec![-0.0, odd, -odd, 1.5, f64::NEG_INFINITY]));
        let bits: Vec<u64> = canonical_key(&keys)
            .as_primitive::<Float64Type>()
            .values()
            .iter()
            .map(|key| key.to_bits())
            .collect();
        let expected = [0.0, f64::NAN, f64::NAN, 1.5, f64::NEG_INFINITY].map(f64::to_bits);
        assert_eq!(bits, expected);
    }
}
