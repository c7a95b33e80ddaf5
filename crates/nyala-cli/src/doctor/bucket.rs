//! The bucket of cuboids: whether objects can be written, read and deleted there, and which data folder or cluster owns it.

use std::path::Path;

use nyala_model::NodeId;
use nyala_model::config::{Config, StorageConfig};
use nyala_storage::data_dir::known_node;
use nyala_storage::place_of_cuboids::{canonical, noted};
use nyala_storage::{ProbedPlace, SegmentStore, StorageError};

use super::catalog::Database;
use super::check::Check;
use super::clock::Clock;

const SUBJECT: &str = "cuboids";
/// A server waits longer for a bucket that fails for a moment; this check gives up earlier, because a person waits for its result.
const MAX_RETRY_MS: u64 = 5_000;
const MAX_TIMEOUT_MS: u64 = 10_000;

/// The result, and the bucket's clock if it tells the time; none if cuboids are in the data folder.
pub async fn check(config: &Config, database: Option<&Database>) -> Option<(Check, Option<Clock>)> {
    if config.storage.data.is_empty() {
        return None;
    }
    Some(match probe(config).await {
        Ok((location, probed)) => {
            let clock = probed.clock.map(|at| Clock::read("that of the bucket", at));
            (judge(config, location, &probed, database), clock)
        }
        Err(error) => (Check::error(SUBJECT, error), None),
    })
}

async fn probe(config: &Config) -> Result<(String, ProbedPlace), StorageError> {
    let storage = StorageConfig {
        retry_for_ms: config.storage.retry_for_ms.min(MAX_RETRY_MS),
        timeout_ms: config.storage.timeout_ms.min(MAX_TIMEOUT_MS),
        ..config.storage.clone()
    };
    let store = SegmentStore::open(&config.data_dir, &storage, None)?;
    Ok((canonical(&storage.data)?, store.probe().await?))
}

/// Judges the owner of the place, which is one data folder, or all nodes with one catalog.
fn judge(config: &Config, location: String, probed: &ProbedPlace, database: Option<&Database>) -> Check {
    let cluster = database.and_then(|database| database.cluster.as_ref());
    let node = match known_node(&config.data_dir) {
        Ok(node) => node,
        Err(error) => return Check::error(SUBJECT, error),
    };
    if !is_ours(probed.owner.as_ref(), node.as_ref(), cluster) {
        return Check::error(SUBJECT, StorageError::PlaceTaken { location });
    }
    // A shared catalog notes the place itself, and a folder that no server has opened has no cuboids.
    let may_differ = config.catalog.url.is_empty() && node.is_some();
    match may_differ.then(|| elsewhere(&config.data_dir, &location)).flatten() {
        Some(check) => check,
        None => Check::ok(SUBJECT, format!("in `{location}`, which can be written, read and listed")),
    }
}

fn is_ours(owner: Option<&NodeId>, node: Option<&NodeId>, cluster: Option<&NodeId>) -> bool {
    owner.is_none() || owner == node || owner == cluster
}

/// Warns if the data folder notes another place of its cuboids than the configured one.
fn elsewhere(data_dir: &Path, location: &str) -> Option<Check> {
    let noted = match noted(data_dir) {
        Ok(noted) => noted.place,
        Err(error) => return Some(Check::error(SUBJECT, error)),
    };
    let place = if noted.is_empty() { "the data folder".to_owned() } else { format!("`{noted}`") };
    (noted != location).then(|| {
        Check::warning(
            SUBJECT,
            format!("they are in {place}, and `storage.data` says `{location}`"),
            format!("if there are any, run `nyala storage move {location}` before the server starts"),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_of_nobody_of_this_folder_or_of_its_cluster() {
        let [one, other, cluster] = ["one", "other", "cluster"].map(|name| NodeId(name.to_owned()));
        let check = |owner: Option<&NodeId>, node, cluster, expected| {
            assert_eq!(is_ours(owner, node, cluster), expected, "{owner:?} {node:?} {cluster:?}");
        };
        check(None, None, None, true);
        check(Some(&one), Some(&one), None, true);
        check(Some(&cluster), Some(&one), Some(&cluster), true);
        check(Some(&other), Some(&one), Some(&cluster), false);
        check(Some(&other), None, None, false);
    }
}
