//! The address for other nodes: whether this node can listen there, and whether it is reached where others are told to connect.

use std::time::Duration;

use nyala_cluster::Cluster;
use nyala_engine::OtherNodes;
use nyala_model::NodeId;
use nyala_model::config::Config;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::check::Check;
use super::folders::may_be_in_use;
use crate::open::node_address;

const SUBJECT: &str = "other nodes";
/// How long a connection to this node may take.
const CONNECT: Duration = Duration::from_secs(5);

/// The result; none if this node does not listen for others. Nothing is tried while a server may be starting in the data folder.
pub async fn check(config: &Config) -> Option<Check> {
    let listen = match node_address(config) {
        Ok(address) => address?,
        Err(error) => return Some(Check::error(SUBJECT, error)),
    };
    if may_be_in_use(&config.data_dir) {
        return Some(Check::not_tried(SUBJECT));
    }
    // No node connects under this name: the listener is closed when this function ends.
    let name = NodeId("doctor".to_owned());
    let cluster = match Cluster::bind(listen, &config.node, &name).await {
        Ok(cluster) => cluster,
        Err(error) => return Some(Check::error(SUBJECT, error)),
    };
    Some(match cluster.listen() {
        Ok(_listening) => reached(&cluster.address()).await,
        Err(error) => Check::error(SUBJECT, error),
    })
}

/// Connects to this node as other nodes would. The operating system accepts the connection, although the listener does not.
async fn reached(address: &str) -> Check {
    let failure = match timeout(CONNECT, TcpStream::connect(address)).await {
        Ok(Ok(_)) => return Check::ok(SUBJECT, format!("they connect to `{address}`")),
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("no answer within {} seconds", CONNECT.as_secs()),
    };
    Check::warning(
        SUBJECT,
        format!("this machine does not reach itself at `{address}`, which other nodes are told: {failure}"),
        "correct `node.address`, unless the name or the way is known to the other nodes only",
    )
}
