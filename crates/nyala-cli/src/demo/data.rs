//! The benchmark's files, generated once.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result};
use nyala_bench::generate::{self, Dataset, Progress, Request};
use nyala_client::report::Hinted;
use nyala_model::config::StorageConfig;

use super::command::step;
use crate::sql::duration;

/// Written last; holds the scale. Without it the files may be incomplete.
const MARKER: &str = "complete";

/// The benchmark's files.
#[derive(Debug, PartialEq, Eq)]
pub struct Files {
    /// Folder of the files.
    pub folder: PathBuf,
    /// Whether this run wrote them: a cube built from earlier files is then out of date.
    pub fresh: bool,
}

/// The files at this scale, which are generated unless they are all there.
pub async fn ensure(data_dir: &Path, scale: f64, storage: &StorageConfig) -> Result<Files> {
    let files = data_dir.join("ssb");
    let marker = files.join(MARKER);
    if let Some(present) = present_scale(&marker) {
        if present != scale.to_string() {
            let message = format!("`{}` holds data of scale {present}, not {scale}", data_dir.display());
            return Err(Hinted::error(
                message,
                "choose another folder with `--data-dir`, or remove this one",
            ));
        }
        step(&format!("using the data of scale {scale} in `{}`", files.display()))?;
        return Ok(Files { folder: files, fresh: false });
    }
    generate(&files, scale, storage).await?;
    fs::write(&marker, scale.to_string()).with_context(|| format!("cannot write `{}`", marker.display()))?;
    Ok(Files { folder: files, fresh: true })
}

fn present_scale(marker: &Path) -> Option<String> {
    fs::read_to_string(marker).ok().map(|text| text.trim().to_owned())
}

async fn generate(files: &Path, scale: f64, storage: &StorageConfig) -> Result<()> {
    step(&format!("generating the Star Schema Benchmark at scale {scale} in `{}` …", files.display()))?;
    let started = Instant::now();
    let request = Request {
        // Files that are there are left from an interrupted generation.
        overwrite: true,
        storage: storage.clone(),
        ..Request::new(Dataset::Ssb, scale, files.to_string_lossy())
    };
    let summary = generate::run(&request, &Progress::shown()).await?;
    let megabytes = summary.bytes() as f64 / 1e6;
    step(&format!("{} rows, {megabytes:.0} MB of Parquet in {}", summary.rows(), duration(started.elapsed())))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]
    use super::*;
    use crate::report;

    #[tokio::test]
    async fn data_of_another_scale_is_refused_and_complete_data_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let files = folder.path().join("ssb");
        fs::create_dir(&files).unwrap();
        fs::write(files.join(MARKER), "0.5\n").unwrap();
        let storage = StorageConfig::default();
        let kept = Files { folder: files, fresh: false };
        assert_eq!(ensure(folder.path(), 0.5, &storage).await.unwrap(), kept);
        let error = report::text(&ensure(folder.path(), 1.0, &storage).await.unwrap_err());
        assert!(error.contains("holds data of scale 0.5, not 1"), "{error}");
    }
}
