//! Every setting of a node, with its default. The binary loads them: file, environment, flags.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

mod admission;
mod query;
mod server;
mod storage;
mod values;

pub use admission::{AdmissionConfig, GroupConfig};
pub use query::QueryConfig;
pub use server::{Authentication, ServerConfig, TlsConfig};
pub use storage::{AzureConfig, BlockCacheConfig, GcsConfig, S3Config, StorageConfig};

use values::size;

/// The effective configuration of one node. Unknown keys are refused.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Folder that holds the catalog, built cuboids and spill files. Default `nyala-data`.
    pub data_dir: PathBuf,
    /// Network listeners and logins.
    pub server: ServerConfig,
    /// How other nodes reach this one.
    pub node: NodeConfig,
    /// Limits and resources of queries.
    pub query: QueryConfig,
    /// Admission of large queries.
    pub admission: AdmissionConfig,
    /// Where the catalog is, and its copies.
    pub catalog: CatalogConfig,
    /// How cubes are built.
    pub build: BuildConfig,
    /// How cubes are kept current.
    pub cubes: CubesConfig,
    /// Caches of cuboids, plans and results.
    pub cache: CacheConfig,
    /// Live tables.
    pub live: LiveConfig,
    /// Which locations tables may name, and how remote stores are reached.
    pub storage: StorageConfig,
    /// Files of the server that no table may read, besides those that keys name: the configuration file and logs. It is
    /// filled in at the start and is no key itself.
    #[serde(skip)]
    pub own_files: Vec<PathBuf>,
}

/// Live tables.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LiveConfig {
    /// Memory limit of the live tables of all disk stores together, in bytes, besides
    /// `query.memory_limit_bytes`. Values beyond it stay on disk and are read on demand; keys and unsealed
    /// rows are always in memory. 0 means no limit. Default 0.
    #[serde(deserialize_with = "size")]
    pub memory_limit_bytes: u64,
}

/// How other nodes reach this one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NodeConfig {
    /// Address for other nodes, as `0.0.0.0:7433`. Default empty: they cannot send statements here.
    pub listen: String,
    /// Address that other nodes connect to, `host:port`, if it differs from `listen`. Default empty.
    pub address: String,
    /// Secret by which a node proves that it belongs to the cluster: the same on all nodes, at least 32 bytes. Default empty.
    pub secret: String,
    /// Whether this node reads files in buckets for the queries of all nodes. Default true.
    pub executor: bool,
}

/// Where the catalog is, and its copies, which are made in the background after changes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CatalogConfig {
    /// PostgreSQL database of a catalog that several nodes share, `postgres://USER:PASSWORD@HOST:PORT/DATABASE`. Default
    /// empty: the catalog is a file of the data folder, for this node alone.
    pub url: String,
    /// Copies kept in `catalog-backups` of the data folder; a new one replaces the oldest. 0: none.
    /// Default 8.
    pub backups: usize,
    /// Least time between two copies, in milliseconds. Changes since the last copy are lost with the
    /// catalog's file. Default 60000.
    pub backup_every_ms: u64,
}

/// How cubes are built.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BuildConfig {
    /// Rows of a batch while cubes are built. Large batches sort and group faster, and no client of a
    /// build waits for its first row. Default 65536.
    pub batch_rows: usize,
    /// Rows in one Parquet row group of a cuboid. Smaller groups prune better, larger ones compress
    /// better. Default 131072.
    pub row_group_rows: usize,
    /// Rows in one Parquet data page of a cuboid, the unit that page pruning skips. Smaller pages are
    /// skipped more precisely, and cost more statistics. Default 2048.
    pub page_rows: usize,
    /// Zstandard level of cuboid files, 1 to 22. Default 1.
    pub zstd_level: i32,
    /// Retries of a segment after a passing failure of a store or network; waits grow from 1 to 125
    /// seconds. 0 never tries again. Default 3.
    pub retries: u32,
    /// Ended jobs that stay listed; older ones are forgotten. Default 1000.
    pub keep_jobs: u32,
}

/// How cubes are kept current.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CubesConfig {
    /// Interval of listing the files of tables that cubes read, in milliseconds. A changed file can go
    /// unnoticed for as long; `SET nyala.check_files = on` lists before every query. Default 5000.
    pub check_files_ms: u64,
}

/// Caches of cuboids, plans and results.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CacheConfig {
    /// Share of the memory limit for decoded cuboids, in per cent; queries and builds divide the rest. A
    /// larger share answers more queries without reading files, and leaves less for large queries. 0
    /// keeps none. Default 20.
    pub hot_cuboids_percent: usize,
    /// Memory for plans of repeated queries, in bytes. It is estimated, and comes on top of the memory
    /// limit. 0 keeps none, so that every query is planned. Default 64 MiB.
    #[serde(deserialize_with = "size")]
    pub plans_bytes: usize,
    /// Memory for cached results (`SET nyala.result_cache = on`), in bytes, on top of the memory limit. 0
    /// keeps none. Default 64 MiB.
    #[serde(deserialize_with = "size")]
    pub results_bytes: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            data_dir: PathBuf::from("nyala-data"),
            server: ServerConfig::default(),
            node: NodeConfig::default(),
            query: QueryConfig::default(),
            admission: AdmissionConfig::default(),
            catalog: CatalogConfig::default(),
            build: BuildConfig::default(),
            cubes: CubesConfig::default(),
            cache: CacheConfig::default(),
            live: LiveConfig::default(),
            storage: StorageConfig::default(),
            own_files: Vec::new(),
        }
    }
}

impl Default for NodeConfig {
    fn default() -> Self {
        Self { listen: String::new(), address: String::new(), secret: String::new(), executor: true }
    }
}

impl Default for CatalogConfig {
    fn default() -> Self {
        Self { url: String::new(), backups: 8, backup_every_ms: 60_000 }
    }
}

impl Default for CubesConfig {
    fn default() -> Self {
        Self { check_files_ms: 5_000 }
    }
}

impl Default for BuildConfig {
    fn default() -> Self {
        Self {
            batch_rows: 65_536,
            row_group_rows: 131_072,
            page_rows: 2048,
            zstd_level: 1,
            retries: 3,
            keep_jobs: 1000,
        }
    }
}

impl Default for CacheConfig {
    fn default() -> Self {
        Self { hot_cuboids_percent: 20, plans_bytes: 64 << 20, results_bytes: 64 << 20 }
    }
}

/// A configuration value that breaks a rule: names the key, the rule and the value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("configuration key `{key}` must be {rule}, but is `{value}`")]
pub struct InvalidConfig {
    /// Dotted path of the key.
    pub key: &'static str,
    /// The rule for valid values.
    pub rule: &'static str,
    /// The value found.
    pub value: String,
}

/// Refuses a value unless its rule `holds`.
fn check(
    holds: bool,
    key: &'static str,
    rule: &'static str,
    value: &dyn ToString,
) -> Result<(), InvalidConfig> {
    if holds { Ok(()) } else { Err(InvalidConfig { key, rule, value: value.to_string() }) }
}

impl Config {
    /// Checks every value against its rule; reports the first that breaks one.
    pub fn validate(&self) -> Result<(), InvalidConfig> {
        let (build, cache) = (&self.build, &self.cache);
        check(!self.data_dir.as_os_str().is_empty(), "data_dir", "a folder", &"")?;
        self.server.validate()?;
        self.query.validate()?;
        self.admission.validate()?;
        let catalog = &self.catalog;
        check(catalog.backups <= 1000, "catalog.backups", "at most 1000", &catalog.backups)?;
        let every = catalog.backup_every_ms;
        check(every >= 1000, "catalog.backup_every_ms", "at least 1000", &every)?;
        check(build.batch_rows >= 16, "build.batch_rows", "at least 16", &build.batch_rows)?;
        check(build.row_group_rows >= 1024, "build.row_group_rows", "at least 1024", &build.row_group_rows)?;
        check(build.page_rows >= 128, "build.page_rows", "at least 128", &build.page_rows)?;
        check(
            (1..=22).contains(&build.zstd_level),
            "build.zstd_level",
            "between 1 and 22",
            &build.zstd_level,
        )?;
        check(build.retries <= 20, "build.retries", "at most 20", &build.retries)?;
        check(build.keep_jobs >= 1, "build.keep_jobs", "at least 1", &build.keep_jobs)?;
        self.storage.validate()?;
        let check_files = self.cubes.check_files_ms;
        check(check_files >= 100, "cubes.check_files_ms", "at least 100", &check_files)?;
        check(
            cache.hot_cuboids_percent <= 80,
            "cache.hot_cuboids_percent",
            "at most 80",
            &cache.hot_cuboids_percent,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_valid_and_a_broken_rule_names_the_key() {
        assert_eq!(Config::default().validate(), Ok(()));
        let mut config = Config::default();
        config.build.zstd_level = 40;
        let error = config.validate().map_err(|e| e.to_string());
        assert_eq!(
            error,
            Err("configuration key `build.zstd_level` must be between 1 and 22, but is `40`".to_owned())
        );
    }

    #[test]
    fn every_key_in_bytes_takes_a_size_as_text() -> Result<(), serde_json::Error> {
        fn in_text(value: &mut serde_json::Value) -> usize {
            let Some(keys) = value.as_object_mut() else { return 0 };
            let sizes = keys.iter_mut().map(|(key, value)| match value.is_object() {
                true => in_text(value),
                false if key.ends_with("_bytes") => {
                    *value = "3GiB".into();
                    1
                }
                false => 0,
            });
            sizes.sum()
        }
        let mut config = serde_json::to_value(Config::default())?;
        assert!(in_text(&mut config) >= 8);
        let config: Config = serde_json::from_value(config)?;
        assert_eq!(config.query.process_limit_bytes, 3 << 30);
        Ok(())
    }
}
