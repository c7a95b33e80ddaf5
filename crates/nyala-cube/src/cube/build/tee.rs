//! One stream of flat rows, read once and given to several aggregations.

use std::fmt;
use std::sync::{Arc, Mutex};

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use datafusion::common::DataFusionError;
use datafusion::common::runtime::SpawnedTask;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use futures::StreamExt;
use tokio::sync::mpsc::{Receiver, Sender, channel};

use super::progress::Progress;

/// Batches that may wait for a slower consumer. More would only hold memory.
const WAITING_BATCHES: usize = 2;

type Item = Result<RecordBatch>;
type Plan = Arc<dyn ExecutionPlan>;
/// Reads one partition of the source until its end, or until no consumer listens.
type Feeder = SpawnedTask<()>;

/// Splits `source` into `consumers` equal plans and the tasks that feed them. Every partition of every
/// consumer must be read concurrently, since the slowest holds back the others.
pub fn tee(
    source: &Plan,
    consumers: usize,
    context: &Arc<TaskContext>,
    progress: &Arc<Progress>,
) -> Result<(Vec<Plan>, Vec<Feeder>)> {
    let mut outlets: Vec<Vec<Arc<dyn PartitionStream>>> = (0..consumers).map(|_| Vec::new()).collect();
    let mut feeders = Vec::new();
    for partition in 0..source.output_partitioning().partition_count() {
        let mut senders = Vec::new();
        for outlet in &mut outlets {
            let (sender, receiver) = channel(WAITING_BATCHES);
            senders.push(sender);
            outlet.push(Arc::new(Outlet::new(source.schema(), receiver)));
        }
        let stream = source.execute(partition, Arc::clone(context))?;
        feeders.push(SpawnedTask::spawn(feed(stream, senders, Arc::clone(progress))));
    }
    let plans = outlets.into_iter().map(|partitions| {
        let plan = StreamingTableExec::try_new(source.schema(), partitions, None, [], false, None)?;
        Ok(Arc::new(plan) as Plan)
    });
    Ok((plans.collect::<Result<_>>()?, feeders))
}

/// Sends every batch to every consumer that still listens.
async fn feed(
    mut stream: SendableRecordBatchStream,
    mut senders: Vec<Sender<Item>>,
    progress: Arc<Progress>,
) {
    while let Some(item) = stream.next().await {
        let item = item.map_err(Arc::new);
        if let Ok(batch) = &item {
            progress.add_rows(batch.num_rows() as u64);
        }
        let mut listening = Vec::with_capacity(senders.len());
        for sender in senders {
            let copy = item.clone().map_err(DataFusionError::Shared);
            if sender.send(copy).await.is_ok() {
                listening.push(sender);
            }
        }
        senders = listening;
        if senders.is_empty() || item.is_err() {
            return;
        }
    }
}

/// The receiving end of one partition, to be executed once.
struct Outlet {
    schema: SchemaRef,
    receiver: Mutex<Option<Receiver<Item>>>,
}

impl Outlet {
    fn new(schema: SchemaRef, receiver: Receiver<Item>) -> Self {
        Self { schema, receiver: Mutex::new(Some(receiver)) }
    }
}

impl fmt::Debug for Outlet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outlet").finish_non_exhaustive()
    }
}

impl PartitionStream for Outlet {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let receiver = self.receiver.lock().ok().and_then(|mut slot| slot.take());
        let stream = futures::stream::unfold(Some(receiver), |state| async {
            match state? {
                Some(mut receiver) => receiver.recv().await.map(|item| (item, Some(Some(receiver)))),
                None => {
                    let error = DataFusionError::Internal("flat rows can be read only once".to_owned());
                    Some((Err(error), None))
                }
            }
        });
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), stream))
    }
}
