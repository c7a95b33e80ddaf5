//! What can go wrong with locations and folders.

use std::path::PathBuf;

/// A location or folder that cannot be used; the message names it and the next step.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    /// The text is neither a path nor a URL of a supported kind.
    #[error("`{location}` is not a location: {reason}; use a path, `file:///…` or `s3://bucket/…`")]
    InvalidLocation {
        /// The text.
        location: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The location lies outside every configured prefix.
    #[error("location `{location}` is not allowed; add a prefix of it to `storage.allowed_locations`")]
    NotAllowed {
        /// The location's URL.
        location: String,
    },
    /// A location leads to files of the server itself, by whatever way.
    #[error(
        "`{}` leads to files of the server itself or of the operating system, which no table may read",
        path.display()
    )]
    OwnFiles {
        /// The path, as it was asked for.
        path: PathBuf,
    },
    /// The object store could not be set up.
    #[error("cannot open `{location}`: {source}; check `storage.s3` and the `AWS_…` environment")]
    Open {
        /// The location's URL.
        location: String,
        /// What the object store said.
        source: object_store::Error,
    },
    /// The S3 server has no such bucket.
    #[error("bucket `{bucket}` does not exist; check the location and `storage.s3.endpoint`")]
    NoBucket {
        /// Its name.
        bucket: String,
    },
    /// The S3 server does not accept the credentials, or does not allow them this.
    #[error(
        "access to bucket `{bucket}` was refused: {reason}; check `storage.s3` and the `AWS_…` environment"
    )]
    Refused {
        /// The bucket's name.
        bucket: String,
        /// What the server said.
        reason: String,
    },
    /// The S3 server cannot answer now, and went on saying so.
    #[error("bucket `{bucket}` cannot be read for the moment: {reason}; try again later")]
    Unavailable {
        /// The bucket's name.
        bucket: String,
        /// What the server said.
        reason: String,
    },
    /// Nobody answers where the S3 server, or what gives credentials for it, should be.
    #[error(
        "no answer from `{address}`: {reason}; check `storage.s3` and the `AWS_…` environment, or try again later"
    )]
    Unreachable {
        /// The server's URL, with the bucket.
        address: String,
        /// What happened.
        reason: String,
    },
    /// Another process works on the data folder.
    #[error("data folder `{}` is in use by {holder}; stop it, or choose another with `--data-dir`", path.display())]
    InUse {
        /// The folder.
        path: PathBuf,
        /// What the other process wrote about itself.
        holder: String,
        /// Where it listens, if it does.
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
        /// What there is without it.
        folder: PathBuf,
    },
    /// The data folder cannot be created or written.
    #[error("cannot use data folder `{}`: {source}", path.display())]
    DataDir {
        /// The folder.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
}
