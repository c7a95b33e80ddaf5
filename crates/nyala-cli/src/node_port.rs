//! The port on which this node serves others: from its start until its last statement has ended.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::open::Opened;

/// How long answers that are already computed may take to leave.
const FLUSH: Duration = Duration::from_secs(1);

/// The port, while it is open.
pub struct NodePort {
    stop: CancellationToken,
    /// None if this node is alone.
    serving: Option<JoinHandle<()>>,
}

impl NodePort {
    /// Serves other nodes, if this node is one of several. If that fails, the server stops: otherwise the node would be listed as starting
    /// for as long as it runs.
    pub fn open(opened: &Opened, shutdown: &CancellationToken) -> Self {
        let stop = CancellationToken::new();
        let serving = opened.cluster.clone().map(|cluster| {
            let (engine, stop, shutdown) = (Arc::clone(&opened.engine), stop.clone(), shutdown.clone());
            tokio::spawn(async move {
                if let Err(error) = cluster.serve(&engine, stop.cancelled()).await {
                    tracing::error!(%error, "other nodes cannot be served; stopping");
                    shutdown.cancel();
                }
            })
        });
        Self { stop, serving }
    }

    /// Closes the port. To be called once the engine has stopped: until then other nodes take the rest of their rows, and list and end
    /// statements of this node.
    pub async fn close(self) {
        self.stop.cancel();
        if let Some(serving) = self.serving
            && tokio::time::timeout(FLUSH, serving).await.is_err()
        {
            tracing::debug!("closing connections of nodes that did not take their answers");
        }
    }
}
