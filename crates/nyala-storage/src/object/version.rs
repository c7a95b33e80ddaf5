//! Reads of one version of a file: a query never reads two versions of it.

use std::ops::Range;
use std::sync::Arc;

use object_store::path::Path;
use object_store::{Error, GetOptions, GetResult, ObjectMeta, ObjectStore, Result};

/// The version of a file that a read is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// The version that a listing showed.
    AsListed,
    /// The only version, of a file that never changes.
    Constant,
}

/// The file has another version than the listing that the query was planned with.
#[derive(Debug, thiserror::Error)]
#[error("file `{path}` changed while it was read; run the statement again")]
pub struct FileChanged {
    /// The file's path within the store.
    pub path: Path,
}

impl From<FileChanged> for Error {
    fn from(changed: FileChanged) -> Self {
        Self::Precondition { path: changed.path.to_string(), source: Box::new(changed) }
    }
}

/// Asks for a range of a file, or for all of it.
///
/// # Errors
/// [`FileChanged`], as the source of [`Error::Precondition`], if the store has another version by now.
pub async fn get(
    store: &Arc<dyn ObjectStore>,
    meta: &ObjectMeta,
    version: Version,
    range: Option<Range<u64>>,
) -> Result<GetResult> {
    let if_match = match version {
        Version::AsListed => meta.e_tag.clone(),
        Version::Constant => None,
    };
    let options = GetOptions { range: range.map(Into::into), if_match, ..GetOptions::default() };
    match store.get_opts(&meta.location, options).await {
        Ok(answer) => check(&answer.meta, meta, version).map(|()| answer),
        // A listed file that is gone has changed, too.
        Err(Error::Precondition { .. } | Error::NotFound { .. }) if version == Version::AsListed => {
            Err(FileChanged { path: meta.location.clone() }.into())
        }
        Err(error) => Err(error),
    }
}

/// Compares the file in the store with the listed one. Answers to reads have times in seconds only, and listings of
/// Azure leave out the quotes of tags.
fn check(found: &ObjectMeta, listed: &ObjectMeta, version: Version) -> Result<()> {
    let same_tag = match (&found.e_tag, &listed.e_tag) {
        (Some(found), Some(listed)) => found.trim_matches('"') == listed.trim_matches('"'),
        _ => true,
    };
    let same = match version {
        Version::AsListed => same_tag && found.last_modified.timestamp() == listed.last_modified.timestamp(),
        Version::Constant => true,
    };
    match same && found.size == listed.size {
        true => Ok(()),
        false => Err(FileChanged { path: listed.location.clone() }.into()),
    }
}

#[cfg(test)]
mod tests {
    use object_store::path::Path;

    use super::*;

    #[test]
    fn tags_are_compared_without_their_quotes() {
        let meta = |tag: &str| ObjectMeta {
            location: Path::from("a"),
            last_modified: Default::default(),
            size: 1,
            e_tag: Some(tag.to_owned()),
            version: None,
        };
        let same = |one: &str, other: &str| check(&meta(one), &meta(other), Version::AsListed).is_ok();
        assert!(same("\"0x8D\"", "0x8D") && same("0x8D", "\"0x8D\"") && same("a", "a"));
        assert!(!same("\"0x8D\"", "0x8E"));
    }
}
