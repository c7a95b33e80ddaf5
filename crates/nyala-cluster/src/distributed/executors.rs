//! The nodes that execute one query, as they were when it was planned: planning and routing must see the same.

use std::sync::Arc;

use datafusion::error::Result;
use datafusion_distributed::WorkerResolver;
use nyala_model::{Homes, NodeEntry, NodeId};
use url::Url;

/// Scheme of the URLs that name nodes. They are never resolved as names of hosts.
const SCHEME: &str = "nyala";

/// The nodes, in the order of the numbers of their tasks.
#[derive(Debug, Clone)]
pub struct Executors(Arc<Parts>);

#[derive(Debug)]
struct Parts {
    urls: Vec<Url>,
    homes: Homes,
}

impl Executors {
    /// The executors of a query; this node must have reached all of them.
    pub fn new(nodes: &[NodeEntry]) -> Result<Self> {
        let urls = nodes.iter().map(|node| url_of(&node.id, &node.address)).collect::<Result<_>>()?;
        Ok(Self(Arc::new(Parts { urls, homes: Homes::among(nodes.iter().map(|node| &node.id)) })))
    }

    /// Number of nodes.
    pub fn count(&self) -> usize {
        self.0.urls.len()
    }

    /// The URLs of the nodes.
    pub fn urls(&self) -> &[Url] {
        &self.0.urls
    }

    /// Which node reads which part of a file.
    pub fn homes(&self) -> &Homes {
        &self.0.homes
    }
}

impl WorkerResolver for Executors {
    fn get_urls(&self) -> Result<Vec<Url>> {
        Ok(self.0.urls.clone())
    }
}

/// The URL by which a node is named: with its address, because a node that gets it may not have heard of the other yet.
pub fn url_of(node: &NodeId, address: &str) -> Result<Url> {
    let url = Url::parse(&format!("{SCHEME}://{}/{address}", node.0));
    url.map_err(|error| datafusion::common::exec_datafusion_err!("node `{node}` has no usable name: {error}"))
}

/// The node that a URL names, and its address.
pub fn node_of(url: &Url) -> Option<(NodeId, &str)> {
    let node = url.host_str().filter(|_| url.scheme() == SCHEME)?;
    Some((NodeId(node.to_owned()), url.path().strip_prefix('/')?))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_url_names_a_node_and_its_address() {
        let node = NodeId("0f3a-B".to_owned());
        for address in ["10.0.0.7:7433", "[::1]:7433", "db-3.example:7433"] {
            let url = url_of(&node, address).unwrap();
            assert_eq!(node_of(&url).unwrap(), (node.clone(), address), "{url}");
        }
        assert!(node_of(&Url::parse("http://0f3a/10.0.0.7:7433").unwrap()).is_none());
    }
}
