//! Reads of one version of a file: a query never sees two of them.

use std::ops::Range;
use std::sync::Arc;

use object_store::path::Path;
use object_store::{Error, GetOptions, GetResult, ObjectMeta, ObjectStore, Result};

/// Which content of a file is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// The one that a listing showed.
    AsListed,
    /// The only one there ever is.
    Constant,
}

/// The file is another one than the listing showed that the query was planned with.
#[derive(Debug, thiserror::Error)]
#[error("file `{path}` changed while it was read; run the statement again")]
pub struct FileChanged {
    /// Its path within the store.
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

/// Compares what the store has with what a listing showed. Answers to reads tell the time in seconds only, and lists of
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
