//! The engine follows the catalog: statements see commits of other processes.

use std::sync::Arc;
use std::time::Duration;

use nyala_sql::error::Result;

use super::engine::Engine;

/// How often the catalog is asked whether another process has committed. The answer is one row.
const POLL: Duration = Duration::from_secs(1);

/// Opens each new snapshot of the catalog for statements that begin afterwards, until the engine stops.
pub(super) fn follow(engine: &Arc<Engine>) {
    let weak = Arc::downgrade(engine);
    let following = async move {
        let mut is_behind = false;
        loop {
            tokio::time::sleep(POLL).await;
            let Some(engine) = weak.upgrade() else { return };
            let caught_up = catch_up(&engine).await;
            // Once, and not once a second.
            if let Err(error) = &caught_up
                && !is_behind
            {
                tracing::warn!(%error, "statements may read an old catalog");
            }
            is_behind = caught_up.is_err();
        }
    };
    let stopping = engine.stopping.clone();
    engine.threads.execution().spawn(stopping.run_until_cancelled_owned(following));
}

async fn catch_up(engine: &Engine) -> Result<()> {
    engine.catalog().refresh().await?;
    engine.refresh().await
}
