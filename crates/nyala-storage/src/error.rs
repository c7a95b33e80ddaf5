//! Errors of locations and folders.

use std::path::PathBuf;

use crate::object::StoreKind;

/// A location or folder that cannot be used; the message names it and the next step.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    /// The text is neither a path nor a URL of a supported kind.
    #[error(
        "`{location}` is not a location: {reason}; use a path, `file:///…`, `s3://bucket/…`, `gs://bucket/…` or `az://container/…`"
    )]
    InvalidLocation {
        /// The text.
        location: String,
        /// Why it is no location.
        reason: String,
    },
    /// The location lies outside every configured prefix.
    #[error("location `{location}` is not allowed; add a prefix of it to `storage.allowed_locations`")]
    NotAllowed {
        /// The location's URL.
        location: String,
    },
    /// A location leads to files of the server or the operating system, by any path or link.
    #[error(
        "`{}` leads to files of the server itself or of the operating system, which no table may read",
        path.display()
    )]
    OwnFiles {
        /// The requested path.
        path: PathBuf,
    },
    /// The object store could not be set up.
    #[error("cannot open `{location}`: {source}; check {store}")]
    Open {
        /// The kind of the store.
        store: StoreKind,
        /// The location's URL.
        location: String,
        /// The error of the object store.
        source: object_store::Error,
    },
    /// The store has no such bucket.
    #[error("bucket `{bucket}` does not exist; check the location and `{}.endpoint`", store.section())]
    NoBucket {
        /// The kind of the store.
        store: StoreKind,
        /// The bucket's name.
        bucket: String,
    },
    /// The store refuses the credentials, or they lack the permission.
    #[error("access to bucket `{bucket}` was refused: {reason}; check {store}")]
    Refused {
        /// The kind of the store.
        store: StoreKind,
        /// The bucket's name.
        bucket: String,
        /// The answer of the server.
        reason: String,
    },
    /// The store is unavailable, also after retries.
    #[error("bucket `{bucket}` cannot be read for the moment: {reason}; try again later")]
    Unavailable {
        /// The bucket's name.
        bucket: String,
        /// The answer of the server.
        reason: String,
    },
    /// The store, or the service that issues its credentials, does not answer.
    #[error("no answer from `{address}`: {reason}; check {store}, or try again later")]
    Unreachable {
        /// The kind of the store.
        store: StoreKind,
        /// The server's URL, with the bucket.
        address: String,
        /// The network error.
        reason: String,
    },
    /// Another process holds the data folder.
    #[error("data folder `{}` is in use by {holder}; stop it, or choose another with `--data-dir`", path.display())]
    InUse {
        /// The folder.
        path: PathBuf,
        /// The other process, as it described itself in the lock's file.
        holder: String,
        /// The other process's address, if it listens.
        address: Option<String>,
    },
    /// There are cubes, disk stores or copies of a catalog, but no catalog.
    #[error(
        "catalog file `{}` is missing or empty, but `{}` has contents; run `nyala catalog restore`, which puts its newest \
         backup there, or move the folder away to start with an empty database",
        file.display(), folder.display()
    )]
    CatalogLost {
        /// The catalog's file.
        file: PathBuf,
        /// The folder with contents.
        folder: PathBuf,
    },
    /// The data folder cannot be created or written.
    #[error("cannot use data folder `{}`: {source}", path.display())]
    DataDir {
        /// The folder.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The folder of the block cache cannot be created or written.
    #[error("cannot use cache folder `{}`: {source}; check `storage.cache.folder`, or set `storage.cache.enabled = false`", path.display())]
    CacheFolder {
        /// The folder.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The place of cuboids belongs to another data folder.
    #[error(
        "`{location}` has the cuboids of another data folder; give each data folder a `storage.data` of its own"
    )]
    PlaceTaken {
        /// The location's URL.
        location: String,
    },
    /// The place of cuboids has not answered since the server started.
    #[error(
        "`{location}`, the place of cuboids, has not been reached since the server started: {reason}; cubes are built once it answers"
    )]
    PlaceNotReached {
        /// The location's URL.
        location: String,
        /// The last error.
        reason: String,
    },
    /// The cuboids are at another place than the configuration says.
    #[error(
        "cuboids are in {}, but `storage.data` says {}; set it back, or move them with `nyala storage move {}`",
        shown(noted), shown(configured), if configured.is_empty() { "local" } else { configured }
    )]
    CuboidsElsewhere {
        /// The place of the cuboids; empty for the data folder.
        noted: String,
        /// The place in the configuration; empty for the data folder.
        configured: String,
    },
    /// Another process uses the folder of the block cache.
    #[error("cache folder `{}` is in use by another process; give each server a `storage.cache.folder` of its own", path.display())]
    CacheInUse {
        /// The folder.
        path: PathBuf,
    },
}

fn shown(place: &str) -> String {
    if place.is_empty() { "the data folder".to_owned() } else { format!("`{place}`") }
}
