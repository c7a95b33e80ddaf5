//! The decisions of the rewrite and their reasons, for EXPLAIN and the statistics.

use std::collections::BTreeSet;
use std::fmt;

use nyala_model::{CubeId, QualifiedName};

use crate::cube::block::Block;

/// One line for each aggregation of the query that reads a cube's fact table.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// Lines in the order in which the plan was walked.
    pub blocks: Vec<BlockReport>,
    /// All aggregations over tables, also without any cube over these, for the history.
    pub asked: Vec<Asked>,
}

/// An aggregation, and the cube that answers it.
#[derive(Debug, Clone)]
pub struct Asked {
    /// The aggregation.
    pub block: Block,
    /// The cube that answers, and the dimensions of each cuboid that is read.
    pub cube: Option<(CubeId, QualifiedName, Vec<Vec<String>>)>,
    /// The first reason why no cube answers; none if it reads no cube's fact table.
    pub reason: Option<String>,
}

/// The outcome of one aggregation.
#[derive(Debug, Clone)]
pub struct BlockReport {
    /// The cuboid that answers it.
    pub chosen: Option<Chosen>,
    /// Cubes that do not answer, each with one reason.
    pub misses: Vec<(String, String)>,
}

/// A cuboid that answers an aggregation.
#[derive(Debug, Clone)]
pub struct Chosen {
    /// Its cube.
    pub cube: String,
    /// The dimensions of each cuboid that is read.
    pub cuboids: Vec<Vec<String>>,
    /// Segments that are read; none if there can be only one.
    pub segments: Option<usize>,
    /// Tables that are joined to the cells.
    pub joined: Vec<String>,
    /// Rows read from the tables because no segment holds them.
    pub raw: Option<String>,
    /// Cuboids or measures that a segment lacks and a build would add.
    pub lacking: Option<String>,
    /// Whether the cube reads a live table, so that the next statement may be answered in another way.
    pub live: bool,
    /// Cells and rows that are read at most.
    pub rows: u64,
}

impl fmt::Display for Chosen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "answered from cube `{}`, {}", self.cube, self.shown_cuboids())?;
        if let Some(segments) = self.segments {
            write!(f, ", segments: {segments}")?;
        }
        write!(f, "{}, estimated rows: {}", self.shown_joins(), self.rows)?;
        if let Some(raw) = &self.raw {
            write!(f, "\n  and from the tables, because no segment holds it: {raw}")?;
        }
        match &self.lacking {
            Some(lacking) => write!(f, "\n  {lacking}"),
            None => Ok(()),
        }
    }
}

impl Report {
    /// Whether nothing is read but cuboids, and nothing joined to them.
    pub fn all_from_cuboids(&self) -> bool {
        let alone = |chosen: &Chosen| chosen.raw.is_none() && chosen.joined.is_empty();
        let whole = |block: &BlockReport| block.chosen.as_ref().is_some_and(alone);
        !self.blocks.is_empty() && self.blocks.iter().all(whole)
    }

    /// Whether the same question may soon be answered in another way, though the catalog is the same.
    pub fn reads_live(&self) -> bool {
        self.blocks.iter().filter_map(|block| block.chosen.as_ref()).any(|chosen| chosen.live)
    }

    /// The cubes that answer, each once; none if the tables do.
    pub fn answered_from(&self) -> Option<String> {
        let cubes =
            self.blocks.iter().filter_map(|block| block.chosen.as_ref()).map(|chosen| chosen.cube.as_str());
        let cubes: BTreeSet<&str> = cubes.collect();
        (!cubes.is_empty()).then(|| cubes.into_iter().collect::<Vec<_>>().join(", "))
    }

    /// Aggregations answered from a cuboid.
    pub fn hits(&self) -> usize {
        self.blocks.iter().filter(|block| block.chosen.is_some()).count()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.blocks.is_empty() {
            return f.write_str("no aggregation reads the fact table of a cube");
        }
        for (i, block) in self.blocks.iter().enumerate() {
            if i > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{block}")?;
        }
        Ok(())
    }
}

impl fmt::Display for BlockReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.chosen {
            Some(chosen) => chosen.fmt(f)?,
            None => f.write_str("answered from the tables")?,
        }
        for (cube, reason) in &self.misses {
            write!(f, "\n  cube `{cube}` not used: {reason}")?;
        }
        Ok(())
    }
}

impl Chosen {
    /// `cuboid (a, b)`, as EXPLAIN shows it.
    pub fn shown_cuboids(&self) -> String {
        let shown: Vec<String> = self.cuboids.iter().map(|names| format!("({})", names.join(", "))).collect();
        let word = if shown.len() == 1 { "cuboid" } else { "cuboids" };
        format!("{word} {}", shown.join(", "))
    }

    fn shown_joins(&self) -> String {
        let shown: Vec<String> = self.joined.clone();
        if shown.is_empty() { String::new() } else { format!(", joined with {}", shown.join(", ")) }
    }
}
