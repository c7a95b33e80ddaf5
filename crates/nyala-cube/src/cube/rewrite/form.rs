//! Equivalent forms of an aggregation: as it is written, and with functions that cubes have instead.

use datafusion::logical_expr::{Aggregate, Expr};
use nyala_sql::functions::bitmap_counting;

use super::calls::QueryCalls;
use super::sets::plain_blocks;
use crate::cube::block::{Block, Miss};
use crate::cube::call::Call;

/// One form of an aggregation.
#[derive(Debug)]
pub struct Form {
    /// The whole aggregation.
    pub block: Block,
    /// The aggregation itself if it groups plainly, or a plain aggregation for each grouping set.
    pub plain: Vec<Block>,
    /// The aggregate calls.
    pub calls: QueryCalls,
}

impl Form {
    /// All forms; the first is as it is written.
    pub fn all(aggregate: &Aggregate) -> Result<Vec<Self>, Miss> {
        let written = Self::of(Block::of(aggregate)?)?;
        let other = with_bitmaps(&written.block).and_then(|block| Self::of(block).ok());
        Ok([written].into_iter().chain(other).collect())
    }

    fn of(block: Block) -> Result<Self, Miss> {
        Ok(Self { calls: QueryCalls::of(&block)?, plain: plain_blocks(&block), block })
    }
}

/// `bitmap_distinct(x)` for each `count(DISTINCT x)`; none if there is none.
fn with_bitmaps(block: &Block) -> Option<Block> {
    let mut changed = false;
    let counted = |aggregate: &Expr| {
        let other = Call::of(aggregate).ok().and_then(|call| {
            let function =
                bitmap_counting(&call.function, call.distinct).filter(|_| call.arguments.len() == 1)?;
            Some(Call { function, distinct: false, ..call }.expr())
        });
        changed |= other.is_some();
        other.unwrap_or_else(|| aggregate.clone())
    };
    let aggregates = block.aggregates.iter().map(counted).collect();
    changed.then(|| Block { aggregates, ..block.clone() })
}
