//! `nyala catalog move`: from the file of a data folder into a database that several nodes share.

use std::path::Path;

use anyhow::Context;
use nyala_catalog::{Catalog, PostgresStore};
use nyala_client::report::Hinted;
use nyala_model::config::Config;
use nyala_storage::data_dir::{DataDir, SET_ASIDE, node_id};
use nyala_storage::place_of_cuboids;

/// Entries of the query history that are moved.
const HISTORY: u32 = 1000;

/// Moves the catalog of the data folder into the empty database of `catalog.url`.
pub async fn moved(config: &Config) -> anyhow::Result<String> {
    if config.catalog.url.is_empty() {
        let message = "`catalog.url` does not tell where to move the catalog";
        return Err(Hinted::error(
            message,
            "set it to `postgres://USER@HOST:PORT/DATABASE` in the configuration",
        ));
    }
    let holder = format!("`nyala catalog move` (process {})", std::process::id());
    let data_dir = DataDir::lock(&config.data_dir, &holder)?;
    data_dir.check_catalog()?;
    let noted = place_of_cuboids::noted(data_dir.path())?;
    let file = data_dir.catalog_file();
    let folder = data_dir.path().display();
    if !file.exists() {
        anyhow::bail!("data folder `{folder}` has no catalog to move");
    }
    let from = Catalog::open_sqlite(&file).await?;
    let snapshot = from.snapshot();
    let has_segments = snapshot.cubes.values().any(|cube| !cube.segments.is_empty());
    if noted.place.is_empty() && has_segments {
        let message =
            format!("the cuboids are in data folder `{folder}`, where other nodes cannot read them");
        return Err(Hinted::error(message, "move them first with `nyala storage move s3://bucket/prefix/`"));
    }
    let node = node_id(data_dir.path())?;
    let owned = snapshot.as_ref().clone().owned_by(&node);
    let history = from.query_history(&node).await?;
    drop(from);
    let store = PostgresStore::open(&config.catalog.url).await?;
    store.import(&owned).await?;
    let to = Catalog::open_postgres(&config.catalog.url).await?;
    if !noted.place.is_empty() {
        to.agree_on_place(&noted.place).await?;
    }
    to.record_queries(&node, &history, HISTORY).await?;
    let aside = set_aside(&file, &data_dir.path().join(SET_ASIDE))?;
    Ok(format!(
        "moved the catalog to the database of `catalog.url`: {} tables, {} cubes, {} disk stores, {} roles\n\
         the files of the catalog before are in `{}`\n",
        owned.tables.len(),
        owned.cubes.len(),
        owned.disk_stores.len(),
        owned.roles.len(),
        aside.display(),
    ))
}

/// Moves the files of the catalog to a new folder, so that no server opens them any more.
fn set_aside(file: &Path, aside: &Path) -> anyhow::Result<std::path::PathBuf> {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let folder = aside.join(now.as_millis().to_string());
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot make folder `{}`", folder.display()))?;
    let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    for suffix in ["-mark", "-wal", "-shm", "-journal", ""] {
        let part = file.with_file_name(format!("{name}{suffix}"));
        if part.exists() {
            std::fs::rename(&part, folder.join(format!("{name}{suffix}")))
                .with_context(|| format!("cannot set aside `{}`", part.display()))?;
        }
    }
    Ok(folder)
}
