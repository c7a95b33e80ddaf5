//! Folders and files that a server writes: whether it may, and whether there is room.

use std::fs::File;
use std::io::ErrorKind;
use std::path::Path;

use nyala_model::config::Config;
use nyala_model::size_text::show_size;
use nyala_storage::data_dir::{BLOCK_CACHE, check_catalog, check_unused};
use nyala_storage::{ProbedFolder, StorageError, probe_folder};

use super::check::Check;

const DATA_DIR: &str = "data folder";
/// Below this, a server can hardly write its catalog.
const MIN_FREE_BYTES: u64 = 64 << 20;
/// Below this, builds and spilling queries may fill the disk.
const LOW_FREE_BYTES: u64 = 1 << 30;

pub fn check(config: &Config) -> Vec<Check> {
    let mut checks = match data_dir(config) {
        Ok(probed) => vec![owned(&config.data_dir, &probed), space(&probed)],
        Err(error) => vec![Check::error(DATA_DIR, error)],
    };
    checks.extend(cache_folder(config));
    checks.extend(audit_log(&config.server.audit_log));
    checks
}

/// Whether a process may be at work in the data folder, such as a server that is starting. A lock that this user may not read
/// counts as taken.
pub fn may_be_in_use(data_dir: &Path) -> bool {
    match check_unused(data_dir) {
        Err(StorageError::InUse { .. }) => true,
        Err(StorageError::DataDir { source, .. }) => source.kind() == ErrorKind::PermissionDenied,
        _ => false,
    }
}

fn data_dir(config: &Config) -> Result<ProbedFolder, StorageError> {
    let path = &config.data_dir;
    let probed = probe_folder(path).map_err(|source| StorageError::DataDir { path: path.clone(), source })?;
    check_unused(path)?;
    if config.catalog.url.is_empty() {
        check_catalog(path)?;
    }
    Ok(probed)
}

/// A server of another user than the one that this check runs as may find the folder closed.
fn owned(path: &Path, probed: &ProbedFolder) -> Check {
    let path = path.display();
    match (probed.is_missing, probed.other_owner) {
        (true, _) => Check::ok(DATA_DIR, format!("`{path}` is missing, and will be made")),
        (false, None) => Check::ok(DATA_DIR, format!("`{path}`")),
        (false, Some(owner)) => Check::warning(
            DATA_DIR,
            format!("`{path}` belongs to the user with the number {owner}, who does not run this check"),
            "run this check as the user that runs the server",
        ),
    }
}

fn space(probed: &ProbedFolder) -> Check {
    const SUBJECT: &str = "disk space";
    let (free, total) = (probed.free_bytes, probed.total_bytes);
    let found = format!("{} of {} free", show_size(free), show_size(total));
    let next = "make room, or choose another `data_dir`";
    match free {
        ..MIN_FREE_BYTES => Check::failed(SUBJECT, found, next),
        MIN_FREE_BYTES..LOW_FREE_BYTES => Check::warning(SUBJECT, found, next),
        _ => Check::ok(SUBJECT, found),
    }
}

/// The folder of the block cache, if it is not in the data folder.
fn cache_folder(config: &Config) -> Option<Check> {
    const SUBJECT: &str = "cache folder";
    let cache = &config.storage.cache;
    if !cache.enabled || cache.folder.is_empty() || cache.folder == BLOCK_CACHE {
        return None;
    }
    let folder = config.data_dir.join(&cache.folder);
    let probed = match probe_folder(&folder) {
        Ok(probed) => probed,
        Err(source) => {
            return Some(Check::error(SUBJECT, StorageError::CacheFolder { path: folder, source }));
        }
    };
    let found = format!("`{}`, {} free", folder.display(), show_size(probed.free_bytes));
    let limit = u64::try_from(cache.disk_bytes).unwrap_or(u64::MAX);
    // A cache that exists already has some of its room.
    let is_enough = probed.free_bytes >= limit || !probed.is_missing;
    Some(if is_enough {
        Check::ok(SUBJECT, found)
    } else {
        let next = format!("set `storage.cache.disk_bytes` below {}, which is {limit}", probed.free_bytes);
        Check::warning(SUBJECT, found, next)
    })
}

/// A server that cannot write its audit log does not start.
fn audit_log(file: &Path) -> Option<Check> {
    const SUBJECT: &str = "audit log";
    // An empty path, which means no log, has no parent.
    let parent = file.parent()?;
    let tried = if file.exists() {
        File::options().append(true).open(file).map(drop)
    } else {
        let folder = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
        folder.metadata().and_then(|_| probe_folder(folder)).map(drop)
    };
    Some(match tried {
        Ok(()) => Check::ok(SUBJECT, format!("`{}`", file.display())),
        Err(error) => Check::failed(
            SUBJECT,
            format!("cannot write `{}`: {error}", file.display()),
            "correct `server.audit_log`, or let the server's user write there",
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::super::check::State;
    use super::*;

    #[test]
    fn a_full_disk_fails_and_a_filling_one_warns() {
        let check = |free_bytes, expected| {
            let probed =
                ProbedFolder { is_missing: false, other_owner: None, free_bytes, total_bytes: 1 << 40 };
            assert_eq!(space(&probed).state, expected, "{free_bytes}");
        };
        check(0, State::Failed);
        check(MIN_FREE_BYTES, State::Warning);
        check(LOW_FREE_BYTES, State::Ok);
    }

    #[test]
    fn a_folder_of_another_user_is_told() {
        let check = |is_missing, other_owner, expected| {
            let probed = ProbedFolder { is_missing, other_owner, free_bytes: 1 << 40, total_bytes: 1 << 40 };
            assert_eq!(owned(Path::new("data"), &probed).state, expected, "{probed:?}");
        };
        check(false, None, State::Ok);
        check(false, Some(999), State::Warning);
        check(true, Some(0), State::Ok);
    }
}
