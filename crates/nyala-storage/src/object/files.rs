//! Local files. Each file is checked when it is opened: links may have changed since its location was checked.

use std::fmt;
use std::ops::Range;
use std::path::{Path as FsPath, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{StreamExt, future};
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};

use super::LocationRules;
use crate::StorageError;

/// The local file system as far as [`LocationRules`] allow. It opens a file by the path that the check
/// resolved, so that later changes of the links have no effect.
#[derive(Debug)]
pub struct GuardedFiles {
    files: LocalFileSystem,
    rules: Arc<LocationRules>,
}

impl GuardedFiles {
    pub fn new(rules: Arc<LocationRules>) -> Self {
        Self { files: LocalFileSystem::new(), rules }
    }

    /// Resolves and checks a path with its present links.
    fn check(&self, location: &Path) -> Result<Path> {
        let path = self.files.path_to_filesystem(location)?;
        let real = self.rules.check_path(&path).map_err(|error| refused(location, error))?;
        if real == path { Ok(location.clone()) } else { Ok(Path::from_absolute_path(real)?) }
    }
}

fn refused(location: &Path, error: StorageError) -> Error {
    Error::PermissionDenied { path: location.to_string(), source: Box::new(error) }
}

/// Checks listed files. Files of one folder come one after the other.
struct Listing {
    rules: Arc<LocationRules>,
    /// The folder's listed path, and the one without links.
    folder: Option<(PathBuf, PathBuf)>,
}

impl Listing {
    /// Whether a file is listed: a single file of the server beside other files is left out, but a folder of
    /// the server within this one is an error.
    fn shows(&mut self, location: &Path) -> Result<bool> {
        let path = LocalFileSystem::new().path_to_filesystem(location)?;
        let shown = self.check(&path).map_err(|error| refused(location, error))?;
        Ok(shown)
    }

    fn check(&mut self, path: &FsPath) -> std::result::Result<bool, StorageError> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Ok(false) };
        let real = match &self.folder {
            Some((folder, real)) if folder == parent => real.clone(),
            _ => {
                let real = self.rules.check_folder(parent)?;
                self.folder = Some((parent.to_owned(), real.clone()));
                real
            }
        };
        match path.symlink_metadata() {
            Ok(metadata) if metadata.is_symlink() => match self.rules.check_path(path) {
                Err(StorageError::OwnFiles { .. }) if self.leads_to_a_single_file(path) => Ok(false),
                checked => checked.map(|_| true),
            },
            metadata => Ok(!self.rules.own().has_single_file(&real.join(name), metadata.ok().as_ref())),
        }
    }

    fn leads_to_a_single_file(&self, path: &FsPath) -> bool {
        let real = super::own::real_path(path);
        real.parent().is_some_and(|folder| self.rules.check_folder(folder).is_ok())
    }
}

#[async_trait]
impl ObjectStore for GuardedFiles {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.files.put_opts(&self.check(location)?, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.files.put_multipart_opts(&self.check(location)?, options).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let mut result = self.files.get_opts(&self.check(location)?, options).await?;
        result.meta.location = location.clone();
        Ok(result)
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.files.get_ranges(&self.check(location)?, ranges).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let rules = Arc::clone(&self.rules);
        let checked = locations.map(move |location| {
            let location = location?;
            let path = LocalFileSystem::new().path_to_filesystem(&location)?;
            rules.check_path(&path).map_err(|error| refused(&location, error))?;
            Ok(location)
        });
        self.files.delete_stream(checked.boxed())
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let mut listing = Listing { rules: Arc::clone(&self.rules), folder: None };
        let listed = self.files.list(prefix).map(move |found| {
            let found = found?;
            Ok(listing.shows(&found.location)?.then_some(found))
        });
        listed.filter_map(|found: Result<Option<ObjectMeta>>| future::ready(found.transpose())).boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let mut listed = self.files.list_with_delimiter(prefix).await?;
        let mut listing = Listing { rules: Arc::clone(&self.rules), folder: None };
        let mut shown = Vec::new();
        for found in std::mem::take(&mut listed.objects) {
            if listing.shows(&found.location)? {
                shown.push(found);
            }
        }
        listed.objects = shown;
        Ok(listed)
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.files.copy_opts(&self.check(from)?, &self.check(to)?, options).await
    }
}

impl fmt::Display for GuardedFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.files.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::fs;
    use std::os::unix::fs::symlink;

    use futures::TryStreamExt;
    use nyala_model::config::StorageConfig;
    use object_store::ObjectStoreExt;

    use super::super::OwnPaths;
    use super::*;

    /// Creates links after the store was opened.
    #[tokio::test]
    async fn a_link_that_comes_later_leads_nowhere() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let path = |name: &str| Path::from_absolute_path(at(name)).unwrap();
        for name in ["data", "far", "db/cubes"] {
            fs::create_dir_all(at(name)).unwrap();
        }
        for name in ["data/a.csv", "far/b.csv", "db/cubes/c.csv", "db/catalog.sqlite", "data/audit.json"] {
            fs::write(at(name), name).unwrap();
        }
        let own = OwnPaths::new(&at("db"), [at("data/audit.json")]);
        let rules = Arc::new(LocationRules::new(&StorageConfig::default(), own));
        let store = GuardedFiles::new(rules);
        let read = async |name: &str| store.get(&path(name)).await?.bytes().await;
        let listed = async || -> Result<Vec<String>> {
            let found = store.list(Some(&path("data"))).try_collect::<Vec<_>>().await?;
            let mut names: Vec<String> =
                found.iter().map(|found| found.location.filename().unwrap().to_owned()).collect();
            names.sort();
            Ok(names)
        };
        assert_eq!(listed().await.unwrap(), ["a.csv"], "the audit log is not shown");
        symlink(at("far/b.csv"), at("data/b.csv")).unwrap();
        assert_eq!(read("data/b.csv").await.unwrap(), "far/b.csv");
        assert_eq!(store.head(&path("data/b.csv")).await.unwrap().location, path("data/b.csv"));
        assert_eq!(listed().await.unwrap(), ["a.csv", "b.csv"]);
        assert!(matches!(read("data/audit.json").await, Err(Error::PermissionDenied { .. })));

        symlink(at("db/catalog.sqlite"), at("data/c.csv")).unwrap();
        for name in ["data/c.csv", "db/catalog.sqlite", "db/cubes/c.csv"] {
            assert!(matches!(read(name).await, Err(Error::PermissionDenied { .. })), "{name}");
            assert!(store.head(&path(name)).await.is_err(), "{name}");
            assert!(store.get_ranges(&path(name), std::slice::from_ref(&(0..1))).await.is_err(), "{name}");
            assert!(store.put(&path(name), "x".into()).await.is_err(), "{name}");
            assert!(store.delete(&path(name)).await.is_err(), "{name}");
        }
        assert!(listed().await.is_err(), "the data folder is told");
        fs::remove_file(at("data/c.csv")).unwrap();
        symlink(at("db/cubes"), at("data/sub")).unwrap();
        assert!(listed().await.is_err());
    }
}
