//! Runs the statements of a text, one after the other, until one fails.

use std::io::Write;
use std::time::Instant;

use anyhow::Result;

use super::client::Client;
use super::output::Output;
use nyala_client::split::split;

/// Runs all statements and writes their outcomes. Those before the one that fails have taken effect.
pub async fn run(client: &Client, text: &str, output: Output, out: &mut impl Write) -> Result<()> {
    for statement in split(text) {
        run_one(client, statement, output, out).await?;
    }
    Ok(())
}

/// Runs one statement and writes its outcome.
pub async fn run_one(client: &Client, statement: &str, output: Output, out: &mut impl Write) -> Result<()> {
    let started = Instant::now();
    client
        .interruptible(async {
            let outcome = client.run(statement).await?;
            output.write(outcome, started, out).await
        })
        .await
}
