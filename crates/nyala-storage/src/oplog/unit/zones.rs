//! The lowest and the highest value of a column in each zone, so that a scan can skip zones.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_arith::aggregate as find;
use arrow_array::cast::AsArray;
use arrow_array::*;
use arrow_schema::DataType;

use super::base::join;
use crate::oplog::codec::{In, Out, read_rows, write_rows};
use crate::oplog::meta::SchemaVersion;

/// Rows of one zone, and of one part of a scan.
pub const ZONE_ROWS: u32 = 1 << 16;
/// Bounds that are longer texts or bytes are cut to this length.
const KEPT_BYTES: usize = 64;

/// Bounds of the values of a column, zone by zone. Dead rows count.
#[derive(Debug, Clone)]
pub struct Zones {
    /// A value that no value of the zone is lower than; null if all are null or the bound is not known.
    pub lows: ArrayRef,
    /// A value that no value of the zone is higher than; null if all are null or the bound is not known.
    pub highs: ArrayRef,
    pub nulls: UInt64Array,
}

impl PartialEq for Zones {
    fn eq(&self, other: &Self) -> bool {
        *self.lows == *other.lows && *self.highs == *other.highs && self.nulls == other.nulls
    }
}

/// Zones of columns by their ids.
pub type ZoneMap = BTreeMap<u32, Zones>;

impl Zones {
    /// The zones of a column. None if values of its type are not compared, or if it has no rows.
    pub fn of(column: &ArrayRef) -> Option<Self> {
        let starts = (0..column.len()).step_by(ZONE_ROWS as usize);
        let zones = starts.map(|from| column.slice(from, (ZONE_ROWS as usize).min(column.len() - from)));
        let zones: Vec<ArrayRef> = zones.collect();
        let (lows, highs): (Vec<ArrayRef>, Vec<ArrayRef>) =
            zones.iter().map(bounds).collect::<Option<Vec<_>>>()?.into_iter().unzip();
        let nulls = zones.iter().map(|zone| zone.null_count() as u64).collect::<Vec<_>>().into();
        Some(Self { lows: join(&lows)?, highs: join(&highs)?, nulls })
    }

    /// The zones of all columns that have some.
    pub fn of_columns(schema: &SchemaVersion, columns: &[ArrayRef]) -> ZoneMap {
        let columns = schema.columns.iter().zip(columns);
        columns.filter_map(|(column, array)| Some((column.id, Self::of(array)?))).collect()
    }
}

/// Zones as bytes. None if there are none.
pub fn write_zones(zones: &ZoneMap) -> Option<Vec<u8>> {
    let mut out = Out::default();
    for (id, zones) in zones {
        out.var((*id).into());
        let columns = [zones.lows.clone(), zones.highs.clone(), Arc::new(zones.nulls.clone())];
        write_rows(&mut out, zones.nulls.len(), &columns)?;
    }
    Some(out.0).filter(|bytes| !bytes.is_empty())
}

/// Reads the output of [`write_zones`]; none if it does not fit so many rows.
pub fn read_zones(bytes: &[u8], schema: &SchemaVersion, rows: u32) -> Option<ZoneMap> {
    let (mut input, mut map) = (In(bytes), ZoneMap::new());
    while !input.is_empty() {
        let id = input.small()?;
        let data_type = schema.columns.get(schema.position(id)?)?.field.data_type();
        let (zones, columns) = read_rows(&mut input, &[data_type, data_type, &DataType::UInt64])?;
        let [lows, highs, nulls] = <[ArrayRef; 3]>::try_from(columns).ok()?;
        if zones != rows.div_ceil(ZONE_ROWS) as usize {
            return None;
        }
        map.insert(id, Zones { lows, highs, nulls: nulls.as_primitive_opt()?.clone() });
    }
    Some(map)
}

/// The lowest and the highest value of an array, each as an array of one.
pub fn bounds(array: &ArrayRef) -> Option<(ArrayRef, ArrayRef)> {
    let any = array.as_ref();
    match array.data_type() {
        DataType::Interval(_) => None,
        DataType::Boolean => {
            let bits = array.as_boolean();
            let pair = [find::min_boolean(bits), find::max_boolean(bits)];
            Some(both(pair.map(|value| BooleanArray::from(vec![value]))))
        }
        DataType::Utf8 => {
            texts(find::min_string(any.as_string::<i32>()), find::max_string(any.as_string::<i32>()), array)
        }
        DataType::LargeUtf8 => {
            texts(find::min_string(any.as_string::<i64>()), find::max_string(any.as_string::<i64>()), array)
        }
        DataType::Utf8View => texts(
            find::min_string_view(any.as_string_view()),
            find::max_string_view(any.as_string_view()),
            array,
        ),
        DataType::Binary => {
            blobs(find::min_binary(any.as_binary::<i32>()), find::max_binary(any.as_binary::<i32>()), array)
        }
        DataType::LargeBinary => {
            blobs(find::min_binary(any.as_binary::<i64>()), find::max_binary(any.as_binary::<i64>()), array)
        }
        DataType::BinaryView => blobs(
            find::min_binary_view(any.as_binary_view()),
            find::max_binary_view(any.as_binary_view()),
            array,
        ),
        DataType::FixedSizeBinary(width) if *width as usize <= KEPT_BYTES => {
            let blobs = array.as_fixed_size_binary();
            let one = |value| {
                FixedSizeBinaryArray::try_from_sparse_iter_with_size([value].into_iter(), *width).ok()
            };
            Some(both([one(find::min_fixed_size_binary(blobs))?, one(find::max_fixed_size_binary(blobs))?]))
        }
        _ => downcast_primitive_array!(
            any => Some((one(any, find::min(any)), one(any, find::max(any)))),
            _ => None,
        ),
    }
}

fn both<A: Array + 'static>([low, high]: [A; 2]) -> (ArrayRef, ArrayRef) {
    (Arc::new(low), Arc::new(high))
}

/// Bounds of texts, cut, as arrays of the type of another.
fn texts(low: Option<&str>, high: Option<&str>, like: &ArrayRef) -> Option<(ArrayRef, ArrayRef)> {
    let pair = [low.map(|low| floor(low).to_owned()), high.and_then(ceiling)];
    Some(match like.data_type() {
        DataType::Utf8 => both(pair.map(|value| StringArray::from(vec![value]))),
        DataType::LargeUtf8 => both(pair.map(|value| LargeStringArray::from(vec![value]))),
        _ => both(pair.map(|value| StringViewArray::from_iter([value]))),
    })
}

/// Bounds of bytes, cut, as arrays of the type of another.
fn blobs(low: Option<&[u8]>, high: Option<&[u8]>, like: &ArrayRef) -> Option<(ArrayRef, ArrayRef)> {
    let cut = |bytes: &[u8]| bytes.get(..KEPT_BYTES).unwrap_or(bytes).to_vec();
    let pair = [low.map(cut), high.and_then(ceiling_of_bytes)];
    Some(match like.data_type() {
        DataType::Binary => both(pair.map(|value| BinaryArray::from_iter([value]))),
        DataType::LargeBinary => both(pair.map(|value| LargeBinaryArray::from_iter([value]))),
        _ => both(pair.map(|value| BinaryViewArray::from_iter([value]))),
    })
}

/// A value as an array of the type of another.
fn one<T: ArrowPrimitiveType>(like: &PrimitiveArray<T>, value: Option<T::Native>) -> ArrayRef {
    let value: PrimitiveArray<T> = [value].into_iter().collect();
    Arc::new(value.with_data_type(like.data_type().clone()))
}

/// A text that is not higher, cut.
fn floor(text: &str) -> &str {
    text.get(..text.floor_char_boundary(KEPT_BYTES)).unwrap_or(text)
}

/// A text that is not lower, cut; none if there is no such text.
fn ceiling(text: &str) -> Option<String> {
    if text.len() <= KEPT_BYTES {
        return Some(text.to_owned());
    }
    let mut cut = floor(text).to_owned();
    while let Some(last) = cut.pop() {
        let next = (last..=char::MAX).nth(1);
        if let Some(next) = next {
            cut.push(next);
            return Some(cut);
        }
    }
    None
}

/// Bytes that are not lower, cut; none if there are no such bytes.
fn ceiling_of_bytes(bytes: &[u8]) -> Option<Vec<u8>> {
    let Some(cut) = bytes.get(..KEPT_BYTES).filter(|cut| cut.len() < bytes.len()) else {
        return Some(bytes.to_vec());
    };
    let mut cut = cut.to_vec();
    while let Some(last) = cut.pop() {
        if let Some(next) = last.checked_add(1) {
            cut.push(next);
            return Some(cut);
        }
    }
    None
}

/// Bounds of a column in some parts of a scan, in the order of the parts.
#[derive(Debug, Clone)]
pub struct Bounds {
    /// A value that no value of the part is lower than; null if there is no value or the bound is not known.
    pub lows: ArrayRef,
    /// A value that no value of the part is higher than; null if there is no value or the bound is not known.
    pub highs: ArrayRef,
    /// Number of nulls, dead rows included as in [`super::Part::rows`]; null if it is not known.
    pub nulls: UInt64Array,
}

#[cfg(test)]
mod tests {
    use arrow_schema::{Field, Schema};

    use super::*;
    use crate::oplog::meta::{TableMeta, TableSpec};
    use crate::oplog::tests::random;
    use crate::oplog::vfs::sim::Rng;

    #[test]
    fn long_texts_are_bounded_by_short_ones() {
        for text in ["", "short", &"x".repeat(100), &"é".repeat(70), &"漢".repeat(30)] {
            let (low, high) = (floor(text), ceiling(text).unwrap());
            assert!(low <= text && text <= high.as_str(), "{low} {text} {high}");
            assert!(low.len() <= KEPT_BYTES && high.len() <= KEPT_BYTES + 4);
        }
        assert_eq!(ceiling(&char::MAX.to_string().repeat(20)), None);
        assert_eq!(ceiling(&format!("a{}", char::MAX.to_string().repeat(20))).as_deref(), Some("b"));
        assert_eq!(ceiling(&"\u{D7FF}".repeat(22)).map(|text| text.ends_with('\u{E000}')), Some(true));
    }

    #[test]
    fn long_blobs_are_bounded_by_short_ones() {
        for blob in [&[][..], &[1, 255], &[7; 100], &[255; 64]] {
            assert!(blob <= ceiling_of_bytes(blob).unwrap().as_slice());
        }
        assert_eq!(ceiling_of_bytes(&[255; 65]), None);
        assert_eq!(ceiling_of_bytes(&[&[3][..], &[255; 80]].concat()), Some(vec![4]));
    }

    #[test]
    fn zones_of_all_types_come_back() {
        let mut rng = Rng(3);
        let rows = ZONE_ROWS as usize + 100;
        for data_type in random::leaf_types() {
            let fields =
                vec![Field::new("k", DataType::Int8, false), Field::new("v", data_type.clone(), true)];
            let spec = TableSpec::new("t", Arc::new(Schema::new(fields)), &["k"]);
            let schema = TableMeta::new(1, &spec).unwrap().current().unwrap().clone();
            let few = random::array(&mut rng, &data_type, 50, true);
            let columns = [random::array(&mut rng, &DataType::Int8, 50, false), few];
            let zones = Zones::of_columns(&schema, &columns);
            let bytes = write_zones(&zones).unwrap();
            assert_eq!(read_zones(&bytes, &schema, 50), Some(zones), "{data_type}");
            assert_eq!(read_zones(&bytes, &schema, ZONE_ROWS + 1), None);
            assert_eq!(read_zones(&bytes[..bytes.len() - 1], &schema, 50), None);
        }
        let numbers: ArrayRef =
            Arc::new((0..rows as i64).map(|row| (row != 7).then_some(row)).collect::<Int64Array>());
        let zones = Zones::of(&numbers).unwrap();
        let last = i64::from(ZONE_ROWS) + 99;
        assert_eq!(zones.lows.as_primitive::<types::Int64Type>().values(), &[0, i64::from(ZONE_ROWS)]);
        assert_eq!(
            zones.highs.as_primitive::<types::Int64Type>().values(),
            &[i64::from(ZONE_ROWS) - 1, last]
        );
        assert_eq!(zones.nulls.values(), &[1, 0]);
    }
}
