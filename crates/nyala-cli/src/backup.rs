//! `nyala backup` and `nyala restore`: a whole data folder, saved and made anew.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use nyala_storage::data_dir::{DataDir, SET_ASIDE};
use nyala_storage::folder_backup::BackupManifest;

use crate::args::{ConfigArgs, OutputFormat, SqlArgs};
use crate::sql::{self, Outcome};

/// Arguments of `nyala backup`.
#[derive(Debug, Clone, clap::Args)]
pub struct BackupArgs {
    /// Where the configuration file is
    #[command(flatten)]
    config: ConfigArgs,
    /// Folder of the backup, missing or empty; with `--url` one of the server's machine, from `/` on
    #[arg(value_name = "TARGET")]
    target: PathBuf,
    /// Earlier backup on the same file system: files that it has are shared with it, and take no space again
    #[arg(long, value_name = "BACKUP")]
    base: Option<PathBuf>,
    /// Data folder to open in this process; overrides `data_dir`
    #[arg(long, value_name = "FOLDER")]
    data_dir: Option<PathBuf>,
    /// Server that has the data folder open, `postgres://user@host:port/database`
    #[arg(long, value_name = "URL", conflicts_with = "data_dir")]
    url: Option<String>,
    /// PEM file of the authorities that may vouch for the server
    #[arg(long, value_name = "FILE", requires = "url")]
    ca: Option<PathBuf>,
}

/// Arguments of `nyala restore`.
#[derive(Debug, Clone, clap::Args)]
pub struct RestoreArgs {
    /// Folder of the backup
    #[arg(value_name = "BACKUP")]
    backup: PathBuf,
    /// The data folder to make, missing or empty
    #[arg(value_name = "DATA_DIR")]
    data_dir: PathBuf,
    /// Only compares the backup with its checksums
    #[arg(long)]
    verify: bool,
}

/// Asks the server, or an engine in this process, for a backup.
pub async fn backup(args: BackupArgs) -> anyhow::Result<()> {
    let place = |path: &Path| match args.url {
        // The server resolves the path, so the current folder of this process does not matter.
        Some(_) => Ok(path.to_owned()),
        None => std::path::absolute(path).with_context(|| format!("cannot use `{}`", path.display())),
    };
    let mut statement = format!("BACKUP TO {}", quoted(&place(&args.target)?)?);
    if let Some(base) = &args.base {
        statement += &format!(" BASE {}", quoted(&place(base)?)?);
    }
    let target = args.target.display().to_string();
    let client = sql::connect(&SqlArgs {
        config: args.config,
        file: None,
        statement: None,
        data_dir: args.data_dir,
        url: args.url,
        ca: args.ca,
        format: OutputFormat::Table,
        max_rows: 0,
    })
    .await?;
    let done = client.interruptible(client.run(&statement)).await;
    client.close().await;
    if let Outcome::Done { rows: Some(files), .. } = done? {
        print(&format!("{files} files are saved in `{target}`\n"))?;
    }
    Ok(())
}

fn quoted(path: &Path) -> anyhow::Result<String> {
    let text = path.to_str().with_context(|| format!("`{}` is not UTF-8", path.display()))?;
    Ok(format!("'{}'", text.replace('\'', "''")))
}

/// Verifies a backup and makes a data folder of it.
pub async fn restore(args: &RestoreArgs) -> anyhow::Result<()> {
    let manifest = BackupManifest::read(&args.backup)?;
    // The whole backup is verified before any file is written.
    manifest.verify(&args.backup)?;
    if !args.verify {
        manifest.copy_to(&args.backup, &args.data_dir)?;
        let data_dir = DataDir::lock(&args.data_dir, "`nyala restore`")?;
        let (catalog, aside) = (data_dir.catalog_file(), data_dir.path().join(SET_ASIDE));
        let saved = args.backup.join("catalog.sqlite");
        nyala_catalog::restore(&catalog, &saved, &aside, &manifest.moved).await?;
        // The folder set aside holds the catalog of the backup, unchanged.
        std::fs::remove_dir_all(&aside).with_context(|| format!("cannot remove `{}`", aside.display()))?;
    }
    let (files, bytes) = manifest.size();
    let version = manifest.catalog_version;
    let mut text =
        format!("{files} files, {bytes} bytes, catalog version {version}: all as they were saved\n");
    for (store, folder) in manifest.moved.iter().filter(|_| !args.verify) {
        text +=
            &format!("disk store `{store}`, which lay outside of the data folder, is in `{folder}` now\n");
    }
    print(&text)
}

fn print(text: &str) -> anyhow::Result<()> {
    Ok(std::io::stdout().write_all(text.as_bytes())?)
}
