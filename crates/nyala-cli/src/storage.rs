//! `nyala storage`: moves the cuboids of a data folder to a bucket, and back.

use std::io::Write;
use std::path::PathBuf;

use anyhow::Context;
use clap::Subcommand;
use nyala_catalog::Catalog;
use nyala_model::CuboidFile;
use nyala_model::config::StorageConfig;
use nyala_storage::data_dir::{DataDir, node_id};
use nyala_storage::place_of_cuboids::Noted;
use nyala_storage::{SegmentStore, copy_segments, place_of_cuboids};

use crate::args::ConfigArgs;
use crate::config;

/// The target that stands for the data folder.
const LOCAL: &str = "local";

/// Arguments of `nyala storage`.
#[derive(Debug, Clone, clap::Args)]
pub struct StorageArgs {
    #[command(subcommand)]
    action: Action,
}

/// The subcommands.
#[derive(Debug, Clone, Subcommand)]
enum Action {
    /// Moves all cuboids of a data folder that no server has open; `storage.data` must then name the new place
    Move {
        /// Where the configuration file is
        #[command(flatten)]
        config: ConfigArgs,
        /// Data folder; overrides `data_dir`
        #[arg(long, value_name = "FOLDER")]
        data_dir: Option<PathBuf>,
        /// `s3://bucket/prefix/`, or `local` for the data folder
        #[arg(value_name = "TARGET")]
        target: String,
    },
}

/// Runs the subcommand and prints its result.
pub async fn command(args: &StorageArgs) -> anyhow::Result<()> {
    let Action::Move { config, data_dir, target } = &args.action;
    let config = config::load(config, &[])?.config;
    let folder = data_dir.as_ref().unwrap_or(&config.data_dir);
    let holder = format!("`nyala storage move` (process {})", std::process::id());
    let data_dir = DataDir::lock(folder, &holder)?;
    data_dir.check_catalog()?;
    let catalog = Catalog::open_sqlite(&data_dir.catalog_file())
        .await
        .with_context(|| format!("cannot open the catalog of data folder `{}`", folder.display()))?;
    let target = place_of_cuboids::canonical(if target == LOCAL { "" } else { target })?;
    let text = moved(&data_dir, &catalog, &config.storage, &target).await?;
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(())
}

async fn moved(
    data_dir: &DataDir,
    catalog: &Catalog,
    config: &StorageConfig,
    target: &str,
) -> anyhow::Result<String> {
    let noted = place_of_cuboids::noted(data_dir.path())?;
    let next = format!("set `storage.data = \"{target}\"` before the server starts\n");
    let place = |data: &str| {
        let config = StorageConfig { data: data.to_owned(), ..config.clone() };
        SegmentStore::open(data_dir.path(), &config, None)
    };
    let clear = async |left: &str, target: &str| -> anyhow::Result<()> {
        let cleared = place(left)?.clear().await;
        cleared.context(
            "the cuboids are moved, but not all is deleted in the old place; run the command again",
        )?;
        Ok(place_of_cuboids::note(data_dir.path(), &Noted { place: target.to_owned(), left: None })?)
    };
    // A move that ended early has left files at this place.
    if let Some(left) = noted.left.as_deref().filter(|left| *left != target) {
        clear(left, &noted.place).await?;
    }
    if noted.place == target {
        return Ok(format!("the cuboids are there already; {next}"));
    }
    if catalog.restored().await? {
        anyhow::bail!(
            "the catalog was restored, and may not know all files of cubes; start the server once, so that it sets them aside"
        );
    }
    let (from, to) = (place(&noted.place)?, place(target)?);
    let node = node_id(data_dir.path())?;
    to.claim(&node, &node).await?;
    let snapshot = catalog.snapshot();
    let segments = snapshot.cubes.values().flat_map(|cube| &cube.segments);
    let segments: Vec<(String, Vec<CuboidFile>)> = segments
        .map(|segment| {
            let files = segment.cuboids.iter().flat_map(|cuboid| cuboid.files.iter().cloned());
            (segment.location.clone(), files.collect())
        })
        .collect();
    let bytes = copy_segments(&segments, (&from, &to)).await?;
    let moved = Noted { place: target.to_owned(), left: Some(noted.place.clone()) };
    place_of_cuboids::note(data_dir.path(), &moved)?;
    clear(&noted.place, target).await?;
    let files: usize = segments.iter().map(|(_, files)| files.len()).sum();
    Ok(format!("moved {files} files of {} segments, {bytes} bytes; {next}", segments.len()))
}
