//! Settings of storage: allowed locations, access to remote stores, and the block cache.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::values::size;
use super::{InvalidConfig, check};

/// Which locations tables may name, and how remote stores are reached.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct StorageConfig {
    /// URL prefixes of allowed locations, such as `file:///data/` or `s3://bucket/`. Empty allows
    /// all. No prefix allows the server's own files. Default empty.
    pub allowed_locations: Vec<String>,
    /// Where cuboids are kept: `s3://bucket/prefix/`, `gs://…`, `az://…`, or empty for the data folder. Cuboids that exist
    /// are moved by `nyala storage move`. Default empty.
    pub data: String,
    /// Longest time of one request to a remote store, in milliseconds, its body included. Default 30000.
    pub timeout_ms: u64,
    /// How long failed requests are repeated, in milliseconds; waits between them grow from 0.1 to 15
    /// seconds. 0 never repeats one. Default 60000.
    pub retry_for_ms: u64,
    /// Access to `s3://` locations.
    pub s3: S3Config,
    /// Access to `gs://` locations.
    pub gcs: GcsConfig,
    /// Access to `az://` locations.
    pub azure: AzureConfig,
    /// Blocks of remote files on local disk.
    pub cache: BlockCacheConfig,
}

impl Default for StorageConfig {
    fn default() -> Self {
        Self {
            allowed_locations: Vec::new(),
            data: String::new(),
            timeout_ms: 30_000,
            retry_for_ms: 60_000,
            s3: S3Config::default(),
            gcs: GcsConfig::default(),
            azure: AzureConfig::default(),
            cache: BlockCacheConfig::default(),
        }
    }
}

impl StorageConfig {
    pub(super) fn validate(&self) -> Result<(), InvalidConfig> {
        check(self.timeout_ms >= 100, "storage.timeout_ms", "at least 100", &self.timeout_ms)?;
        let block = self.cache.block_bytes;
        check(
            block.is_power_of_two() && (64 << 10..=64 << 20).contains(&block),
            "storage.cache.block_bytes",
            "a power of two between 65536 and 67108864",
            &block,
        )
    }
}

/// Cache of remote files, in blocks. It is of this server alone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BlockCacheConfig {
    /// Whether remote files are cached. Off, every read goes to the store. Default true.
    pub enabled: bool,
    /// Folder of the blocks on disk, for this server alone; local flash pays most. Empty means
    /// `block-cache` in the data folder. Default empty.
    pub folder: String,
    /// Blocks on disk, in bytes; a larger cache reads less from the store. 0 keeps none. Default 10 GiB.
    #[serde(deserialize_with = "size")]
    pub disk_bytes: usize,
    /// Blocks in memory, in bytes, on top of the memory limit. The operating system keeps blocks on
    /// disk in memory, too, as far as there is room. 0 keeps none. Default 0.
    #[serde(deserialize_with = "size")]
    pub memory_bytes: usize,
    /// Size of a block, in bytes: a power of two. Small blocks read less that no query asked for, large
    /// ones take less memory: some 150 bytes each. Default 256 KiB.
    #[serde(deserialize_with = "size")]
    pub block_bytes: usize,
    /// URL prefixes of files that are never cached, such as `s3://bucket/archive/`. Default empty.
    pub exclude: Vec<String>,
}

impl Default for BlockCacheConfig {
    fn default() -> Self {
        Self {
            enabled: true,
            folder: String::new(),
            disk_bytes: 10 << 30,
            memory_bytes: 0,
            block_bytes: 256 << 10,
            exclude: Vec::new(),
        }
    }
}

/// Access to `s3://` locations. Empty values are taken from the `AWS_…` environment variables.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct S3Config {
    /// Endpoint of an S3-compatible server; empty means AWS.
    pub endpoint: String,
    /// Region; empty means the environment's, or `us-east-1`.
    pub region: String,
    /// Access key id.
    pub access_key_id: String,
    /// Secret access key; never printed.
    pub secret_access_key: String,
    /// Whether plain HTTP endpoints are accepted. Default false.
    pub allow_http: bool,
}

impl fmt::Debug for S3Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("S3Config")
            .field("endpoint", &self.endpoint)
            .field("region", &self.region)
            .field("access_key_id", &self.access_key_id)
            .field("allow_http", &self.allow_http)
            .finish_non_exhaustive()
    }
}

/// Access to `gs://` locations. Empty values are taken from the `GOOGLE_…` environment variables, then from the
/// application default credentials of the machine.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GcsConfig {
    /// Endpoint of a compatible server; empty means Google.
    pub endpoint: String,
    /// File with the key of a service account.
    pub service_account: String,
    /// Whether plain HTTP endpoints are accepted. Default false.
    pub allow_http: bool,
}

/// Access to `az://` locations. Empty values are taken from the `AZURE_…` environment variables.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AzureConfig {
    /// The storage account.
    pub account: String,
    /// Its key; never printed.
    pub access_key: String,
    /// Endpoint of a compatible server; empty means Azure's for the account.
    pub endpoint: String,
    /// Whether plain HTTP endpoints are accepted. Default false.
    pub allow_http: bool,
}

impl fmt::Debug for AzureConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AzureConfig")
            .field("account", &self.account)
            .field("endpoint", &self.endpoint)
            .field("allow_http", &self.allow_http)
            .finish_non_exhaustive()
    }
}
