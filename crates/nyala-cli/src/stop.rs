//! Waiting for someone to ask the process to stop.

/// Waits for Ctrl-C or, where the system has it, SIGTERM.
pub async fn requested() -> std::io::Result<()> {
    tokio::select! {
        interrupted = tokio::signal::ctrl_c() => interrupted,
        terminated = terminated() => terminated,
    }
}

#[cfg(unix)]
async fn terminated() -> std::io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    signal(SignalKind::terminate())?.recv().await;
    Ok(())
}

#[cfg(not(unix))]
async fn terminated() -> std::io::Result<()> {
    std::future::pending().await
}
