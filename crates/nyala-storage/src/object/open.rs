//! The only place that opens the store of a location.

use std::sync::Arc;
use std::time::Duration;

use nyala_model::config::{S3Config, StorageConfig};
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::prefix::PrefixStore;
use object_store::{ClientOptions, ObjectStore, RetryConfig};

use super::cache::BlockCache;
use super::files::GuardedFiles;
use super::opened::{OpenedStore, store_url, url_of};
use super::{AllowedLocation, Location, LocationRules};
use crate::StorageError;

/// Opens the store that holds `location`. Nothing is read yet.
pub fn open(
    location: &AllowedLocation,
    rules: Arc<LocationRules>,
    config: &StorageConfig,
    cache: Option<&Arc<BlockCache>>,
) -> Result<OpenedStore, StorageError> {
    let store = match location.url().scheme() {
        "s3" => open_s3(location, &config.s3)?,
        _ => return Ok(OpenedStore::local(Arc::new(GuardedFiles::new(rules)))),
    };
    Ok(OpenedStore::remote(store_url(location), store, cache.cloned(), config.cache.exclude.clone()))
}

/// Opens the place of cuboids in a bucket. No table may read it. Nothing is read yet.
///
/// # Errors
/// The location is none in a bucket.
pub fn open_data(
    location: &Location,
    config: &StorageConfig,
    cache: Option<&Arc<BlockCache>>,
) -> Result<OpenedStore, StorageError> {
    if location.url().scheme() != "s3" {
        let reason = "cuboids lie in the data folder, or in a bucket".to_owned();
        return Err(StorageError::InvalidLocation { location: location.to_string(), reason });
    }
    let store = PrefixStore::new(open_s3(location, &config.s3)?, location.path().clone());
    Ok(OpenedStore::remote(url_of(location), Arc::new(store), cache.cloned(), config.cache.exclude.clone()))
}

fn open_s3(location: &Location, config: &S3Config) -> Result<Arc<dyn ObjectStore>, StorageError> {
    let bucket = location.url().host_str().unwrap_or_default();
    let retry =
        RetryConfig { retry_timeout: Duration::from_millis(config.retry_for_ms), ..RetryConfig::default() };
    let client = ClientOptions::new()
        .with_allow_http(config.allow_http)
        .with_timeout(Duration::from_millis(config.timeout_ms));
    let mut builder =
        AmazonS3Builder::from_env().with_bucket_name(bucket).with_client_options(client).with_retry(retry);
    let settings = [
        (AmazonS3ConfigKey::Endpoint, &config.endpoint),
        (AmazonS3ConfigKey::Region, &config.region),
        (AmazonS3ConfigKey::AccessKeyId, &config.access_key_id),
        (AmazonS3ConfigKey::SecretAccessKey, &config.secret_access_key),
    ];
    for (key, value) in settings {
        if !value.is_empty() {
            builder = builder.with_config(key, value);
        }
    }
    let store =
        builder.build().map_err(|source| StorageError::Open { location: location.to_string(), source })?;
    Ok(Arc::new(store))
}
