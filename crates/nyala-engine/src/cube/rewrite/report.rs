//! What the rewrite decided and why, for EXPLAIN and the statistics.

use std::fmt;

/// One line for each aggregation of the query that reads a cube's fact table.
#[derive(Debug, Clone, Default)]
pub(crate) struct Report {
    /// In the order the plan was walked.
    pub(crate) blocks: Vec<BlockReport>,
}

/// What became of one aggregation.
#[derive(Debug, Clone)]
pub(crate) struct BlockReport {
    /// The cuboid that answers it.
    pub(crate) chosen: Option<Chosen>,
    /// Cubes that do not, with the one reason why.
    pub(crate) misses: Vec<(String, String)>,
}

/// A cuboid that answers an aggregation.
#[derive(Debug, Clone)]
pub(crate) struct Chosen {
    pub(crate) cube: String,
    pub(crate) dimensions: Vec<String>,
    /// States the cuboid holds, and so the most that can be read.
    pub(crate) rows: u64,
}

impl Report {
    /// Aggregations answered from a cuboid.
    pub(crate) fn hits(&self) -> usize {
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
            Some(chosen) => write!(
                f,
                "answered from cube `{}`, cuboid ({}), estimated rows: {}",
                chosen.cube,
                chosen.dimensions.join(", "),
                chosen.rows
            )?,
            None => f.write_str("answered from the tables")?,
        }
        for (cube, reason) in &self.misses {
            write!(f, "\n  cube `{cube}` not used: {reason}")?;
        }
        Ok(())
    }
}
