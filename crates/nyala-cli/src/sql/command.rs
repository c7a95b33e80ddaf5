//! `nyala sql`.

use std::io::{IsTerminal, Read, stdin, stdout};
use std::path::Path;

use anyhow::{Context, Result};

use super::client::Client;
use super::output::Output;
use super::{batch, repl, target};
use crate::args::SqlArgs;

/// Runs the given statement or file, or prompts for statements.
pub async fn command(args: SqlArgs) -> Result<()> {
    // Read before connecting: a missing file should not cost the opening of a data folder.
    let script = script(&args)?;
    let client = target::connect(&args).await?;
    let result = run(&client, &args, script).await;
    client.close().await;
    result
}

async fn run(client: &Client, args: &SqlArgs, script: Option<String>) -> Result<()> {
    let output = Output { format: args.format, timing: true, expanded: false, max_rows: None };
    match script {
        Some(text) => batch::run(client, &text, output, &mut stdout()).await,
        None => {
            let max_rows = Some(args.max_rows).filter(|rows| *rows > 0);
            repl::run(client, Output { max_rows, ..output }).await
        }
    }
}

/// The text to run; none if statements are typed at a terminal.
fn script(args: &SqlArgs) -> Result<Option<String>> {
    if let Some(statement) = &args.statement {
        return Ok(Some(statement.clone()));
    }
    match &args.file {
        Some(file) if file.as_path() != Path::new("-") => std::fs::read_to_string(file)
            .map(Some)
            .with_context(|| format!("cannot read `{}`", file.display())),
        None if stdin().is_terminal() => Ok(None),
        _ => {
            let mut text = String::new();
            stdin().read_to_string(&mut text).context("cannot read standard input")?;
            Ok(Some(text))
        }
    }
}
