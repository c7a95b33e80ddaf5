//! Where the files of segments lie: in the data folder, or in a bucket.
//!
//! Paths are relative to that place; the path of a folder ends with a slash. A file that is written never changes.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path as FsPath, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use futures::{StreamExt, TryStreamExt, stream};
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{Error, ObjectStore, ObjectStoreExt, PutMode, PutPayload, Result};

use nyala_model::config::StorageConfig;
use nyala_model::{CuboidFile, NodeId};
use object_store::buffered::BufWriter;
use tokio::io::AsyncWriteExt;

use crate::StorageError;
use crate::data_dir::{CUBES, SET_ASIDE, folders_below, remove_folder};
use crate::object::cache::BlockCache;
use crate::object::{Location, OpenedStore, StoreKind, open_data, refusal};

/// Folders on the path of a file: its segment's, its cube's, the folder of all cubes, and the data folder.
const FOLDERS: usize = 4;
/// Object that names the node whose data folder has a place in a bucket.
const OWNER: &str = "nyala-owner";
/// Files that are moved at the same time.
const MOVED_AT_ONCE: usize = 8;

/// The place of the files of all segments.
#[derive(Debug, Clone)]
pub struct SegmentStore {
    opened: OpenedStore,
    /// The data folder; none for a bucket.
    data_dir: Option<PathBuf>,
    /// The reason why cubes cannot be built yet, if the bucket was not reached.
    unready: Arc<Mutex<Option<String>>>,
}

impl SegmentStore {
    /// The place that is configured. Files in a bucket are read through `cache`.
    ///
    /// # Errors
    /// The data folder cannot be used, or `storage.data` is no location in a bucket.
    pub fn open(
        data_dir: &FsPath,
        config: &StorageConfig,
        cache: Option<&Arc<BlockCache>>,
    ) -> std::result::Result<Self, StorageError> {
        if config.data.is_empty() {
            return Self::local(data_dir);
        }
        let location = Location::parse(&config.data)?.into_folder();
        Ok(Self { opened: open_data(&location, config, cache)?, data_dir: None, unready: Arc::default() })
    }

    /// The place in the data folder.
    ///
    /// # Errors
    /// The folder cannot be used.
    pub fn local(data_dir: &FsPath) -> std::result::Result<Self, StorageError> {
        let failed =
            |error| StorageError::DataDir { path: data_dir.to_owned(), source: io::Error::other(error) };
        let files = LocalFileSystem::new_with_prefix(data_dir).map_err(failed)?;
        Ok(Self {
            opened: OpenedStore::local(Arc::new(files)),
            data_dir: Some(data_dir.to_owned()),
            unready: Arc::default(),
        })
    }

    /// The store, to read files from.
    pub fn opened(&self) -> &OpenedStore {
        &self.opened
    }

    /// The store, to write files to.
    pub fn files(&self) -> &Arc<dyn ObjectStore> {
        self.opened.store()
    }

    /// The data folder, if the files are there.
    pub fn data_dir(&self) -> Option<&FsPath> {
        self.data_dir.as_deref()
    }

    /// Lets cubes be built here, or refuses it for a reason.
    pub fn set_unready(&self, reason: Option<String>) {
        *self.unready.lock().unwrap_or_else(PoisonError::into_inner) = reason;
    }

    /// Whether cubes may be built here.
    ///
    /// # Errors
    /// [`StorageError::PlaceNotReached`].
    pub fn check_ready(&self) -> std::result::Result<(), StorageError> {
        let unready = self.unready.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let location = self.opened.url().unwrap_or_default().to_owned();
        unready.map_or(Ok(()), |reason| Err(StorageError::PlaceNotReached { location, reason }))
    }

    /// Takes the place for one catalog, which will delete files there that it does not know. `by` is the data folder, or all nodes
    /// with the catalog; if the place belongs to the data folder `from` alone, it passes to them.
    ///
    /// # Errors
    /// [`StorageError::PlaceTaken`] if another catalog has it.
    pub async fn claim(&self, by: &NodeId, from: &NodeId) -> std::result::Result<(), StorageError> {
        let Some(url) = self.opened.url() else { return Ok(()) };
        let failed = |error| self.explain(error);
        // The owner is read first, because not every store refuses to overwrite an object.
        let mut owner = self.owner().await.map_err(failed)?;
        if owner.is_none() {
            let id = PutPayload::from(by.0.clone());
            let put = self.files().put_opts(&Path::from(OWNER), id, PutMode::Create.into()).await;
            match put {
                Ok(_) => return Ok(()),
                Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => {}
                Err(error) => return Err(failed(error)),
            }
            owner = self.owner().await.map_err(failed)?;
        }
        match owner {
            Some(owner) if owner == by.0 => Ok(()),
            Some(owner) if owner == from.0 => {
                let given = self.files().put(&Path::from(OWNER), PutPayload::from(by.0.clone())).await;
                given.map(|_| ()).map_err(failed)
            }
            _ => Err(StorageError::PlaceTaken { location: url.to_owned() }),
        }
    }

    /// An error of the store, with its next step.
    pub(crate) fn explain(&self, source: Error) -> StorageError {
        let location = self.opened.url().unwrap_or_default().to_owned();
        let scheme = location.split("://").next().unwrap_or_default();
        let store = StoreKind::of_scheme(scheme).unwrap_or(StoreKind::S3);
        refusal(&source).unwrap_or(StorageError::Open { store, location, source })
    }

    /// The node whose data folder has the place.
    pub(crate) async fn owner(&self) -> Result<Option<String>> {
        match self.files().get(&Path::from(OWNER)).await {
            Ok(found) => Ok(Some(String::from_utf8_lossy(&found.bytes().await?).trim().to_owned())),
            Err(Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Deletes the files of all segments and gives the place back, once they are elsewhere.
    ///
    /// # Errors
    /// Some files could not be deleted.
    pub async fn clear(&self) -> Result<()> {
        if let Some(data_dir) = &self.data_dir {
            return remove_folder(&data_dir.join(CUBES)).map_err(of);
        }
        let files = self.files().list(Some(&Path::from(CUBES))).map_ok(|file| file.location);
        self.delete(files.boxed()).await?;
        self.delete(stream::iter([Ok(Path::from(OWNER))]).boxed()).await
    }

    /// Waits until files of a folder outlast a power cut, and so do their names. A commit of the catalog does: a file
    /// that the operating system has not written by then would be empty or gone afterwards. A bucket has the files by now
    /// or never.
    ///
    /// # Errors
    /// A file is missing, or the disk does not take it.
    pub async fn seal(&self, folder: &str, names: Vec<String>) -> Result<()> {
        if names.is_empty() {
            return Ok(());
        }
        let Some(data_dir) = &self.data_dir else {
            let heads = names.iter().map(|name| async move { self.files().head(&path(folder, name)).await });
            let heads = heads.collect::<Vec<_>>();
            return stream::iter(heads)
                .buffer_unordered(MOVED_AT_ONCE)
                .try_for_each(|_| async { Ok(()) })
                .await;
        };
        let folder = data_dir.join(folder);
        let work = move || {
            let files: Vec<PathBuf> = names.iter().map(|name| folder.join(name)).collect();
            files.iter().map(PathBuf::as_path).chain(folder.ancestors().take(FOLDERS)).try_for_each(sync)
        };
        let synced = tokio::task::spawn_blocking(work).await.map_err(|error| of(error.into()))?;
        synced.map_err(of)
    }

    /// Names of the files of a folder, half-written ones included.
    ///
    /// # Errors
    /// The bucket cannot be listed. A folder that is missing is empty.
    pub async fn names(&self, folder: &str) -> Result<Vec<String>> {
        if let Some(data_dir) = &self.data_dir {
            let files = std::fs::read_dir(data_dir.join(folder)).into_iter().flatten().flatten();
            return Ok(files.filter_map(|file| file.file_name().into_string().ok()).collect());
        }
        let files = self.files().list(Some(&Path::from(folder)));
        let names =
            files.try_filter_map(|file| async move { Ok(file.location.filename().map(str::to_owned)) });
        names.try_collect().await
    }

    /// The names of the files in the folders of all segments, half-written ones included.
    ///
    /// # Errors
    /// The folder or bucket cannot be listed.
    pub async fn all_names(&self) -> Result<BTreeMap<String, Vec<String>>> {
        let mut all = BTreeMap::<String, Vec<String>>::new();
        if let Some(data_dir) = &self.data_dir {
            for folder in folders_below(&data_dir.join(CUBES)).map_err(of)? {
                let relative = folder.strip_prefix(data_dir).unwrap_or(&folder);
                let folder = format!("{}/", relative.display());
                let names = self.names(&folder).await?;
                all.insert(folder, names);
            }
            return Ok(all);
        }
        let mut files = self.files().list(Some(&Path::from(CUBES)));
        while let Some(file) = files.try_next().await? {
            if let Some((folder, name)) = file.location.as_ref().rsplit_once('/') {
                all.entry(format!("{folder}/")).or_default().push(name.to_owned());
            }
        }
        Ok(all)
    }

    /// Deletes a folder with all that is in it. What cannot be deleted is logged, and the next start tries again.
    pub async fn remove(&self, folder: &str) {
        let removed = match &self.data_dir {
            // The store does not list half-written files, so that the folder is removed itself.
            Some(data_dir) => remove_folder(&data_dir.join(folder)).map_err(of),
            None => {
                let files = self.files().list(Some(&Path::from(folder))).map_ok(|file| file.location);
                self.delete(files.boxed()).await
            }
        };
        if let Err(error) = removed {
            tracing::warn!(folder, %error, "cannot delete the files of an old segment");
        }
    }

    /// Deletes files of a folder. What cannot be deleted is logged, and the next start tries again.
    pub async fn remove_files(&self, folder: &str, names: &[String]) {
        let removed = match &self.data_dir {
            // A store does not accept the names of half-written files.
            Some(data_dir) => {
                let folder = data_dir.join(folder);
                names.iter().try_for_each(|name| remove_file(&folder.join(name))).map_err(of)
            }
            None => {
                let paths: Vec<Result<Path>> = names.iter().map(|name| Ok(path(folder, name))).collect();
                self.delete(stream::iter(paths).boxed()).await
            }
        };
        if let Err(error) = removed {
            tracing::warn!(folder, %error, "cannot delete files of a segment that are not needed");
        }
    }

    async fn delete(&self, paths: stream::BoxStream<'_, Result<Path>>) -> Result<()> {
        let paths: Vec<Result<Path>> = paths.collect().await;
        let mut deleted = self.files().delete_stream(stream::iter(paths).boxed());
        let mut first = Ok(());
        while let Some(done) = deleted.next().await {
            match done {
                Err(error) if !matches!(error, Error::NotFound { .. }) && first.is_ok() => first = Err(error),
                _ => {}
            }
        }
        first
    }

    /// Moves files to a folder where the user finds them.
    ///
    /// # Errors
    /// A file cannot be moved.
    pub async fn set_aside(&self, aside: &str, folder: &str, names: &[String]) -> Result<()> {
        let to = format!("{SET_ASIDE}/{aside}/{folder}");
        let Some(data_dir) = &self.data_dir else {
            for name in names {
                self.files().rename(&path(folder, name), &path(&to, name)).await?;
            }
            return Ok(());
        };
        // A store does not accept the names of half-written files.
        let (from, to) = (data_dir.join(folder), data_dir.join(to));
        std::fs::create_dir_all(&to).map_err(of)?;
        names.iter().try_for_each(|name| std::fs::rename(from.join(name), to.join(name))).map_err(of)
    }
}

/// Copies the files of all segments from one place to another. After an error, the next call skips files that were copied whole.
/// Returns the bytes of all files.
///
/// # Errors
/// A file cannot be read or written, or it has not the size that the catalog tells.
pub async fn copy_segments(
    segments: &[(String, Vec<CuboidFile>)],
    (from, to): (&SegmentStore, &SegmentStore),
) -> Result<u64> {
    let files = segments.iter().flat_map(|(folder, files)| files.iter().map(move |file| (folder, file)));
    let files: Vec<(Path, u64)> =
        files.map(|(folder, file)| (path(folder, &file.name), file.bytes)).collect();
    let copies: Vec<_> = files.iter().map(|(path, bytes)| copy(path, *bytes, (from, to))).collect();
    stream::iter(copies).buffer_unordered(MOVED_AT_ONCE).try_collect::<()>().await?;
    for (folder, files) in segments {
        to.seal(folder, files.iter().map(|file| file.name.clone()).collect()).await?;
    }
    Ok(files.iter().map(|(_, bytes)| bytes).sum())
}

async fn copy(path: &Path, bytes: u64, (from, to): (&SegmentStore, &SegmentStore)) -> Result<()> {
    // Names of segments are never used again, so that a file of this size is the same one.
    if to.files().head(path).await.is_ok_and(|found| found.size == bytes) {
        return Ok(());
    }
    let read = from.files().get(path).await?;
    if read.meta.size != bytes {
        let source = format!("`{path}` has {} bytes, but {bytes} were written", read.meta.size).into();
        return Err(Error::Generic { store: "segments", source });
    }
    let mut sink = BufWriter::new(Arc::clone(to.files()), path.clone());
    let mut read = read.into_stream();
    let copied = async {
        while let Some(part) = read.try_next().await? {
            sink.put(part).await?;
        }
        Ok(())
    };
    if let Err(error) = copied.await {
        let _ = sink.abort().await;
        return Err(error);
    }
    // The sink panics if it is aborted after this, so that the copy ends here in any case.
    sink.shutdown().await.map_err(of)
}

/// The path of a file.
pub fn path(folder: &str, name: &str) -> Path {
    Path::from(format!("{folder}{name}"))
}

/// Deletes a file, if it is there.
fn remove_file(file: &FsPath) -> io::Result<()> {
    match std::fs::remove_file(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn of(error: io::Error) -> Error {
    Error::Generic { store: "data folder", source: Box::new(error) }
}

/// Syncs a file or a folder; folders are opened like files.
fn sync(path: &FsPath) -> io::Result<()> {
    let synced = File::open(path).and_then(|file| file.sync_all());
    synced.map_err(|error| {
        io::Error::new(error.kind(), format!("cannot bring `{}` to the disk: {error}", path.display()))
    })
}
