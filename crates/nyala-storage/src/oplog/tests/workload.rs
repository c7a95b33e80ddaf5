//! Random statements, and a model of their effects.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;

use super::fixture::*;
use crate::oplog::vfs::sim::{Rng, SimDisk};
use crate::oplog::*;

/// Rows by key.
pub type Rows = BTreeMap<String, i64>;
/// Content of a table: its rows, and how many rows each of its newest labels wrote.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Content {
    rows: Rows,
    labels: Vec<(String, u64)>,
}
/// Tables by store and name.
pub type Model = BTreeMap<(usize, String), Content>;

const STORES: usize = 2;
const TABLES: &[&str] = &["t", "u", "v"];
const KEYS: u64 = 12;
/// More labels than are kept, so that some are forgotten and used again.
const LABELS: u64 = 6;
const STEP_MS: u64 = 10_000;

pub fn folder(store: usize) -> PathBuf {
    PathBuf::from(format!("/store{store}"))
}

/// Stores on one disk, with their clock.
pub struct World {
    pub disk: SimDisk,
    pub clock: ManualClock,
    pub stores: Vec<DiskStore>,
}

impl World {
    /// Opens all stores of a disk.
    pub fn open(disk: &SimDisk) -> Result<Self> {
        let mut world = Self { disk: disk.clone(), clock: ManualClock::default(), stores: Vec::new() };
        for store in 0..STORES {
            world.stores.push(world.open_store(store)?);
        }
        Ok(world)
    }

    fn open_store(&self, store: usize) -> Result<DiskStore> {
        DiskStore::open(&folder(store), small_options(), environment(&self.disk, &self.clock))
    }

    pub fn contents(&self) -> Result<Model> {
        contents(&self.stores)
    }
}

impl Content {
    fn knows(&self, label: &Option<String>) -> bool {
        label.as_ref().is_some_and(|label| self.labels.iter().any(|(known, _)| known == label))
    }
}

/// The content of the stores.
fn contents(stores: &[DiskStore]) -> Result<Model> {
    let mut model = Model::new();
    for (store, opened) in stores.iter().enumerate() {
        for table in opened.tables() {
            let labels = table.labels().into_iter();
            let labels = labels.map(|(name, done)| (name.to_string(), done.rows)).collect();
            model.insert((store, table.name()), Content { rows: content(&table)?, labels });
        }
    }
    Ok(model)
}

/// One action, and its store and table.
#[derive(Debug, Clone)]
pub struct Step {
    /// Number of the step. Steps are ten seconds apart, and values say in which step they were written.
    pub number: u64,
    pub action: Action,
    pub store: usize,
    pub table: String,
}

#[derive(Debug, Clone)]
pub enum Action {
    Create,
    Drop,
    Truncate,
    /// Removes rows that were written before this step.
    Expire(u64),
    AddColumn(u64),
    Write {
        deletes: Vec<String>,
        upserts: Vec<(String, i64)>,
        conditional: bool,
        label: Option<String>,
    },
    Seal,
    Checkpoint,
    Maintain,
    /// Closes the store, or only drops it, and opens it again.
    Restart {
        clean: bool,
    },
}

impl Step {
    /// A possible action on the tables of `model`.
    pub fn random(rng: &mut Rng, model: &Model, number: u64) -> Self {
        let store = rng.below(STORES as u64) as usize;
        let table = TABLES[rng.below(TABLES.len() as u64) as usize].to_owned();
        let exists = model.contains_key(&(store, table.clone()));
        let action = match rng.below(40) {
            _ if !exists => Action::Create,
            0 => Action::Drop,
            1 => Action::Truncate,
            2 => Action::AddColumn(number),
            3..=5 => Action::Seal,
            6..=8 => Action::Checkpoint,
            9..=11 => Action::Maintain,
            12 => Action::Restart { clean: rng.one_in(2) },
            13..=14 => Action::Expire(number.saturating_sub(rng.below(6))),
            _ => random_write(rng, number),
        };
        Self { number, action, store, table }
    }

    /// The content if the step succeeds.
    pub fn expected(&self, model: &Model) -> Model {
        let mut model = model.clone();
        let place = (self.store, self.table.clone());
        match &self.action {
            Action::Create => drop(model.insert(place, Content::default())),
            Action::Drop => drop(model.remove(&place)),
            Action::Truncate => model.entry(place).or_default().rows.clear(),
            Action::Expire(before) => {
                let rows = &mut model.entry(place).or_default().rows;
                rows.retain(|_, value| *value as u64 / 1000 >= *before);
            }
            Action::Write { deletes, upserts, label, .. } => {
                let table = model.entry(place).or_default();
                if table.knows(label) {
                    return model;
                }
                table.rows.retain(|key, _| !deletes.contains(key));
                table.rows.extend(upserts.iter().cloned());
                table.labels.extend(label.iter().map(|label| (label.clone(), upserts.len() as u64)));
                let forgotten = table.labels.len().saturating_sub(small_options().retain_labels);
                table.labels.drain(..forgotten);
            }
            _ => {}
        }
        model
    }

    /// Runs the step.
    pub fn run(&self, world: &mut World) -> Result<()> {
        world.clock.0.store(self.number * STEP_MS, Relaxed);
        let store = &world.stores[self.store];
        let table = || store.table(&self.table);
        match &self.action {
            Action::Create => drop(store.create_table(spec(&self.table))?),
            Action::Drop => drop(table()?.drop_table()?),
            Action::Truncate => drop(table()?.truncate()?),
            Action::Expire(before) => drop(table()?.expire((before * STEP_MS).saturating_sub(STEP_MS / 2))?),
            Action::AddColumn(number) => {
                let field =
                    arrow_schema::Field::new(format!("c{number}"), arrow_schema::DataType::Int32, true);
                table()?.alter(Alteration::AddColumn(field))?;
            }
            Action::Write { label, .. } => {
                let table = table()?;
                let known = label.as_ref().and_then(|label| table.label(label));
                let done = table.write(self.statement(&table)?)?;
                assert_eq!(done.before, known, "{label:?} is done once");
            }
            Action::Seal => store.seal()?,
            Action::Checkpoint => store.checkpoint()?,
            Action::Maintain => store.maintain()?,
            Action::Restart { clean } => {
                let store = world.stores.remove(self.store);
                if *clean {
                    store.close()?;
                } else {
                    drop(store);
                }
                let opened = world.open_store(self.store)?;
                world.stores.insert(self.store, opened);
            }
        }
        Ok(())
    }

    fn statement(&self, table: &LiveTable) -> Result<Write> {
        let Action::Write { deletes, upserts, conditional, label } = &self.action else { unreachable!() };
        let deleted: Vec<&str> = deletes.iter().map(String::as_str).collect();
        let upserts: Vec<(&str, i64)> = upserts.iter().map(|(key, value)| (key.as_str(), *value)).collect();
        let rows = widened(rows(&upserts), table);
        let label = label.as_ref().map(|label| Label::new(label)).transpose()?;
        let write = Write { deletes: Some(keys(&deleted)), label, ..Write::upsert(rows) };
        if !conditional {
            return Ok(write);
        }
        let all: Vec<&str> = upserts.iter().map(|(key, _)| *key).chain(deleted).collect();
        Ok(write.when(Condition::Versions(table.row_versions(&keys(&all))?)))
    }
}

/// Rows with nulls in the columns that were added.
fn widened(batch: arrow_array::RecordBatch, table: &LiveTable) -> arrow_array::RecordBatch {
    let schema = table.schema();
    let mut columns = batch.columns().to_vec();
    let added = schema.fields().iter().skip(columns.len());
    columns.extend(added.map(|field| arrow_array::new_null_array(field.data_type(), batch.num_rows())));
    arrow_array::RecordBatch::try_new(schema, columns).unwrap()
}

fn random_write(rng: &mut Rng, number: u64) -> Action {
    let key = |rng: &mut Rng| match rng.below(KEYS) {
        // These keys have one hash.
        number @ 0..3 => format!("collide {number}"),
        number => format!("key {number}"),
    };
    let deletes = (0..rng.below(3)).map(|_| key(rng)).collect();
    // Some statements reach over several sectors.
    let most = if rng.one_in(6) { 60 } else { 5 };
    let upserts = (0..=rng.below(most)).map(|row| (key(rng), (number * 1000 + row) as i64)).collect();
    let label = rng.one_in(3).then(|| format!("load {}", rng.below(LABELS)));
    if label.is_some() && rng.one_in(4) {
        return Action::Write { deletes: Vec::new(), upserts: Vec::new(), conditional: false, label };
    }
    Action::Write { deletes, upserts, conditional: rng.one_in(4), label }
}
