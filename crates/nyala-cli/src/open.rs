//! Opens a data folder: the lock, the catalog, the engine. Everything that works on one does it here.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use nyala_catalog::Catalog;
use nyala_client::report::Hinted;
use nyala_cluster::Cluster;
use nyala_engine::{Engine, Extensions};
use nyala_model::config::Config;
use nyala_model::listen_text::parse_listen;
use nyala_server::pgwire::PgCatalog;
use nyala_storage::data_dir::{DataDir, catalog_file, node_id};

/// An open data folder, with its lock.
pub struct Opened {
    /// Answers queries.
    pub engine: Arc<Engine>,
    /// Serves other nodes, if there may be any.
    pub cluster: Option<Arc<Cluster>>,
    data_dir: DataDir,
}

impl Opened {
    /// The folder, absolute.
    pub fn path(&self) -> &Path {
        self.data_dir.path()
    }

    /// Writes the server's address into the lock file, for processes that find the folder in use.
    pub fn tell_address(&self, url: &str) {
        if let Err(error) = self.data_dir.tell_address(url) {
            tracing::debug!(%error, "the lock of the data folder does not tell the address");
        }
    }

    /// Cancels running statements and releases the folder.
    pub async fn close(self) {
        self.engine.shutdown(Duration::from_secs(1)).await;
    }
}

/// Opens the folder `config.data_dir`, which is created if it is missing. Other processes that find the folder
/// locked report `command`, `nyala serve` for instance, as its holder.
pub async fn open(config: &Config, command: &str) -> anyhow::Result<Opened> {
    open_with(config, command, false).await
}

/// Opens a data folder like [`open`], for a server that other nodes may reach.
pub async fn open_node(config: &Config, command: &str) -> anyhow::Result<Opened> {
    open_with(config, command, true).await
}

async fn open_with(config: &Config, command: &str, is_served: bool) -> anyhow::Result<Opened> {
    let holder = format!("`{command}` (process {})", std::process::id());
    let data_dir = DataDir::lock(&config.data_dir, &holder)?;
    // From here on the absolute path counts, so that nothing depends on the current folder.
    let config = Config { data_dir: data_dir.path().to_owned(), ..config.clone() };
    let catalog = catalog(&config, &data_dir).await?;
    let mut extensions = Extensions::of_sessions(vec![Arc::new(PgCatalog::default())]);
    let cluster = if is_served { cluster(&config, &data_dir).await? } else { None };
    if let Some(cluster) = &cluster {
        cluster.extend(&mut extensions);
    }
    let engine = Engine::open(&config, Arc::new(catalog), extensions).await?;
    Ok(Opened { engine, cluster, data_dir })
}

/// This node among others, if it listens for them.
async fn cluster(config: &Config, data_dir: &DataDir) -> anyhow::Result<Option<Arc<Cluster>>> {
    let Some(address) = node_address(config)? else { return Ok(None) };
    Ok(Some(Cluster::bind(address, &config.node, &node_id(data_dir.path())?).await?))
}

/// The address at which this node listens for others; none if it does not.
///
/// # Errors
/// `node.listen` is no address, or the node shares no catalog.
pub fn node_address(config: &Config) -> anyhow::Result<Option<SocketAddr>> {
    let listen = config.node.listen.as_str();
    if listen.is_empty() {
        return Ok(None);
    }
    if config.catalog.url.is_empty() {
        let message =
            "`node.listen` is set, and `catalog.url` is not: this node shares its catalog with no other";
        return Err(Hinted::error(message, "set `catalog.url`, or leave `node.listen` empty"));
    }
    if let Some(address) = parse_listen(listen) {
        return Ok(Some(address));
    }
    let message = format!("`node.listen` is `{listen}`, which is no address");
    Err(Hinted::error(message, "write an address and a port, such as `0.0.0.0:7433`"))
}

/// The catalog that the configuration names.
async fn catalog(config: &Config, data_dir: &DataDir) -> anyhow::Result<Catalog> {
    if config.catalog.url.is_empty() {
        data_dir.check_catalog()?;
        let opened = Catalog::open_sqlite(&data_dir.catalog_file()).await;
        let folder = data_dir.path().display();
        return opened.with_context(|| format!("cannot open the catalog of data folder `{folder}`"));
    }
    check_shared(config)?;
    Ok(Catalog::open_postgres(&config.catalog.url).await?)
}

/// Checks that a node with a shared catalog has what the others need, and no catalog of its own.
///
/// # Errors
/// The data folder has a catalog, or cuboids would be where other nodes do not reach them.
pub fn check_shared(config: &Config) -> anyhow::Result<()> {
    if catalog_file(&config.data_dir).exists() {
        let message = format!(
            "data folder `{}` has a catalog of its own beside the one of `catalog.url`",
            config.data_dir.display()
        );
        let hint = "move it with `nyala catalog move`, or choose another `data_dir`";
        return Err(Hinted::error(message, hint));
    }
    if config.storage.data.is_empty() {
        let message = "`catalog.url` is set, and `storage.data` is not: other nodes could not read the cuboids of this one";
        return Err(Hinted::error(
            message,
            "set `storage.data` to a bucket that all nodes reach, `s3://bucket/prefix/`",
        ));
    }
    Ok(())
}
