//! Writing a unit's files.

use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_buffer::{Buffer, ScalarBuffer};

use super::{Base, DeadRows, Facts, Hashes, Lsns, Rows, ZoneMap, Zones, read_zones, write_zones};
use crate::oplog::codec::{Flat, flatten};
use crate::oplog::error::{OplogError, Result};
use crate::oplog::files::{BlockFile, BlockHeader, BlockKind, BlockWriter, FileRef};
use crate::oplog::meta::SchemaVersion;
use crate::oplog::vfs::Folder;

const HASHES: (u32, u32, u32) = (0, 0, 0);
const LSN_STARTS: (u32, u32, u32) = (0, 1, 0);
const LSNS: (u32, u32, u32) = (0, 1, 1);
const ZONES: (u32, u32, u32) = (0, 2, 0);
const DEAD: (u32, u32, u32) = (0, 0, 0);

pub fn key_header(store: [u8; 16], table: u32, unit: u64, version: u64) -> BlockHeader {
    BlockHeader { kind: BlockKind::Keys, store, table, unit, version }
}

/// Writes `.seg` and `.key` of a unit with the given `columns`, and opens them with all columns in memory. `between`
/// is called now and then meanwhile.
pub fn seal(
    folder: &Folder,
    key_header: BlockHeader,
    schema: &Arc<SchemaVersion>,
    hashes: &[u64],
    lsns: &Lsns,
    columns: Vec<ArrayRef>,
    between: &mut dyn FnMut() -> Result<()>,
) -> Result<(Base, FileRef, FileRef)> {
    let rows = hashes.len() as u64;
    let seg_header = BlockHeader { kind: BlockKind::Values, version: 0, ..key_header };
    let mut seg = BlockWriter::create(folder, seg_header, rows)?;
    let mut key = start_key(folder, key_header, hashes, lsns)?;
    for (position, (column, array)) in schema.columns.iter().zip(&columns).enumerate() {
        let flat = flatten(array).ok_or_else(|| OplogError::invalid("a column does not fit"))?;
        let writer = if schema.key.contains(&position) { &mut key } else { &mut seg };
        write_flat(writer, column.id + 1, &mut 0, &flat, between)?;
        between()?;
    }
    let zones = Zones::of_columns(schema, &columns);
    if let Some(bytes) = write_zones(&zones) {
        key.section(ZONES, &bytes)?;
    }
    let seg_ref = seg.finish()?;
    between()?;
    let key_ref = key.finish()?;
    let key = BlockFile::open(folder, &key_header, Some(&key_ref))?;
    let seg = BlockFile::open(folder, &seg_header, Some(&seg_ref))?;
    let first_key = schema.key.first().and_then(|key| schema.columns.get(*key));
    let first_key = first_key.and_then(|key| zones.get(&key.id));
    let facts = Facts::new(lsns, first_key.as_slice());
    let (table, schema, lsns) = (key_header.table, schema.clone(), lsns.clone());
    let base = Base::sealed(Rows { table, rows: rows as u32, schema, lsns, facts, zones }, key, seg);
    columns.into_iter().enumerate().for_each(|(position, array)| base.fill(position, array));
    Ok((base, seg_ref, key_ref))
}

/// Writes a `.key` file with hashes and LSNs only: a checkpoint of the keys of rows that are in a log.
pub fn write_hashes(folder: &Folder, header: BlockHeader, hashes: &[u64], lsns: &Lsns) -> Result<FileRef> {
    start_key(folder, header, hashes, lsns)?.finish()
}

fn start_key(folder: &Folder, header: BlockHeader, hashes: &[u64], lsns: &Lsns) -> Result<BlockWriter> {
    let mut writer = BlockWriter::create(folder, header, hashes.len() as u64)?;
    writer.section(HASHES, &Buffer::from_slice_ref(hashes))?;
    writer.section(LSN_STARTS, &Buffer::from_slice_ref(lsns.starts.as_slice()))?;
    writer.section(LSNS, &Buffer::from_slice_ref(lsns.lsns.as_slice()))?;
    Ok(writer)
}

/// Hashes and LSNs in a `.key` file.
pub fn read_hashes(file: &BlockFile, rows: u32) -> Result<(Hashes, Lsns)> {
    let (hashes, starts, lsns) =
        (file.require(HASHES)?, file.require_briefly(LSN_STARTS)?, file.require_briefly(LSNS)?);
    let bad = || file.file().damaged(0, "hashes and LSNs do not fit the rows");
    if hashes.len() != rows as usize * 8 || starts.len() * 2 != lsns.len() || starts.len() % 4 != 0 {
        return Err(bad());
    }
    let lsns = Lsns { starts: starts.typed_data::<u32>().to_vec(), lsns: lsns.typed_data::<u64>().to_vec() };
    let hashes = Hashes::Read(ScalarBuffer::new(hashes, 0, rows as usize));
    if lsns.fit(rows) { Ok((hashes, lsns)) } else { Err(bad()) }
}

/// Bounds of columns in a `.key` file; empty if it has none.
pub fn read_bounds(file: &BlockFile, schema: &SchemaVersion, rows: u32) -> Result<ZoneMap> {
    let Some(bytes) = file.read(ZONES)? else { return Ok(ZoneMap::new()) };
    read_zones(&bytes, schema, rows)
        .ok_or_else(|| file.file().damaged(0, "bounds of columns do not fit the rows"))
}

/// Writes the dead rows of a unit.
pub fn write_dead(folder: &Folder, header: BlockHeader, dead: &DeadRows, rows: u32) -> Result<FileRef> {
    let mut writer = BlockWriter::create(folder, header, rows.into())?;
    writer.section(DEAD, &dead.to_bytes(rows))?;
    writer.finish()
}

pub fn read_dead(file: &BlockFile, rows: u32) -> Result<DeadRows> {
    let bytes = file.require_briefly(DEAD)?;
    DeadRows::from_bytes(&bytes, rows).ok_or_else(|| file.file().damaged(0, "dead rows do not fit the rows"))
}

fn write_flat(
    writer: &mut BlockWriter,
    column: u32,
    node: &mut u32,
    flat: &Flat,
    between: &mut dyn FnMut() -> Result<()>,
) -> Result<()> {
    let own = *node;
    *node += 1;
    if let Some(nulls) = &flat.nulls {
        writer.section_in_pieces((column, own, 0), nulls, between)?;
    }
    for (buffer, number) in flat.buffers.iter().zip(1..) {
        writer.section_in_pieces((column, own, number), buffer, between)?;
    }
    flat.children.iter().try_for_each(|child| write_flat(writer, column, node, child, between))
}
