//! `nyala disk-store`: verifies, salvages, saves and restores the folder of a disk store that no server has open.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Subcommand;
use nyala_storage::oplog::{
    DiskStore, Environment, RefusedRows, SalvageReport, StoreOptions, VerifyReport, restore, salvage, verify,
};

/// Arguments of `nyala disk-store`.
#[derive(Debug, Clone, clap::Args)]
pub struct DiskStoreArgs {
    #[command(subcommand)]
    action: Action,
}

/// The subcommands.
#[derive(Debug, Clone, Subcommand)]
enum Action {
    /// Reads every byte and reports damage; changes nothing
    Verify {
        /// Folder of the store
        #[arg(value_name = "FOLDER")]
        folder: PathBuf,
    },
    /// Copies the intact parts of a damaged store to a new one
    Salvage {
        /// Folder of the store
        #[arg(value_name = "FOLDER")]
        folder: PathBuf,
        /// Folder of the copy, missing or empty
        #[arg(value_name = "TARGET")]
        target: PathBuf,
    },
    /// Copies a store to a folder, verified
    Backup {
        /// Folder of the store
        #[arg(value_name = "FOLDER")]
        folder: PathBuf,
        /// Folder of the copy, missing or empty
        #[arg(value_name = "TARGET")]
        target: PathBuf,
    },
    /// Copies a backup, or the store of a server that was killed, to a new folder
    Restore {
        /// Folder of the backup
        #[arg(value_name = "BACKUP")]
        backup: PathBuf,
        /// Folder of the store, missing or empty
        #[arg(value_name = "FOLDER")]
        folder: PathBuf,
    },
}

/// Runs the subcommand and prints its result.
pub fn command(args: &DiskStoreArgs) -> anyhow::Result<()> {
    let environment = Environment::default();
    match &args.action {
        Action::Verify { folder } => {
            let found = verify(exists(folder)?, &environment)?;
            print(&verified(&found))?;
            if found.damage().next().is_some() {
                bail!("`{}` is damaged; restore a backup, or salvage what is whole", folder.display());
            }
            Ok(())
        }
        Action::Salvage { folder, target } => {
            let found = salvage(exists(folder)?, target, StoreOptions::default(), &environment)?;
            print(&salvaged(&found, target))
        }
        Action::Backup { folder, target } => {
            // Opened, so that the copy is of one moment, and no server can change it meanwhile.
            let store = DiskStore::open(exists(folder)?, StoreOptions::default(), environment)?;
            let found = store.backup(target)?;
            store.close()?;
            print(&verified(&found))
        }
        Action::Restore { backup, folder } => {
            print(&verified(&restore(exists(backup)?, folder, &environment)?))
        }
    }
}

/// A missing store must not be made by looking at it.
fn exists(folder: &Path) -> anyhow::Result<&Path> {
    let mut entries = std::fs::read_dir(folder)
        .with_context(|| format!("cannot read disk store `{}`", folder.display()))?;
    let has_manifest = entries
        .any(|entry| entry.is_ok_and(|entry| entry.file_name().to_string_lossy().starts_with("manifest-")));
    if !has_manifest {
        bail!("`{}` is not the folder of a disk store: it has no manifest", folder.display());
    }
    Ok(folder)
}

fn print(text: &str) -> anyhow::Result<()> {
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(())
}

fn verified(found: &VerifyReport) -> String {
    let mut text = String::new();
    for damage in found.damage() {
        text += &format!("damaged: {damage}\n");
    }
    if let Some(torn) = &found.torn {
        text += &format!("the end of the log is not whole, which the next start cuts off: {torn:?}\n");
    }
    for file in &found.unused {
        text += &format!("not part of the store: `{}`\n", file.display());
    }
    let damaged = found.damage().count();
    text + &format!("{} files, {} rows, {damaged} damaged places\n", found.files.len(), found.rows)
}

fn salvaged(found: &SalvageReport, target: &Path) -> String {
    let mut text = String::new();
    for damage in &found.damage {
        text += &format!("lost: {damage}\n");
    }
    for RefusedRows { table, rows, reason } in &found.refused {
        text += &format!("lost: {rows} rows of table `{table}`, which the copy does not take: {reason}\n");
    }
    for (table, rows) in &found.tables {
        text += &format!("{table}: {rows} rows\n");
    }
    text + &format!("copied to `{}`\n", target.display())
}
