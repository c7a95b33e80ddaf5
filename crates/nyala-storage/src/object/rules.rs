//! The check of locations, and the type of checked ones.

use std::ops::Deref;
use std::path::{Path as FsPath, PathBuf};
use std::sync::Arc;

use nyala_model::config::StorageConfig;

use super::cache::BlockCache;
use super::opened::store_url;
use super::own::{OwnPaths, Wish, is_of_system, real_path};
use super::{Location, OpenedStore, open};
use crate::StorageError;

/// An allowed location. Only [`LocationRules`] makes one, and a store is opened only for one:
///
/// ```compile_fail
/// let location = nyala_storage::object::Location::parse("/etc/").unwrap();
/// let allowed = nyala_storage::object::AllowedLocation(location);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedLocation(Location);

impl Deref for AllowedLocation {
    type Target = Location;

    fn deref(&self) -> &Location {
        &self.0
    }
}

/// The allowed locations: under the configured prefixes, and never the server's own files.
#[derive(Debug)]
pub struct LocationRules {
    allowed: Vec<Prefix>,
    own: OwnPaths,
    /// Where cuboids lie in a bucket: the URL of its store, and the decoded path.
    data: Option<(String, String)>,
}

/// A configured prefix, in the form that locations have.
#[derive(Debug)]
struct Prefix {
    url: String,
    /// The local path; none for a remote prefix.
    path: Option<PathBuf>,
}

impl Prefix {
    fn of(text: &str) -> Self {
        // A text that is no location allows only URLs that begin with it.
        let location = Location::parse(text).ok();
        let url = location.as_ref().map_or(text, |location| location.url().as_str());
        Self {
            url: url.trim_end_matches('/').to_owned(),
            path: location.as_ref().and_then(Location::local_path),
        }
    }

    fn covers(&self, url: &str) -> bool {
        url.strip_prefix(&self.url).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// Whether a path without links lies under the prefix, which may be a link itself.
    fn covers_path(&self, real: &FsPath) -> bool {
        self.path.as_ref().is_some_and(|path| real.starts_with(path) || real.starts_with(real_path(path)))
    }
}

impl LocationRules {
    /// The rules of a configuration. Without prefixes, all files are allowed except the server's own.
    pub fn new(config: &StorageConfig, own: OwnPaths) -> Self {
        // A text that is no location is an error when the server opens it.
        let data = Location::parse(&config.data).ok().filter(|data| data.local_path().is_none());
        let data = data.map(|data| (store_url(&data), data.path().to_string()));
        Self {
            allowed: config.allowed_locations.iter().map(|prefix| Prefix::of(prefix)).collect(),
            own,
            data,
        }
    }

    /// The server's own files.
    pub fn own(&self) -> &OwnPaths {
        &self.own
    }

    /// Checks a location of files to read. Links may change afterwards, so the store of [`Self::open`] checks
    /// each file again when it opens it.
    ///
    /// # Errors
    /// [`StorageError::NotAllowed`] outside of the prefixes, [`StorageError::OwnFiles`] for own files.
    pub fn check(&self, location: Location) -> Result<AllowedLocation, StorageError> {
        self.check_prefix(&location)?;
        let Some(path) = location.local_path() else { return Ok(AllowedLocation(location)) };
        let real = self.check_path(&path)?;
        if location.is_folder() && self.own.lies_in(&real) {
            return Err(StorageError::OwnFiles { path });
        }
        Ok(AllowedLocation(location))
    }

    /// Checks the location of a file to write, which may not exist yet. Nothing is written into the data folder, where
    /// the server may come to look for files of its own.
    ///
    /// # Errors
    /// The errors of [`Self::check`], and [`StorageError::InvalidLocation`] for a folder.
    pub fn check_target(&self, location: Location) -> Result<AllowedLocation, StorageError> {
        if location.is_folder() {
            let reason = "it is a folder, not a file to write".to_owned();
            return Err(StorageError::InvalidLocation { location: location.to_string(), reason });
        }
        let location = self.check(location)?;
        match location.local_path() {
            Some(path) if self.own.is_within_data(&real_path(&path)) => Err(StorageError::OwnFiles { path }),
            _ => Ok(location),
        }
    }

    /// Checks the folder of a disk store, which may not exist yet.
    ///
    /// # Errors
    /// The errors of [`Self::check`].
    pub fn check_store(&self, folder: Location) -> Result<AllowedLocation, StorageError> {
        self.check_prefix(&folder)?;
        let Some(path) = folder.local_path() else { return Ok(AllowedLocation(folder)) };
        let real = real_path(&path);
        self.check_real_prefix(&path, &real)?;
        if is_of_system(&path) || self.own.has_folder(&real, Wish::Store) {
            return Err(StorageError::OwnFiles { path });
        }
        Ok(AllowedLocation(folder))
    }

    /// Opens the store of a location, whose remote files are read through `cache`. Nothing is read yet.
    ///
    /// # Errors
    /// The remote store cannot be set up with this configuration.
    pub fn open(
        self: &Arc<Self>,
        location: &AllowedLocation,
        config: &StorageConfig,
        cache: Option<&Arc<BlockCache>>,
    ) -> Result<OpenedStore, StorageError> {
        open::open(location, Arc::clone(self), config, cache)
    }

    /// Whether a location in the bucket of the cuboids is a cuboid, or a folder or pattern in which cuboids would be found.
    fn leads_to_cuboids(&self, location: &Location) -> bool {
        let Some((_, data)) = self.data.as_ref().filter(|(store, _)| *store == store_url(location)) else {
            return false;
        };
        let path = location.path().as_ref();
        let is_below = |path: &str, folder: &str| {
            let rest = path.strip_prefix(folder);
            rest.is_some_and(|rest| folder.is_empty() || rest.is_empty() || rest.starts_with('/'))
        };
        let is_above = match path.find(['*', '?', '[']) {
            Some(at) => data.starts_with(path.get(..at).unwrap_or_default()),
            None => location.is_folder() && is_below(data, path),
        };
        is_above || is_below(path, data)
    }

    fn check_prefix(&self, location: &Location) -> Result<(), StorageError> {
        let url = location.url().as_str();
        if self.leads_to_cuboids(location) {
            return Err(StorageError::OwnFiles { path: PathBuf::from(url) });
        }
        match self.allowed.is_empty() || self.allowed.iter().any(|prefix| prefix.covers(url)) {
            true => Ok(()),
            false => Err(StorageError::NotAllowed { location: url.to_owned() }),
        }
    }

    /// Checks a local file or folder, as it is now, and returns its path without links.
    pub(super) fn check_path(&self, path: &FsPath) -> Result<PathBuf, StorageError> {
        let own = || StorageError::OwnFiles { path: path.to_owned() };
        if is_of_system(path) {
            return Err(own());
        }
        let real = real_path(path);
        self.check_real_prefix(path, &real)?;
        let metadata = real.metadata().ok();
        let is_own = match metadata.as_ref().is_some_and(std::fs::Metadata::is_dir) {
            true => self.own.has_folder(&real, Wish::Table),
            false => self.own.has_file(&real, metadata.as_ref()),
        };
        if is_own {
            return Err(own());
        }
        Ok(real)
    }

    /// Checks the folder of listed files, and returns its path without links.
    pub(super) fn check_folder(&self, folder: &FsPath) -> Result<PathBuf, StorageError> {
        let real = real_path(folder);
        self.check_real_prefix(folder, &real)?;
        match is_of_system(folder) || self.own.has_folder(&real, Wish::Table) {
            true => Err(StorageError::OwnFiles { path: folder.to_owned() }),
            false => Ok(real),
        }
    }

    /// Refuses a link that leads out of the allowed prefixes.
    fn check_real_prefix(&self, path: &FsPath, real: &FsPath) -> Result<(), StorageError> {
        match self.allowed.is_empty() || self.allowed.iter().any(|prefix| prefix.covers_path(real)) {
            true => Ok(()),
            false => Err(StorageError::NotAllowed { location: path.display().to_string() }),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn rules(allowed: &[&str], own: OwnPaths) -> LocationRules {
        let allowed_locations = allowed.iter().map(|prefix| (*prefix).to_owned()).collect();
        LocationRules::new(&StorageConfig { allowed_locations, ..StorageConfig::default() }, own)
    }

    fn allows(rules: &LocationRules, path: &str) -> bool {
        rules.check(Location::parse(path).unwrap()).is_ok()
    }

    #[test]
    fn prefixes_end_at_folder_borders() {
        let rules = rules(&["file:///data"], OwnPaths::none());
        for (path, expected) in [
            ("/data/x.parquet", true),
            ("/data", true),
            ("/database/x.parquet", false),
            ("/data/../etc/passwd", false),
            ("s3://data/x", false),
        ] {
            assert_eq!(allows(&rules, path), expected, "{path}");
        }
    }

    #[test]
    fn cuboids_in_a_bucket_are_found_by_no_spelling() {
        let config = StorageConfig { data: "s3://b/nyala/x/".to_owned(), ..StorageConfig::default() };
        let rules = LocationRules::new(&config, OwnPaths::none());
        for own in [
            "s3://b/nyala/x/cubes/1.parquet",
            "s3://b/n%79ala/x/",
            "s3://b/nyala/x",
            "s3://b/nyala/",
            "s3://b/",
            "s3://b/ny*/x/cubes/*.parquet",
            "s3://b/**/*.parquet",
        ] {
            assert!(!allows(&rules, own), "{own}");
        }
        for other in
            ["s3://b/nyala/y/", "s3://b/nyala/xy.parquet", "s3://b/sales/*.parquet", "s3://c/nyala/x/"]
        {
            assert!(allows(&rules, other), "{other}");
        }
    }

    #[test]
    fn links_do_not_lead_out_of_an_allowed_folder() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir_all(at("data/inner")).unwrap();
        fs::create_dir_all(at("other")).unwrap();
        symlink(at("data"), at("link")).unwrap();
        symlink(at("other"), at("data/out")).unwrap();
        symlink(at("data/inner"), at("data/in")).unwrap();
        let url = |name: &str| format!("file://{}", at(name).display());
        for prefix in ["data", "link"] {
            let rules = rules(&[&url(prefix)], OwnPaths::none());
            for (name, expected) in [("inner/", true), ("in/", true), ("out/", false), ("out/x.csv", false)] {
                assert_eq!(allows(&rules, &url(&format!("{prefix}/{name}"))), expected, "{prefix}/{name}");
            }
        }
    }

    /// A mounted secret of Kubernetes is a link to a file in a folder that is a link, too, and that leads elsewhere when the secret changes.
    #[test]
    fn own_files_are_found_behind_links_that_change() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for version in ["v1", "v2"] {
            fs::create_dir(at(version)).unwrap();
            fs::write(at(version).join("tls.key"), version).unwrap();
        }
        symlink("v1", at("data")).unwrap();
        symlink("data/tls.key", at("tls.key")).unwrap();
        let rules = rules(&[], OwnPaths::new(&at("db"), [at("tls.key")]));
        let is_own = |name: &str| !allows(&rules, &at(name).display().to_string());
        assert!(is_own("tls.key") && is_own("v1/tls.key") && !is_own("v2/tls.key"));
        fs::remove_file(at("data")).unwrap();
        symlink("v2", at("data")).unwrap();
        assert!(is_own("tls.key") && is_own("v2/tls.key"));
    }

    #[test]
    fn the_servers_own_files_are_found_by_any_spelling() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).display().to_string();
        for name in ["db/cubes/1", "db/stores/main", "db/ssb", "store", "data/sub"] {
            fs::create_dir_all(at(name)).unwrap();
        }
        for name in ["db/catalog.sqlite", "nyala.toml", "data/audit.json", "db/ssb/a.parquet", "data/a.csv"] {
            fs::write(at(name), "x").unwrap();
        }
        symlink(at("db"), at("data/link")).unwrap();
        symlink(at("nyala.toml"), at("data/config.csv")).unwrap();
        fs::hard_link(at("nyala.toml"), at("data/hard.csv")).unwrap();
        symlink("/proc/self/cwd", at("data/cwd")).unwrap();
        symlink("/proc/self", at("data/self")).unwrap();
        let own = OwnPaths::new(
            folder.path().join("db").as_path(),
            [at("nyala.toml"), at("data/audit.json")].map(PathBuf::from),
        );
        own.set_stores([PathBuf::from(at("store"))]);
        let rules = rules(&[], own);
        for own in [
            "db",
            "db/",
            "db/catalog.sqlite",
            "db/Catalog.Later",
            "db/nyala.lock",
            "db/cubes/",
            "db/cubes/1/0.parquet",
            "db/tmp/",
            "db/stores/main/",
            "store/",
            "store/x.parquet",
            "nyala.toml",
            "data/../nyala.toml",
            "data/audit.json",
            "data/link/",
            "data/link/cubes/",
            "data/link/catalog.sqlite",
            "data/config.csv",
            "data/hard.csv",
            "data/self/environ",
            "",
        ] {
            assert!(!allows(&rules, &at(own)), "{own}");
        }
        for system in [
            "/proc/self/environ",
            "/proc/self/cwd/x.csv",
            "/proc/",
            "/sys/kernel/",
            "/dev/stdin",
            "/dev/fd/0",
            "/",
        ] {
            assert!(!allows(&rules, system), "{system}");
        }
        for other in
            ["data/a.csv", "data/sub/", "db/ssb/", "db/ssb/a.parquet", "data/cwd/x.csv", "data/later.csv"]
        {
            assert!(allows(&rules, &at(other)), "{other}");
        }
        assert!(allows(&rules, "/dev/shm/x.csv"));
        let store = |path: &str| rules.check_store(Location::parse(path).unwrap().into_folder()).is_ok();
        for (name, expected) in [
            ("db/stores/main", true),
            ("new", true),
            ("db", false),
            ("db/cubes/x", false),
            ("data/link/tmp/y", false),
        ] {
            assert_eq!(store(&at(name)), expected, "{name}");
        }
        assert!(!store("/proc/x"));
    }
}
