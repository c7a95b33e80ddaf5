//! Recovery: units with their keys, in parallel; no value is read.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::build::{Sorted, build_index, sort_ahead};
use super::progress::{Phase, Progress};
use super::workers::in_parallel;
use crate::oplog::error::{Damage, LostRows, OplogError, Result};
use crate::oplog::files::{BlockFile, BlockHeader, BlockKind, Manifest, Source, UnitEntry};
use crate::oplog::log::{LogHeader, log_name, log_number};
use crate::oplog::meta::TableMeta;
use crate::oplog::table::TableState;
use crate::oplog::unit::{
    Base, DeadRows, LogRange, Rows, Unit, key_header, read_bounds, read_dead, read_hashes,
};
use crate::oplog::vfs::{Folder, Reads};

/// Rough lower bound of log bytes per row: an index gets room for the rows that the log may bring, because growing it
/// later needs the hash of every row.
const LOG_BYTES_A_ROW: usize = 64;

/// Bytes of log to read ahead: there is hardly more behind a checkpoint.
const LOG_AHEAD_BYTES: u64 = 32 << 20;

/// The tables of a manifest with their units. Units that are damaged are left out, and their tables say so;
/// any other failure is the caller's.
pub fn load_tables(
    folder: &Folder,
    manifest: &Manifest,
    threads: usize,
    progress: &Progress,
) -> Result<BTreeMap<u32, TableState>> {
    progress.enter(Phase::Keys);
    let mut tables: BTreeMap<u32, TableState> = BTreeMap::new();
    for meta in &manifest.tables {
        let lsn = manifest.held(meta.id).map_or(manifest.lsn, |held| held.lsn);
        tables.insert(meta.id, TableState::new(Arc::new(meta.clone()), lsn));
    }
    for (id, labels) in &manifest.labels {
        if let Some(table) = tables.get_mut(id) {
            table.labels = labels.clone();
        }
    }
    let metas: BTreeMap<u32, &TableMeta> = manifest.tables.iter().map(|meta| (meta.id, meta)).collect();
    let rows = manifest.units.iter().map(|entry| u64::from(entry.rows)).sum();
    progress.rows_total.fetch_add(rows, Relaxed);
    let live = manifest.units.iter().map(|entry| u64::from(entry.rows.saturating_sub(entry.dead))).sum();
    let units = in_parallel(threads, &manifest.units, |entry| {
        let meta = metas.get(&entry.table).ok_or_else(|| no_such(folder, manifest, "table"))?;
        let unit = load_unit(folder, manifest, meta, entry).map(|unit| {
            let sorted = sort_ahead(&unit, live);
            (unit, sorted)
        });
        progress.rows_done.fetch_add(entry.rows.into(), Relaxed);
        unit
    });
    expect_log(folder, manifest);
    let mut ahead: BTreeMap<u32, Vec<Option<Sorted>>> = BTreeMap::new();
    for (entry, unit) in manifest.units.iter().zip(units) {
        let Some(table) = tables.get_mut(&entry.table) else {
            return Err(no_such(folder, manifest, "table"));
        };
        match unit {
            Ok((unit, sorted)) => {
                progress.rows.fetch_add(unit.live().into(), Relaxed);
                table.keys_loaded = false;
                table.add(unit);
                ahead.entry(entry.table).or_default().push(sorted);
            }
            Err(OplogError::Damaged(damage)) => {
                let lost = LostRows::new(&table.meta, entry.rows - entry.dead, &entry.facts);
                table.damage.push(Damage { rows: Some(Box::new(lost)), ..damage });
                table.incomplete = true;
            }
            Err(error) => return Err(error),
        }
    }
    let expected = unread_log(folder, manifest) / LOG_BYTES_A_ROW;
    for (id, table) in &mut tables {
        let ahead = ahead.remove(id).unwrap_or_default();
        table.index = build_index(&table.units, ahead, threads, expected);
    }
    Ok(tables)
}

/// Starts reading ahead in the log, which is read after the index of all keys is built.
fn expect_log(folder: &Folder, manifest: &Manifest) {
    let (number, from) = manifest.log;
    // If the log cannot be opened, the replay reports that.
    if let Ok(file) = folder.open(&log_name(number)) {
        file.expect_reads(Reads::Soon { from, bytes: LOG_AHEAD_BYTES });
    }
}

/// Bytes of log that are still to be read.
fn unread_log(folder: &Folder, manifest: &Manifest) -> usize {
    let names = folder.list().unwrap_or_default();
    let unread = names.iter().filter(|name| log_number(name).is_some_and(|number| number >= manifest.log.0));
    let bytes: u64 = unread.filter_map(|name| folder.open(name).and_then(|file| file.bytes()).ok()).sum();
    bytes.saturating_sub(manifest.log.1) as usize
}

/// Bytes that are read for all values of a table.
pub fn value_bytes(table: &TableState) -> u64 {
    let bases = table.units().flat_map(|unit| &unit.data.base);
    bases.flat_map(|base| base.reads()).map(|(_, bytes)| bytes).sum()
}

fn no_such(folder: &Folder, manifest: &Manifest, what: &str) -> OplogError {
    let file = folder.path().join(format!("manifest-{}", manifest.number));
    OplogError::damaged(&file, 0, format!("a unit belongs to a {what} that is not there"))
}

/// One unit: its hashes, LSNs and dead rows. Values stay where they are.
pub fn load_unit(folder: &Folder, manifest: &Manifest, meta: &TableMeta, entry: &UnitEntry) -> Result<Unit> {
    let schema =
        meta.versions.get(entry.schema as usize).ok_or_else(|| no_such(folder, manifest, "schema"))?;
    let key_ref = entry.files.key.as_ref().ok_or_else(|| no_such(folder, manifest, "key file"))?;
    let header = key_header(manifest.store, entry.table, entry.unit, key_ref.version);
    let key = BlockFile::open(folder, &header, Some(key_ref))?;
    if key.rows() != u64::from(entry.rows) {
        return Err(key.file().damaged(0, "it has another number of rows than the manifest says"));
    }
    // The keys themselves lie behind the hashes: read ahead by the system, they were a third of all bytes read.
    key.file().expect_reads(Reads::Apart);
    let (hashes, lsns) = read_hashes(&key, entry.rows)?;
    let dead = load_dead(folder, entry, &header)?;
    let (table, facts) = (entry.table, entry.facts.clone());
    let zones = read_bounds(&key, schema, entry.rows)?;
    key.file().expect_reads(Reads::InOrder);
    let rows = Rows { table, rows: entry.rows, schema: schema.clone(), lsns, facts, zones };
    let base = match entry.source {
        Source::Sealed => {
            let header = BlockHeader { kind: BlockKind::Values, version: 0, ..header };
            Base::sealed(rows, key, BlockFile::open(folder, &header, entry.files.seg.as_ref())?)
        }
        Source::Log { number, from, to } => {
            let file = folder.open(&log_name(number)).map_err(|error| missing_log(folder, number, error))?;
            let seed = LogHeader::seed(&manifest.store, number);
            Base::logged(rows, LogRange { file, seed, from, to })
        }
    };
    let mut unit = Unit::of_base(entry.unit, base, hashes, dead);
    if let Source::Log { number, from, to } = entry.source {
        unit.log = Some((number, from, Some(to)));
    }
    Ok(unit)
}

pub fn missing_log(folder: &Folder, number: u64, error: OplogError) -> OplogError {
    match &error {
        OplogError::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
            OplogError::damaged(&folder.path().join(log_name(number)), 0, "the log is missing")
        }
        _ => error,
    }
}

fn load_dead(folder: &Folder, entry: &UnitEntry, key: &BlockHeader) -> Result<DeadRows> {
    let Some(file_ref) = &entry.files.del else { return Ok(DeadRows::default()) };
    let header = BlockHeader { kind: BlockKind::Dead, version: file_ref.version, ..*key };
    let file = BlockFile::open(folder, &header, Some(file_ref))?;
    let dead = read_dead(&file, entry.rows)?;
    if dead.count() != entry.dead {
        return Err(file.file().damaged(0, "it has another number of dead rows than the manifest says"));
    }
    Ok(dead)
}
