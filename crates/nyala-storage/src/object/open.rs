//! The only place that opens the store of a location.

use std::sync::Arc;
use std::time::Duration;

use nyala_model::config::{AzureConfig, GcsConfig, S3Config, StorageConfig};
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::prefix::PrefixStore;
use object_store::{ClientOptions, ObjectStore, Result, RetryConfig};

use super::cache::BlockCache;
use super::files::GuardedFiles;
use super::opened::{OpenedStore, store_url, url_of};
use super::{AllowedLocation, Location, LocationRules, StoreKind};
use crate::StorageError;

/// Opens the store that holds `location`. Nothing is read yet.
pub fn open(
    location: &AllowedLocation,
    rules: Arc<LocationRules>,
    config: &StorageConfig,
    cache: Option<&Arc<BlockCache>>,
) -> std::result::Result<OpenedStore, StorageError> {
    let Some(kind) = location.store() else {
        return Ok(OpenedStore::local(Arc::new(GuardedFiles::new(rules))));
    };
    let store = open_remote(kind, location, config)?;
    Ok(OpenedStore::remote(store_url(location), (kind, store), cache.cloned(), config.cache.exclude.clone()))
}

/// Opens the place of cuboids in a bucket. No table may read it. Nothing is read yet.
///
/// # Errors
/// The location is not in a bucket.
pub fn open_data(
    location: &Location,
    config: &StorageConfig,
    cache: Option<&Arc<BlockCache>>,
) -> std::result::Result<OpenedStore, StorageError> {
    let Some(kind) = location.store() else {
        let reason = "cuboids lie in the data folder, or in a bucket".to_owned();
        return Err(StorageError::InvalidLocation { location: location.to_string(), reason });
    };
    let store = PrefixStore::new(open_remote(kind, location, config)?, location.path().clone());
    Ok(OpenedStore::remote(
        url_of(location),
        (kind, Arc::new(store)),
        cache.cloned(),
        config.cache.exclude.clone(),
    ))
}

fn open_remote(
    kind: StoreKind,
    location: &Location,
    config: &StorageConfig,
) -> std::result::Result<Arc<dyn ObjectStore>, StorageError> {
    let bucket = location.url().host_str().unwrap_or_default();
    let client = Client {
        options: ClientOptions::new().with_timeout(Duration::from_millis(config.timeout_ms)),
        retry: RetryConfig {
            retry_timeout: Duration::from_millis(config.retry_for_ms),
            ..RetryConfig::default()
        },
    };
    let opened = match kind {
        StoreKind::S3 => open_s3(bucket, &config.s3, client),
        StoreKind::Gcs => open_gcs(bucket, &config.gcs, client),
        StoreKind::Azure => open_azure(bucket, &config.azure, client),
    };
    opened.map_err(|source| StorageError::Open { store: kind, location: location.to_string(), source })
}

/// Options of the HTTP client of a store.
struct Client {
    options: ClientOptions,
    retry: RetryConfig,
}

/// The settings that are not empty, with the keys that the library has for them.
fn given<const N: usize, K>(settings: [(K, &String); N]) -> impl Iterator<Item = (K, &String)> {
    settings.into_iter().filter(|(_, value)| !value.is_empty())
}

fn open_s3(bucket: &str, config: &S3Config, client: Client) -> Result<Arc<dyn ObjectStore>> {
    let options = client.options.with_allow_http(config.allow_http);
    let builder = AmazonS3Builder::from_env()
        .with_bucket_name(bucket)
        .with_client_options(options)
        .with_retry(client.retry);
    let settings = given([
        (AmazonS3ConfigKey::Endpoint, &config.endpoint),
        (AmazonS3ConfigKey::Region, &config.region),
        (AmazonS3ConfigKey::AccessKeyId, &config.access_key_id),
        (AmazonS3ConfigKey::SecretAccessKey, &config.secret_access_key),
    ]);
    let builder = settings.fold(builder, |builder, (key, value)| builder.with_config(key, value));
    Ok(Arc::new(builder.build()?))
}

fn open_gcs(bucket: &str, config: &GcsConfig, client: Client) -> Result<Arc<dyn ObjectStore>> {
    let options = client.options.with_allow_http(config.allow_http);
    let builder = GoogleCloudStorageBuilder::from_env()
        .with_bucket_name(bucket)
        .with_client_options(options)
        .with_retry(client.retry);
    let settings = given([
        (GoogleConfigKey::BaseUrl, &config.endpoint),
        (GoogleConfigKey::ServiceAccount, &config.service_account),
    ]);
    let builder = settings.fold(builder, |builder, (key, value)| builder.with_config(key, value));
    Ok(Arc::new(builder.build()?))
}

fn open_azure(container: &str, config: &AzureConfig, client: Client) -> Result<Arc<dyn ObjectStore>> {
    let options = client.options.with_allow_http(config.allow_http);
    let builder = MicrosoftAzureBuilder::from_env()
        .with_container_name(container)
        .with_client_options(options)
        .with_retry(client.retry);
    let settings = given([
        (AzureConfigKey::AccountName, &config.account),
        (AzureConfigKey::AccessKey, &config.access_key),
        (AzureConfigKey::Endpoint, &config.endpoint),
    ]);
    let builder = settings.fold(builder, |builder, (key, value)| builder.with_config(key, value));
    Ok(Arc::new(builder.build()?))
}
