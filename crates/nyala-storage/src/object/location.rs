//! Locations of files: a local path or a prefix in a bucket, in one canonical form.

use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path as FsPath, PathBuf};

use object_store::path::Path;
use percent_encoding::percent_decode_str;
use url::Url;

use super::StoreKind;
use crate::StorageError;

/// A file or folder, as an absolute `file://` URL or one of a remote store. Folders end with a slash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Location {
    url: Url,
    path: Path,
}

impl Location {
    /// Accepts `s3://bucket/prefix`, `gs://bucket/prefix`, `az://container/prefix`, `file:///path` and plain paths (relative ones from the working folder).
    /// `%` begins an encoded byte in URLs only. The path of an existing folder gets its trailing slash.
    pub fn parse(text: &str) -> Result<Self, StorageError> {
        let invalid =
            |reason: String| StorageError::InvalidLocation { location: without_credentials(text), reason };
        if text.trim().is_empty() {
            return Err(invalid("it is empty".into()));
        }
        match text.split_once("://") {
            None => Self::from_file(FsPath::new(text)).map_err(invalid),
            Some(("file", path)) if path.starts_with('/') => {
                let decoded = OsString::from_vec(percent_decode_str(path).collect());
                Self::from_file(FsPath::new(&decoded)).map_err(invalid)
            }
            Some(("file", _)) => Err(invalid("a `file` URL needs an absolute path".into())),
            Some((scheme, _)) => match StoreKind::of_scheme(scheme) {
                Some(store) => Self::from_bucket(store, text).map_err(invalid),
                None => Err(invalid(format!("scheme `{scheme}` is not supported"))),
            },
        }
    }

    fn from_file(path: &FsPath) -> Result<Self, String> {
        let folder = path.as_os_str().to_string_lossy().ends_with('/') || path.is_dir();
        let absolute = std::path::absolute(path).map_err(|error| error.to_string())?;
        let absolute = normalize(&absolute);
        let url = if folder { Url::from_directory_path(&absolute) } else { Url::from_file_path(&absolute) };
        let url = url.map_err(|()| "it is not an absolute path".to_owned())?;
        let path = Path::from_absolute_path(&absolute).map_err(|error| error.to_string())?;
        Ok(Self { url, path })
    }

    fn from_bucket(store: StoreKind, text: &str) -> Result<Self, String> {
        let url = Url::parse(text).map_err(|error| error.to_string())?;
        if url.host_str().is_none_or(str::is_empty) {
            return Err(format!("a URL with `{}` needs a bucket", url.scheme()));
        }
        if !url.username().is_empty() || url.password().is_some() || url.query().is_some() {
            return Err(format!(
                "credentials are configured in `{}`, and stand in no location",
                store.section()
            ));
        }
        let path = Path::from_url_path(url.path()).map_err(|error| error.to_string())?;
        Ok(Self { url, path })
    }

    /// The kind of the location's store; none for the local file system.
    pub fn store(&self) -> Option<StoreKind> {
        StoreKind::of_scheme(self.url.scheme())
    }

    /// The absolute URL; a folder's ends with a slash.
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// Path within the store that [`super::LocationRules::open`] returns.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the location names a folder.
    pub fn is_folder(&self) -> bool {
        self.url.path().ends_with('/')
    }

    /// The same location as a folder.
    #[must_use]
    pub fn into_folder(mut self) -> Self {
        if !self.is_folder() {
            let path = format!("{}/", self.url.path());
            self.url.set_path(&path);
        }
        self
    }

    /// The path in the local file system; none for remote locations.
    pub fn local_path(&self) -> Option<PathBuf> {
        (self.url.scheme() == "file").then(|| self.url.to_file_path().ok()).flatten()
    }
}

/// The text without credentials before the host and without query: many people read errors.
fn without_credentials(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else { return text.to_owned() };
    let (rest, query) = rest.split_once('?').map_or((rest, ""), |(rest, _)| (rest, "?…"));
    match rest.rsplit_once('@') {
        Some((_, place)) => format!("{scheme}://…@{place}{query}"),
        None => format!("{scheme}://{rest}{query}"),
    }
}

/// Resolves `.` and `..` without touching the disk, so that an allowed prefix cannot be escaped.
fn normalize(path: &FsPath) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => {
                normal.pop();
            }
            Component::CurDir => {}
            other => normal.push(other),
        }
    }
    normal
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.url.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn locations_have_one_form() {
        let check = |text: &str, url: &str| assert_eq!(Location::parse(text).unwrap().url().as_str(), url);
        check("/a/b.parquet", "file:///a/b.parquet");
        check("/a/../../b/./c/", "file:///b/c/");
        check("file:///a b/c", "file:///a%20b/c");
        check("file:///a%20b/%2E%2E/c", "file:///c");
        check("/a%20b", "file:///a%2520b");
        check("file:///a%2520b", "file:///a%2520b");
        check("s3://bucket/a/b/", "s3://bucket/a/b/");
        check("s3://bucket/a/%2e%2E/b/", "s3://bucket/b/");
        check("gs://bucket_1/a/b.parquet", "gs://bucket_1/a/b.parquet");
        check("az://container/a/", "az://container/a/");
        assert!(Location::parse("relative").unwrap().url().path().ends_with("/relative"));
    }

    #[test]
    fn nonsense_is_refused_with_a_reason() {
        let check = |text: &str, words: &str| {
            let message = Location::parse(text).unwrap_err().to_string();
            assert!(message.contains(words), "{message}");
        };
        check("", "it is empty");
        check("gopher://x/y", "scheme `gopher`");
        check("s3:///key", "bucket");
        check("file://host/x", "absolute path");
        check("s3://key:secret@bucket/x", "`s3://…@bucket/x` is not a location");
        check("az://c/x?sig=secret", "credentials are configured in `storage.azure`");
        check("s3://bucket/x?X-Amz-Signature=secret", "`s3://bucket/x?…` is not a location");
    }
}
