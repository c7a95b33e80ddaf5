//! The steps, one after the other.

use std::io::{Write, stderr, stdout};
use std::time::Instant;

use anyhow::Result;
use nyala_engine::SessionOptions;

use super::{compare, data, objects, summary};
use crate::args::DemoArgs;
use crate::config::{self, Flag};
use crate::open::{Opened, open};
use crate::serve;
use crate::sql::duration;
use crate::stop::Requests;

/// Statement of the greeting: a name that is there, and an answer that the cube gives.
const EXAMPLE: &str = "SELECT d_year, sum(lo_revenue) FROM lineorder JOIN dates ON lo_orderdate = d_datekey GROUP BY d_year ORDER BY d_year";

/// Runs the demo.
pub async fn command(args: DemoArgs) -> Result<()> {
    let config = config::load(&args.config, &[Flag::data_dir(&args.data_dir)])?.into_config();
    let opened = open(&config, "nyala demo").await?;
    let result = run(&args, &config, &opened).await;
    opened.close().await;
    result
}

async fn run(args: &DemoArgs, config: &nyala_model::config::Config, opened: &Opened) -> Result<()> {
    let files = data::ensure(opened.path(), args.scale, &config.storage).await?;
    let session = opened
        .engine
        .session(SessionOptions { application: "nyala demo".to_owned(), ..SessionOptions::default() });
    objects::ensure_tables(&session, &files.folder).await?;
    objects::ensure_cubes(&opened.engine, &session, files.fresh).await?;
    step("running 13 queries, each with and without the cube …")?;
    let started = Instant::now();
    let timings = compare::run_all(&opened.engine, &session).await?;
    let mut out = stdout().lock();
    writeln!(out, "{}", summary::table(&timings))?;
    writeln!(out, "{} (compared in {})", summary::conclusion(&timings), duration(started.elapsed()))?;
    out.flush()?;
    drop(out);
    if args.no_serve {
        return Ok(());
    }
    serve::run(config, opened, EXAMPLE, Requests::listen()?).await
}

/// Prints the current step to stderr, so that stdout holds results only.
pub fn step(text: &str) -> Result<()> {
    Ok(writeln!(stderr(), "{text}")?)
}
