//! The engine follows the catalog: statements see commits of other processes.

use std::sync::Weak;
use std::time::Duration;

use nyala_sql::error::Result;

use super::Snapshots;

/// How often the catalog is asked whether another process has committed. The answer is one row.
const POLL: Duration = Duration::from_secs(1);

/// Opens each new snapshot of the catalog for statements that begin afterwards, for as long as statements may begin.
pub async fn follow(snapshots: Weak<Snapshots>) {
    let mut is_behind = false;
    loop {
        tokio::time::sleep(POLL).await;
        let Some(snapshots) = snapshots.upgrade() else { return };
        let caught_up = catch_up(&snapshots).await;
        // Once, and not once a second.
        if let Err(error) = &caught_up
            && !is_behind
        {
            tracing::warn!(%error, "statements may read an old catalog");
        }
        is_behind = caught_up.is_err();
    }
}

async fn catch_up(snapshots: &Snapshots) -> Result<()> {
    snapshots.catalog().refresh().await?;
    snapshots.refresh().await
}
