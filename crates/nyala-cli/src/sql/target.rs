//! Finds out where the statements are to run.

use anyhow::Result;
use nyala_client::report::Hinted;
use nyala_storage::StorageError;

use super::client::Client;
use super::embedded::Embedded;
use super::remote::Remote;
use crate::args::SqlArgs;
use crate::config::{self, Flag};

/// Connects to the server that was named, or opens the data folder.
pub async fn connect(args: &SqlArgs) -> Result<Client> {
    if let Some(url) = &args.url {
        return Ok(Client::Remote(Box::new(Remote::connect(url, args.ca.as_deref()).await?)));
    }
    let flags: Vec<Flag> = args.data_dir.iter().map(|dir| Flag::data_dir(dir)).collect();
    let config = config::load(&args.config, &flags)?.into_config();
    let opened = Embedded::open(&config).await.map_err(|error| match error.downcast_ref::<StorageError>() {
        Some(StorageError::InUse { address: Some(url), .. }) => {
            Hinted::error(error.to_string(), format!("connect to it: `nyala sql --url {url}`"))
        }
        _ => error,
    });
    Ok(Client::Embedded(Box::new(opened?)))
}
