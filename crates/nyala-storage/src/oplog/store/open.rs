//! Opening a store.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, RwLock};

use super::commit::Committer;
use super::failure::RESERVE;
use super::inner::{Checkpointed, Inner, Status};
use super::progress::Phase;
use super::queue::Queue;
use super::recover::{load_tables, value_bytes};
use super::replay::Replayed;
use super::threads::Threads;
use super::upkeep::Upkeep;
use super::{DiskStore, Environment, Progress, StoreOptions, StoreReport};
use crate::oplog::error::{OplogError, Result};
use crate::oplog::files::{LogEntry, Manifest, is_ours};
use crate::oplog::log::{Log, LogHeader, log_name, log_number};
use crate::oplog::table::{SharedTable, TableState};
use crate::oplog::unit::{Unit, hash_seed};
use crate::oplog::vfs::Folder;

pub fn open(
    folder: &Path,
    options: StoreOptions,
    environment: Environment,
    progress: Arc<Progress>,
) -> Result<DiskStore> {
    options.validate()?;
    let folder = Folder::new(environment.disk.clone(), folder);
    folder.create()?;
    let lock = folder.lock(&options.holder)?;
    let (manifest, copy_damage) = find_manifest(&folder, &environment)?;
    let seed = hash_seed(&manifest.store);
    let tables = load_tables(&folder, &manifest, options.recovery_threads, &progress)?;
    let mut replayed = Replayed::new(&manifest, tables, seed);
    replayed.run(&folder, &manifest, &progress)?;
    let labels = replayed.tables.values_mut().map(|table| &mut table.labels);
    labels.for_each(|labels| labels.keep_newest(options.retain_labels));
    replayed.tables.values().flat_map(TableState::units).for_each(Unit::forget_dead);
    let report = report(&mut replayed, copy_damage.as_ref());
    let (log, status) = next_log(&folder, &manifest, &replayed, options.preallocate_bytes)?;
    if report.torn.is_none() && replayed.damage.is_none() {
        give_back_filler(&folder, replayed.last);
    }
    let changed = std::mem::take(&mut replayed.changed);
    let upkeep = Upkeep::new(manifest.clone(), replayed.last, changed);
    progress.bytes_total.store(replayed.tables.values().map(value_bytes).sum(), Relaxed);
    progress.enter(Phase::Values);
    let step = options.checkpoint_step(replayed.tables.values().map(TableState::growing_rows).sum());
    let tables = shared(std::mem::take(&mut replayed.tables));
    let inner = Arc::new(Inner {
        store: manifest.store,
        seed,
        environment,
        progress,
        tables: RwLock::new(tables),
        queue: Queue::default(),
        lsn: AtomicU64::new(replayed.next_lsn - 1),
        durable_lsn: AtomicU64::new(log.synced_lsn),
        committer: Mutex::new(Committer::new(replayed, log)),
        checkpointed: Mutex::new(Checkpointed { lsn: manifest.lsn, log: manifest.log, step }),
        upkeep: Mutex::new(upkeep),
        status: Mutex::new(status),
        lock: Mutex::new(Some(lock)),
        folder,
        options,
    });
    let threads = inner.options.background.then(|| Threads::start(&inner)).transpose()?;
    Ok(DiskStore { threads, inner, report })
}

fn report(replayed: &mut Replayed, copy_damage: Option<&OplogError>) -> StoreReport {
    let mut report = StoreReport { torn: replayed.torn.take(), damage: Vec::new() };
    report.damage.extend(copy_damage.and_then(OplogError::damage).cloned());
    for damage in replayed.tables.values().flat_map(|table| &table.damage).chain(&replayed.damage) {
        if !report.damage.contains(damage) {
            report.damage.push(damage.clone());
        }
    }
    report
}

fn shared(tables: BTreeMap<u32, TableState>) -> BTreeMap<u32, Arc<SharedTable>> {
    tables.into_iter().map(|(id, state)| (id, Arc::new(SharedTable::new(state)))).collect()
}

/// The newest manifest, or the first of a new store.
fn find_manifest(folder: &Folder, environment: &Environment) -> Result<(Manifest, Option<OplogError>)> {
    let names = folder.list()?;
    if let Some(number) = Manifest::newest(&names) {
        return Manifest::load(folder, number);
    }
    let unfinished = |name: &String| {
        let first = log_number(name) == Some(1);
        let empty = || {
            folder
                .open(name)
                .and_then(|file| file.bytes())
                .is_ok_and(|bytes| bytes <= LogHeader::BYTES as u64)
        };
        name.ends_with(".tmp") || (first && empty())
    };
    let used = names.iter().find(|name| (is_ours(name) || log_number(name).is_some()) && !unfinished(name));
    if let Some(name) = used {
        let file = folder.path().join("manifest");
        let reason = format!("there is no manifest, but there is `{name}`");
        return Err(OplogError::damaged(&file, 0, reason));
    }
    let store = (environment.new_store_id)();
    let log = Log::create(folder, LogHeader { store, number: 1, first_lsn: 1, previous_end: 0 }, 0)?;
    let logs = vec![LogEntry { number: 1, first_lsn: 1, bytes: log.end }];
    let manifest = Manifest {
        store,
        number: 1,
        log: (1, log.end),
        next_table: 1,
        next_unit: 1,
        logs,
        ..Manifest::default()
    };
    manifest.store(folder)?;
    Ok((manifest, None))
}

/// A new log behind the replayed ones; if the logs are damaged, the last one, which takes no more appends.
fn next_log(
    folder: &Folder,
    manifest: &Manifest,
    replayed: &Replayed,
    preallocate: u64,
) -> Result<(Log, Status)> {
    let (number, end) = replayed.last;
    if let Some(damage) = &replayed.damage {
        let log = Log::unwritten(number, end, replayed.next_lsn - 1);
        return Ok((log, Status::ReadOnly(damage.to_string())));
    }
    // A killed process may have left the replayed frames only in the system's memory. The new log says that all of
    // them count, and readers see them: they must be on disk before.
    folder.open(&log_name(number))?.sync()?;
    let header = LogHeader {
        store: manifest.store,
        number: number + 1,
        first_lsn: replayed.next_lsn,
        previous_end: end,
    };
    match Log::create(folder, header, preallocate) {
        Err(error) if error.is_full() => {
            // This is the reserve's purpose: a store that is open can free space.
            folder.remove(RESERVE)?;
            Ok((Log::create(folder, header, 0)?, Status::Full))
        }
        created => Ok((created?, Status::Writable)),
    }
}

/// Cuts off the filler of a log that was being written, now that the next log says where it ends. A failure costs only space.
fn give_back_filler(folder: &Folder, (number, end): (u64, u64)) {
    let cut = || -> Result<()> {
        let file = folder.open_to_write(&log_name(number))?;
        if file.bytes()? > end { file.truncate(end) } else { Ok(()) }
    };
    if let Err(error) = cut() {
        tracing::debug!(%error, "what a log is filled with could not be cut off");
    }
}
