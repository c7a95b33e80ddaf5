//! The one place where a location becomes a store that can be read.

use std::sync::Arc;

use nyala_model::config::{S3Config, StorageConfig};
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::local::LocalFileSystem;
use object_store::{ClientOptions, ObjectStore};

use super::Location;
use crate::StorageError;

/// Refuses locations outside the configured prefixes. With none configured everything is allowed.
pub fn check_allowed(location: &Location, config: &StorageConfig) -> Result<(), StorageError> {
    let url = location.url().as_str();
    let covers = |prefix: &String| {
        let folder = prefix.trim_end_matches('/');
        url == folder || url.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
    };
    if config.allowed_locations.is_empty() || config.allowed_locations.iter().any(covers) {
        Ok(())
    } else {
        Err(StorageError::NotAllowed { location: url.to_owned() })
    }
}

/// Opens the store that holds `location`, after checking that it is allowed. Nothing is read yet.
pub fn open(location: &Location, config: &StorageConfig) -> Result<Arc<dyn ObjectStore>, StorageError> {
    check_allowed(location, config)?;
    match location.url().scheme() {
        "s3" => open_s3(location, &config.s3),
        _ => Ok(Arc::new(LocalFileSystem::new())),
    }
}

fn open_s3(location: &Location, config: &S3Config) -> Result<Arc<dyn ObjectStore>, StorageError> {
    let bucket = location.url().host_str().unwrap_or_default();
    let mut builder = AmazonS3Builder::from_env()
        .with_bucket_name(bucket)
        .with_client_options(ClientOptions::new().with_allow_http(config.allow_http));
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn prefixes_end_at_folder_borders() {
        let config =
            StorageConfig { allowed_locations: vec!["file:///data".into()], ..StorageConfig::default() };
        let allowed = |path: &str| check_allowed(&Location::parse(path).unwrap(), &config).is_ok();
        assert!(allowed("/data/x.parquet"));
        assert!(allowed("/data"));
        assert!(!allowed("/database/x.parquet"));
        assert!(!allowed("/data/../etc/passwd"));
        assert!(!allowed("s3://data/x"));
    }
}
