//! Checkpoints: the state needed by a start, written as of one LSN.

use std::collections::{BTreeMap, HashSet};

use super::inner::{Checkpointed, Inner};
use super::queue::lock;
use super::upkeep::Upkeep;
use crate::oplog::error::Result;
use crate::oplog::files::{
    BlockHeader, BlockKind, FileRef, LogEntry, Manifest, Source, UnitEntry, UnitFiles, is_ours, manifest_name,
};
use crate::oplog::log::log_number;
use crate::oplog::table::TableState;
use crate::oplog::unit::{Data, DeadRows, Facts, Lsns, Unit, key_header, write_dead, write_hashes};

/// A unit as it was when nothing was being committed.
struct Captured {
    entry: UnitEntry,
    dead: DeadRows,
    /// Hashes and LSNs of rows that lie in a log.
    keys: Option<(Vec<u64>, Lsns)>,
    data: Data,
    /// Positions of the key columns.
    key: Vec<usize>,
}

impl Inner {
    /// Writes a manifest of the present state, then removes the files that it does not name.
    pub fn checkpoint(&self, upkeep: &mut Upkeep) -> Result<()> {
        let (mut manifest, captured) = self.capture(upkeep)?;
        upkeep.next += 1;
        let held = manifest.units.iter().map(|unit| ((unit.table, unit.unit), unit.files));
        let mut files: BTreeMap<_, _> = held.collect();
        for mut unit in captured {
            let place = (unit.entry.table, unit.entry.unit);
            let known = upkeep.files.get(&place).copied().unwrap_or_default();
            let before = upkeep.manifest.units.iter().find(|entry| (entry.table, entry.unit) == place);
            if let (None, Some((_, lsns))) = (&unit.entry.facts.keys, &unit.keys) {
                unit.entry.facts = Facts::of_data(lsns, &unit.data, &unit.key);
            }
            unit.entry.files = self.write_unit(&manifest, &unit, known, before)?;
            files.insert(place, unit.entry.files);
            manifest.units.push(unit.entry);
        }
        self.folder.sync()?;
        manifest.store(&self.folder)?;
        let rows = self.all_tables().iter().map(|table| table.read().growing_rows()).sum();
        let step = self.options.checkpoint_step(rows);
        *lock(&self.checkpointed) = Checkpointed { lsn: manifest.lsn, log: manifest.log, step };
        upkeep.manifest = manifest;
        upkeep.written_ms = self.environment.clock.now_ms();
        upkeep.files = files;
        self.remove_obsolete(upkeep)
    }

    /// The state at one LSN, and the log up to there on disk.
    fn capture(&self, upkeep: &Upkeep) -> Result<(Manifest, Vec<Captured>)> {
        let mut committer = lock(&self.committer);
        // A sync may have failed since the checkpoint began, and then the end of the log on disk is unknown.
        self.check_writable(true)?;
        committer.sync_if_needed(self)?;
        let mut manifest = Manifest {
            store: self.store,
            number: upkeep.next,
            lsn: committer.next_lsn - 1,
            log: (committer.log.number, committer.log.end),
            next_table: committer.next_table,
            next_unit: committer.next_unit,
            clock: committer.clock.clone(),
            ..Manifest::default()
        };
        if let Some(last) = committer.logs.last_mut() {
            last.bytes = manifest.log.1;
        }
        let mut captured = Vec::new();
        for table in self.all_tables() {
            let state = table.read();
            if state.incomplete {
                let id = state.meta.id;
                let changed = upkeep.changed.contains(&id);
                let held = manifest.hold(&upkeep.manifest, id, upkeep.read_to, changed);
                if held { continue } else { state.check_whole()? }
            }
            manifest.tables.push((*state.meta).clone());
            if !state.labels.is_empty() {
                manifest.labels.push((state.meta.id, state.labels.clone()));
            }
            captured.extend(state.units().map(|unit| capture_unit(&state, unit, manifest.log.1)));
        }
        let units = captured.iter().map(|unit| &unit.entry).chain(&manifest.units);
        let named = units.filter_map(|unit| match unit.source {
            Source::Log { number, .. } => Some(number),
            Source::Sealed => None,
        });
        // Logs between the needed ones need not stay: a damaged unit may need its old log for ever.
        let named: HashSet<u64> = named.collect();
        let wanted = |log: u64| {
            log >= manifest.log.0 || named.contains(&log) || manifest.held.iter().any(|held| held.needs(log))
        };
        committer.logs = kept_logs(&committer.logs, wanted, self.options.retain_log_bytes);
        manifest.logs = committer.logs.clone();
        Ok((manifest, captured))
    }

    /// Writes the changed parts of a unit.
    fn write_unit(
        &self,
        manifest: &Manifest,
        unit: &Captured,
        known: UnitFiles,
        before: Option<&UnitEntry>,
    ) -> Result<UnitFiles> {
        let entry = &unit.entry;
        let header = key_header(self.store, entry.table, entry.unit, manifest.number);
        let mut files = known;
        if let Some((hashes, lsns)) = &unit.keys
            && before.is_none_or(|before| before.rows != entry.rows || known.key.is_none())
        {
            files.key = Some(write_hashes(&self.folder, header, hashes, lsns)?);
        }
        if entry.dead > 0
            && before.is_none_or(|before| (before.dead, before.rows) != (entry.dead, entry.rows))
        {
            let header = BlockHeader { kind: BlockKind::Dead, ..header };
            files.del = Some(write_dead(&self.folder, header, &unit.dead, entry.rows)?);
        }
        Ok(files)
    }

    /// After a failure: removes unfinished and unused files, so that they take no space.
    pub fn remove_unfinished(&self, upkeep: &Upkeep) {
        let names = self.folder.list().unwrap_or_default();
        if upkeep.pins > 0 || Manifest::newest(&names) != Some(upkeep.manifest.number) {
            // A newer manifest may be in force at the next start.
            return;
        }
        let mut used = named_files(&upkeep.manifest);
        for ((table, unit), files) in &upkeep.files {
            used.extend(
                files_of(self.store, *table, *unit, files).into_iter().map(|(header, _)| header.name()),
            );
        }
        for name in names.iter().filter(|name| is_ours(name) && !used.contains(*name)) {
            if let Err(error) = self.folder.remove(name) {
                tracing::warn!(%error, "an unfinished file could not be removed");
            }
        }
    }

    fn remove_obsolete(&self, upkeep: &Upkeep) -> Result<()> {
        if upkeep.pins > 0 {
            return Ok(());
        }
        let named = named_files(&upkeep.manifest);
        let logs: HashSet<u64> = upkeep.manifest.logs.iter().map(|log| log.number).collect();
        for name in self.folder.list()? {
            let obsolete = match log_number(&name) {
                Some(number) => number < upkeep.manifest.log.0 && !logs.contains(&number),
                None => is_ours(&name) && !named.contains(&name),
            };
            if obsolete {
                self.folder.remove(&name)?;
            }
        }
        Ok(())
    }
}

fn capture_unit(state: &TableState, unit: &Unit, log_end: u64) -> Captured {
    let source = match unit.log {
        None => Source::Sealed,
        Some((number, from, end)) => Source::Log { number, from, to: end.unwrap_or(log_end) },
    };
    let keys = unit.log.map(|_| (unit.hashes.as_slice().to_vec(), unit.data.lsns()));
    let facts = match (&unit.data.base, &keys) {
        (Some(base), _) => base.facts.clone(),
        (None, _) => Facts::default(),
    };
    let entry = UnitEntry {
        table: state.meta.id,
        unit: unit.id,
        schema: unit.schema.number,
        rows: unit.rows(),
        dead: unit.dead.count(),
        source,
        facts,
        files: UnitFiles::default(),
    };
    let data = unit.data.clone();
    Captured { entry, dead: unit.dead.clone(), keys, data, key: unit.schema.key.clone() }
}

/// The logs that are needed, and of the others the newest up to a size.
fn kept_logs(logs: &[LogEntry], needed: impl Fn(u64) -> bool, retain_bytes: u64) -> Vec<LogEntry> {
    let mut bytes = 0;
    let kept = logs.iter().rev().filter(|log| {
        bytes += log.bytes;
        needed(log.number) || bytes <= retain_bytes
    });
    let mut kept: Vec<LogEntry> = kept.copied().collect();
    kept.reverse();
    kept
}

/// Names of all files of a manifest except logs, and of the manifest itself.
pub fn named_files(manifest: &Manifest) -> HashSet<String> {
    let mut names = HashSet::from([manifest_name(manifest.number)]);
    for unit in &manifest.units {
        names.extend(unit_files(manifest, unit).into_iter().map(|(header, _)| header.name()));
    }
    names
}

/// The files of a unit.
pub fn unit_files(manifest: &Manifest, unit: &UnitEntry) -> Vec<(BlockHeader, FileRef)> {
    files_of(manifest.store, unit.table, unit.unit, &unit.files)
}

fn files_of(store: [u8; 16], table: u32, unit: u64, files: &UnitFiles) -> Vec<(BlockHeader, FileRef)> {
    let kinds = [(BlockKind::Values, files.seg), (BlockKind::Keys, files.key), (BlockKind::Dead, files.del)];
    let files = kinds.into_iter().filter_map(|(kind, file)| {
        let file = file?;
        Some((BlockHeader { kind, ..key_header(store, table, unit, file.version) }, file))
    });
    files.collect()
}
