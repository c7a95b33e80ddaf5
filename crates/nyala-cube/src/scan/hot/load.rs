//! Loads columns of a cuboid into memory.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::compute::concat;
use arrow::record_batch::RecordBatch;
use datafusion::common::internal_datafusion_err;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::prelude::SessionConfig;
use futures::StreamExt;

use super::column::{BLOCK_ROWS, ColumnBuilder, HotColumn};

/// Rows that are loaded at a time: few enough for one column of them not to hold up a query thread.
const CHUNK_ROWS: usize = 64 * BLOCK_ROWS;

/// A load of columns.
pub struct Request {
    /// Gives exactly the wanted columns of all cells, always in the same order.
    pub plan: Arc<dyn ExecutionPlan>,
    pub runtime: Arc<RuntimeEnv>,
    /// Positions of those columns in the schema of the cuboid.
    pub columns: Vec<usize>,
    /// How many columns of the cuboid, from the first on, are dimensions.
    pub dimensions: usize,
    /// Number of cells that the scan must give.
    pub rows: usize,
}

impl Request {
    /// The columns; none if `reserve` refuses their memory. It is called with all bytes of the columns so far: before the first row
    /// with the fewest bytes that there can be, and then after each chunk.
    pub async fn read(self, reserve: impl Fn(usize) -> bool) -> Result<Option<Vec<(usize, HotColumn)>>> {
        // Every encoding takes at least a byte for a value, and positions of rows have 32 bits.
        let least_bytes = self.rows.saturating_mul(self.columns.len());
        if u32::try_from(self.rows).is_err() || !reserve(least_bytes) {
            return Ok(None);
        }
        let config = SessionConfig::new().with_batch_size(CHUNK_ROWS);
        let task = TaskContext::default().with_session_config(config).with_runtime(Arc::clone(&self.runtime));
        let mut stream = execute_stream(Arc::clone(&self.plan), Arc::new(task))?;
        let mut columns = Columns::new(&self);
        let mut chunk = Chunk::default();
        while let Some(batch) = stream.next().await {
            let mut batch = batch?;
            while let Some(rest) = chunk.fill(&batch) {
                let bytes = columns.push(chunk.take()).await?;
                if !reserve(bytes.max(least_bytes)) {
                    return Ok(None);
                }
                batch = rest;
            }
        }
        let bytes = columns.push(chunk.take()).await?;
        if !reserve(bytes.max(least_bytes)) {
            return Ok(None);
        }
        // Joining the batches of a column takes a while, so that it blocks a thread for that.
        let finished = tokio::task::spawn_blocking(move || columns.finish(&self)).await;
        finished.map_err(|error| DataFusionError::External(Box::new(error)))?.map(Some)
    }
}

/// Batches that together become one chunk.
#[derive(Default)]
struct Chunk {
    batches: Vec<RecordBatch>,
    rows: usize,
}

impl Chunk {
    /// Adds as many rows as there is room for. When the chunk is full, returns the other rows.
    fn fill(&mut self, batch: &RecordBatch) -> Option<RecordBatch> {
        let taken = batch.num_rows().min(CHUNK_ROWS - self.rows);
        self.rows += taken;
        self.batches.push(batch.slice(0, taken));
        (self.rows == CHUNK_ROWS).then(|| batch.slice(taken, batch.num_rows() - taken))
    }

    fn take(&mut self) -> Self {
        std::mem::take(self)
    }

    /// One column in an array of its own, so that no buffer of the decoder stays alive with it.
    fn column(&self, position: usize) -> Result<Option<ArrayRef>> {
        let mut parts: Vec<&dyn Array> = Vec::new();
        for batch in &self.batches {
            let part = batch.columns().get(position);
            let part = part.ok_or_else(|| internal_datafusion_err!("a scan gave too few columns"))?;
            parts.push(part.as_ref());
        }
        let Some(first) = parts.first() else { return Ok(None) };
        // `concat` would return a single array as it is, with its buffers.
        let none = first.slice(0, 0);
        parts.push(none.as_ref());
        Ok(Some(concat(&parts)?))
    }
}

/// The columns so far.
struct Columns {
    builders: Vec<ColumnBuilder>,
    rows: usize,
}

impl Columns {
    fn new(request: &Request) -> Self {
        let schema = request.plan.schema();
        let columns = request.columns.iter().zip(schema.fields());
        let builders = columns
            .map(|(at, field)| ColumnBuilder::new(field.data_type(), *at < request.dimensions, request.rows));
        Self { builders: builders.collect(), rows: 0 }
    }

    /// Adds a chunk, and returns the bytes of the columns so far. Yields after each column, because queries wait for the
    /// same threads.
    async fn push(&mut self, chunk: Chunk) -> Result<usize> {
        let mut bytes = 0;
        for (position, builder) in self.builders.iter_mut().enumerate() {
            if let Some(column) = chunk.column(position)? {
                builder.push(column)?;
            }
            bytes += builder.bytes();
            tokio::task::yield_now().await;
        }
        self.rows += chunk.rows;
        Ok(bytes)
    }

    fn finish(self, request: &Request) -> Result<Vec<(usize, HotColumn)>> {
        if self.rows != request.rows {
            return Err(internal_datafusion_err!(
                "a cuboid has {} cells in its files and {} in the catalog",
                self.rows,
                request.rows
            ));
        }
        let columns = request.columns.iter().zip(self.builders);
        columns.map(|(position, builder)| Ok((*position, builder.finish()?))).collect()
    }
}
