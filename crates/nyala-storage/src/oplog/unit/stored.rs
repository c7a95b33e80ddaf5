//! A column in a file: all of it, or some rows without the others.

use arrow_array::ArrayRef;
use arrow_buffer::{ArrowNativeType, BooleanBuffer, Buffer};
use arrow_schema::DataType;

use super::DeadRows;
use super::base::join;
use super::forget::Texts;
use crate::oplog::codec::{Flat, Part, child_types, inflate, rebase};
use crate::oplog::error::{OplogError, Result};
use crate::oplog::files::{BlockFile, SparseReader};

/// A column in a file.
pub struct StoredColumn<'a> {
    pub file: &'a BlockFile,
    /// The column's id plus 1, as in tags of sections.
    pub tag: u32,
    pub data_type: &'a DataType,
}

impl StoredColumn<'_> {
    /// All values; rows that are `dead` come without their texts. None if the stored bytes make no sense.
    pub fn read_all(&self, rows: usize, dead: Option<&DeadRows>) -> Result<Option<ArrayRef>> {
        let live = dead.and_then(|dead| dead.live_mask(0, rows));
        let without_texts = live.map(|live| self.read_live_texts(&live)).transpose()?.flatten();
        let flat = match without_texts {
            Some(flat) => flat,
            None => read_flat(self.file, self.tag, &mut 0, self.data_type, rows)?,
        };
        Ok(inflate(self.data_type, flat))
    }

    /// The column with empty texts for dead rows. None if its type has no texts: values of other types have a fixed
    /// size.
    fn read_live_texts(&self, live: &BooleanBuffer) -> Result<Option<Flat>> {
        let buffers = match Part::of(self.data_type) {
            Some(Part::Bytes) => self.live_buffers::<i32>(live)?,
            Some(Part::LargeBytes) => self.live_buffers::<i64>(live)?,
            _ => None,
        };
        let Some(buffers) = buffers else { return Ok(None) };
        let nulls = self.file.read((self.tag, 0, 0))?;
        Ok(Some(Flat { rows: live.len(), nulls, buffers, ..Flat::default() }))
    }

    /// Offsets and texts. None if the stored bytes make no sense.
    fn live_buffers<O: ArrowNativeType + PartialOrd>(
        &self,
        live: &BooleanBuffer,
    ) -> Result<Option<Vec<Buffer>>> {
        let [ends, texts] = [1, 2].map(|part| (self.tag, 0, part));
        let ends = self.file.require_briefly(ends)?;
        let Some(stored) = Texts::<O>::new(ends.typed_data(), live, self.file.bytes_of(texts)) else {
            return Ok(None);
        };
        let kept = self.file.require_ranges(texts, || stored.live_ranges())?;
        Ok(Some(vec![stored.live_ends(), kept]))
    }

    /// The values of `rows`, which ascend. None if the stored bytes make no sense.
    pub fn read_rows(&self, rows: &[u32]) -> Result<Option<ArrayRef>> {
        let mut walk = Walk { reader: SparseReader::new(self.file), column: self.tag, node: 0 };
        let mut pieces = Vec::new();
        for run in rows.chunk_by(|row, next| row + 1 == *next) {
            let Some(first) = run.first() else { continue };
            walk.node = 0;
            let flat = walk.read(self.data_type, *first as usize, run.len())?;
            let Some(piece) = flat.and_then(|flat| inflate(self.data_type, flat)) else { return Ok(None) };
            pieces.push(piece);
        }
        Ok(join(&pieces))
    }
}

/// The way through a column and its children, depth first, as they were written.
struct Walk<'a> {
    reader: SparseReader<'a>,
    column: u32,
    node: u32,
}

impl Walk<'_> {
    fn read(&mut self, data_type: &DataType, from: usize, rows: usize) -> Result<Option<Flat>> {
        let own = self.node;
        self.node += 1;
        let Some(part) = Part::of(data_type) else { return Ok(None) };
        let nulls_tag = (self.column, own, 0);
        let nulls = self.reader.has(nulls_tag).then(|| self.bits(nulls_tag, from, rows)).transpose()?;
        let mut flat = Flat { rows, nulls, ..Flat::default() };
        let values = (self.column, own, 1);
        let mut inner = (from, rows);
        match part {
            Part::Null | Part::Struct => {}
            Part::Bits => flat.buffers.push(self.bits(values, from, rows)?),
            Part::Fixed(width) => flat.buffers.push(self.reader.range(values, from * width, rows * width)?),
            Part::FixedList(length) => inner = (from * length, rows * length),
            Part::Bytes | Part::List => {
                let Some((offsets, range)) = self.offsets::<i32>(values, from, rows)? else {
                    return Ok(None);
                };
                flat.buffers.push(offsets);
                inner = range;
            }
            Part::LargeBytes | Part::LargeList => {
                let Some((offsets, range)) = self.offsets::<i64>(values, from, rows)? else {
                    return Ok(None);
                };
                flat.buffers.push(offsets);
                inner = range;
            }
        }
        if matches!(part, Part::Bytes | Part::LargeBytes) {
            flat.buffers.push(self.reader.range((self.column, own, 2), inner.0, inner.1)?);
        }
        for child in child_types(data_type) {
            let Some(child) = self.read(child, inner.0, inner.1)? else { return Ok(None) };
            flat.children.push(child);
        }
        Ok(Some(flat))
    }

    fn bits(&mut self, tag: (u32, u32, u32), from: usize, rows: usize) -> Result<Buffer> {
        let (first, end) = (from / 8, (from + rows).div_ceil(8));
        let bytes = self.reader.range(tag, first, end - first)?;
        Ok(BooleanBuffer::new(bytes, from % 8, rows).sliced())
    }

    /// Offsets rebased to 0, and first and number of the values they cover.
    fn offsets<O: ArrowNativeType + std::ops::Sub<Output = O>>(
        &mut self,
        tag: (u32, u32, u32),
        from: usize,
        rows: usize,
    ) -> Result<Option<(Buffer, (usize, usize))>> {
        let width = size_of::<O>();
        let stored = self.reader.range(tag, from * width, (rows + 1) * width)?;
        let ordered = stored.typed_data::<O>().is_sorted();
        let range = rebase::<O>(&stored, 0, rows).filter(|_| ordered);
        Ok(range.map(|(offsets, first, end)| (offsets, (first, end - first))))
    }
}

fn read_flat(
    file: &BlockFile,
    column: u32,
    node: &mut u32,
    data_type: &DataType,
    rows: usize,
) -> Result<Flat> {
    let own = *node;
    *node += 1;
    let nulls = file.read((column, own, 0))?;
    let mut flat = Flat { rows, nulls, ..Flat::default() };
    let part = Part::of(data_type).ok_or_else(|| OplogError::invalid("unknown type"))?;
    if !matches!(part, Part::FixedList(_) | Part::Struct | Part::Null) {
        flat.buffers.push(file.require((column, own, 1))?);
    }
    if matches!(part, Part::Bytes | Part::LargeBytes) {
        flat.buffers.push(file.require((column, own, 2))?);
    }
    let child_rows = match (part, flat.buffers.first()) {
        (Part::List, Some(offsets)) => offsets.typed_data::<i32>().last().map_or(0, |last| *last as usize),
        (Part::LargeList, Some(offsets)) => {
            offsets.typed_data::<i64>().last().map_or(0, |last| *last as usize)
        }
        (Part::FixedList(length), _) => rows * length,
        _ => rows,
    };
    for child in child_types(data_type) {
        flat.children.push(read_flat(file, column, node, child, child_rows)?);
    }
    Ok(flat)
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use arrow_array::{Array, Int64Array, StringArray, UInt32Array};
    use arrow_cast::cast;
    use arrow_schema::{Field, Schema};
    use arrow_select::take::take;

    use super::*;
    use crate::oplog::meta::{TableMeta, TableSpec};
    use crate::oplog::tests::random;
    use crate::oplog::unit::{Base, Lsns, key_header, seal};
    use crate::oplog::vfs::Folder;
    use crate::oplog::vfs::sim::{Rng, SimDisk};

    const ROWS: usize = 150;

    /// A unit with this column, the second of two.
    fn sealed(column: &ArrayRef) -> Base {
        let folder = Folder::new(Arc::new(SimDisk::new(1)), Path::new("/store"));
        let value = Field::new("v", column.data_type().clone(), true);
        let fields = vec![Field::new("k", DataType::Int64, false), value];
        let spec = TableSpec::new("t", Arc::new(Schema::new(fields)), &["k"]);
        let schema = TableMeta::new(1, &spec).unwrap().current().unwrap().clone();
        let rows = column.len();
        let columns = vec![Arc::new(Int64Array::from_iter_values(0..rows as i64)), column.clone()];
        let (header, hashes) = (key_header([1; 16], 1, 1, 1), vec![0; rows]);
        seal(&folder, header, &schema, &hashes, &Lsns::one(1), columns, &mut || Ok(())).unwrap().0
    }

    fn dead_rows(rows: impl IntoIterator<Item = usize>) -> DeadRows {
        let mut dead = DeadRows::default();
        rows.into_iter().for_each(|row| assert!(dead.insert(row as u32)));
        dead
    }

    /// Writes a column, then reads some of its rows without the others, and all of them while the others are dead.
    fn check(rng: &mut Rng, data_type: &DataType) {
        let column = random::array(rng, data_type, ROWS, true);
        let base = sealed(&column);
        for _ in 0..20 {
            let one_in = 1 + rng.below(8);
            let rows: Vec<u32> = (0..ROWS as u32).filter(|_| rng.one_in(one_in)).collect();
            let (stored, _) = base.stored(1).unwrap();
            let expected = take(&column, &UInt32Array::from(rows.clone()), None).unwrap();
            match stored.read_rows(&rows).unwrap() {
                Some(found) => assert_eq!(&found, &expected, "{rows:?} of {data_type}"),
                None => assert!(rows.is_empty(), "{rows:?} of {data_type}"),
            }
            let dead = dead_rows((0..ROWS).filter(|row| rows.binary_search(&(*row as u32)).is_err()));
            let all = stored.read_all(ROWS, Some(&dead)).unwrap().unwrap();
            assert_eq!(all.len(), ROWS);
            assert_eq!(
                &take(&all, &UInt32Array::from(rows.clone()), None).unwrap(),
                &expected,
                "{rows:?} of {data_type}"
            );
        }
    }

    /// Rows of 64 KiB: eight of them are read at once.
    #[test]
    fn texts_of_dead_rows_are_empty_wherever_they_are() {
        const MANY: usize = 27;
        let text =
            |row: usize| (row % 11 != 5).then(|| char::from(b'a' + row as u8).to_string().repeat(64 << 10));
        let texts: StringArray = (0..MANY).map(text).collect();
        let dead_ones: [&[usize]; 8] = [
            &[0],
            &[7],
            &[8],
            &[7, 8],
            &[0, 1, 2, 3, 4, 5, 6, 7],
            &[1, 5, 16, 23, 24, 26],
            &[8, 9, 10, 11, 12, 13, 14, 15, 26],
            &[2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 25, 26],
        ];
        for data_type in [DataType::Utf8, DataType::LargeUtf8, DataType::Utf8View] {
            let column = cast(&texts, &data_type).unwrap();
            let base = sealed(&column);
            let (stored, _) = base.stored(1).unwrap();
            for dead in dead_ones {
                let left =
                    |row: usize| text(row).map(|text| if dead.contains(&row) { String::new() } else { text });
                let expected: StringArray = (0..MANY).map(left).collect();
                let dead = dead_rows(dead.iter().copied());
                let found = stored.read_all(MANY, Some(&dead)).unwrap().unwrap();
                assert_eq!(found.data_type(), &data_type);
                assert!(
                    cast(&found, &DataType::Utf8).unwrap().as_ref() == &expected as &dyn Array,
                    "{data_type}"
                );
            }
        }
    }

    #[test]
    fn rows_of_all_types_are_read_without_the_others() {
        let mut rng = Rng(7);
        random::leaf_types().iter().for_each(|data_type| check(&mut rng, data_type));
        for _ in 0..40 {
            let data_type = random::nested_type(&mut rng, 2);
            check(&mut rng, &data_type);
        }
    }
}
