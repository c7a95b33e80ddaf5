//! `nyala catalog`: lists the copies of a catalog, and restores one when the catalog is lost or damaged.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use chrono::DateTime;
use clap::Subcommand;
use nyala_catalog::backups::{self, Backup};
use nyala_catalog::{Catalog, Restored, restore};
use nyala_client::report::Hinted;
use nyala_model::config::Config;
use nyala_storage::data_dir::{CATALOG_BACKUPS, CUBES, DataDir, SET_ASIDE, STORES, folders_below};

use crate::args::ConfigArgs;
use crate::catalog_move;
use crate::config::{self, Flag};

/// Arguments of `nyala catalog`.
#[derive(Debug, Clone, clap::Args)]
pub struct CatalogArgs {
    #[command(subcommand)]
    action: Action,
}

/// The subcommands.
#[derive(Debug, Clone, Subcommand)]
enum Action {
    /// Lists the copies that the server has made, the newest first
    Backups {
        #[command(flatten)]
        folder: FolderArgs,
    },
    /// Moves the catalog into the empty PostgreSQL database of `catalog.url`, so that other nodes can share it; no server
    /// may have the folder open
    Move {
        #[command(flatten)]
        folder: FolderArgs,
    },
    /// Puts a copy in the place of the catalog, which is set aside; no server may have the folder open
    Restore {
        #[command(flatten)]
        folder: FolderArgs,
        /// The copy; the newest whole one of the data folder if it is left out
        #[arg(long, value_name = "FILE")]
        from: Option<PathBuf>,
    },
}

/// Which data folder.
#[derive(Debug, Clone, clap::Args)]
struct FolderArgs {
    /// Where the configuration file is
    #[command(flatten)]
    config: ConfigArgs,
    /// Data folder; overrides `data_dir`
    #[arg(long, value_name = "FOLDER")]
    data_dir: Option<PathBuf>,
}

impl FolderArgs {
    fn find(&self) -> anyhow::Result<PathBuf> {
        Ok(self.load()?.data_dir)
    }

    /// The configuration. Its data folder must exist: a mistyped name must not create a new one.
    fn load(&self) -> anyhow::Result<Config> {
        let flags: Vec<Flag> = self.data_dir.iter().map(|folder| Flag::data_dir(folder)).collect();
        let config = config::load(&self.config, &flags)?.into_config();
        let folder = &config.data_dir;
        if folder.is_dir() {
            return Ok(config);
        }
        let message = format!("there is no data folder `{}`", folder.display());
        Err(Hinted::error(message, "name it with `--data-dir` or in the configuration"))
    }
}

/// Runs the subcommand and prints its result.
pub async fn command(args: &CatalogArgs) -> anyhow::Result<()> {
    let text = match &args.action {
        Action::Backups { folder } => listed(&folder.find()?.join(CATALOG_BACKUPS))?,
        Action::Move { folder } => catalog_move::moved(&folder.load()?).await?,
        Action::Restore { folder, from } => restored(&folder.find()?, from.as_deref()).await?,
    };
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(())
}

fn listed(folder: &Path) -> anyhow::Result<String> {
    let copies = backups::list(folder).with_context(|| format!("cannot read `{}`", folder.display()))?;
    if copies.is_empty() {
        return Ok(format!("there is no copy in `{}`\n", folder.display()));
    }
    let line = |copy: &Backup| {
        let state = match copy.is_whole() {
            Ok(true) => "whole".to_owned(),
            Ok(false) => "damaged".to_owned(),
            Err(error) => format!("unreadable: {error}"),
        };
        format!("{}  version {}  {state}  {}\n", made_at(copy), copy.version, copy.path.display())
    };
    Ok(copies.iter().map(line).collect())
}

async fn restored(folder: &Path, from: Option<&Path>) -> anyhow::Result<String> {
    let holder = format!("`nyala catalog restore` (process {})", std::process::id());
    let data_dir = DataDir::lock(folder, &holder)?;
    let (file, aside) = (data_dir.catalog_file(), data_dir.path().join(SET_ASIDE));
    if let Some(from) = from {
        let done = restore(&file, from, &aside, &BTreeMap::new()).await?;
        return Ok(report(&done, &format!("`{}`", from.display()), data_dir.path()));
    }
    check_needed(&data_dir).await?;
    let mut text = String::new();
    for copy in backups::list(&data_dir.path().join(CATALOG_BACKUPS))? {
        let name = format!("`{}`, made {}", copy.path.display(), made_at(&copy));
        match take(&copy, &file, &aside).await {
            Ok(done) => return Ok(text + &report(&done, &name, data_dir.path())),
            Err(error) => text += &format!("passed over {name}: {error:#}\n"),
        }
    }
    let message = format!("{text}there is no whole copy of the catalog in `{}`", data_dir.path().display());
    Err(Hinted::error(message, "name one that lies elsewhere with `--from FILE`"))
}

/// Refuses to replace a catalog that can be opened by an older one, unless `--from` names it.
async fn check_needed(data_dir: &DataDir) -> anyhow::Result<()> {
    let opened = async {
        data_dir.check_catalog()?;
        anyhow::Ok(Catalog::open_sqlite(&data_dir.catalog_file()).await?)
    };
    let Ok(catalog) = opened.await else { return Ok(()) };
    let message = format!(
        "the catalog in `{}` is whole, at version {}",
        data_dir.path().display(),
        catalog.snapshot().version
    );
    Err(Hinted::error(message, "to go back to an older one name it with `--from FILE`"))
}

async fn take(copy: &Backup, file: &Path, aside: &Path) -> anyhow::Result<Restored> {
    anyhow::ensure!(copy.is_whole()?, "it is damaged");
    Ok(restore(file, &copy.path, aside, &BTreeMap::new()).await?)
}

fn made_at(copy: &Backup) -> String {
    let at = i64::try_from(copy.made_at_ms).ok().and_then(DateTime::from_timestamp_millis);
    at.map_or_else(|| copy.made_at_ms.to_string(), |at| at.format("%Y-%m-%d %H:%M:%S UTC").to_string())
}

/// The restored objects, and those that the restored catalog may lack.
fn report(done: &Restored, from: &str, data_dir: &Path) -> String {
    let snapshot = &done.snapshot;
    let mut text = format!(
        "restored the catalog from {from}: {} tables, {} cubes, {} disk stores, {} roles\n",
        snapshot.tables.len(),
        snapshot.cubes.len(),
        snapshot.disk_stores.len(),
        snapshot.roles.len()
    );
    if let Some(aside) = &done.set_aside {
        text += &format!("the files of the catalog before are in `{}`\n", aside.display());
    }
    text += &match done.missing {
        Some(0) => "nothing was written to the catalog after that copy was made\n".to_owned(),
        Some(missing) => {
            format!("{missing} later writes to the catalog are lost, each a change, a job or history\n")
        }
        None => "how many later changes are lost is not known\n".to_owned(),
    };
    let unknown = unknown_folders(done, data_dir);
    for folder in &unknown {
        text += &format!("not known to this catalog: `{}`\n", folder.display());
    }
    if !unknown.is_empty() {
        text += "nothing of that is deleted: the next start moves folders of cubes to `set-aside`, disk stores stay\n";
    }
    text
}

/// Folders of segments and of disk stores that no entry of the catalog names.
fn unknown_folders(done: &Restored, data_dir: &Path) -> Vec<PathBuf> {
    let snapshot = &done.snapshot;
    let segments = snapshot.cubes.values().flat_map(|cube| &cube.segments);
    let segments = segments.map(|segment| segment.location.trim_end_matches('/'));
    let stores = snapshot.disk_stores.values().map(|store| store.folder.trim_end_matches('/'));
    let known: BTreeSet<PathBuf> = segments.chain(stores).map(|folder| data_dir.join(folder)).collect();
    let cubes = folders_below(&data_dir.join(CUBES)).unwrap_or_default();
    let stores = std::fs::read_dir(data_dir.join(STORES)).into_iter().flatten().flatten();
    let found = cubes.into_iter().chain(stores.map(|entry| entry.path()));
    found.filter(|folder| !known.contains(folder)).collect()
}
