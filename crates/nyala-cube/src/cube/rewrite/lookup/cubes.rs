//! The cubes of a snapshot, filed by their fact tables.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use nyala_model::{CubeEntry, QualifiedName};

use super::fact::FactIndex;
use crate::cube::block::Block;
use crate::cube::compile::CompiledCube;
use crate::cube::coverage::Coverage;
use crate::cube::live::{LiveVersions, live_tables};
use crate::cube::shape::quoted;
use crate::live::Pins;

/// A cube of the snapshot with its compiled definition, or why it cannot be used.
#[derive(Debug)]
pub struct ReadyCube {
    /// The cube as the catalog has it.
    pub entry: Arc<CubeEntry>,
    /// The cube ready for queries, or why it cannot be used.
    pub compiled: std::result::Result<Arc<CompiledCube>, String>,
    /// The segments that may be used.
    pub coverage: Coverage,
}

impl ReadyCube {
    /// The cube as a statement with these `pins` may use it.
    pub fn at(self: &Arc<Self>, pins: &Pins) -> Arc<Self> {
        match &self.compiled {
            Ok(compiled) if !live_tables(compiled).is_empty() => {
                let versions = LiveVersions::of(compiled, pins);
                let coverage = self.coverage.at(&self.entry, compiled, &versions);
                let (entry, compiled) = (Arc::clone(&self.entry), self.compiled.clone());
                Arc::new(Self { entry, compiled, coverage })
            }
            _ => Arc::clone(self),
        }
    }

    /// Whether queries may be answered from it, once it is built.
    pub fn answers(&self) -> bool {
        self.entry.definition.options.answers
    }

    /// The statement that lets queries be answered from it.
    pub fn switch_on(&self) -> String {
        let QualifiedName { schema, name } = &self.entry.name;
        format!("ALTER CUBE {}.{} SET (answers = on)", quoted(schema), quoted(name))
    }

    /// Whether it reads a live table.
    pub fn reads_live(&self) -> bool {
        self.compiled.as_ref().is_ok_and(|compiled| !live_tables(compiled).is_empty())
    }
}

/// The cubes of one catalog snapshot by fact table, so that a query considers only cubes over its tables.
#[derive(Debug, Default)]
pub struct CubeIndex {
    by_fact: HashMap<QualifiedName, FactIndex>,
}

impl CubeIndex {
    /// Files each cube under the table its FROM starts with.
    pub fn new(cubes: impl IntoIterator<Item = Arc<ReadyCube>>) -> Self {
        let mut by_fact: HashMap<QualifiedName, FactIndex> = HashMap::new();
        for cube in cubes {
            if let Some(fact) = cube.entry.definition.sources.first() {
                by_fact.entry(fact.clone()).or_default().add(cube);
            }
        }
        Self { by_fact }
    }

    /// The cubes over each fact table that `block` reads.
    pub fn over(&self, block: &Block) -> Vec<(&QualifiedName, &FactIndex)> {
        let tables: BTreeSet<&QualifiedName> = block.instances.iter().map(|i| &i.table).collect();
        tables.into_iter().filter_map(|table| self.by_fact.get_key_value(table)).collect()
    }

    /// The cubes over one fact table.
    pub fn over_table(&self, table: &QualifiedName) -> &[Arc<ReadyCube>] {
        self.by_fact.get(table).map_or(&[], FactIndex::cubes)
    }

    /// All cubes.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<ReadyCube>> {
        self.by_fact.values().flat_map(FactIndex::cubes)
    }

    /// The compiled form of a cube.
    pub fn find(&self, entry: &CubeEntry) -> Option<&Arc<ReadyCube>> {
        let fact = entry.definition.sources.first()?;
        self.over_table(fact).iter().find(|cube| cube.entry.id == entry.id)
    }
}
