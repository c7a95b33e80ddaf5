//! The end of a connection whose client is silent for too long.

use std::time::Duration;

use crate::pgwire::commands::settings::IDLE_SESSION;
use crate::pgwire::errors::{Failure, Stop, sqlstate};

/// Waits for the time that a client may be silent; `setting` is the setting that bounds it.
pub async fn silence((limit, setting): (Duration, &'static str)) -> Stop {
    tokio::time::sleep(limit).await;
    let code = match setting {
        IDLE_SESSION => sqlstate::IDLE_SESSION,
        _ => sqlstate::IDLE_IN_TRANSACTION,
    };
    let message =
        format!("terminating connection: its client was silent for longer than `{setting}`, {limit:?}");
    Failure::fatal(code, message).into()
}
