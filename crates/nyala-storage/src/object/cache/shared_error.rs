//! One error for all readers that waited for a request.

use std::fmt;
use std::sync::Arc;

use object_store::Error;

/// The error of a request that several readers waited for.
#[derive(Clone)]
pub struct SharedError(Arc<Error>);

impl SharedError {
    /// The error of a request that was dropped, because the process ends.
    pub fn abandoned() -> Self {
        Self::from(Error::Generic { store: "block cache", source: "the request was abandoned".into() })
    }

    /// The error of one reader, of the same kind.
    pub fn for_reader(self) -> Error {
        let source = Box::new(self.clone());
        match &*self.0 {
            Error::NotFound { path, .. } => Error::NotFound { path: path.clone(), source },
            Error::Precondition { path, .. } => Error::Precondition { path: path.clone(), source },
            Error::PermissionDenied { path, .. } => Error::PermissionDenied { path: path.clone(), source },
            Error::Unauthenticated { path, .. } => Error::Unauthenticated { path: path.clone(), source },
            Error::Generic { store, .. } => Error::Generic { store, source },
            _ => Error::Generic { store: "block cache", source },
        }
    }
}

impl From<Error> for SharedError {
    fn from(error: Error) -> Self {
        Self(Arc::new(error))
    }
}

impl fmt::Display for SharedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            Error::Generic { source, .. } => source.fmt(f),
            other => other.fmt(f),
        }
    }
}

impl fmt::Debug for SharedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for SharedError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&*self.0)
    }
}
