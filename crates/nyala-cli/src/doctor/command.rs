//! The command line, and the order of the checks.

use std::io::Write;

use anyhow::bail;

use super::check::{Check, State};
use super::{
    addresses, bucket, catalog, clock, configuration, encryption, folders, logins, node, report, resources,
};
use crate::args::ServeArgs;
use crate::config::{self, Loaded};

/// Arguments of `nyala doctor`: those of the server that is to start.
#[derive(Debug, Clone, clap::Args)]
pub struct DoctorArgs {
    #[command(flatten)]
    serve: ServeArgs,
    /// Prints a JSON document instead of lines
    #[arg(long)]
    json: bool,
}

/// Prints the result of each check, and fails if a server would not work here.
pub async fn command(args: &DoctorArgs) -> anyhow::Result<()> {
    let checks = match config::load(&args.serve.config, &args.serve.flags()) {
        Ok(loaded) => check(&loaded).await,
        // Everything else depends on the configuration.
        Err(error) => vec![Check::error(configuration::SUBJECT, error)],
    };
    let text = if args.json { format!("{}\n", report::document(&checks)) } else { report::text(&checks) };
    std::io::stdout().write_all(text.as_bytes())?;
    match checks.iter().filter(|check| check.state == State::Failed).count() {
        0 => Ok(()),
        1 => bail!("1 of {} checks failed: the server would not work", checks.len()),
        failed => bail!("{failed} of {} checks failed: the server would not work", checks.len()),
    }
}

/// First what costs nothing, then what needs the network.
async fn check(loaded: &Loaded) -> Vec<Check> {
    let config = &loaded.config;
    let mut checks = configuration::check(loaded);
    checks.extend(logins::check(config));
    checks.extend(encryption::check(&config.server.tls));
    checks.extend(folders::check(config));
    checks.extend(resources::check(config));
    checks.extend(addresses::check(config).await);
    checks.extend(node::check(config).await);
    let (catalog, database) = catalog::check(config).await;
    checks.push(catalog);
    let (bucket, place) = bucket::check(config, database.as_ref()).await.unzip();
    checks.extend(bucket);
    let clocks = database.map(|database| database.clock).into_iter().chain(place.flatten());
    checks.push(clock::check(&clocks.collect::<Vec<_>>(), clock::newest_file(&config.data_dir)));
    checks
}
