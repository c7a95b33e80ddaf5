//! Functions of lists with the names, and the results, that they have in PostgreSQL.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Int32Array, ListArray, StringViewArray, UInt64Array,
    make_comparator,
};
use arrow::buffer::OffsetBuffer;
use arrow::compute::kernels::zip::zip;
use arrow::compute::{SortOptions, cast, take};
use arrow::datatypes::{DataType, Field, Int64Type, IntervalMonthDayNanoType, TimestampMicrosecondType};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};

use crate::error::{ErrorKind, QueryError};
use crate::functions::call_rows::CallRows;
use crate::functions::list_texts::{element_texts, is_list, usual};
use crate::functions::plain::{Call, Plain, is_text, is_whole};

/// Functions whose arguments are changed before DataFusion's function gets them.
const REMOVE: &str = "array_remove";
const RESIZE: &str = "array_resize";

/// The functions, by name; `known` has those that get another name.
pub fn functions(known: &[Arc<ScalarUDF>]) -> Vec<Arc<ScalarUDF>> {
    // PostgreSQL removes and replaces all equal elements, where DataFusion takes the first.
    let renamed = [
        ("array_remove_all", REMOVE, "list_remove"),
        ("array_replace_all", "array_replace", "list_replace"),
        (RESIZE, RESIZE, "list_resize"),
    ];
    // The other names are replaced, too: a function that is still known by one would come back when the session is built anew.
    let renamed = renamed.into_iter().filter_map(|(other, name, alias)| {
        let other = known.iter().rfind(|function| function.name() == other)?;
        Some(Arc::new(ScalarUDF::from(Renamed { name, other: Arc::clone(other) }).with_aliases([alias])))
    });
    let length = Plain::udf("array_length", of_dimension, |_| DataType::Int32, lengths);
    let ndims = Plain::udf("array_ndims", of_one_list, |_| DataType::Int32, dimensions);
    let dims = Plain::udf("array_dims", of_one_list, |_| DataType::Utf8View, bounds);
    let written = Plain::udf("array_to_string", of_list_and_texts, |_| DataType::Utf8View, joined);
    let own = [
        Arc::new(length.as_ref().clone().with_aliases(["list_length"])),
        Arc::new(ndims.as_ref().clone().with_aliases(["list_ndims"])),
        Arc::new(dims.as_ref().clone().with_aliases(["list_dims"])),
        Arc::new(written.as_ref().clone().with_aliases(["list_to_string", "array_join", "list_join"])),
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
        match self.name {
            REMOVE => removed(&self.other, arguments),
            RESIZE => {
                let size = arguments.args.get(1).map(|size| size.to_array(1)).transpose()?;
                refuse_negative(size)?;
                self.other.invoke_with_args(arguments)
            }
            _ => self.other.invoke_with_args(arguments),
        }
    }
}

fn refuse_negative(size: Option<ArrayRef>) -> Result<(), QueryError> {
    let Some(size) = size else { return Ok(()) };
    let sizes = cast(&size, &DataType::Int64)?;
    match sizes.as_primitive::<Int64Type>().iter().flatten().find(|size| *size < 0) {
        Some(size) => {
            let message = format!("an array cannot have {size} elements");
            Err(QueryError::new(ErrorKind::OutOfRange, message).hint("give a size of 0 or more"))
        }
        None => Ok(()),
    }
}

/// The lists without the elements that are equal to a value, or NULL if it is NULL.
fn removed(function: &ScalarUDF, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
    let rows = CallRows::of(&arguments);
    let [lists, values] = arguments.args.as_slice() else { return function.invoke_with_args(arguments) };
    let (lists, values) = (lists.to_array(rows.count())?, values.to_array(rows.count())?);
    if values.logical_null_count() == 0 || !matches!(lists.data_type(), DataType::List(_)) {
        return function.invoke_with_args(arguments);
    }
    let known = function.invoke_with_args(arguments)?.to_array(rows.count())?;
    let known = cast(&known, lists.data_type())?;
    let without = without_nulls(lists.as_list::<i32>())?;
    let nulls = values.logical_nulls();
    let is_null: BooleanArray =
        (0..rows.count()).map(|row| Some(nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)))).collect();
    rows.value(zip(&is_null, &without, &known)?)
}

fn without_nulls(lists: &ListArray) -> Result<ListArray> {
    let nulls = lists.values().logical_nulls();
    let is_known = |at: &usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(*at));
    let (mut places, mut lengths) = (Vec::new(), Vec::with_capacity(lists.len()));
    for bounds in lists.value_offsets().windows(2) {
        let &[first, end] = bounds else { continue };
        let before = places.len();
        let range = usize::try_from(first).unwrap_or(0)..usize::try_from(end).unwrap_or(0);
        places.extend(range.filter(is_known).map(|at| at as u64));
        lengths.push(places.len() - before);
    }
    let values = take(lists.values(), &UInt64Array::from(places), None)?;
    let DataType::List(item) = lists.data_type() else { return plan_err!("a list has elements") };
    let offsets = OffsetBuffer::from_lengths(lengths);
    Ok(ListArray::try_new(Arc::clone(item), offsets, values, lists.nulls().cloned())?)
}

fn of_one_list(types: &[DataType]) -> Option<Vec<DataType>> {
    if types.len() == 1 { of_dimension(types) } else { None }
}

fn of_list_and_texts(types: &[DataType]) -> Option<Vec<DataType>> {
    let [list, texts @ ..] = types else { return None };
    let lists = of_dimension(std::slice::from_ref(list))?;
    let is_fit = (1..=2).contains(&texts.len()) && texts.iter().all(is_text);
    is_fit.then(|| lists.into_iter().chain(texts.iter().map(|_| DataType::Utf8View)).collect())
}

/// How many elements the lists of a row have in each dimension; none if there are no elements.
fn extents(lists: &ArrayRef, row: usize) -> Vec<i32> {
    let (mut list, mut at, mut extents) = (Arc::clone(lists), row, Vec::new());
    while let Some(inner) = list.as_list_opt::<i32>().filter(|list| list.len() > at && list.is_valid(at)) {
        let length = inner.value_length(at);
        if length == 0 {
            break;
        }
        extents.push(length);
        (list, at) = (inner.value(at), 0);
    }
    extents
}

fn dimensions(call: &Call<'_>) -> Result<ArrayRef> {
    let Some(lists) = call.arrays.first() else { return plan_err!("`array_ndims` takes a list") };
    let count = |row: usize| i32::try_from(extents(lists, row).len()).ok().filter(|count| *count > 0);
    Ok(Arc::new((0..call.rows()).map(count).collect::<Int32Array>()))
}

/// `[1:2][1:3]`.
fn bounds(call: &Call<'_>) -> Result<ArrayRef> {
    let Some(lists) = call.arrays.first() else { return plan_err!("`array_dims` takes a list") };
    let text = |row: usize| {
        let text: String = extents(lists, row).iter().map(|length| format!("[1:{length}]")).collect();
        (!text.is_empty()).then_some(text)
    };
    Ok(Arc::new((0..call.rows()).map(text).collect::<StringViewArray>()))
}

/// The elements as texts, one behind the other; NULL is left out, or has a text.
fn joined(call: &Call<'_>) -> Result<ArrayRef> {
    let Some(lists) = call.arrays.first() else { return plan_err!("`array_to_string` takes a list") };
    let (between, otherwise) = (call.texts(1)?, call.texts(2)?);
    let text = |row: usize| {
        if lists.is_null(row) || between.is_null(row) {
            return Ok(None);
        }
        let mut values = lists.slice(row, 1);
        while is_list(values.data_type()) {
            let inner = usual(&values)?;
            let (first, end) = match inner.value_offsets() {
                [first, .., end] => (*first as usize, *end as usize),
                _ => (0, 0),
            };
            values = inner.values().slice(first, end - first);
        }
        let values = cast(&element_texts(&values)?, &DataType::Utf8)?;
        let otherwise = otherwise.is_valid(row).then(|| otherwise.value(row));
        let texts: Vec<&str> =
            values.as_string::<i32>().iter().filter_map(|value| value.or(otherwise)).collect();
        Ok(Some(texts.join(between.value(row))))
    };
    Ok(Arc::new((0..call.rows()).map(text).collect::<Result<StringViewArray>>()?))
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
