//! Every setting of a node, with its default. The binary loads them: file, environment, flags.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

mod storage;
mod values;

pub use storage::{AzureConfig, BlockCacheConfig, GcsConfig, S3Config, StorageConfig};

use values::{address_or_empty, listen, listen_or_not, size};

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
    /// Files of the server that no table may read, besides those named by keys: this file, logs. No key.
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

/// Network listeners and logins.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ServerConfig {
    /// PostgreSQL wire protocol. Default `127.0.0.1:5433`.
    #[serde(deserialize_with = "listen")]
    pub postgres_listen: SocketAddr,
    /// Folder of a Unix socket, `.s.PGSQL.<port>`, for local PostgreSQL clients. Default empty: none.
    pub postgres_socket: PathBuf,
    /// HTTP API, health and metrics. Default `127.0.0.1:8090`.
    #[serde(deserialize_with = "listen")]
    pub http_listen: SocketAddr,
    /// Arrow Flight SQL, by custom `127.0.0.1:50051`. Default empty: it is not served.
    #[serde(deserialize_with = "listen_or_not", serialize_with = "address_or_empty")]
    pub flight_listen: Option<SocketAddr>,
    /// Kylin's REST API alone, by custom `127.0.0.1:7070`. Default empty: it is served at `http_listen` only.
    #[serde(deserialize_with = "listen_or_not", serialize_with = "address_or_empty")]
    pub kylin_listen: Option<SocketAddr>,
    /// Largest HTTP request body accepted, in bytes. Default 16 MiB.
    #[serde(deserialize_with = "size")]
    pub max_body_bytes: usize,
    /// Memory of messages that clients of Flight SQL are sending, of all together, in bytes; one user may take a
    /// quarter, always 64 MiB, and more while half of it is free. Default 512 MiB.
    #[serde(deserialize_with = "size")]
    pub max_flight_receive_bytes: usize,
    /// Logged-in clients of each listener; further ones are refused with a clear error. Default 1000.
    pub max_connections: usize,
    /// Connections to each listener before login. When one more comes, the oldest is closed. Default
    /// 1024.
    pub max_pending_connections: usize,
    /// Such connections of one address. Clients that open many at once need as many. Default 256.
    pub max_pending_per_address: usize,
    /// Time limit of a login, in milliseconds. Default 10000.
    pub login_timeout_ms: u64,
    /// How long a stop waits for running queries, in milliseconds. Default 10000.
    pub shutdown_grace_ms: u64,
    /// Authentication of clients. Default: none.
    pub authentication: Authentication,
    /// Name of the superuser that the server makes when it starts and there is no superuser with a password. Default
    /// `admin`.
    pub first_user: String,
    /// File with the password of that user. Default empty: none is made.
    pub first_password_file: PathBuf,
    /// File that gets a line for each login, change and refusal. Default empty: none.
    pub audit_log: PathBuf,
    /// Whether to listen, without authentication, on addresses that other machines reach: then every
    /// client can do everything. Default false.
    pub allow_unauthenticated: bool,
    /// Encryption of the listeners.
    pub tls: TlsConfig,
}

/// Authentication of clients.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Authentication {
    /// Every client is let in, and may do everything.
    #[default]
    None,
    /// Clients log in as a role, by its password; they have the role's privileges.
    Password,
}

/// Encryption of the listeners. Without a certificate there is none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TlsConfig {
    /// PEM file with the server's certificate chain. Default empty: no encryption.
    pub certificate: PathBuf,
    /// PEM file with the private key of the certificate. Default empty.
    pub key: PathBuf,
    /// Whether PostgreSQL clients may connect unencrypted despite a certificate. Default false.
    pub allow_plaintext: bool,
}

/// How other nodes reach this one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NodeConfig {
    /// Address for other nodes, as `0.0.0.0:7433`. Default empty: they cannot send statements here.
    pub listen: String,
    /// What they connect to, `host:port`, if it is another address. Default empty.
    pub address: String,
    /// What proves that a node belongs to the others: the same on all, at least 32 bytes. Default empty.
    pub secret: String,
    /// Whether this node reads files in buckets for the queries of all nodes. Default true.
    pub executor: bool,
}

/// Limits and resources of queries.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct QueryConfig {
    /// Threads that compute; 0 means one for each core. Default 0.
    pub threads: usize,
    /// Memory limit of hot cuboids, queries and builds together, in bytes; 0 means 60 % of the
    /// memory of the machine, or of its control group if that is less. `cache` takes its share;
    /// queries and builds get half of the rest each, and spill or fail beyond it. Default 0.
    #[serde(deserialize_with = "size")]
    pub memory_limit_bytes: usize,
    /// Memory limit of the process, in bytes; 0 means the memory of the machine, or of its control group if
    /// that is less. Near the limit, the statement that holds the most is ended. Default 0.
    #[serde(deserialize_with = "size")]
    pub process_limit_bytes: usize,
    /// Disk that spilling may use, in bytes. Default 100 GiB.
    #[serde(deserialize_with = "size")]
    pub spill_limit_bytes: u64,
    /// Rows of a batch. Larger batches cost memory, smaller ones time. Default 8192.
    pub batch_rows: usize,
    /// Rows that one node reads alone; a query that reads more is divided among the executors. Default 16777216.
    pub single_node_rows: usize,
    /// Longest statement accepted, in bytes. Default 1 MiB.
    #[serde(deserialize_with = "size")]
    pub max_statement_bytes: usize,
    /// Deepest nesting and longest chain of one operator accepted in a statement: planning time grows
    /// faster than the chain does. Default 2000.
    pub max_expression_terms: usize,
    /// Most SELECTs one statement may combine with UNION, INTERSECT and EXCEPT. Default 500.
    pub max_set_operations: usize,
    /// Most SELECTs, tables and joins in a statement's plan; a WITH query counts at each use. Default
    /// 5000.
    pub max_plan_nodes: usize,
    /// Most expressions in the plan of one statement; a constant counts as a tenth. Default 50000.
    pub max_plan_expressions: usize,
    /// A query that runs longer is cancelled, in milliseconds; 0 means never. Default 0.
    pub statement_timeout_ms: u64,
    /// A statement that takes longer is logged, in milliseconds; 0 means none is. Default 10000.
    pub slow_ms: u64,
    /// Work without progress for this long is listed in the log and in `system.stuck`, in milliseconds; 0
    /// means never. Default 60000.
    pub stuck_after_ms: u64,
}

/// Admission of large queries.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AdmissionConfig {
    /// Resource groups by name. Sessions without a group are in `default`. Default none.
    pub groups: BTreeMap<String, GroupConfig>,
    /// Large queries of all groups that run at once; groups divide them by weight. 0 means the sum of the
    /// slots of all groups. Default 0.
    pub slots: usize,
    /// Large queries of one user that run at once; further ones wait. 0 means no such limit. Default 0.
    pub user_slots: usize,
}

/// Queries that share slots. Queries answered by cuboids need no slot.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GroupConfig {
    /// Queries that run at once; 0 means two for each thread. More share memory and time. Default 0.
    pub slots: usize,
    /// Its share of the slots of all groups, relative to the other weights, at least 1. Default 1.
    pub weight: usize,
    /// Queries that may wait for a slot; more are refused. Default 1000.
    pub queue_length: usize,
    /// How long a query waits for a slot before it is refused, in milliseconds. Default 60000.
    pub queue_timeout_ms: u64,
    /// Memory limit of one query, in bytes, before it spills or fails; 0 means its share of all. Default 0.
    #[serde(deserialize_with = "size")]
    pub query_memory_bytes: usize,
    /// Users of the group. Default none.
    pub users: Vec<String>,
    /// Schemas of sessions that belong to the group, unless their user is in one. Default none.
    pub schemas: Vec<String>,
    /// Roles with members that may choose the group by `SET nyala.resource_group`, besides superusers.
    /// Default none: every role may.
    pub roles: Vec<String>,
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

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            postgres_listen: SocketAddr::from(([127, 0, 0, 1], 5433)),
            postgres_socket: PathBuf::new(),
            http_listen: SocketAddr::from(([127, 0, 0, 1], 8090)),
            flight_listen: None,
            kylin_listen: None,
            max_body_bytes: 16 << 20,
            max_flight_receive_bytes: 512 << 20,
            max_connections: 1000,
            max_pending_connections: 1024,
            max_pending_per_address: 256,
            login_timeout_ms: 10_000,
            shutdown_grace_ms: 10_000,
            authentication: Authentication::None,
            first_user: "admin".to_owned(),
            first_password_file: PathBuf::new(),
            audit_log: PathBuf::new(),
            allow_unauthenticated: false,
            tls: TlsConfig::default(),
        }
    }
}

impl Default for NodeConfig {
    fn default() -> Self {
        Self { listen: String::new(), address: String::new(), secret: String::new(), executor: true }
    }
}

impl Default for QueryConfig {
    fn default() -> Self {
        Self {
            threads: 0,
            memory_limit_bytes: 0,
            process_limit_bytes: 0,
            spill_limit_bytes: 100 << 30,
            batch_rows: 8192,
            single_node_rows: 1 << 24,
            max_statement_bytes: 1 << 20,
            max_expression_terms: 2000,
            max_set_operations: 500,
            max_plan_nodes: 5_000,
            max_plan_expressions: 50_000,
            statement_timeout_ms: 0,
            slow_ms: 10_000,
            stuck_after_ms: 60_000,
        }
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

impl Default for GroupConfig {
    fn default() -> Self {
        Self {
            slots: 0,
            weight: 1,
            queue_length: 1000,
            queue_timeout_ms: 60_000,
            query_memory_bytes: 0,
            users: Vec::new(),
            schemas: Vec::new(),
            roles: Vec::new(),
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

impl ServerConfig {
    fn validate(&self) -> Result<(), InvalidConfig> {
        let at_least_one = [
            (self.max_connections, "server.max_connections"),
            (self.max_pending_connections, "server.max_pending_connections"),
            (self.max_pending_per_address, "server.max_pending_per_address"),
        ];
        for (value, key) in at_least_one {
            check(value > 0, key, "at least 1", &value)?;
        }
        let timeout = self.login_timeout_ms;
        check(
            (100..=600_000).contains(&timeout),
            "server.login_timeout_ms",
            "between 100 and 600000",
            &timeout,
        )?;
        check(!self.first_user.is_empty(), "server.first_user", "a name", &self.first_user)?;
        check(self.max_body_bytes >= 1024, "server.max_body_bytes", "at least 1024", &self.max_body_bytes)?;
        let received = self.max_flight_receive_bytes;
        check(received >= 1 << 20, "server.max_flight_receive_bytes", "at least 1048576", &received)
    }
}

impl Config {
    /// Checks every value against its rule; reports the first that breaks one.
    pub fn validate(&self) -> Result<(), InvalidConfig> {
        let (query, build, cache) = (&self.query, &self.build, &self.cache);
        check(!self.data_dir.as_os_str().is_empty(), "data_dir", "a folder", &"")?;
        self.server.validate()?;
        check(query.threads <= 1024, "query.threads", "at most 1024", &query.threads)?;
        check(query.batch_rows >= 16, "query.batch_rows", "at least 16", &query.batch_rows)?;
        let rows = query.single_node_rows;
        check(rows >= 1, "query.single_node_rows", "at least 1", &rows)?;
        check(
            query.memory_limit_bytes == 0 || query.memory_limit_bytes >= 16 << 20,
            "query.memory_limit_bytes",
            "0 or at least 16777216",
            &query.memory_limit_bytes,
        )?;
        check(
            query.process_limit_bytes == 0 || query.process_limit_bytes >= 256 << 20,
            "query.process_limit_bytes",
            "0 or at least 268435456",
            &query.process_limit_bytes,
        )?;
        check(
            query.max_statement_bytes > 0,
            "query.max_statement_bytes",
            "at least 1",
            &query.max_statement_bytes,
        )?;
        check(
            (1..=20_000).contains(&query.max_expression_terms),
            "query.max_expression_terms",
            "between 1 and 20000",
            &query.max_expression_terms,
        )?;
        check(
            (1..=5_000).contains(&query.max_set_operations),
            "query.max_set_operations",
            "between 1 and 5000",
            &query.max_set_operations,
        )?;
        check(
            (100..=1_000_000).contains(&query.max_plan_nodes),
            "query.max_plan_nodes",
            "between 100 and 1000000",
            &query.max_plan_nodes,
        )?;
        check(
            (1000..=100_000_000).contains(&query.max_plan_expressions),
            "query.max_plan_expressions",
            "between 1000 and 100000000",
            &query.max_plan_expressions,
        )?;
        for group in self.admission.groups.values() {
            check(group.weight > 0, "admission.groups.NAME.weight", "at least 1", &group.weight)?;
        }
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
