//! Functions of lists with the names, and the results, that they have in PostgreSQL.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int32Array, make_comparator};
use arrow::compute::{SortOptions, cast};
use arrow::datatypes::{DataType, Field, IntervalMonthDayNanoType, TimestampMicrosecondType};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};

use crate::functions::plain::{Call, Plain, is_whole};

/// The functions, by name; `known` has those that get another name.
pub fn functions(known: &[Arc<ScalarUDF>]) -> Vec<Arc<ScalarUDF>> {
    // All equal elements are meant, and not the first.
    let renamed = [
        ("array_remove_all", "array_remove", "list_remove"),
        ("array_replace_all", "array_replace", "list_replace"),
    ];
    // The other names, too: a function that is still known by one would come back when the session is built anew.
    let renamed = renamed.into_iter().filter_map(|(other, name, alias)| {
        let other = known.iter().rfind(|function| function.name() == other)?;
        Some(Arc::new(ScalarUDF::from(Renamed { name, other: Arc::clone(other) }).with_aliases([alias])))
    });
    let length = Plain::udf("array_length", of_dimension, |_| DataType::Int32, lengths);
    let own = [
        Arc::new(length.as_ref().clone().with_aliases(["list_length"])),
        Plain::udf("isfinite", of_time, |_| DataType::Boolean, finite),
    ];
    renamed.chain(own).collect()
}

/// A function under the name of another.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Renamed {
    name: &'static str,
    other: Arc<ScalarUDF>,
}

impl ScalarUDFImpl for Renamed {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        self.other.signature()
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.other.coerce_types(types)
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.other.return_type(types)
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs<'_>) -> Result<arrow::datatypes::FieldRef> {
        self.other.return_field_from_args(arguments)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        self.other.invoke_with_args(arguments)
    }
}

fn of_dimension(types: &[DataType]) -> Option<Vec<DataType>> {
    let list = match types.first()? {
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            DataType::List(Arc::clone(item))
        }
        DataType::Null => DataType::List(Arc::new(Field::new_list_field(DataType::Null, true))),
        _ => return None,
    };
    match types {
        [_] => Some(vec![list]),
        [_, dimension] if is_whole(dimension) => Some(vec![list, DataType::Int64]),
        _ => None,
    }
}

/// How many elements a list has; NULL if there are none.
fn lengths(call: &Call<'_>) -> Result<ArrayRef> {
    let Some(lists) = call.arrays.first() else { return plan_err!("`array_length` takes a list") };
    let dimensions = call.integers(1, 1)?;
    let length = |row: usize| {
        let mut list = Arc::clone(lists);
        let mut at = row;
        for _ in 1..dimensions.get(row).copied().flatten().filter(|dimension| (1..=8).contains(dimension))? {
            let inner = list.as_list_opt::<i32>().filter(|list| list.is_valid(at))?.value(at);
            (list, at) = (inner, 0);
            if list.is_empty() {
                return None;
            }
        }
        let list = list.as_list_opt::<i32>().filter(|list| list.is_valid(at))?;
        Some(list.value_length(at)).filter(|length| *length > 0)
    };
    Ok(Arc::new((0..call.rows()).map(length).collect::<Int32Array>()))
}

fn of_time(types: &[DataType]) -> Option<Vec<DataType>> {
    match types {
        [DataType::Interval(_) | DataType::Duration(_)] => Some(vec![crate::functions::INTERVAL]),
        [DataType::Date32 | DataType::Timestamp(_, None)] => {
            Some(vec![DataType::Timestamp(arrow::datatypes::TimeUnit::Microsecond, None)])
        }
        [DataType::Timestamp(_, zone)] => {
            Some(vec![DataType::Timestamp(arrow::datatypes::TimeUnit::Microsecond, zone.clone())])
        }
        _ => None,
    }
}

fn finite(call: &Call<'_>) -> Result<ArrayRef> {
    let Some(times) = call.arrays.first() else { return plan_err!("`isfinite` takes a time") };
    let finite: BooleanArray = match times.as_primitive_opt::<TimestampMicrosecondType>() {
        Some(times) => {
            times.iter().map(|time| time.map(|time| time != i64::MAX && time != i64::MIN)).collect()
        }
        None => {
            times.as_primitive::<IntervalMonthDayNanoType>().iter().map(|span| span.map(|_| true)).collect()
        }
    };
    Ok(Arc::new(finite))
}

/// `width_bucket(x, bounds)`: how many of the sorted bounds are not above a value.
pub fn bucket_of_bounds(values: &ArrayRef, bounds: &ArrayRef) -> Result<ArrayRef> {
    let Some(lists) = bounds.as_list_opt::<i32>() else {
        return plan_err!("`width_bucket` takes a list of bounds");
    };
    let inner = cast(lists.values(), values.data_type())?;
    let compare = make_comparator(values, &inner, SortOptions::default())?;
    let bucket = |row: usize| {
        if values.is_null(row) || lists.is_null(row) {
            return None;
        }
        let begin = usize::try_from(*lists.value_offsets().get(row)?).ok()?;
        let end = begin + usize::try_from(lists.value_length(row)).ok()?;
        let below = (begin..end).filter(|at| compare(row, *at) != Ordering::Less).count();
        i32::try_from(below).ok()
    };
    Ok(Arc::new((0..values.len()).map(bucket).collect::<Int32Array>()))
}
