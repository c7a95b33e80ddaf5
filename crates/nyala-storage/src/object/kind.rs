//! The kinds of remote stores.

use std::error::Error as StdError;
use std::fmt;

use object_store::Error;

/// An error of a store as a cause, with the kind of the store.
#[derive(Debug, thiserror::Error)]
#[error("{source}")]
struct Told {
    kind: StoreKind,
    source: Box<dyn StdError + Send + Sync>,
}

/// The protocol of a remote store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreKind {
    /// Amazon S3, and all servers that are compatible with it.
    S3,
    /// Google Cloud Storage.
    Gcs,
    /// Azure Blob Storage.
    Azure,
}

impl StoreKind {
    /// The schemes of all kinds.
    pub const SCHEMES: [&str; 3] = ["s3", "gs", "az"];

    /// The kind with this scheme in URLs.
    pub fn of_scheme(scheme: &str) -> Option<Self> {
        match scheme {
            "s3" => Some(Self::S3),
            "gs" => Some(Self::Gcs),
            "az" => Some(Self::Azure),
            _ => None,
        }
    }

    /// The kind of the store that gave an error. An error without a mark of [`Self::told`] names its store, or comes from S3.
    pub(super) fn of_error(error: &Error) -> Self {
        let first: &(dyn StdError + 'static) = error;
        let mut causes = std::iter::successors(Some(first), |cause| (*cause).source());
        match (causes.find_map(|cause| cause.downcast_ref::<Told>()), error) {
            (Some(told), _) => told.kind,
            (None, Error::Generic { store: "GCS", .. }) => Self::Gcs,
            (None, Error::Generic { store: "MicrosoftAzure", .. }) => Self::Azure,
            _ => Self::S3,
        }
    }

    /// Marks the error with the kind, which becomes one of its causes.
    pub(super) fn told(self, error: Error) -> Error {
        let told = |source| -> Box<dyn StdError + Send + Sync> { Box::new(Told { kind: self, source }) };
        match error {
            Error::Generic { store, source } => Error::Generic { store, source: told(source) },
            Error::NotFound { path, source } => Error::NotFound { path, source: told(source) },
            Error::AlreadyExists { path, source } => Error::AlreadyExists { path, source: told(source) },
            Error::Precondition { path, source } => Error::Precondition { path, source: told(source) },
            Error::PermissionDenied { path, source } => {
                Error::PermissionDenied { path, source: told(source) }
            }
            Error::Unauthenticated { path, source } => Error::Unauthenticated { path, source: told(source) },
            other => other,
        }
    }

    /// The section of the store's settings, as errors name it.
    pub fn section(self) -> &'static str {
        match self {
            Self::S3 => "storage.s3",
            Self::Gcs => "storage.gcs",
            Self::Azure => "storage.azure",
        }
    }
}

/// Names the places of the store's settings.
impl fmt::Display for StoreKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let variables = match self {
            Self::S3 => "AWS",
            Self::Gcs => "GOOGLE",
            Self::Azure => "AZURE",
        };
        write!(f, "`{}` and the `{variables}_…` environment", self.section())
    }
}
