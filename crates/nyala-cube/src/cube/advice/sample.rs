//! How many cells a cuboid would have, estimated from some of the joined rows.

use std::collections::HashMap;

use arrow::record_batch::RecordBatch;
use datafusion::common::hash_utils::{RandomState, combine_hashes, create_hashes};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::execution::SessionState;
use datafusion::functions::math::expr_fn::random;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, lit};
use datafusion::physical_plan::collect;
use nyala_model::DimensionSet;
use nyala_sql::error::Result;

use crate::cube::analyzed::state_for_analyzed;
use crate::cube::compile::CompiledCube;

/// Rows of a sample.
const SAMPLE_ROWS: u64 = 100_000;
/// Largest number of sampled rows, where joins multiply them.
const MAX_ROWS: usize = 400_000;

/// A hash of every dimension of every sampled row.
#[derive(Debug)]
pub struct Sample {
    /// Hashes by dimension, then by row.
    hashes: Vec<Vec<u64>>,
    rows: usize,
    /// Rows of the whole join, as far as known.
    total: u64,
}

impl Sample {
    /// Takes a sample of the joined rows; all of them, if the fact table has few.
    pub async fn take(cube: &CompiledCube, fact_rows: u64, state: &SessionState) -> Result<Self> {
        let state = state_for_analyzed(state).build();
        let whole = fact_rows <= SAMPLE_ROWS;
        #[expect(clippy::cast_precision_loss, reason = "it is a probability")]
        let part = SAMPLE_ROWS as f64 / fact_rows.max(1) as f64;
        let flat = if whole { cube.flat.clone() } else { some_rows(cube.flat.clone(), part)? };
        let dimensions = cube.dimensions.len();
        let columns = flat.schema().columns().into_iter().take(dimensions).map(Expr::Column);
        let builder = LogicalPlanBuilder::from(flat);
        // Without dimensions there is one cell for any number of rows.
        let batches = if dimensions == 0 {
            Vec::new()
        } else {
            let plan = builder.project(columns.collect::<Vec<_>>())?.limit(0, Some(MAX_ROWS))?.build()?;
            collect(state.create_physical_plan(&plan).await?, state.task_ctx()).await?
        };
        let rows = batches.iter().map(RecordBatch::num_rows).sum();
        let mut hashes = vec![Vec::with_capacity(rows); dimensions];
        for batch in &batches {
            for (column, hashes) in batch.columns().iter().zip(&mut hashes) {
                let mut buffer = vec![0; batch.num_rows()];
                create_hashes([column], &RandomState::with_seed(0), &mut buffer)?;
                hashes.extend(buffer);
            }
        }
        Ok(Self { hashes, rows, total: if whole { rows as u64 } else { fact_rows } })
    }

    /// Joined rows in all.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Distinct combinations of the dimensions of `set` among all rows: the estimator of Charikar,
    /// Chaudhuri, Motwani and Narasayya (2000), which is exact if every row was seen.
    pub fn cells(&self, set: DimensionSet) -> u64 {
        let mut combined = vec![0_u64; self.rows];
        for hashes in set.iter().filter_map(|dimension| self.hashes.get(dimension)) {
            for (all, hash) in combined.iter_mut().zip(hashes) {
                *all = combine_hashes(*all, *hash);
            }
        }
        let mut seen: HashMap<u64, u32> = HashMap::new();
        for hash in combined {
            *seen.entry(hash).or_default() += 1;
        }
        let once = seen.values().filter(|times| **times == 1).count() as u64;
        let often = (seen.len() as u64).saturating_sub(once);
        estimate(once, often, self.rows as u64, self.total)
    }
}

fn estimate(once: u64, often: u64, rows: u64, total: u64) -> u64 {
    #[expect(clippy::cast_precision_loss, reason = "it is an estimate")]
    let factor = (total as f64 / rows.max(1) as f64).sqrt();
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is an estimate"
    )]
    let unseen = (once as f64 * factor) as u64;
    often.saturating_add(unseen).clamp(1, total.max(1))
}

/// The plan over a random part of the rows of its first table.
fn some_rows(flat: LogicalPlan, part: f64) -> Result<LogicalPlan> {
    let mut first = true;
    let done = flat.transform_down(|node| match node {
        LogicalPlan::TableScan(_) if std::mem::take(&mut first) => {
            let rows = LogicalPlanBuilder::from(node).filter(random().lt(lit(part)))?.build()?;
            Ok(Transformed::new(rows, true, TreeNodeRecursion::Jump))
        }
        other => Ok(Transformed::no(other)),
    })?;
    Ok(done.data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_seen_once_stands_for_more() {
        assert_eq!(estimate(3, 7, 100, 100), 10);
        assert_eq!(estimate(0, 7, 100, 10_000), 7);
        assert_eq!(estimate(100, 0, 100, 10_000), 1000);
        assert_eq!(estimate(0, 0, 0, 0), 1);
    }
}
